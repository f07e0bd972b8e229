//! The command `run`: connect, then serve until told to stop.

use std::time::Duration;

use anyhow::{Context, Result};
use iam_ledger::LedgerOptions;
use live_redis::Role;
use service_frame::stop_signal::StopSignal;
use spend_spool::{Spool, SpoolOptions};

use crate::cli::RunOptions;
use crate::config::Config;
use crate::server::Gateway;
use crate::state::Parts;

/// Queries are inside requests, so that what takes longer is better refused.
const DATABASE_PATIENCE: Duration = Duration::from_secs(2);
/// Budgets of so many requests are read at once.
const DATABASE_CONNECTIONS: u32 = 16;
/// A busy gateway's connections are not asked ahead of each request whether they are alive.
const DATABASE_PROBE: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(options: RunOptions) -> Result<()> {
    let mut stop = StopSignal::new()?;
    let config = Config::read(&options.config).with_context(|| format!("{}", options.config.display()))?;
    let database = LedgerOptions {
        application_name: "tallyweir-gateway".to_owned(),
        max_connections: DATABASE_CONNECTIONS,
        acquire_timeout: DATABASE_PATIENCE,
        statement_timeout: DATABASE_PATIENCE,
        generic_plans: true,
        probe_after_idle: DATABASE_PROBE,
        ..LedgerOptions::default()
    };
    let (keyring, ledger) = options.keyring.keyring_with(database).await?;
    options.start.judge("PostgreSQL", ledger.doctor().await)?;
    let redis = options.redis.start(Role::Gateway, options.start).await?;
    let spool = options.spool.map(|file| Spool::open(file, SpoolOptions::default())).transpose()?;
    if spool.is_none() {
        tracing::warn!("no spool: a bill that Redis does not take fails its request");
    }
    let parts = Parts { config, redis: redis.clone(), ledger: ledger.clone(), keyring, spool };
    let gateway = Gateway::start(parts, options.listen).await?;
    tracing::info!(address = %gateway.address(), version = env!("CARGO_PKG_VERSION"), "listening");
    let name = stop.wait().await;
    tracing::info!(signal = name, "stopping");
    gateway.stop(options.shutdown_grace_ms).await;
    redis.close();
    ledger.close().await;
    tracing::info!("gateway stopped");
    Ok(())
}
