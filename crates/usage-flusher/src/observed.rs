//! Queue and ledger with their work measured: the core stays free of clocks and metrics.

use std::borrow::Cow;
use std::future::Future;
use std::time::Instant;

use chrono::Utc;
use iam_ledger::Committed;
use metrics::{counter, histogram};
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, Epoch, Peeked, Receipt, Reindexed, Shard, ShardCount,
    SpendQueue,
};

use crate::ledger::{Settlement, SpendLedger};
use crate::meters;

/// A queue or a ledger whose calls are timed and counted.
#[derive(Debug, Clone)]
pub struct Observed<T>(pub T);

async fn timed<T>(phase: &'static str, call: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let answer = call.await;
    histogram!("tallyweir_batch_seconds", "phase" => phase).record(started.elapsed());
    answer
}

impl<Q: SpendQueue> SpendQueue for Observed<Q> {
    type Error = Q::Error;

    fn shards(&self) -> ShardCount {
        self.0.shards()
    }

    fn epoch(&self) -> Epoch {
        self.0.epoch()
    }

    fn sources(&self) -> Vec<Shard> {
        self.0.sources()
    }

    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send {
        self.0.enqueue(event)
    }

    async fn peek(&self, shard: Shard, limit: BatchLimit) -> Result<Peeked, Self::Error> {
        let started = Instant::now();
        let peeked = self.0.peek(shard, limit).await?;
        // A look at an empty shard is no batch: idle hours would drown the working ones.
        if !peeked.entries.is_empty() {
            histogram!("tallyweir_batch_seconds", "phase" => "peek").record(started.elapsed());
        }
        Ok(peeked)
    }

    async fn ack(&self, receipt: &Receipt) -> Result<Acked, Self::Error> {
        let acked = timed("ack", self.0.ack(receipt)).await?;
        if acked == Acked::Changed {
            counter!("tallyweir_acks_changed_total").increment(1);
        }
        Ok(acked)
    }

    fn reindex(&self, shard: Shard) -> impl Future<Output = Result<Reindexed, Self::Error>> + Send {
        self.0.reindex(shard)
    }

    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        self.0.depth(shard)
    }
}

impl<L: SpendLedger> SpendLedger for Observed<L> {
    type Error = L::Error;

    async fn commit(&self, settlement: Settlement) -> Result<Committed, Self::Error> {
        let entries = u32::try_from(settlement.entries.len()).unwrap_or(u32::MAX);
        let committed = timed("commit", self.0.commit(settlement))
            .await
            .inspect_err(|error| meters::postgresql_error(&L::error_class(error)))?;
        histogram!("tallyweir_batch_entries").record(f64::from(entries));
        counter!("tallyweir_commits_total").increment(1);
        meters::committed_at(Utc::now());
        counter!("tallyweir_events_settled_total").increment(committed.new);
        // A refused or foreign sum never gets here; what is settled is not negative.
        counter!("tallyweir_settled_picodollars_total")
            .increment(u64::try_from(committed.cost.picos()).unwrap_or_default());
        counter!("tallyweir_events_duplicate_total").increment(committed.duplicates);
        let conflicts = u64::try_from(committed.conflicts.len()).unwrap_or(u64::MAX);
        counter!("tallyweir_events_conflict_total").increment(conflicts);
        counter!("tallyweir_dead_letters_total", "kind" => "conflict").increment(conflicts);
        counter!("tallyweir_dead_letters_total", "kind" => "refused").increment(committed.refused);
        Ok(committed)
    }

    fn is_transient(error: &Self::Error) -> bool {
        L::is_transient(error)
    }

    fn is_too_slow(error: &Self::Error) -> bool {
        L::is_too_slow(error)
    }

    fn is_unavailable(error: &Self::Error) -> bool {
        L::is_unavailable(error)
    }

    fn error_class(error: &Self::Error) -> Cow<'static, str> {
        L::error_class(error)
    }
}
