//! Tries inputs on the targets for a while, where there is no libFuzzer.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use fuzz_bodies::{TARGETS, Target, search, target};

/// Try changed seeds and random bytes on the bodies of the fuzz targets
#[derive(Debug, Parser)]
#[command(name = "fuzz-bodies", max_term_width = 110)]
struct Cli {
    /// The target [default: each of them]
    target: Option<String>,
    /// How long each target is tried, in seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let asked: Vec<Target> = match &cli.target {
        None => TARGETS.to_vec(),
        Some(name) => vec![target(name).with_context(|| {
            format!("no target {name:?}; there are {}", TARGETS.map(|target| target.name).join(", "))
        })?],
    };
    // Each panic is told once, by what it was made small to.
    std::panic::set_hook(Box::new(|_| {}));
    for target in asked {
        let seeds = target.seeds().with_context(|| format!("reading {}", target.corpus().display()))?;
        let seeds: Vec<_> = seeds.into_iter().map(|seed| seed.bytes).collect();
        match search::try_for(target, &seeds, Duration::from_secs(cli.seconds)) {
            Ok(tried) => println!("{:<14}{tried:>12} inputs, nothing found", target.name),
            Err(broken) => {
                let path = broken.keep(target).context("keeping what was found")?;
                let bytes = broken.bytes.escape_ascii();
                bail!("{}: {}\n  input: {bytes}\n  kept as {}", target.name, broken.reason, path.display());
            }
        }
    }
    Ok(())
}
