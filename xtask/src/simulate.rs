//! The deterministic simulation of the hand-off, on all cores.

use anyhow::Result;
use clap::Args;

use crate::process;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many seeds, each one run
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one object with all numbers
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    process::run(&mut command(options))
}

/// Built and run in one: a debug build is several times as slow, and many seeds are the point.
fn command(options: &Options) -> std::process::Command {
    let mut command =
        process::cargo(&["run", "--quiet", "--locked", "--release", "--package", "flush-sim", "--"]);
    command.args(["--seeds", &options.seeds.to_string(), "--seed", &options.seed.to_string()]);
    if options.json {
        command.arg("--json");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_reaches_the_simulation() {
        let command = command(&Options { seeds: 5, seed: 7, json: true });
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let own = words.iter().skip_while(|word| *word != "--").skip(1);
        assert_eq!(own.collect::<Vec<_>>(), ["--seeds", "5", "--seed", "7", "--json"]);
    }
}
