//! Flags and environment variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use service_frame::connection::RedisConnection;
use service_frame::logging::LogFormat;
use service_frame::start::{self, StartOptions};
use service_frame::values::{address, millis};
use service_frame::{command_line, environment, logging};

use crate::admin;
use crate::connection::KeyringConnection;
use crate::{check, run, spool};

/// A small OpenAI-compatible gateway: limits, budgets and bills by Tallyweir.
///
/// Any number may run at the same time and share all limits. Every flag can be given as an environment variable instead.
#[derive(Debug, Parser)]
#[command(name = "tallyweir-gateway", version, max_term_width = 110)]
pub(crate) struct Cli {
    /// How to log on standard error: `auto` is text on a terminal and JSON elsewhere. RUST_LOG filters.
    #[arg(long, global = true, env = "TALLYWEIR_LOG_FORMAT", default_value = "auto")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve until SIGTERM or SIGINT; what is under way then is finished within the grace, or cut and billed
    Run(Box<RunOptions>),
    /// Read a configuration and say what it means; exit code 2 if it is none
    Check(CheckOptions),
    /// Create or update organizations, teams, projects, users and keys as a file says
    Tenant(admin::TenantOptions),
    /// Give a key another secret, block it or unblock it
    Key(admin::KeyCommand),
    /// Set what a scope may spend
    Budget(admin::BudgetOptions),
    /// Look into the spool of a stopped gateway, and take out conflicts that were dealt with
    Spool(spool::SpoolCommand),
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Models, deployments, prices and limits: a TOML file
    #[arg(long, env = "TALLYWEIR_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Where to serve, such as 127.0.0.1:8080; port 0 takes any free one
    #[arg(long, env = "TALLYWEIR_GATEWAY_LISTEN", value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Where bills wait, fsynced, that Redis did not take [default: none, so that such a request fails]
    #[arg(long, env = "TALLYWEIR_SPOOL", value_name = "FILE")]
    pub(crate) spool: Option<PathBuf>,
    /// Longest wait for what is under way when told to stop, in milliseconds
    #[arg(long, env = "TALLYWEIR_SHUTDOWN_GRACE_MS", default_value = "4000", value_parser = millis)]
    pub(crate) shutdown_grace_ms: Duration,
    #[command(flatten)]
    pub(crate) keyring: KeyringConnection,
    #[command(flatten)]
    pub(crate) redis: RedisConnection,
    #[command(flatten)]
    pub(crate) start: StartOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The TOML file
    #[arg(long, env = "TALLYWEIR_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// Runs the command that the arguments name.
pub async fn main() -> ExitCode {
    let cli: Cli = match command_line::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    logging::start(cli.log_format);
    environment::warn_of_unknown::<Cli>();
    let done = match cli.command {
        Command::Run(options) => run::run(*options).await,
        Command::Check(options) => return check::run(&options),
        Command::Tenant(options) => admin::run(admin::Command::Tenant(options)).await,
        Command::Key(command) => admin::run(admin::Command::Key(command)).await,
        Command::Budget(options) => admin::run(admin::Command::Budget(options)).await,
        Command::Spool(command) => spool::run(command).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            start::exit_code(&error)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn secrets_are_not_shown_when_options_are_printed() {
        let args = "gateway run --config c --listen 127.0.0.1:0 --redis-url redis://:canary@h --database-url postgres://u:canary@h/d --pepper canary";
        let cli = Cli::try_parse_from(args.split(' ')).unwrap();
        assert!(!format!("{cli:?}").contains("canary"));
    }
}
