//! The mock as a process.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use mock_upstream::{MockOptions, MockUpstream};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// An OpenAI-compatible upstream for tests. Prints {"listening":"http://IP:PORT"} when it accepts connections.
#[derive(Debug, Parser)]
#[command(name = "mock-upstream", max_term_width = 110)]
struct Cli {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Milliseconds from a request to the beginning of its answer
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    latency_ms: u64,
    /// Milliseconds from token to token of a stream
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    token_interval_ms: u64,
    /// Append the journal to this file
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Refuse requests that do not show the API key in this environment variable
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let key = |name: String| std::env::var(&name).with_context(|| format!("--api-key-env {name}"));
    // Heard from here on, so that none comes too early.
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mock = MockUpstream::start(MockOptions {
        listen: cli.listen,
        latency: Duration::from_millis(cli.latency_ms),
        token_interval: Duration::from_millis(cli.token_interval_ms),
        journal: cli.journal,
        api_key: cli.api_key_env.map(key).transpose()?.map(Into::into),
    })?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", json!({ "listening": mock.url() }))?;
    stdout.flush()?;
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    mock.stop();
    Ok(())
}
