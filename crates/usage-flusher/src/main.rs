//! The flusher's command line.

mod audit;
mod cli;
mod dead_letters;
mod doctor;
mod environment;
mod logging;
mod operator;
mod redis_args;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(cli.log_format);
    environment::warn_of_unknown();
    let done = match cli.command {
        Command::Run(options) => run::run(options).await.map(|()| true),
        Command::Migrate(options) => run::migrate(options).await.map(|()| true),
        Command::Doctor(options) => doctor::run(options).await,
        Command::Status(options) => operator::status(options).await.map(|()| true),
        Command::Peek(options) => operator::peek(options).await.map(|()| true),
        Command::Quarantine(options) => operator::quarantine(options).await,
        Command::Audit(options) => audit::audit(options).await,
        Command::Repair(options) => operator::repair(options).await,
        Command::Report(options) => report::run(options).await.map(|()| true),
        Command::DeadLetters(options) => dead_letters::run(options).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // The report has said why.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
