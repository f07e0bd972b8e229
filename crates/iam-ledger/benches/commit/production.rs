//! The way that is deployed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use iam_ledger::{Batch, Ledger};
use spend_queue::{Epoch, ShardCount};

use crate::work::Work;

pub(crate) struct Production(pub(crate) Ledger);

impl Production {
    pub(crate) async fn commit(&self, work: &mut Work, batches: usize, size: usize) -> Result<Duration> {
        let shard = ShardCount::ONE.shard_of("any");
        let epoch = Epoch::new("tallyweir", ShardCount::ONE);
        let mut spent = Duration::ZERO;
        for _ in 0..batches {
            let entries = work.entries(size)?;
            let batch = Batch { epoch: &epoch, shard, entries: &entries, committed_at: work.now() };
            let started = Instant::now();
            let committed = self.0.commit(&batch).await?;
            spent += started.elapsed();
            ensure!(committed.new == size as u64, "{committed:?}");
        }
        Ok(spent)
    }
}
