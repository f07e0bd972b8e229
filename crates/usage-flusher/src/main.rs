//! The flusher's command line.

mod cli;
mod dead_letters;
mod doctor;
mod logging;
mod redis_args;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(cli.log_format);
    let done = match cli.command {
        Command::Run(options) => run::run(options).await.map(|()| true),
        Command::Migrate(options) => run::migrate(options).await.map(|()| true),
        Command::Doctor(options) => doctor::run(options).await,
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
