//! How long the record of flushed batches is kept.

use std::time::Duration;

use chrono::Utc;
use iam_ledger::{Ledger, LedgerError};
use metrics::counter;
use spend_queue::{Epoch, Shard};
use tokio::time::Instant;

use crate::board::Board;

/// The most rows that one statement deletes: a few milliseconds of work.
const ROWS: u32 = 2_000;
/// The most statements a shard and round. A round comes each minute, and a shard makes at most some 600 batches in it, so a
/// flusher catches up with years of rows without a long transaction.
const STATEMENTS: u32 = 10;

/// How often rows are looked for.
const EVERY: Duration = Duration::from_secs(60);

/// Prunes the flush log of the shards that this process works on. Those of others are theirs to prune.
#[derive(Debug)]
pub(crate) struct Pruner {
    /// Rows younger than this stay.
    keep: Duration,
    due: Instant,
}

impl Pruner {
    /// One that is due at once.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { keep, due: Instant::now() }
    }

    /// Prunes when it is due, and there are shards to prune for.
    pub(crate) async fn turn(
        &mut self,
        ledger: &Ledger,
        board: &Board,
        epoch: &Epoch,
        sources: &[Shard],
    ) -> Result<(), LedgerError> {
        let notices = board.read();
        let is_ours =
            |shard: &&Shard| notices.shards.get(&shard.to_string()).is_some_and(|notice| notice.owned);
        let ours: Vec<_> = sources.iter().filter(is_ours).collect();
        if ours.is_empty() || Instant::now() < self.due {
            return Ok(());
        }
        self.due = Instant::now() + EVERY;
        let horizon = Utc::now() - self.keep;
        for shard in ours {
            for _ in 0..STATEMENTS {
                let pruned = ledger.prune_flush_log(epoch, *shard, horizon, ROWS).await?;
                counter!("tallyweir_flush_log_pruned_total").increment(pruned);
                if pruned < ROWS.into() {
                    break;
                }
            }
        }
        Ok(())
    }
}
