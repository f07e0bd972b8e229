//! The proof: every answer is in the ledger once, for what it cost.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_frame::report::{Bound, Figure, Section};
use live_redis::LiveRedis;
use spend_queue::{ShardCount, SpendQueue, Usd};

use crate::child::{Child, program};
use crate::shape;
use crate::stack::{PRICES, Stack, ledger};

/// Where `cargo xtask bench` puts the flusher's path: it is another package's program.
const FLUSHER: &str = "TALLYWEIR_BENCH_FLUSHER";
const NONE: Bound = Bound::AtMost(0.0);
const GIVE_UP: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);
/// Counters of the gateway that tell of something that must not happen here.
const MISHAPS: [(&str, &str); 4] = [
    ("bills lost", "tallyweir_gateway_bills_total{to=\"lost\"}"),
    ("bills that took the way over the disk", "tallyweir_gateway_bills_total{to=\"spooled\"}"),
    ("degradations", "tallyweir_redis_degradations_total"),
    ("refusals", "tallyweir_gateway_refusals_total"),
];

/// The flusher's path, asked for before anything is measured.
pub(crate) fn flusher() -> Result<PathBuf> {
    let path = std::env::var_os(FLUSHER).with_context(|| format!("{FLUSHER} must name the usage-flusher"))?;
    Ok(path.into())
}

/// Starts a flusher and waits until the queue is empty.
pub(crate) fn settle(stack: &Stack, path: &Path) -> Result<Child> {
    let mut command = program(path);
    command
        .args(["run", "--log-format", "json"])
        .env("TALLYWEIR_REDIS_URL", stack.servers.redis_url())
        .env("TALLYWEIR_DATABASE_URL", stack.servers.database_url());
    let flusher = Child::start("usage-flusher", &mut command, stack.folder())?;
    drain(stack)?;
    Ok(flusher)
}

fn drain(stack: &Stack) -> Result<()> {
    let url = stack.servers.redis_url().to_owned();
    stack.run(async move {
        let redis = LiveRedis::open(url).await?;
        let asked = Instant::now();
        loop {
            let depth = redis.depth(ShardCount::ONE.shard_of("any")).await?;
            if depth == 0 {
                redis.close();
                return Ok(());
            }
            ensure!(asked.elapsed() < GIVE_UP, "{depth} bills are still queued");
            tokio::time::sleep(POLL).await;
        }
    })
}

/// Stops the gateway and the flusher and compares what the client counted with what the ledger has.
pub(crate) fn prove(stack: Stack, flusher: Child) -> Result<Section> {
    // The last answers' admissions are settled a moment after their clients have them.
    sleep(POLL);
    let metrics = stack.runtime().block_on(stack.unbudgeted.metrics())?;
    let complaints = stack.gateway.complaints()?;
    drain(&stack)?;
    let answers = stack.answers();
    flusher.terminate()?;
    let totals = stack.runtime().block_on(async {
        let ledger = ledger(&stack.servers).await?;
        let totals = ledger.totals().await?;
        ledger.close().await;
        anyhow::Ok(totals)
    })?;
    let expected = each()?.checked_mul(answers).context("too much money")?;
    ensure!(totals.settled_requests == answers && totals.agree(), "{answers} answers were seen: {totals:?}");
    ensure!(totals.cost_by_events == expected, "{expected} were to be billed: {totals:?}");
    let Stack { gateway, .. } = stack;
    gateway.terminate()?;

    let mut section =
        Section::new("Books", "the client's own count, the ledger after a flusher, the gateway's metrics");
    section.push(Figure::once("answers", "", answers as f64).note("each settled exactly once"));
    section.push(
        Figure::once("answers without their one bill", "", 0.0).note(format!("{expected} USD, exactly")),
    );
    for (what, name) in MISHAPS {
        let found = metrics.iter().filter(|(known, _)| known.starts_with(name)).map(|(_, value)| value);
        section.push(Figure::once(what, "", found.fold(0.0, |sum, value| sum + value)).required(NONE));
    }
    let note = complaints.first().cloned().unwrap_or_default();
    section.push(Figure::once("warnings and errors in the log", "", complaints.len() as f64).note(note));
    Ok(section)
}

/// What every answer costs.
fn each() -> Result<Usd> {
    let [input, _, output] = PRICES;
    let (prompt, answer) = shape::tokens()?;
    // Of a price per million, a token's is a whole number of picodollars.
    let a_token =
        |price: &str| -> Result<Usd> { Ok(Usd::from_picos(price.parse::<Usd>()?.picos() / 1_000_000)) };
    let costs = [a_token(input)?.checked_mul(prompt), a_token(output)?.checked_mul(answer)];
    costs.into_iter().collect::<Option<Vec<_>>>().and_then(Usd::checked_sum).context("too much money")
}
