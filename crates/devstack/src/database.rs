//! Databases of one's own on a server that others use too.

use std::fmt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use url::Url;

use crate::error::{DevstackError, Result};
use crate::sql;
use crate::unique::unique_suffix;

/// Set to any value, this variable keeps databases and shared servers for inspection after the tests.
pub(crate) const KEEP: &str = "TALLYWEIR_KEEP";

/// How long a thread waits for its database to be gone. The server waits for every session that is just authenticating, whatever
/// its database (a "process signal barrier", PostgreSQL 15 and later). Such a session may belong to a task of the very runtime
/// whose thread waits here; neither would go on before `authentication_timeout`, a minute.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// A fresh, empty UTF-8 database with a name of its own.
///
/// It is removed when dropped, sessions that are still open included, at the latest when all sessions that are just authenticating
/// have ended or begun. It is kept, and its name printed, when the
/// thread panics (so that a failed test can be looked into on a server that outlives it) or `TALLYWEIR_KEEP` is set.
pub struct Database {
    admin_url: String,
    url: String,
    name: String,
    kept: bool,
}

impl Database {
    /// Creates `<prefix>_<pid>_<counter>_<nanoseconds>` through a session to `admin_url`.
    pub(crate) fn create(admin_url: &str, prefix: &str) -> Result<Self> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = prefix.starts_with(|c: char| c.is_ascii_lowercase());
        // 24 bytes leave room for the rest in PostgreSQL's 63.
        if !starts_well || prefix.len() > 24 || !prefix.bytes().all(legal) {
            return Err(DevstackError::BadPrefix(prefix.to_owned()));
        }
        let name = format!("{prefix}_{}", unique_suffix('_'));
        let doing = format!("create database {name}");
        let mut url = Url::parse(admin_url).map_err(|e| DevstackError::Sql {
            doing: doing.clone(),
            reason: format!("the server's URL: {e}"),
        })?;
        url.set_path(&name);
        // `template0`: nobody can be connected to it, which would make the statement fail, and it allows UTF-8
        // whatever the encoding of the server.
        sql::execute(
            admin_url,
            &doing,
            &format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"),
        )?;
        Ok(Self { admin_url: admin_url.to_owned(), url: url.into(), name, kept: false })
    }

    /// The URL, with its password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs SQL statements in the database, one behind the other.
    ///
    /// # Errors
    ///
    /// [`DevstackError::Sql`] with the server's words; statements before the one that failed have run.
    pub fn execute(&self, doing: &str, statements: &str) -> Result<()> {
        sql::execute(&self.url, doing, statements)
    }

    /// Leaves the database where it is when its handle goes; returns its URL, with its password.
    pub fn keep(mut self) -> String {
        self.kept = true;
        self.url.clone()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let kept = std::env::var_os(KEEP).is_some();
        if kept || thread::panicking() {
            let hint = if kept { "" } else { "; if its server ends with this process, set TALLYWEIR_KEEP=1" };
            eprintln!("devstack: database {} is kept{hint}", self.name);
            return;
        }
        let (admin_url, name) = (self.admin_url.clone(), self.name.clone());
        let (tell, told) = mpsc::channel();
        let go = move || {
            let doing = format!("drop database {name}");
            // A server that was stopped or dropped before takes the database with it.
            let _ = sql::execute(&admin_url, &doing, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
            let _ = tell.send(());
        };
        if thread::Builder::new().spawn(go).is_ok() {
            let _ = told.recv_timeout(DROP_PATIENCE);
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}
