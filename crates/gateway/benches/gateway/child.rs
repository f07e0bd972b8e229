//! A program that runs beside the bench.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child as Inner, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench_frame::process::Process;

/// Far beyond what a start or a stop may take.
const GIVE_UP: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

pub(crate) struct Child {
    name: &'static str,
    inner: Inner,
    log: PathBuf,
}

/// A program without any of the surrounding settings.
pub(crate) fn program(path: impl AsRef<Path>) -> Command {
    let mut command = Command::new(path.as_ref());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

impl Child {
    /// Starts a program that logs JSON on standard error.
    pub(crate) fn start(name: &'static str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(name).with_extension("log");
        let inner =
            command.stderr(File::create(&log)?).spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name, inner, log })
    }

    /// Where it listens, as its log says when it does.
    pub(crate) fn address(&mut self) -> Result<SocketAddr> {
        let asked = Instant::now();
        loop {
            let log = fs::read_to_string(&self.log)?;
            // Its last line may not be whole yet.
            for line in log.lines() {
                let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
                if line["message"] == "listening" {
                    return Ok(line["address"].as_str().context("no address in the log")?.parse()?);
                }
            }
            if let Some(status) = self.inner.try_wait()? {
                bail!("{} ended with {status}:\n{log}", self.name);
            }
            ensure!(asked.elapsed() < GIVE_UP, "{} does not listen after {GIVE_UP:?}", self.name);
            sleep(POLL);
        }
    }

    pub(crate) fn process(&self) -> Process {
        Process::new(self.inner.id())
    }

    /// Lines of its log that tell of something wrong.
    pub(crate) fn complaints(&self) -> Result<Vec<String>> {
        let log = fs::read_to_string(&self.log)?;
        let wrong = |line: &&str| line.contains("\"level\":\"WARN\"") || line.contains("\"level\":\"ERROR\"");
        Ok(log.lines().filter(wrong).map(str::to_owned).collect())
    }

    /// Tells it to stop as a supervisor does it, and expects that it ends well.
    pub(crate) fn terminate(mut self) -> Result<()> {
        ensure!(self.inner.try_wait()?.is_none(), "{} ended by itself", self.name);
        let sent = Command::new("kill").arg("-TERM").arg(self.inner.id().to_string()).status()?;
        ensure!(sent.success(), "{} could not be told to stop", self.name);
        let asked = Instant::now();
        loop {
            if let Some(status) = self.inner.try_wait()? {
                ensure!(status.success(), "{} ended with {status}", self.name);
                return Ok(());
            }
            ensure!(asked.elapsed() < GIVE_UP, "{} did not stop within {GIVE_UP:?}", self.name);
            sleep(POLL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Ended already, or the bench has failed: nobody is left to tell.
        let _ = self.inner.kill();
        let _ = self.inner.wait();
    }
}
