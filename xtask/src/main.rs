//! The project's commands, one module each. `cargo xtask --help` lists them.

mod bench;
mod chaos;
mod child;
mod ci;
mod demo;
mod e2e;
mod flusher;
mod fuzz;
mod mutants;
mod process;
mod proofs;
mod python;
mod queries;
mod simulate;
mod stack;
mod test;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tallyweir's commands: they find or install the services that they need.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replay a workload through private services and prove the books: the main job
    Demo(demo::Options),
    /// Start the whole stack to play with, and print lines to paste; Ctrl-C stops it
    Up(up::Options),
    /// Run every test, service tests included
    Test(test::Options),
    /// What a change must pass: formatting, lints, docs, proofs, query cache, tests, mutants of what changed, end to end, a minute of
    /// chaos
    Ci,
    /// Measure, each bench against its baseline in the same run; without a name, all that have one
    Bench(bench::Options),
    /// Run the hand-off from queue to ledger under faults, one deterministic run a seed
    Simulate(simulate::Options),
    /// Make faults on real servers and processes under load, then check the books independently
    Chaos(chaos::Options),
    /// Look for bytes that break a reader: cargo-fuzz where there is a nightly compiler, else random changes of the seeds
    Fuzz(fuzz::Options),
    /// Drive the whole stack with the official OpenAI client, and check the ledger against what it counted
    E2e(e2e::Options),
    /// Prove the step of incremental admission for all integers, and that planted mistakes are refuted
    Proofs(proofs::Options),
    /// Change the pure crates one expression at a time; a change that no test notices fails
    Mutants(mutants::Options),
    /// Check the committed query cache (.sqlx) against a fresh database, or write it anew
    Queries(queries::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Up(options) => up::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Ci => ci::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Chaos(options) => chaos::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::E2e(options) => e2e::run(&options),
        Command::Proofs(options) => proofs::run(&options),
        Command::Mutants(options) => mutants::run(&options),
        Command::Queries(options) => queries::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
