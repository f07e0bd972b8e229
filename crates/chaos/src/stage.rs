//! Servers, proxies and processes of one run.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use devstack::{AppendFsync, Database, Durability as PostgresDurability, PostgresServer, Proxy, RedisServer};
use postgres::NoTls;
use tokio::runtime::Runtime;
use url::Url;

use crate::crew::Crew;
use crate::run::{Durability, Options};

/// What every key in Redis starts with.
pub(crate) const PREFIX: &str = "chaos";
/// How long a connection of our own may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A word that no log may ever show.
pub(crate) const CANARY: &str = "canary-8c1f0d";

/// Everything that faults strike.
pub(crate) struct Stage {
    pub(crate) flushers: Crew,
    pub(crate) gateways: Crew,
    /// In front of Redis: the gateways' and the flushers'.
    pub(crate) redis_links: [Proxy; 2],
    /// In front of PostgreSQL: the flushers'.
    pub(crate) postgres_link: Proxy,
    database: Database,
    pub(crate) redis: RedisServer,
    pub(crate) postgres: PostgresServer,
}

impl Stage {
    pub(crate) fn set(options: &Options, folder: &Path, runtime: &Runtime) -> Result<Self> {
        let (appendonly, fsync) = match options.durability {
            Durability::Always => (true, AppendFsync::Always),
            Durability::EverySecond => (true, AppendFsync::EverySecond),
            Durability::None => (false, AppendFsync::No),
        };
        let redis = RedisServer::builder()
            .password(CANARY)
            .appendonly(appendonly)
            .appendfsync(fsync)
            .arg("enable-debug-command", "yes")
            .start()?;
        let postgres = PostgresServer::builder()
            .durability(PostgresDurability::Durable)
            // So that deadlocks are found, and not only waited for.
            .setting("deadlock_timeout", "200ms")
            .start()?;
        let database = postgres.database("chaos")?;
        migrate(&options.flusher, database.url())?;

        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let proxy = |port| runtime.block_on(Proxy::start(local(port))).context("starting a proxy");
        let redis_links = [proxy(redis.port())?, proxy(redis.port())?];
        let postgres_link = proxy(postgres.port())?;
        let through = |url: &str, proxy: &Proxy| -> Result<String> {
            let mut url = Url::parse(url)?;
            if url.set_port(Some(proxy.address().port())).is_err() {
                bail!("a server's URL has no place for a port");
            }
            Ok(url.into())
        };
        let gateways_redis = through(redis.url(), &redis_links[0])?;
        let flushers_redis = through(redis.url(), &redis_links[1])?;
        let flushers_postgres = through(database.url(), &postgres_link)?;

        let gateways = (0..options.gateways).map(|number| -> Box<dyn Fn(u32) -> Result<Command> + Send> {
            let (program, folder, url) = (options.gateway.clone(), folder.to_owned(), gateways_redis.clone());
            let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(number.into());
            let tasks = options.tasks;
            Box::new(move |life| {
                let mut command = Command::new(&program);
                let name = format!("g{number}");
                command.args(["gateway", "--name", &name, "--life", &life.to_string()]);
                command.args([
                    "--prefix",
                    PREFIX,
                    "--seed",
                    &seed.to_string(),
                    "--tasks",
                    &tasks.to_string(),
                ]);
                command.arg("--folder").arg(&folder).env("TALLYWEIR_REDIS_URL", &url);
                // Its end tells the gateway that ours has come.
                command.stdin(Stdio::piped());
                log_to(&mut command, &folder.join(format!("gateway-{number}.log")))?;
                Ok(command)
            })
        });
        let flushers = (0..options.flushers).map(|number| -> Box<dyn Fn(u32) -> Result<Command> + Send> {
            let (program, folder) = (options.flusher.clone(), folder.to_owned());
            let (redis, postgres) = (flushers_redis.clone(), flushers_postgres.clone());
            Box::new(move |_| {
                let mut command = flusher(&program);
                // Small batches: more commits, so more moments at which something may happen.
                command.args(["run", "--log-format", "json", "--batch-min", "20", "--batch-max", "500"]);
                command.args(["--linger-ms", "20", "--idle-ms", "100"]);
                command.env("TALLYWEIR_REDIS_URL", &redis).env("TALLYWEIR_DATABASE_URL", &postgres);
                command.env("TALLYWEIR_PREFIX", PREFIX).env("RUST_LOG", "info").stdin(Stdio::null());
                log_to(&mut command, &folder.join(format!("flusher-{number}.log")))?;
                Ok(command)
            })
        });
        let flushers = Crew::start(flushers.collect())?;
        let gateways = Crew::start(gateways.collect())?;
        Ok(Self { flushers, gateways, redis_links, postgres_link, database, redis, postgres })
    }

    /// A connection to Redis that passes no proxy.
    pub(crate) fn redis_connection(&self) -> Result<redis::Connection> {
        let client = redis::Client::open(self.redis.url())?;
        let connection = client.get_connection_with_timeout(CONNECT_WITHIN).context("connecting to Redis")?;
        connection.set_read_timeout(Some(CONNECT_WITHIN))?;
        Ok(connection)
    }

    /// A session in the ledger's database that passes no proxy.
    pub(crate) fn postgres_session(&self) -> Result<postgres::Client> {
        let mut config: postgres::Config = self.database.url().parse()?;
        config.connect_timeout(CONNECT_WITHIN).application_name("chaos");
        config.connect(NoTls).context("connecting to PostgreSQL")
    }
}

fn migrate(program: &Path, database_url: &str) -> Result<()> {
    let mut command = flusher(program);
    command.args(["migrate", "--log-format", "text"]).env("TALLYWEIR_DATABASE_URL", database_url);
    let status = command.env("RUST_LOG", "warn").stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("usage-flusher migrate: {status}");
    }
    Ok(())
}

/// The flusher with none of the surrounding settings.
fn flusher(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TALLYWEIR_"))
    {
        command.env_remove(name);
    }
    command
}

fn log_to(command: &mut Command, path: &Path) -> Result<()> {
    let log = File::options().create(true).append(true).open(path);
    let log = log.with_context(|| format!("opening {}", path.display()))?;
    command.stdout(log.try_clone()?).stderr(log);
    Ok(())
}
