//! The baseline: `redis-benchmark`, a C program that comes with the server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::common::load::Measured;
use crate::common::server::Server;
use crate::job::Job;

/// Commands that each of its connections has under way.
const PIPELINE: &str = "16";
/// Its connections; its own default.
const CONNECTIONS: &str = "50";
/// Calls that tell how many make up a measurement.
const TRIAL: u32 = 20_000;

/// The program, where it was found.
pub(crate) struct Benchmark(PathBuf);

impl Benchmark {
    /// Beside the program of the running server, or where the shell looks.
    pub(crate) async fn find(server: &Server) -> Result<Option<Self>> {
        let program = std::fs::read_link(format!("/proc/{}/exe", server.process().await?));
        let folder = program.ok().and_then(|program| program.parent().map(PathBuf::from));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = folder.into_iter().chain(std::env::split_paths(&path));
        let candidates =
            folders.flat_map(|folder| ["redis-benchmark", "valkey-benchmark"].map(|name| folder.join(name)));
        Ok(candidates.into_iter().find(|candidate| candidate.is_file()).map(Self))
    }

    /// So many calls as take about so long.
    pub(crate) async fn calls(&self, server: &Server, job: &Job, span: Duration) -> Result<u32> {
        let trial = self.measure(server, job, TRIAL).await?;
        let calls = Duration::from_secs(1).mul_f64(trial.rate * span.as_secs_f64()).as_secs();
        Ok(u32::try_from(calls)?.max(TRIAL))
    }

    /// What it achieves by its own account, and the server's time for a call by the server's.
    ///
    /// It inherits the core that this process is pinned to, and this process waits meanwhile.
    pub(crate) async fn measure(&self, server: &Server, job: &Job, calls: u32) -> Result<Measured> {
        let words = job.words();
        server.reset_statistics().await?;
        let output = Command::new(&self.0)
            .args(["-u", server.url(), "-c", CONNECTIONS, "-P", PIPELINE, "-n", &calls.to_string(), "--csv"])
            .args(&words)
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| self.0.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "redis-benchmark failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );

        let spent = server.calls("evalsha").await?;
        ensure!(spent.failed == 0.0, "{} of redis-benchmark's script calls failed", spent.failed);
        ensure!(spent.count >= f64::from(calls), "redis-benchmark made {} calls of {calls}", spent.count);
        // "the command","requests a second","average latency", ...
        let title = format!("\"{}\",\"", words.join(" "));
        let rate = text.lines().find_map(|line| line.strip_prefix(&title)?.split('"').next()?.parse().ok());
        let rate = rate.with_context(|| format!("redis-benchmark says no rate: {text}"))?;
        Ok(Measured { rate, batch: 1.0, micros: spent.micros / spent.count })
    }
}
