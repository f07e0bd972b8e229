//! The gateway's command line.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    gateway::main().await
}
