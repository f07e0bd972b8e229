//! Servers whose users are those of a page, so that a program can be tried as what the page makes of it.

use url::Url;

use crate::database::Database;
use crate::error::{DevstackError, Result};
use crate::postgres::PostgresServer;
use crate::redis::RedisServer;
use crate::sql;

/// What stands before the name of a role that a page creates.
const CREATE: &str = "create role ";

/// A private Redis and a private PostgreSQL, as durable as production's, with the users of a page and no others but the
/// administrators.
///
/// The page has a block ```` ```acl ```` for each user of Redis, whose password is the word behind `>`, and two blocks
/// ```` ```sql ````: one for the administrator, which creates roles (`create role NAME login;`), and one for the owner of the
/// tables, for when they are there.
#[derive(Debug)]
pub struct GuardedServers {
    redis: RedisServer,
    database: Database,
    postgres: PostgresServer,
    passwords: Vec<(String, String)>,
    grants: String,
}

impl GuardedServers {
    /// Starts both, makes the users, and gives the ledger's database to the role `owner`.
    ///
    /// # Errors
    ///
    /// [`DevstackError`]: a server does not start, or a statement of the page is refused.
    pub fn start(page: &str, owner: &str) -> Result<Self> {
        let mut builder = RedisServer::builder().appendonly(true).arg("maxmemory", "1gb");
        let mut passwords = Vec::new();
        for block in blocks(page, "acl") {
            let line = block.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = line.strip_prefix("user ").unwrap_or(&line);
            let password = line.split(' ').find_map(|word| word.strip_prefix('>')).unwrap_or_default();
            let name = line.split(' ').next().unwrap_or_default();
            passwords.push((name.to_owned(), password.to_owned()));
            builder = builder.acl_user(line);
        }
        let redis = builder.start()?;
        let postgres = PostgresServer::builder().start()?;
        let database = postgres.database("guarded")?;
        let [administration, grants] = &blocks(page, "sql")[..] else {
            return Err(DevstackError::Sql {
                doing: "read the page's statements".to_owned(),
                reason: "two blocks are expected: the administrator's and the owner's".to_owned(),
            });
        };
        database.execute("the administrator's statements", administration)?;
        let created = administration.lines().filter_map(|line| line.trim().strip_prefix(CREATE));
        for role in created.filter_map(|rest| rest.split(' ').next()) {
            database.execute("a password", &format!("alter role {role} password 'hidden'"))?;
        }
        let give = format!("alter database {} owner to {owner}", database.name());
        database.execute("the database's owner", &give)?;
        Ok(Self { redis, database, postgres, passwords, grants: (*grants).to_owned() })
    }

    /// Runs the owner's statements, as the owner: to be called when the tables are there.
    ///
    /// # Errors
    ///
    /// [`DevstackError::Sql`].
    pub fn grant(&self, owner: &str) -> Result<()> {
        sql::execute(&self.database_url(owner), "the owner's statements", &self.grants)
    }

    /// The Redis URL of a user of the page; of one that the page has not, a URL that no server accepts.
    pub fn redis_url(&self, user: &str) -> String {
        let known = self.passwords.iter().find(|(name, _)| name == user);
        self.redis.url_as(user, known.map_or("of nobody", |(_, password)| password))
    }

    /// The PostgreSQL URL of a role of the page.
    pub fn database_url(&self, role: &str) -> String {
        let Ok(mut url) = Url::parse(self.database.url()) else { return String::new() };
        // Neither fails: the URL has a host.
        let _ = url.set_username(role);
        let _ = url.set_password(Some("hidden"));
        url.into()
    }

    /// The administrator's Redis.
    pub const fn redis(&self) -> &RedisServer {
        &self.redis
    }

    /// The administrator's view of the ledger's database.
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// The administrator's PostgreSQL.
    pub const fn postgres(&self) -> &PostgresServer {
        &self.postgres
    }
}

/// The fenced blocks of a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "A page.\n\n```acl\nuser reader on >R resetchannels -@all +ping +info\n  (+get ~a:*)\n```\n\n\
                        ```sql\ncreate role keeper login;\ncreate role guest login;\n```\n\n\
                        ```sql\ngrant select on facts to guest;\n```\n";

    #[test]
    fn the_users_of_a_page_can_do_what_it_says_and_no_more() {
        let servers = GuardedServers::start(PAGE, "keeper").unwrap();
        let (keeper, guest) = (servers.database_url("keeper"), servers.database_url("guest"));
        sql::execute(&keeper, "make a table", "create table facts (fact int); insert into facts values (1)")
            .unwrap();
        servers.grant("keeper").unwrap();
        assert_eq!(sql::text(&guest, "read", "select fact::text from facts").unwrap(), "1");
        assert!(sql::execute(&guest, "write", "insert into facts values (2)").is_err());
        assert!(sql::execute(&guest, "make a table", "create table mine ()").is_err());
        let mut reader = crate::resp::Connection::open(&servers.redis_url("reader")).unwrap();
        assert!(reader.info("server", "redis_version").unwrap().is_some());
        assert!(crate::resp::Connection::open(&servers.redis_url("nobody")).is_err());
    }
}
