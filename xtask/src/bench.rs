//! Benches, each against its baseline in the same run.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value};

use crate::process;

/// A bench is a program of its own, which measures with `--measure` and knows `--quick` and `--json FILE`; its JSON
/// has a list `short` of what falls short of what it must reach.
struct Bench {
    name: &'static str,
    package: &'static str,
    about: &'static str,
    /// Whether it knows `--plot FILE`, too.
    draws: bool,
    /// Whether it starts a flusher, which it is told of by an environment variable.
    flushes: bool,
}

/// Where a bench of another package finds the flusher's program.
const FLUSHER: &str = "TALLYWEIR_BENCH_FLUSHER";

const BENCHES: [Bench; 6] = [
    Bench {
        name: "admission",
        package: "live-redis",
        about: "server time, throughput and rebuilds of the fast path, against the full tree and the floor",
        draws: false,
        flushes: false,
    },
    Bench {
        name: "connections",
        package: "live-redis",
        about: "one multiplexed connection, a pool, micro-batches, against redis-benchmark",
        draws: false,
        flushes: false,
    },
    Bench {
        name: "queue",
        package: "live-redis",
        about: "enqueues, strict reads, memory, acknowledgements and doubts of the spend queue, against the floor",
        draws: false,
        flushes: false,
    },
    Bench {
        name: "commit",
        package: "iam-ledger",
        about: "events a second into PostgreSQL, against one transaction an event and bare SQL by psql",
        draws: false,
        flushes: false,
    },
    Bench {
        name: "flusher",
        package: "usage-flusher",
        about: "the flusher's process: a backlog against bare commits, its memory, idleness, latency, stops",
        draws: true,
        flushes: false,
    },
    Bench {
        name: "gateway",
        package: "gateway",
        about: "the gateway's process: overhead over its upstream alone, saturation, memory, and every bill in the ledger",
        draws: true,
        flushes: true,
    },
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which bench [default: all of them]
    name: Option<String>,
    /// Fewer and shorter rounds: figures to look at, not to publish
    #[arg(long)]
    quick: bool,
    /// Write an object with everything of each bench, each round included, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw what one bench measures to this SVG file; `flusher` and `gateway` can
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Fail when a figure falls short of what it must reach
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let benches = chosen(options.name.as_deref())?;
    if options.plot.is_some() && !matches!(benches[..], [bench] if bench.draws) {
        let able: Vec<_> = BENCHES.iter().filter(|bench| bench.draws).map(|bench| bench.name).collect();
        bail!("--plot is for one of these: {}", able.join(", "));
    }
    let folder = process::root().join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut reports = Map::new();
    let mut short = Vec::new();
    for bench in benches {
        let file = folder.join(bench.name).with_extension("json");
        let mut command = process::cargo(&["bench", "--quiet", "--locked", "--package", bench.package]);
        command.args(["--bench", bench.name, "--", "--measure", "--json"]).arg(&file);
        if options.quick {
            command.arg("--quick");
        }
        if let Some(file) = &options.plot {
            // A bench runs in its package's folder.
            command.arg("--plot").arg(std::path::absolute(file).context("the plot's path")?);
        }
        eprintln!("building {} ...", bench.name);
        if bench.flushes {
            command.env(FLUSHER, process::build_release("usage-flusher")?);
        }
        process::run(&mut command)?;
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let report: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        let figures = report["short"].as_array().into_iter().flatten().filter_map(Value::as_str);
        short.extend(figures.map(|figure| format!("{}: {figure}", bench.name)));
        reports.insert(bench.name.to_owned(), report);
    }
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&reports)? + "\n";
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    if options.check && !short.is_empty() {
        bail!("short of what is required: {}", short.join("; "));
    }
    Ok(())
}

/// The bench of that name, or all.
fn chosen(name: Option<&str>) -> Result<Vec<&'static Bench>> {
    let Some(name) = name else { return Ok(BENCHES.iter().collect()) };
    match BENCHES.iter().find(|bench| bench.name == name) {
        Some(bench) => Ok(vec![bench]),
        None => {
            let known: Vec<_> =
                BENCHES.iter().map(|bench| format!("  {}  {}", bench.name, bench.about)).collect();
            bail!("there is no bench {name:?}; there are:\n{}", known.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_bench_is_answered_with_those_that_exist() {
        let error = chosen(Some("nonsense")).err().unwrap().to_string();
        assert!(BENCHES.iter().all(|bench| error.contains(bench.name)), "{error}");
    }

    #[test]
    fn without_a_name_all_run() {
        assert_eq!(chosen(None).unwrap().len(), BENCHES.len());
        assert_eq!(chosen(Some("admission")).unwrap().len(), 1);
    }

    #[test]
    fn only_one_bench_that_can_draw_is_drawn() {
        for name in [None, Some("queue")] {
            let plot = Some("target/never.svg".into());
            let options =
                Options { name: name.map(str::to_owned), quick: true, json: None, plot, check: false };
            let error = run(&options).err().unwrap().to_string();
            assert!(error.contains("flusher, gateway"), "{error}");
        }
    }
}
