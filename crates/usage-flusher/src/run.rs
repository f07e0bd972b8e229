//! The commands: connect, then work until told to stop.

use anyhow::{Context, Result};
use iam_ledger::{Ledger, LedgerOptions};
use live_redis::{LiveRedis, RedisUrl};
use secrecy::ExposeSecret;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use usage_flusher::{Flusher, Pace, PaceLimits, Service};

use crate::cli::{DatabaseOptions, RunOptions};

/// Flushes until SIGTERM or SIGINT.
pub(crate) async fn run(options: RunOptions) -> Result<()> {
    let pace = Pace::new(PaceLimits {
        smallest: options.batch_min,
        largest: options.batch_max,
        linger: options.linger_ms,
        idle: options.idle_ms,
    })?;
    let redis_options = options.redis.options()?;
    let mut stop_signal = StopSignal::new()?;
    let ledger = Ledger::connect(&options.database.database_url, LedgerOptions::default()).await?;
    ledger.require_migrated().await?;
    let redis = LiveRedis::open_with(RedisUrl::new(options.redis_url.expose_secret()), redis_options).await?;

    let (stop, stopped) = watch::channel(false);
    let service = Service::new(Flusher::new(redis.clone(), ledger.clone()), &pace);
    let mut flushing = tokio::spawn(service.run(stopped));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "flusher started");
    tokio::select! {
        ended = &mut flushing => ended.context("the flusher's loop died")?,
        name = stop_signal.wait() => {
            tracing::info!(signal = name, "stopping");
            stop.send_replace(true);
            match timeout(options.stop_deadline_ms, flushing).await {
                Ok(ended) => ended.context("the flusher's loop died")?,
                // Safe: what is committed and not acknowledged comes again and changes nothing.
                Err(_) => tracing::warn!("the batch at hand did not end in time; it is left for the next run"),
            }
        }
    }
    redis.close();
    ledger.close().await;
    tracing::info!("flusher stopped");
    Ok(())
}

/// Brings the tables up to date.
pub(crate) async fn migrate(options: DatabaseOptions) -> Result<()> {
    let ledger = Ledger::connect(&options.database_url, LedgerOptions::default()).await?;
    ledger.migrate().await?;
    ledger.close().await;
    tracing::info!("the database is up to date");
    Ok(())
}

/// SIGTERM from a supervisor, SIGINT from a terminal.
struct StopSignal {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignal {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
