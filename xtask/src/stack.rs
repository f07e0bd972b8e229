//! A Redis and a PostgreSQL of a command's own, both as durable as they should be, and the programs that use them.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use devstack::{Database, Durability, PostgresServer, RedisServer};

use crate::process;

/// The servers. They end, and their data with them, when this is dropped.
pub(crate) struct Stack {
    redis: RedisServer,
    database: Database,
    postgres: PostgresServer,
    env: Vec<(&'static str, String)>,
}

impl Stack {
    /// Starts both, installed first if they are missing.
    pub(crate) fn start() -> Result<Self> {
        eprintln!("starting a private Redis and PostgreSQL ...");
        let redis = RedisServer::builder().appendonly(true).start()?;
        let postgres = PostgresServer::builder().durability(Durability::Durable).start()?;
        let database = postgres.database("tallyweir")?;
        let env = vec![
            ("TALLYWEIR_REDIS_URL", redis.url().to_owned()),
            ("TALLYWEIR_DATABASE_URL", database.url().to_owned()),
        ];
        Ok(Self { redis, database, postgres, env })
    }

    /// Makes the tables.
    pub(crate) fn migrate(&self, flusher: &Path) -> Result<()> {
        let mut migrate = self.command(flusher);
        process::run(migrate.args(["migrate", "--log-format", "text"]).env("RUST_LOG", "warn"))
    }

    /// Where a program finds the servers.
    pub(crate) fn env(&self) -> &[(&'static str, String)] {
        &self.env
    }

    /// A program that finds the servers, in the workspace's root.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(process::root()).envs(self.env.iter().map(|(name, value)| (*name, value)));
        command
    }

    pub(crate) fn redis_url(&self) -> &str {
        self.redis.url()
    }

    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    /// Leaves both running and says where.
    pub(crate) fn keep(self) -> Result<()> {
        let database_url = self.database.keep();
        let (redis, postgres) = (self.redis.keep()?, self.postgres.keep()?);
        eprintln!("\nkept for you:\n  Redis       {}\n  PostgreSQL  {database_url}", redis.url());
        let query = "select organization_id, day, model, sum(events) as events, sum(cost_usd) as usd \
                     from usage_daily group by 1, 2, 3 order by 1, 2, 3";
        eprintln!("  try         psql '{database_url}' -c '{query}'");
        for command in redis.stop_commands().iter().chain(postgres.stop_commands()) {
            eprintln!("  to stop     {command}");
        }
        Ok(())
    }
}
