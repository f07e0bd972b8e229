//! The counters of Redis itself.

use std::time::Duration;

use anyhow::{Context, Result};
use redis::Connection;

pub(crate) struct Hot(Connection);

impl Hot {
    pub(crate) fn connect(url: &str) -> Result<Self> {
        Ok(Self(redis::Client::open(url)?.get_connection()?))
    }

    fn info(&mut self, section: &str) -> Result<String> {
        Ok(redis::cmd("INFO").arg(section).query(&mut self.0)?)
    }

    /// The server's name and version.
    pub(crate) fn version(&mut self) -> Result<String> {
        let info = self.info("server")?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Ok(match (field("valkey_version:"), field("redis_version:")) {
            (Some(valkey), _) => format!("Valkey {valkey}"),
            (None, Some(redis)) => format!("Redis {redis}"),
            (None, None) => "unknown".to_owned(),
        })
    }

    /// Processor time of the server.
    pub(crate) fn cpu(&mut self) -> Result<Duration> {
        let info = self.info("cpu")?;
        let seconds = |name: &str| -> Result<f64> {
            let text = info.lines().find_map(|line| line.strip_prefix(name)).context(name.to_owned())?;
            Ok(text.trim().parse()?)
        };
        Ok(Duration::from_secs_f64(seconds("used_cpu_user:")? + seconds("used_cpu_sys:")?))
    }

    /// Calls of each command since the server's start, those inside scripts included, `INFO` (ours) not.
    pub(crate) fn commands(&mut self) -> Result<Vec<(String, u64)>> {
        let info = self.info("commandstats")?;
        let mut commands = Vec::new();
        for line in info.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
            let (name, rest) = line.split_once(":calls=").with_context(|| line.to_owned())?;
            let calls = rest.split(',').next().unwrap_or_default().parse()?;
            if name != "info" {
                commands.push((name.to_owned(), calls));
            }
        }
        Ok(commands)
    }
}
