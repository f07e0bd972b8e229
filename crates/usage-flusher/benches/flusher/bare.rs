//! The baseline of the backlog: the same rows committed by the ledger alone, without a queue and without a process of its own.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_frame::traffic::{self, Callers};
use chrono::Utc;
use iam_ledger::Batch;
use spend_queue::{Chain, Entry, Epoch, ShardCount};

use crate::effort::Effort;
use crate::stack::{Servers, shard};

/// What the flusher takes at most, by default.
const BATCH: usize = 2_000;

/// Events a second; making them ready is not measured.
pub(crate) fn measure(servers: &Servers, effort: Effort) -> Result<f64> {
    let stack = servers.stack("bare")?;
    let (mut chain, mut spent) = (Chain::GENESIS, Duration::ZERO);
    let (hour, epoch) = (Utc::now(), Epoch::new("bare", ShardCount::ONE));
    stack.block_on(async {
        let ledger = stack.ledger().await?;
        for from in (0..effort.events).step_by(BATCH) {
            let numbers = from..(from + BATCH).min(effort.events);
            let mut entries = Vec::with_capacity(BATCH);
            for (seq, event) in (from as u64 + 1..).zip(traffic::encoded(numbers, Callers::Everyone, hour)?) {
                chain = event.chain_after(chain, seq);
                entries.push(Entry::decode(event.entry(seq, chain).into_bytes())?);
            }
            let started = Instant::now();
            let committed = ledger
                .commit(&Batch { epoch: &epoch, shard: shard(), entries: &entries, committed_at: Utc::now() })
                .await?;
            spent += started.elapsed();
            ensure!(committed.new == entries.len() as u64, "{committed:?}");
        }
        ledger.close().await;
        anyhow::Ok(())
    })?;
    let rate = effort.events as f64 / spent.as_secs_f64();
    eprintln!("bare commits: {rate:.0}/s");
    Ok(rate)
}
