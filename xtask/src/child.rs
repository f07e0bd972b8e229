//! Programs that run beside this one: started, listened to, stopped as asked, and never left behind.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a program may take from SIGTERM to its end.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Outlives us by a moment. A line on its input dismisses it; the end of its input without one means that we are gone,
/// whatever the reason, and ends the program `$1`.
const GUARD: &str = r#"trap '' HUP INT TERM; read -r _ || kill -s TERM "$1""#;

/// Which output of a program is listened to. Both go to its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    Stdout,
    Stderr,
}

/// A running program.
pub(crate) struct Child {
    name: &'static str,
    log: PathBuf,
    process: process::Child,
    guard: Option<Guard>,
    heard: Option<Receiver<String>>,
}

struct Guard {
    process: process::Child,
    pipe: ChildStdin,
}

impl Child {
    /// Starts a program whose output is appended to `log`.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        listen: Listen,
        log: &Path,
    ) -> Result<Self> {
        let file = || File::options().create(true).append(true).open(log);
        let opened = || format!("creating {}", log.display());
        let (stdout, stderr) = match listen {
            Listen::Stdout => (Stdio::piped(), file().with_context(opened)?.into()),
            Listen::Stderr => (file().with_context(opened)?.into(), Stdio::piped()),
        };
        // A group of its own, so that Ctrl-C in a terminal leaves the stopping, and its order, to us.
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        let mut process = command
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))?;
        let guard = Some(Guard::of(process.id())?);
        let output: Option<Box<dyn Read + Send>> = match listen {
            Listen::Stdout => process.stdout.take().map(|output| Box::new(output) as _),
            Listen::Stderr => process.stderr.take().map(|output| Box::new(output) as _),
        };
        let (tell, heard) = channel();
        let file = file().with_context(opened)?;
        if let Some(output) = output {
            thread::spawn(move || copy(output, file, &tell));
        }
        Ok(Self { name, log: log.to_owned(), process, guard, heard: Some(heard) })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it is called, for people.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// The next line, unless none comes in time. An error when it has ended by itself.
    pub(crate) fn line(&mut self, within: Duration) -> Result<Option<String>> {
        let heard =
            self.heard.as_ref().map_or(Err(RecvTimeoutError::Timeout), |heard| heard.recv_timeout(within));
        match heard {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.process.wait().with_context(|| format!("waiting for {}", self.name))?;
                Err(self.gone(status))
            }
        }
    }

    /// Waits for the line that `pick` recognises; nobody listens afterwards.
    pub(crate) fn wait_for<T>(&mut self, within: Duration, pick: impl Fn(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(line) = self.line(left)? else {
                bail!(
                    "{} did not come up within {within:?}; its log ends with\n{}",
                    self.name,
                    tail(&self.log)
                );
            };
            if let Some(found) = pick(&line) {
                self.heard = None;
                return Ok(found);
            }
        }
    }

    /// An error when it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.process.try_wait().with_context(|| format!("looking at {}", self.name))? {
            None => Ok(()),
            Some(status) => Err(self.gone(status)),
        }
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.dismiss();
        self.process.kill().with_context(|| format!("killing {}", self.name))?;
        self.process.wait().with_context(|| format!("waiting for the killed {}", self.name))?;
        Ok(())
    }

    /// Asks it to stop (SIGTERM) and waits; an error when it had to be killed or failed.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.check()?;
        let signalled = Command::new("kill").arg("-TERM").arg(self.id().to_string()).status();
        if !signalled.context("cannot run kill")?.success() {
            bail!("{} is gone already", self.name);
        }
        let asked = Instant::now();
        loop {
            match self.process.try_wait().with_context(|| format!("waiting for {}", self.name))? {
                Some(status) => {
                    self.dismiss();
                    if status.success() {
                        return Ok(());
                    }
                    bail!("{} stopped with {status}; its log ends with\n{}", self.name, tail(&self.log));
                }
                None if asked.elapsed() > STOP_WITHIN => {
                    self.kill()?;
                    bail!("{} did not stop within {STOP_WITHIN:?} of SIGTERM", self.name);
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn gone(&mut self, status: ExitStatus) -> anyhow::Error {
        self.dismiss();
        let Self { name, log, .. } = self;
        anyhow::anyhow!("{name} ended by itself ({status}); {} ends with\n{}", log.display(), tail(log))
    }

    /// Its process id may be another's from now on.
    fn dismiss(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Not stopped: an error is on its way to the user, and the others must not outlive it.
        if self.guard.is_some() {
            let _ = self.kill();
        }
    }
}

impl Guard {
    fn of(process: u32) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "xtask-guard", &process.to_string()]).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().context("cannot start sh")?;
        let pipe = process.stdin.take().context("sh has no standard input")?;
        Ok(Self { process, pipe })
    }

    fn dismiss(mut self) {
        // One that is gone needs no word.
        let _ = self.pipe.write_all(b"keep\n");
        drop(self.pipe);
        let _ = self.process.wait();
    }
}

/// Whether there is a process with this id.
pub(crate) fn is_running(id: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-0", id]).stdout(Stdio::null()).stderr(Stdio::null());
    kill.status().is_ok_and(|status| status.success())
}

/// Copies lines to the log, and tells them as long as somebody listens.
fn copy(output: impl Read, mut log: File, tell: &Sender<String>) {
    for line in BufReader::new(output).lines().map_while(io::Result::ok) {
        let _ = writeln!(log, "{line}");
        let _ = tell.send(line);
    }
}

/// The end of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(name: &'static str, script: &str) -> (Child, PathBuf) {
        let log = std::env::temp_dir().join(format!("xtask-child-{}-{name}", process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        (Child::start(name, command, Listen::Stderr, &log).unwrap(), log)
    }

    #[test]
    fn a_line_is_waited_for_and_a_program_that_ends_well_was_stopped() {
        let (mut child, log) =
            shell("good", "trap 'exit 0' TERM; echo up 7 >&2; while :; do sleep 0.01; done");
        let port = child.wait_for(SOON, |line| line.strip_prefix("up ").map(str::to_owned)).unwrap();
        assert_eq!(port, "7");
        child.check().unwrap();
        child.stop().unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "up 7\n");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_that_ends_by_itself_is_an_error_with_its_last_words() {
        let (mut child, log) = shell("bad", "echo no such thing >&2; exit 3");
        let error = child.wait_for(SOON, |line| line.strip_prefix("up").map(drop)).unwrap_err().to_string();
        assert!(error.contains("bad ended by itself") && error.contains("no such thing"), "{error}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_guard_ends_the_program_when_nobody_dismisses_it() {
        let mut program = Command::new("sleep").arg("600").spawn().unwrap();
        let mut guard = Guard::of(program.id()).unwrap();
        drop(guard.pipe);
        assert!(!program.wait().unwrap().success());
        guard.process.wait().unwrap();
    }
}
