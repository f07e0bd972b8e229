//! The commands: connect, then work until told to stop.

use std::io::{Write as _, stdout};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};
use chrono::Utc;
use iam_ledger::{Ledger, LedgerError, LedgerOptions};
use live_redis::Role;
use serde_json::{Value, json};
use service_frame::start::Unfit;
use service_frame::stop_signal::StopSignal;
use spend_queue::{Shard, SpendQueue};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use usage_flusher::{
    Board, Endpoints, Flusher, Observed, Pace, PaceError, PaceLimits, Service, Uncancelled, announce, sample,
};

use crate::cli::{MigrateOptions, RunOptions};
use crate::trace_export::TraceExport;

/// The server ends the session that holds this process's shards when it is silent for so long: the time after which a
/// suspended flusher's shards are taken over. A living one is heard every second.
const LOCK_SILENCE: Duration = Duration::from_secs(10);

/// The server ends a transaction whose flusher is silent for so long: until then it keeps its request ids from whoever takes its
/// shards over. The statements of a commit follow each other within milliseconds.
const TRANSACTION_SILENCE: Duration = Duration::from_secs(10);

const DAY: Duration = Duration::from_secs(86_400);

/// How long connections may take to close. One that is in use by then is the server's to give up.
const CLOSE_WITHIN: Duration = Duration::from_millis(250);

/// The connections that the pool needs: one for each shard that is worked on at once, and one for what is read and tended
/// meanwhile. The session that holds the shards is not of the pool.
fn pool_size(in_flight: u8) -> u32 {
    u32::from(in_flight) + 1
}

/// Two flags that do not go together, by their names.
fn contradiction(error: PaceError) -> Error {
    match error {
        PaceError::Batch(..) => anyhow!("--batch-min: {error}; at most --batch-max is accepted"),
        PaceError::Wait(..) => anyhow!("--linger-ms: {error}; at most --idle-ms is accepted"),
    }
}

/// Flushes until SIGTERM or SIGINT.
pub(crate) async fn run(options: RunOptions, export: Option<TraceExport>) -> Result<()> {
    let pace = Pace::new(PaceLimits {
        smallest: options.batch_min,
        largest: options.batch_max,
        linger: options.linger_ms,
        idle: options.idle_ms,
    })
    .map_err(contradiction)?;
    // Both, before any server is asked: a missing flag is said at once.
    let database_url = options.database.url().required()?;
    options.redis.target()?;
    let mut stop_signal = StopSignal::new()?;
    let settings = LedgerOptions {
        idle_in_transaction_timeout: TRANSACTION_SILENCE,
        max_connections: pool_size(options.in_flight),
        ..LedgerOptions::default()
    };
    let ledger = Ledger::connect(&database_url, settings).await.map_err(unusable)?;
    ledger.require_migrated().await?;
    options.start.judge("PostgreSQL", ledger.doctor().await)?;
    let redis = options.redis.start(Role::Flusher, options.start).await?;

    let board = Board::default();
    board.write(|notices| notices.started_at = Some(Utc::now()));
    let (stop, stopped) = watch::channel(false);
    let (address, endpoints) = serve(&options, &board, &redis.sources(), stopped.clone()).await?;
    let flusher = Flusher::new(Observed(redis.clone()), Observed(Uncancelled(ledger.clone())));
    let service = Service::new(flusher, &pace, options.in_flight.into(), board.clone());
    let locks = ledger.shard_locks(&redis.options().prefix.to_string(), LOCK_SILENCE);
    let keep = (options.flush_log_days > 0).then(|| DAY * options.flush_log_days);
    let sampling = tokio::spawn(sample(redis.clone(), ledger.clone(), board.clone(), keep, stopped.clone()));
    let mut flushing = tokio::spawn(service.run(locks, stopped));
    if let Some(remark) = options.trace.remark() {
        tracing::warn!("{remark}");
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), traces = export.is_some(), "flusher started");
    let started = Instant::now();
    if options.json {
        report(&json!({ "event": "started", "version": env!("CARGO_PKG_VERSION"), "address": address }))?;
    }
    let mut signal = None;
    tokio::select! {
        ended = &mut flushing => ended.context("the flusher's loop died")?,
        name = stop_signal.wait() => {
            signal = Some(name);
            tracing::info!(signal = name, "stopping");
            board.write(|notices| notices.stopping_since = Some(Utc::now()));
            stop.send_replace(true);
            match timeout(options.stop_deadline_ms, flushing).await {
                Ok(ended) => ended.context("the flusher's loop died")?,
                // Safe: what is committed and not acknowledged comes again and changes nothing.
                Err(_) => tracing::warn!("the batch at hand did not end in time; it is left for the next run"),
            }
        }
    }
    sampling.abort();
    if let Some(endpoints) = endpoints {
        endpoints.abort();
    }
    redis.close();
    if let Some(export) = export {
        export.finish().await;
    }
    let _ = timeout(CLOSE_WITHIN, ledger.close()).await;
    tracing::info!("flusher stopped");
    if options.json {
        let flushed: u64 = board.read().shards.values().map(|shard| shard.flushed).sum();
        let seconds = started.elapsed().as_secs_f64();
        report(&json!({ "event": "stopped", "signal": signal, "seconds": seconds, "flushed": flushed }))?;
    }
    Ok(())
}

/// One object on one line of standard output. A reader that has gone is said, since it asked for these lines.
fn report(object: &Value) -> Result<()> {
    writeln!(stdout(), "{object}").context("writing to standard output")
}

/// A server that is too old, or none that takes writes now, is refused as the doctor calls it, however leniently the service starts.
fn unusable(error: LedgerError) -> Error {
    match error {
        LedgerError::ServerTooOld { .. } | LedgerError::Standby { .. } => {
            Unfit::new("PostgreSQL", vec![Ledger::connect_finding(&error)]).into()
        }
        error => error.into(),
    }
}

/// Offers the endpoints, when an address was given for them; answers where they are.
async fn serve(
    options: &RunOptions,
    board: &Board,
    sources: &[Shard],
    mut stopped: watch::Receiver<bool>,
) -> Result<(Option<SocketAddr>, Option<JoinHandle<()>>)> {
    let Some(address) = options.listen else { return Ok((None, None)) };
    let endpoints = Endpoints::bind(address, board.clone()).await?;
    announce(sources);
    let address = endpoints.address()?;
    tracing::info!(%address, "endpoints are served");
    let serving = tokio::spawn(async move {
        let stop = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        if let Err(error) = endpoints.serve(stop).await {
            tracing::error!(%error, "the endpoints are not served any more");
        }
    });
    Ok((Some(address), Some(serving)))
}

/// Brings the tables up to date.
pub(crate) async fn migrate(options: MigrateOptions) -> Result<()> {
    let ledger = Ledger::connect(&options.database.url().required()?, LedgerOptions::default())
        .await
        .map_err(unusable)?;
    // Read before, for the report only: of two that migrate at once, each tells of what it found missing.
    let missing = ledger.migration_status().await?.pending;
    ledger.migrate().await?;
    if options.json {
        let version = ledger.migration_status().await?.applied.last().copied();
        report(&json!({ "applied": missing, "version": version }))?;
    }
    ledger.close().await;
    tracing::info!("the database is up to date");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_has_a_connection_for_each_shard_in_flight_and_one_for_reads() {
        assert_eq!([1, 4, 64].map(pool_size), [2, 5, 65]);
    }
}
