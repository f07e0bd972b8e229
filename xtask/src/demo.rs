//! The main job: a workload through Redis, a flusher process and PostgreSQL, and the proof that nothing is lost.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::child::tail;
use crate::flusher::{Outcome, Plan, Supervised};
use crate::process;
use crate::stack::Stack;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Replay this trace (CSV: TIMESTAMP,ContextTokens,GeneratedTokens) instead of the built-in workload
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Replay at most so many requests [default: the whole trace, or 5000 invented ones]
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// Seed of tenants and workload: the same seed gives the same decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kill the flusher with SIGKILL so many times on the way; it is started again each time
    #[arg(long, value_name = "N", default_value_t = 0)]
    kill_flusher: u32,
    /// Leave Redis and PostgreSQL running, and print their URLs
    #[arg(long)]
    keep: bool,
    /// Print one JSON object as the last line instead of the report for people
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    // A path is the caller's, and programs run in the workspace's root.
    let trace = options
        .trace
        .as_ref()
        .map(|trace| std::path::absolute(trace).with_context(|| format!("trace {}", trace.display())));
    let trace = trace.transpose()?;
    eprintln!("building ...");
    let programs = process::build(&["usage-flusher", "rate-sim"])?;
    let [flusher, rate_sim] = &programs[..] else { bail!("building gave no programs") };

    let stack = Stack::start()?;
    stack.migrate(flusher)?;

    let log = process::root().join("target/demo-flusher.log");
    let plan = Plan {
        program: flusher.clone(),
        env: stack.env().to_vec(),
        kills: options.kill_flusher,
        log: log.clone(),
    };
    let supervised = Supervised::start(plan)?;

    let mut replay = stack.command(rate_sim);
    replay.arg("replay").args(["--seed", &options.seed.to_string()]);
    if let Some(trace) = &trace {
        replay.arg("--trace").arg(trace);
    }
    if let Some(events) = options.events {
        replay.args(["--events", &events.to_string()]);
    }
    if options.json {
        replay.arg("--json");
    }
    let report = replayed(&mut replay, options.json);
    let flushed = supervised.stop();
    let report = report.with_context(|| format!("the flusher's last words:\n{}", tail(&log)))?;
    let flushed = flushed.with_context(|| format!("the flusher's last words:\n{}", tail(&log)))?;

    if options.keep {
        stack.keep()?;
    }
    conclude(options, report, &flushed)
}

/// Runs the replay; with JSON, returns the object of its last line, everything else goes through.
fn replayed(replay: &mut Command, json: bool) -> Result<Option<Value>> {
    if !json {
        process::run(replay)?;
        return Ok(None);
    }
    let mut child = replay.stdout(Stdio::piped()).spawn().context("cannot start rate-sim")?;
    let stdout = child.stdout.take().context("rate-sim has no standard output")?;
    let mut last = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading rate-sim's report")?;
        if let Some(before) = last.replace(line) {
            println!("{before}");
        }
    }
    let status = child.wait().context("waiting for rate-sim")?;
    let report = last.as_deref().and_then(|line| serde_json::from_str::<Value>(line).ok());
    match report {
        Some(report) => Ok(Some(report)),
        None => bail!("rate-sim replay: {status}"),
    }
}

fn conclude(options: &Options, report: Option<Value>, flushed: &Outcome) -> Result<()> {
    let enough = flushed.killed == options.kill_flusher;
    if let Some(mut report) = report {
        report["flusher_killed"] = flushed.killed.into();
        report["batches"] = flushed.batches.into();
        println!("{report}");
        if report["reconciled"] != true {
            bail!("the books do not agree");
        }
    } else {
        println!("flusher: {} batches committed, killed {} times", flushed.batches, flushed.killed);
    }
    if !enough {
        bail!(
            "the flusher was killed {} times instead of {}: the workload was too short; raise --events",
            flushed.killed,
            options.kill_flusher
        );
    }
    Ok(())
}
