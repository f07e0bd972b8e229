//! The command `flush-sim`: many seeds with a progress bar, or one with its trace.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use flush_sim::{Bug, Failure, Options, Tally, run, run_many};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

/// Fewer seeds may well miss a rare fault.
const ENOUGH_FOR_ALL_FAULTS: u64 = 1_000;

/// Simulates the hand-off from queue to ledger under faults, one run a seed.
#[derive(Debug, Parser)]
#[command(max_term_width = 110)]
struct Cli {
    /// How many seeds, from the first on
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many threads [default: one a core]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Print one object with all numbers
    #[arg(long)]
    json: bool,
    /// Print everything that happens; for a single seed
    #[arg(long)]
    trace: bool,
    /// Plant a bug, to see it caught
    #[arg(long, value_name = "BUG")]
    plant: Option<Bug>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match simulate(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(cli: &Cli) -> Result<()> {
    if cli.trace {
        return trace(cli);
    }
    let threads = cli.threads.or_else(|| available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let bar = progress(cli);
    let started = Instant::now();
    let options = Options { bug: cli.plant, trace: false };
    let outcome = run_many(cli.seed, cli.seeds, threads, options, || bar.inc(1));
    let took = started.elapsed();
    bar.finish_and_clear();
    let tally = match outcome {
        Ok(tally) => tally,
        Err(failure) => return Err(broken(&failure, cli)),
    };
    let missing = if cli.seeds >= ENOUGH_FOR_ALL_FAULTS { tally.missing() } else { Vec::new() };
    if cli.json {
        println!("{}", report(&tally, took, cli.seed, &missing));
    } else {
        print(&tally, took);
    }
    if !missing.is_empty() {
        bail!("{} seeds never had: {}", cli.seeds, missing.join("; "));
    }
    Ok(())
}

fn trace(cli: &Cli) -> Result<()> {
    if cli.seeds != 1 {
        bail!("a trace is of one seed: add --seeds 1");
    }
    match run(cli.seed, Options { bug: cli.plant, trace: true }) {
        Ok(run) => {
            run.trace.iter().for_each(|line| println!("{line}"));
            println!("seed {}: {} steps, no promise broken", cli.seed, run.tally.steps);
            Ok(())
        }
        Err(failure) => {
            failure.trace.iter().for_each(|line| println!("{line}"));
            Err(broken(&failure, cli))
        }
    }
}

/// The failure, the end of its trace, and how to see it again.
fn broken(failure: &Failure, cli: &Cli) -> anyhow::Error {
    let end = failure.trace.len().saturating_sub(if cli.trace { 0 } else { 40 });
    if !cli.trace {
        failure.trace[end..].iter().for_each(|line| eprintln!("{line}"));
    }
    let plant = cli.plant.map(|bug| format!(" --plant {bug}")).unwrap_or_default();
    anyhow::anyhow!("{failure}\nagain: flush-sim --seeds 1 --seed {} --trace{plant}", failure.seed)
}

fn progress(cli: &Cli) -> ProgressBar {
    if cli.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(cli.seeds);
    let template = "{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// So many in a second, rounded down.
fn per_second(count: u64, took: Duration) -> u64 {
    let per_second = u128::from(count) * 1_000_000 / took.as_micros().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

fn print(tally: &Tally, took: Duration) {
    let Tally { seeds, steps, settled, longest_drain, .. } = tally;
    println!(
        "{seeds} seeds in {took:.1?}: {} seeds/s, {} steps/s",
        per_second(*seeds, took),
        per_second(*steps, took)
    );
    println!(
        "{steps} steps, {settled} bills settled, at most {longest_drain} steps to drain; no promise broken"
    );
    println!("\nfaults injected");
    tally.faults.iter().for_each(|(fault, count)| println!("{count:>12}  {fault}"));
    println!("\nsituations reached");
    tally.situations.iter().for_each(|(situation, count)| println!("{count:>12}  {situation}"));
}

fn report(tally: &Tally, took: Duration, first: u64, missing: &[String]) -> Value {
    let faults = tally.faults.iter().map(|(fault, count)| (fault.to_string(), (*count).into()));
    let situations = tally.situations.iter().map(|(one, count)| (one.to_string(), (*count).into()));
    json!({
        "first_seed": first,
        "seeds": tally.seeds,
        "steps": tally.steps,
        "settled": tally.settled,
        "longest_drain_steps": tally.longest_drain,
        "seconds": took.as_secs_f64(),
        "seeds_per_second": per_second(tally.seeds, took),
        "faults": faults.collect::<Map<_, _>>(),
        "situations": situations.collect::<Map<_, _>>(),
        "missing": missing,
    })
}
