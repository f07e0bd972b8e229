//! The flusher as a process of its own: started, killed on purpose, started again, and stopped as asked.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How a supervised flusher is run.
pub(crate) struct Plan {
    /// The binary.
    pub(crate) program: PathBuf,
    /// Its environment: URLs and prefix.
    pub(crate) env: Vec<(&'static str, String)>,
    /// How often to kill it on the way.
    pub(crate) kills: u32,
    /// Where its log goes.
    pub(crate) log: PathBuf,
}

/// A flusher that a thread watches over.
pub(crate) struct Supervised {
    stop: Sender<()>,
    thread: thread::JoinHandle<Result<Outcome>>,
}

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How often it was killed with SIGKILL, right after it had logged a commit.
    pub(crate) killed: u32,
    /// How many batches the killed and the last process together have committed.
    pub(crate) batches: u64,
}

/// What the watching thread hears of.
enum Heard {
    Line(String),
    Ended,
}

impl Supervised {
    /// Starts the flusher and its watcher.
    pub(crate) fn start(plan: Plan) -> Result<Self> {
        let (stop, stopped) = channel();
        let log = fs::File::create(&plan.log).with_context(|| format!("creating {}", plan.log.display()))?;
        let first = spawn(&plan)?;
        let thread = thread::spawn(move || watch(&plan, first, log, &stopped));
        Ok(Self { stop, thread })
    }

    /// Asks it to stop (SIGTERM) and waits; an error when it had to be killed or failed.
    pub(crate) fn stop(self) -> Result<Outcome> {
        drop(self.stop);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("the flusher's watcher died"),
        }
    }
}

fn spawn(plan: &Plan) -> Result<(Child, Receiver<Heard>)> {
    let mut child = Command::new(&plan.program)
        .args(["run", "--log-format", "json"])
        .envs(plan.env.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", plan.program.display()))?;
    let (tell, heard) = channel();
    if let Some(lines) = child.stderr.take() {
        thread::spawn(move || listen(lines, &tell));
    }
    Ok((child, heard))
}

fn listen(lines: ChildStderr, tell: &Sender<Heard>) {
    for line in BufReader::new(lines).lines().map_while(io::Result::ok) {
        if tell.send(Heard::Line(line)).is_err() {
            return;
        }
    }
    let _ = tell.send(Heard::Ended);
}

/// Kills the flusher after commits, a few batches apart, until it has been killed often enough; starts it again
/// each time. A commit is logged before its acknowledgement is sent, so the kill falls between the two or soon
/// after: the moment at which a bill could be lost or charged twice.
fn watch(
    plan: &Plan,
    (mut child, mut heard): (Child, Receiver<Heard>),
    mut log: fs::File,
    stopped: &Receiver<()>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut until_kill = 2;
    loop {
        if let Err(std::sync::mpsc::TryRecvError::Disconnected) = stopped.try_recv() {
            terminate(&mut child)?;
            while let Ok(Heard::Line(line)) = heard.recv() {
                writeln!(log, "{line}").context("writing the flusher's log")?;
            }
            return Ok(outcome);
        }
        match heard.recv_timeout(Duration::from_millis(20)) {
            Ok(Heard::Line(line)) => {
                writeln!(log, "{line}").context("writing the flusher's log")?;
                if !is_commit(&line) {
                    continue;
                }
                outcome.batches += 1;
                until_kill -= 1;
                if until_kill <= 0 && outcome.killed < plan.kills {
                    child.kill().context("killing the flusher")?;
                    child.wait().context("waiting for the killed flusher")?;
                    outcome.killed += 1;
                    until_kill = 3;
                    (child, heard) = spawn(plan)?;
                }
            }
            Ok(Heard::Ended) => {
                let status = child.wait().context("waiting for the flusher")?;
                bail!("the flusher ended by itself ({status}); its log is {}", plan.log.display());
            }
            Err(_) => {}
        }
    }
}

fn is_commit(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|entry| entry["message"] == "batch committed")
}

fn terminate(child: &mut Child) -> Result<()> {
    const BOUND: Duration = Duration::from_secs(10);
    let signalled = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    if !signalled.context("cannot run kill")?.success() {
        bail!("the flusher is gone already");
    }
    let asked = Instant::now();
    loop {
        match child.try_wait().context("waiting for the flusher")? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("the flusher stopped with {status}"),
            None if asked.elapsed() > BOUND => {
                child.kill().context("killing the flusher")?;
                bail!("the flusher did not stop within {BOUND:?} of SIGTERM");
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The end of a flusher's log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
