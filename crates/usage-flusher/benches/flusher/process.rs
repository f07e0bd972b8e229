//! The flusher as a process: its memory, its processor time, its end.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::stack::Stack;

/// In what the kernel counts processor time for programs, whatever its own clock: a constant of its interface.
const TICK: Duration = Duration::from_millis(10);
/// Far beyond what a stop may take.
const GIVE_UP: Duration = Duration::from_secs(30);

pub(crate) struct FlusherProcess {
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl FlusherProcess {
    /// Started as it is deployed: default pace, endpoints served, JSON log. Only their addresses are ours.
    pub(crate) fn start(stack: &Stack) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_usage-flusher"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
            command.env_remove(name);
        }
        let log = stack.folder().join("flusher.log");
        let lines = File::options().create(true).append(true).open(&log)?;
        let child = command
            .args(["run", "--log-format", "json", "--listen", "127.0.0.1:0"])
            .env("TALLYWEIR_REDIS_URL", stack.redis_url())
            .env("TALLYWEIR_DATABASE_URL", stack.database_url())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stderr(lines)
            .spawn()
            .context("starting the flusher")?;
        Ok(Self { child, log, started: Instant::now() })
    }

    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    /// Resident memory now, in MiB.
    pub(crate) fn rss(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most that it ever was, in MiB.
    pub(crate) fn peak_rss(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.split_whitespace().next()).context("the flusher is gone")?;
        Ok(kib.parse::<f64>()? / 1_024.0)
    }

    /// Processor time of all its threads since its start, in steps of 10 ms.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is a name in parentheses, which may hold anything.
        let (_, fields) = text.rsplit_once(") ").context("/proc/PID/stat")?;
        let mut times = fields.split(' ').skip(11).map(str::parse::<u32>);
        let mut next = || times.next().context("/proc/PID/stat ends early");
        let (user, system) = (next()??, next()??);
        Ok(TICK * (user + system))
    }

    /// Seconds spent in each phase of all batches since its start, by its own metrics: the rest of its time it waited.
    pub(crate) fn phases(&self) -> Result<Vec<(&'static str, f64)>> {
        let log = fs::read_to_string(&self.log)?;
        // The last start's: a folder has one log.
        let address = log.rsplit_once("\"address\":\"").and_then(|(_, rest)| rest.split('"').next());
        let mut endpoint = TcpStream::connect(address.context("the flusher serves no endpoints")?)?;
        endpoint.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
        let mut text = String::new();
        endpoint.read_to_string(&mut text)?;
        let seconds = |phase: &'static str| {
            let name = format!("tallyweir_batch_seconds_sum{{phase=\"{phase}\"}} ");
            let sum = text.lines().find_map(|line| line.strip_prefix(name.as_str()));
            Ok((phase, sum.with_context(|| format!("no {name}in the metrics"))?.trim().parse()?))
        };
        ["peek", "commit", "ack"].into_iter().map(seconds).collect()
    }

    /// Told to stop as a supervisor does it; how long it took, and the exit code (none: a signal ended it).
    pub(crate) fn terminate(mut self) -> Result<(Duration, Option<i32>)> {
        ensure!(self.child.try_wait()?.is_none(), "the flusher ended by itself");
        let asked = Instant::now();
        let sent = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        ensure!(sent.success(), "the flusher could not be told to stop");
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok((asked.elapsed(), status.code())),
                None if asked.elapsed() > GIVE_UP => bail!("the flusher did not stop within {GIVE_UP:?}"),
                None => sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Drop for FlusherProcess {
    fn drop(&mut self) {
        // Ended already, or the bench has failed: nobody is left to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
