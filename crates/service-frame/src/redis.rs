//! How the flusher reaches Redis: the flags that its commands share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use live_redis::{ClientKey, KeyPrefix, LiveRedis, OlderQueue, Options, RedisUrl, Tls};
use secrecy::{ExposeSecret, SecretString};
use spend_queue::ShardCount;

use crate::cli::millis;

/// Where Redis is and how it is used.
#[derive(Debug, Args)]
pub(crate) struct RedisConnection {
    /// Redis URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, redis+sentinel://host:port,.../primary,
    /// or redis+cluster://host:port,...
    #[arg(long, env = "TOLLGATE_REDIS_URL", hide_env_values = true, value_name = "URL")]
    redis_url: SecretString,
    #[command(flatten)]
    args: RedisArgs,
}

impl RedisConnection {
    /// Connects.
    pub(crate) async fn open(&self) -> Result<LiveRedis> {
        let options = self.args.options()?;
        Ok(LiveRedis::open_with(RedisUrl::new(self.redis_url.expose_secret()), options).await?)
    }
}

#[derive(Debug, Args)]
pub(crate) struct RedisArgs {
    /// What every key in Redis starts with; the gateways must use the same
    #[arg(long, env = "TOLLGATE_PREFIX", default_value_t = KeyPrefix::default())]
    prefix: KeyPrefix,
    /// Over how many shards the queue is spread; the gateways must use the same
    #[arg(long, env = "TOLLGATE_SHARDS", default_value = "1")]
    shards: ShardCount,
    /// Prefix of an older deployment's keys (entry format 1), to be drained too; `xhub` unless it was set otherwise
    #[arg(long, env = "TOLLGATE_OLDER_QUEUE", value_name = "PREFIX")]
    older_queue: Option<OlderQueue>,
    /// Most entries that one step of the server goes through when the index of pending spend is in doubt
    #[arg(long, env = "TOLLGATE_SCAN_BOUND", default_value = "20000", value_parser = clap::value_parser!(u32).range(1..))]
    scan_bound: u32,
    /// Longest wait for one answer of Redis, in milliseconds
    #[arg(long, env = "TOLLGATE_REDIS_DEADLINE_MS", default_value = "2000", value_parser = millis)]
    redis_deadline_ms: Duration,
    /// Authority that signed the certificate of a rediss:// server, PEM [default: the system's authorities]
    #[arg(long, env = "TOLLGATE_REDIS_CA_FILE", value_name = "FILE")]
    redis_ca_file: Option<PathBuf>,
    /// Certificate to show to a rediss:// server, PEM; with --redis-key-file
    #[arg(long, env = "TOLLGATE_REDIS_CERT_FILE", value_name = "FILE")]
    redis_cert_file: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, env = "TOLLGATE_REDIS_KEY_FILE", value_name = "FILE")]
    redis_key_file: Option<PathBuf>,
}

impl RedisArgs {
    /// The client's options; reads the certificates.
    pub(crate) fn options(&self) -> Result<Options> {
        let options = Options::default()
            .with_prefix(self.prefix.clone())
            .with_shards(self.shards)
            .with_scan_bound(self.scan_bound)
            .with_deadline(self.redis_deadline_ms);
        let options = match &self.older_queue {
            Some(older) => options.with_older_queue(older.clone()),
            None => options,
        };
        if self.redis_ca_file.is_none() && self.redis_cert_file.is_none() && self.redis_key_file.is_none() {
            return Ok(options);
        }
        Ok(options.with_tls(Tls {
            authority: self.redis_ca_file.as_deref().map(read).transpose()?,
            client_certificate: self.redis_cert_file.as_deref().map(read).transpose()?,
            client_key: self.redis_key_file.as_deref().map(read_key).transpose()?,
        }))
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn read_key(file: &Path) -> Result<ClientKey> {
    fs::read_to_string(file).map(ClientKey::new).with_context(|| format!("cannot read {}", file.display()))
}
