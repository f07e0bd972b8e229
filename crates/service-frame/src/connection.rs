//! How a service reaches Redis and PostgreSQL: the flags that its commands share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use live_redis::{
    ClientKey, DedupRetention, KeyPrefix, LiveRedis, OlderQueue, Options, RedisUrl, Role, Tls, WindowClock,
};
use secrecy::{ExposeSecret, SecretString};
use spend_queue::ShardCount;

use crate::secret::SecretSource;
use crate::start::StartOptions;
use crate::values::{millis, retention, whole, window_clock};

/// Where PostgreSQL is.
#[derive(Debug, Args)]
pub struct DatabaseOptions {
    /// PostgreSQL URL: postgres://user:password@host:port/database
    #[arg(long, env = "TALLYWEIR_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<SecretString>,
    /// File that holds the PostgreSQL URL and nothing else, such as a mounted secret; in place of --database-url
    #[arg(long, env = "TALLYWEIR_DATABASE_URL_FILE", value_name = "FILE")]
    database_url_file: Option<PathBuf>,
}

impl DatabaseOptions {
    /// Where its URL comes from.
    #[must_use]
    pub fn url(&self) -> SecretSource<'_> {
        SecretSource {
            what: "PostgreSQL URL",
            accepted: "a PostgreSQL URL such as postgres://user:password@host:port/database",
            flag: "--database-url",
            variable: "TALLYWEIR_DATABASE_URL",
            is_one: is_url,
            given: self.database_url.as_ref(),
            file: self.database_url_file.as_deref(),
        }
    }
}

/// Where Redis is.
#[derive(Debug, Args)]
pub struct RedisAddress {
    /// Redis URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, redis+sentinel://host:port,.../primary,
    /// or redis+cluster://host:port,...
    #[arg(long, env = "TALLYWEIR_REDIS_URL", hide_env_values = true, value_name = "URL")]
    redis_url: Option<SecretString>,
    /// File that holds the Redis URL and nothing else, such as a mounted secret; in place of --redis-url
    #[arg(long, env = "TALLYWEIR_REDIS_URL_FILE", value_name = "FILE")]
    redis_url_file: Option<PathBuf>,
}

impl RedisAddress {
    /// Where its URL comes from.
    #[must_use]
    pub fn url(&self) -> SecretSource<'_> {
        SecretSource {
            what: "Redis URL",
            accepted: "a Redis URL such as redis://[user:password@]host[:port][/db]",
            flag: "--redis-url",
            variable: "TALLYWEIR_REDIS_URL",
            is_one: is_url,
            given: self.redis_url.as_ref(),
            file: self.redis_url_file.as_deref(),
        }
    }
}

fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Where Redis is and how it is used.
#[derive(Debug, Args)]
pub struct RedisConnection {
    #[command(flatten)]
    address: RedisAddress,
    #[command(flatten)]
    args: RedisArgs,
}

