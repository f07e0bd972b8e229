//! The flusher's command line.

mod cli;
mod logging;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(cli.log_format);
    let done = match cli.command {
        Command::Run(options) => run::run(options).await,
        Command::Migrate(options) => run::migrate(options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
