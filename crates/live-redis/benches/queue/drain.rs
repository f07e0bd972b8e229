//! What taking a committed batch off the queue costs the server.

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use spend_queue::{Acked, BatchLimit, ShardCount};

use crate::common::program::Effort;
use crate::common::report::{Figure, Section, Series};
use crate::common::server::Server;
use crate::common::witness::Witness;
use crate::fill::fill;

const BATCHES: [u32; 2] = [1_000, 10_000];
/// What is left in the queue, so that the index is taken down entry by entry and not dropped whole.
const LEFT: usize = 5_000;

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let mut section = Section::new(
        "Acknowledgements",
        "server time of one script call that takes the batch; the floor is LTRIM of as many entries",
    );
    for batch in BATCHES {
        let mut taken = Taken::default();
        for round in 1..=effort.rounds {
            once(server, batch, &mut taken).await?;
            eprintln!("ack {round}/{}: {batch} entries: {:.2} ms", effort.rounds, taken.ack.last());
        }
        let rate = f64::from(batch) / taken.ack.median() * 1_000.0;
        let floor = format!("LTRIM, {batch} entries");
        section.push(Figure::new(floor.clone(), "ms", taken.trim.clone()));
        section.push(Figure::new(format!("peek, {batch} entries"), "ms", taken.peek));
        section.push(
            Figure::new(format!("ack, {batch} entries"), "ms", taken.ack)
                .against(&floor, &taken.trim, None)
                .note(format!("{rate:.0} entries/s")),
        );
        section.push(Figure::new(format!("longest PING meanwhile, ack of {batch}"), "ms", taken.waited));
    }
    Ok(section)
}

/// Milliseconds.
#[derive(Default)]
struct Taken {
    trim: Series,
    peek: Series,
    ack: Series,
    waited: Series,
}

async fn once(server: &Server, batch: u32, taken: &mut Taken) -> Result<()> {
    server.clear().await?;
    fill(server, 0..usize::try_from(batch)? + LEFT, Utc::now()).await?;
    let (redis, mut plain) = (&server.batching, server.plain.clone());
    let prefix = &redis.options().prefix;
    let (queue, copy) = (format!("{prefix}:{{0}}:queue"), format!("{prefix}:{{0}}:copy"));
    redis::cmd("COPY").arg(&queue).arg(&copy).query_async::<()>(&mut plain).await?;
    server.reset_statistics().await?;
    redis::cmd("LTRIM").arg(&copy).arg(batch).arg(-1).query_async::<()>(&mut plain).await?;
    taken.trim.push(server.calls("ltrim").await?.micros / 1_000.0);

    server.reset_statistics().await?;
    let shard = ShardCount::ONE.shard_of("any");
    let peeked = redis.peek_logs(shard, BatchLimit::new(batch)?).await?;
    taken.peek.push(server.calls("evalsha").await?.micros / 1_000.0);
    let receipt = peeked.receipt().context("nothing to acknowledge")?;
    ensure!(receipt.entries == batch, "{} entries of {batch}", receipt.entries);

    let witness = Witness::start(server.url())?;
    server.reset_statistics().await?;
    let acked = redis.ack_flushed(&receipt).await?;
    taken.waited.push(witness.stop()?);
    taken.ack.push(server.calls("evalsha").await?.micros / 1_000.0);
    ensure!(acked == Acked::Done { depth: LEFT as u64, short_counters: 0 }, "{acked:?}");
    Ok(())
}
