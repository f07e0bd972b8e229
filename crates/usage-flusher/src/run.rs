//! The commands: connect, then work until told to stop.

use anyhow::{Context, Result};
use iam_ledger::{Ledger, LedgerOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use usage_flusher::{Flusher, Pace, PaceLimits, Service, Uncancelled};

use crate::cli::{DatabaseOptions, RunOptions};

/// Shards that are worked on at once.
const IN_FLIGHT: usize = 4;

/// Flushes until SIGTERM or SIGINT.
pub(crate) async fn run(options: RunOptions) -> Result<()> {
    let pace = Pace::new(PaceLimits {
        smallest: options.batch_min,
        largest: options.batch_max,
        linger: options.linger_ms,
        idle: options.idle_ms,
    })?;
    let mut stop_signal = StopSignal::new()?;
    let ledger = Ledger::connect(&options.database.database_url, LedgerOptions::default()).await?;
    ledger.require_migrated().await?;
    let redis = options.redis.open().await?;

    let (stop, stopped) = watch::channel(false);
    let flusher = Flusher::new(redis.clone(), Uncancelled(ledger.clone()));
    let service = Service::new(flusher, &pace, IN_FLIGHT);
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