impl RedisConnection {
    /// Where to connect and how; reads files, and asks no server.
    ///
    /// # Errors
    ///
    /// In one line that names the flag; the URL is never in it.
    pub fn target(&self) -> Result<(RedisUrl, Options)> {
        Ok((RedisUrl::new(self.address.url().required()?.expose_secret()), self.args.options()?))
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// As [`RedisConnection::target`], and when the server cannot be used.
    pub async fn open(&self) -> Result<LiveRedis> {
        let (url, options) = self.target()?;
        Ok(LiveRedis::open_with(url, options).await?)
    }

    /// Connects as a service of a role, whose server must be fit for it.
    ///
    /// # Errors
    ///
    /// As [`RedisConnection::open`]; [`Unfit`](crate::start::Unfit) where the doctor finds something fatal and the start is not lenient.
    pub async fn start(&self, role: Role, start: StartOptions) -> Result<LiveRedis> {
        let redis = self.open().await?;
        start.judge("Redis", redis.doctor(role).await).inspect_err(|_| redis.close())?;
        Ok(redis)
    }
}

/// How Redis is used.
#[derive(Debug, Args)]
pub struct RedisArgs {
    /// What every key in Redis starts with; gateways and flushers must use the same
    #[arg(long, env = "TALLYWEIR_PREFIX", default_value_t = KeyPrefix::default())]
    prefix: KeyPrefix,
    /// Over how many shards the queue is spread (1 to 16384); gateways and flushers must use the same
    #[arg(long, env = "TALLYWEIR_SHARDS", default_value = "1")]
    shards: ShardCount,
    /// Prefix of an older deployment's keys (entry format 1), to be drained too; `xhub` unless it was set otherwise
    #[arg(long, env = "TALLYWEIR_OLDER_QUEUE", value_name = "PREFIX")]
    older_queue: Option<OlderQueue>,
    /// Most entries that one step of the server goes through when the index of pending spend is in doubt (1 to 10000000)
    #[arg(long, env = "TALLYWEIR_SCAN_BOUND", default_value = "20000", value_parser = whole::<u32>(1..=10_000_000))]
    scan_bound: u32,
    /// Longest wait for one answer of Redis, in milliseconds (1 to 3600000)
    #[arg(long, env = "TALLYWEIR_REDIS_DEADLINE_MS", default_value = "2000", value_parser = millis)]
    redis_deadline_ms: Duration,
    /// Multiplexed connections for small calls, taken in turn (1 to 64)
    #[arg(long, env = "TALLYWEIR_HOT_CONNECTIONS", value_name = "N", default_value = "2", value_parser = whole::<usize>(1..=64))]
    hot_connections: usize,
    /// Most admissions of one partition that a gateway sends together while others wait (1 to 1000; 1: each by itself)
    #[arg(long, env = "TALLYWEIR_MICRO_BATCH", value_name = "N", default_value = "64", value_parser = whole::<usize>(1..=1000))]
    micro_batch: usize,
    /// How long Redis remembers the request ids that it accepted: `permanent`, or at least a time such as 48h or 30d (60s to
    /// 3650d); gateways must use the same. An idempotency key that comes again after that, and after a day, runs again, and
    /// the ledger calls its bill a conflict
    #[arg(long, env = "TALLYWEIR_DEDUP_RETENTION", value_name = "TIME", default_value = "permanent", value_parser = retention)]
    dedup_retention: DedupRetention,
    /// Whose clock says in which minute a request counts: `local`, each gateway's own, or `redis`, the server's for all; gateways
    /// must use the same
    #[arg(long, env = "TALLYWEIR_WINDOW_CLOCK", value_name = "CLOCK", default_value = "local", value_parser = window_clock)]
    window_clock: WindowClock,
    /// Authority that signed the certificate of a rediss:// server, PEM [default: the system's authorities]
    #[arg(long, env = "TALLYWEIR_REDIS_CA_FILE", value_name = "FILE")]
    redis_ca_file: Option<PathBuf>,
    /// Certificate to show to a rediss:// server, PEM; with --redis-key-file
    #[arg(long, env = "TALLYWEIR_REDIS_CERT_FILE", value_name = "FILE")]
    redis_cert_file: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, env = "TALLYWEIR_REDIS_KEY_FILE", value_name = "FILE")]
    redis_key_file: Option<PathBuf>,
}

impl RedisArgs {
    /// The client's options; reads the certificates.
    ///
    /// # Errors
    ///
    /// When a file of a certificate or a key cannot be read.
    pub fn options(&self) -> Result<Options> {
        let options = Options::default()
            .with_prefix(self.prefix.clone())
            .with_shards(self.shards)
            .with_scan_bound(self.scan_bound)
            .with_hot_connections(self.hot_connections)
            .with_micro_batch(self.micro_batch)
            .with_dedup_retention(self.dedup_retention)
            .with_window_clock(self.window_clock)
            .with_deadline(self.redis_deadline_ms);
        let options = match &self.older_queue {
            Some(older) => options.with_older_queue(older.clone()),
            None => options,
        };
        if self.redis_ca_file.is_none() && self.redis_cert_file.is_none() && self.redis_key_file.is_none() {
            return Ok(options);
        }
        Ok(options.with_tls(Tls {
            authority: self.redis_ca_file.as_deref().map(|file| read("--redis-ca-file", file)).transpose()?,
            client_certificate: self
                .redis_cert_file
                .as_deref()
                .map(|file| read("--redis-cert-file", file))
                .transpose()?,
            client_key: self
                .redis_key_file
                .as_deref()
                .map(|file| read_key("--redis-key-file", file))
                .transpose()?,
        }))
    }
}

fn read(flag: &'static str, file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| unread(flag, file))
}

fn read_key(flag: &'static str, file: &Path) -> Result<ClientKey> {
    fs::read_to_string(file).map(ClientKey::new).with_context(|| unread(flag, file))
}

fn unread(flag: &str, file: &Path) -> String {
    format!("{flag} {}: a PEM file that can be read is accepted", file.display())
}
