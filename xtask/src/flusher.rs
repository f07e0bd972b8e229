//! The flusher as a process of its own: started, killed on purpose, started again, and stopped as asked.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::child::{Child, Listen};

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

impl Supervised {
    /// Starts the flusher and its watcher.
    pub(crate) fn start(plan: Plan) -> Result<Self> {
        let (stop, stopped) = channel();
        // What an earlier run left is not this one's.
        fs::File::create(&plan.log).with_context(|| format!("creating {}", plan.log.display()))?;
        let first = plan.start()?;
        let thread = thread::spawn(move || watch(&plan, first, &stopped));
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

impl Plan {
    fn start(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(["run", "--log-format", "json"]);
        command.envs(self.env.iter().map(|(name, value)| (*name, value)));
        Child::start("the flusher", command, Listen::Stderr, &self.log)
    }
}

/// Kills the flusher after commits, a few batches apart, until it has been killed often enough; starts it again
/// each time. A commit is logged before its acknowledgement is sent, so the kill falls between the two or soon
/// after: the moment at which a bill could be lost or charged twice.
fn watch(plan: &Plan, mut flusher: Child, stopped: &Receiver<()>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut until_kill = 2;
    loop {
        if let Err(TryRecvError::Disconnected) = stopped.try_recv() {
            flusher.stop()?;
            return Ok(outcome);
        }
        let line = flusher.line(Duration::from_millis(20))?;
        if !line.is_some_and(|line| is_commit(&line)) {
            continue;
        }
        outcome.batches += 1;
        until_kill -= 1;
        if until_kill <= 0 && outcome.killed < plan.kills {
            flusher.kill()?;
            outcome.killed += 1;
            until_kill = 3;
            flusher = plan.start()?;
        }
    }
}

fn is_commit(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|entry| entry["message"] == "batch committed")
}
