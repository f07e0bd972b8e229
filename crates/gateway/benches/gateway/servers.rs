//! Redis and PostgreSQL of the bench's own, and how to ask how much they worked.

use std::fs;

use anyhow::{Context, Result};
use bench_frame::process::Process;
use devstack::{Database, PostgresServer, RedisServer};

pub(crate) struct Servers {
    redis: RedisServer,
    postgres: PostgresServer,
    database: Database,
}

impl Servers {
    /// Both as durable as they should be. A checkpoint would fall on one measurement and not on another.
    pub(crate) fn start() -> Result<Self> {
        let redis =
            RedisServer::builder().appendonly(true).start().context("the bench needs a Redis server")?;
        let postgres = PostgresServer::builder()
            .setting("max_wal_size", "8GB")
            .setting("checkpoint_timeout", "30min")
            .start()
            .context("the bench needs a PostgreSQL server")?;
        let database = postgres.database("gateway")?;
        Ok(Self { redis, postgres, database })
    }

    pub(crate) fn redis_url(&self) -> &str {
        self.redis.url()
    }

    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    /// Versions and settings.
    pub(crate) fn describe(&self) -> Result<String> {
        let info = self.info()?;
        let redis = match (field(&info, "valkey_version:"), field(&info, "redis_version:")) {
            (Some(valkey), _) => format!("Valkey {valkey}"),
            (None, Some(redis)) => format!("Redis {redis}"),
            (None, None) => "unknown".to_owned(),
        };
        let version = fs::read_to_string(self.postgres_folder()?.join("PG_VERSION"))?;
        Ok(format!("{redis}, append-only file each second; PostgreSQL {}, fsync on", version.trim()))
    }

    pub(crate) fn redis_process(&self) -> Result<Process> {
        let info = self.info()?;
        Ok(Process::new(field(&info, "process_id:").context("no process_id in INFO")?.parse()?))
    }

    /// The process that starts all others of PostgreSQL.
    pub(crate) fn postgres_process(&self) -> Result<Process> {
        let text = fs::read_to_string(self.postgres_folder()?.join("postmaster.pid"))?;
        Ok(Process::new(text.lines().next().context("postmaster.pid is empty")?.trim().parse()?))
    }

    fn postgres_folder(&self) -> Result<std::path::PathBuf> {
        let folder = self.postgres.folder().context("the bench needs a PostgreSQL outside of Docker")?;
        Ok(folder.join("data"))
    }

    fn info(&self) -> Result<String> {
        let mut connection = redis::Client::open(self.redis.url())?.get_connection()?;
        Ok(redis::cmd("INFO").arg("server").query(&mut connection)?)
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
