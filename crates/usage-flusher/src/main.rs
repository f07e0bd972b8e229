//! The flusher's command line.

mod audit;
mod cli;
mod dead_letters;
mod doctor;
mod operator;
mod report;
mod run;
#[cfg_attr(not(feature = "otel"), path = "trace_export/absent.rs")]
mod trace_export;
mod values;

use std::process::ExitCode;

use service_frame::{command_line, environment, logging, start};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::{Cli, Command};
use crate::trace_export::TraceExport;

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { log_format, command } = match command_line::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let export = match start_export(&command) {
        Ok(export) => export,
        Err(error) => return failed(&error),
    };
    logging::start_with(log_format, |lines| {
        tracing_subscriber::registry().with(lines).with(export.as_ref().map(TraceExport::layer)).init();
    });
    environment::warn_of_unknown::<Cli>();
    let done = match command {
        Command::Run(options) => run::run(options, export).await.map(|()| true),
        Command::Migrate(options) => run::migrate(options).await.map(|()| true),
        Command::Doctor(options) => doctor::run(options).await,
        Command::Status(options) => operator::status(options).await.map(|()| true),
        Command::Peek(options) => operator::peek(options).await.map(|()| true),
        Command::Quarantine(options) => operator::quarantine(options).await,
        Command::Losses(options) => operator::losses(options).await,
        Command::Audit(options) => {
            return audit::audit(options).await.map_or_else(|error| failed(&error), ExitCode::from);
        }
        Command::Repair(options) => operator::repair(options).await,
        Command::Report(options) => report::run(options).await.map(|()| true),
        Command::DeadLetters(options) => dead_letters::run(options).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // The report has said why.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

/// Only the service itself is traced.
fn start_export(command: &Command) -> anyhow::Result<Option<TraceExport>> {
    match command {
        Command::Run(options) => options.trace.start(),
        _ => Ok(None),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    start::exit_code(error)
}
