//! Looks at queue and ledger now and then, for the gauges and for `/status`.

use std::time::Duration;

use chrono::Utc;
use iam_ledger::{Ledger, LedgerError};
use live_redis::{LiveRedis, LiveRedisError};
use metrics::{counter, gauge};
use spend_queue::{Index, Shard, SpendQueue};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::board::Board;
use crate::ledger::SpendLedger;
use crate::meters;
use crate::retention::Pruner;

/// How often each shard is looked at. A shard costs four commands.
const QUEUE_EVERY: Duration = Duration::from_secs(5);
/// How often the ledger's partitions are looked at and holds that have run out are swept.
const LEDGER_EVERY: Duration = Duration::from_secs(60);

/// The most holds that one sweep marks.
const SWEPT: u32 = 10_000;

/// Looks until told to stop. Rows of the flush log are kept for so long, or for ever (`None`).
pub async fn sample(
    redis: LiveRedis,
    ledger: Ledger,
    board: Board,
    keep_flush_log: Option<Duration>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ledger_due = Instant::now();
    let mut pruner = keep_flush_log.map(Pruner::new);
    loop {
        if look_at_all(&redis, &board).await {
            meters::sampled("redis", Utc::now());
        }
        meters::pool(ledger.pool_status());
        if Instant::now() >= ledger_due {
            ledger_due = Instant::now() + LEDGER_EVERY;
            match tend(&ledger, &board).await {
                Ok(()) => meters::sampled("postgresql", Utc::now()),
                Err(error) => trouble(&error, "cannot tend the ledger"),
            }
        }
        if let Some(pruner) = &mut pruner
            && let Err(error) = pruner.turn(&ledger, &board, &redis.epoch(), &redis.sources()).await
        {
            trouble(&error, "cannot prune the flush log");
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(QUEUE_EVERY) => {}
        }
    }
}

fn trouble(error: &LedgerError, what: &'static str) {
    meters::postgresql_error(&Ledger::error_class(error));
    tracing::warn!(%error, "{what}");
}

/// Looks at each shard; answers whether all of them could be seen.
async fn look_at_all(redis: &LiveRedis, board: &Board) -> bool {
    let mut all = true;
    for shard in redis.sources() {
        if let Err(error) = look_at(redis, shard, board).await {
            all = false;
            tracing::debug!(shard = shard.index(), %error, "cannot look at the shard");
            board.write(|notices| notices.redis.failed(error.to_string()));
        }
    }
    all
}

async fn look_at(redis: &LiveRedis, shard: Shard, board: &Board) -> Result<(), LiveRedisError> {
    let seen = redis.queue_glance(shard).await?;
    let now = Utc::now();
    board.write(|notices| notices.redis.answered(now));
    board.shard(shard, |notice| {
        notice.entries = seen.backlog.entries;
        notice.oldest = seen.backlog.oldest;
        notice.bytes = seen.bytes;
        notice.index_doubtful = seen.index == Index::Doubtful;
        notice.quarantined = seen.quarantined;
        notice.lost = seen.lost;
    });
    let name = shard.to_string();
    let doubtful = if seen.index == Index::Doubtful { 1.0 } else { 0.0 };
    gauge!("tallyweir_queue_entries", "shard" => name.clone()).set(float(seen.backlog.entries));
    gauge!("tallyweir_queue_bytes", "shard" => name.clone()).set(float(seen.bytes));
    gauge!("tallyweir_queue_oldest_age_seconds", "shard" => name.clone())
        .set(seen.backlog.age(now).as_secs_f64());
    gauge!("tallyweir_queue_index_doubtful", "shard" => name.clone()).set(doubtful);
    gauge!("tallyweir_queue_quarantined", "shard" => name.clone()).set(float(seen.quarantined));
    gauge!("tallyweir_queue_lost", "shard" => name).set(float(seen.lost));
    Ok(())
}

/// Says how it stands with the partitions, and marks holds that have run out.
async fn tend(ledger: &Ledger, board: &Board) -> Result<(), LedgerError> {
    let expired = ledger.expire_holds(Utc::now(), SWEPT).await?;
    counter!("tallyweir_holds_expired_total").increment(expired);
    ledger.prune_spend_quarters(SWEPT).await?;
    let headroom = ledger.partition_headroom(None).await?;
    let unplaced = ledger.default_partition_rows().await?;
    gauge!("tallyweir_partition_headroom_months").set(f64::from(headroom));
    gauge!("tallyweir_default_partition_rows").set(float(unplaced));
    board.write(|notices| {
        notices.partition_headroom_months = Some(headroom);
        notices.default_partition_rows = Some(unplaced);
    });
    Ok(())
}

/// A gauge is a float anyway.
#[allow(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
