//! A server as a child process with a guard, a folder and a log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::error::{DevstackError, Result};
use crate::guard::{Guard, Signal};
use crate::user::User;

/// Writes its own process id for the guard, then becomes the program. It gives up the guard's pipe, its standard
/// output, in the same step; if the guard is gone, the write fails and no unguarded server is left behind.
const BECOME: &str = r#"echo "$$" && exec "$@" >&2"#;

const POLL: Duration = Duration::from_millis(5);

/// How long a server that is being thrown away may take before it is killed.
const DISCARD_WITHIN: Duration = Duration::from_secs(10);

/// One program to run.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Written to the program's standard input, so that secrets do not show in the list of processes.
    pub(crate) stdin: String,
    /// Written into the folder first; name and text.
    pub(crate) files: Vec<(&'static str, String)>,
    pub(crate) user: Option<User>,
}

/// A guarded folder in which one program at a time runs.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    guard: Guard,
    folder: PathBuf,
    discard: Signal,
    child: Option<Child>,
    /// Where the log of the current run begins.
    run_start: u64,
}

impl ServerProcess {
    /// Guards `folder`; nothing runs yet. `discard` stops the server when it is thrown away.
    pub(crate) fn new(folder: TempDir, discard: Signal) -> Result<Self> {
        let path = folder.path().to_path_buf();
        let guard = Guard::of_folder(folder, discard)?;
        Ok(Self { guard, folder: path, discard, child: None, run_start: 0 })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts a program. Its output is appended to the log.
    pub(crate) fn launch(&mut self, launch: &Launch) -> Result<()> {
        let doing = || DevstackError::io(format!("start {}", launch.program.display()));
        let log = File::options().create(true).append(true).open(self.log()).map_err(doing())?;
        self.run_start = log.metadata().map_err(doing())?.len();
        for (name, text) in &launch.files {
            std::fs::write(self.folder.join(name), text).map_err(doing())?;
        }
        let mut command = Command::new("sh");
        command.args(["-c", BECOME, "devstack-server"]).arg(&launch.program).args(&launch.args);
        command.stdin(Stdio::piped()).stdout(self.guard.pipe().map_err(doing())?).stderr(log);
        // A group of its own, so that Ctrl-C in a terminal leaves the stopping to us or to the guard; messages in
        // English, because we look for some of them.
        command.process_group(0).current_dir(&self.folder).env("LC_ALL", "C");
        if let Some(User { uid, gid }) = launch.user {
            command.uid(uid).gid(gid);
        }
        let mut child = command.spawn().map_err(doing())?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ended already is noticed by whoever waits for its answer, with its log.
            let _ = stdin.write_all(launch.stdin.as_bytes());
        }
        self.child = Some(child);
        Ok(())
    }

    /// How the program ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.guard.forget();
        self.child = None;
        Some(status)
    }

    /// Waits for the program's end; `None` if it still runs after that time.
    pub(crate) fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            let status = self.ended();
            if status.is_some() || self.child.is_none() || Instant::now() >= deadline {
                return status;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends `SIGKILL` and waits for the end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            self.guard.forget();
            let _ = child.wait();
        }
    }

    /// Asks the program to stop; kills it if it has not in time. Whether it stopped by itself.
    pub(crate) fn stop(&mut self, signal: Signal, within: Duration) -> bool {
        let Some(pid) = self.pid() else { return true };
        send(signal, pid);
        let stopped = self.wait(within).is_some();
        self.kill();
        stopped
    }

    /// Everything the current run has logged.
    pub(crate) fn run_log(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(self.log())?;
            file.seek(SeekFrom::Start(self.run_start))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_or_else(|e| format!("(no log: {e})"), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Leaves the program and the folder to themselves.
    pub(crate) fn keep(&mut self) -> Option<u32> {
        self.guard.dismiss();
        self.child.take().map(|child| child.id())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // We reap our own child here; the guard, dropped next, finds nothing to stop and removes the folder.
        self.stop(self.discard, DISCARD_WITHIN);
    }
}

/// `std` can only send `SIGKILL`. The shell's own `kill`, because a small machine may have no other.
fn send(signal: Signal, pid: u32) {
    let mut command = Command::new("sh");
    command.args(["-c", r#"kill -s "$1" "$2""#, "devstack-kill", signal.name(), &pid.to_string()]);
    // A process that ended meanwhile is no failure.
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// The last lines of a log, indented.
pub(crate) fn log_end(log: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<&str> = log.lines().collect();
    let end = &lines[lines.len().saturating_sub(LINES)..];
    end.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (ServerProcess, Launch) {
        let process = ServerProcess::new(TempDir::new().unwrap(), Signal::Term).unwrap();
        let args = ["-c", script].map(OsString::from).to_vec();
        (process, Launch { program: "/bin/sh".into(), args, ..Launch::default() })
    }

    #[test]
    fn the_log_holds_both_outputs_of_the_current_run_only() {
        let (mut process, mut launch) = shell("cat; echo to stderr >&2");
        for text in ["first", "second"] {
            launch.stdin = format!("{text}\n");
            process.launch(&launch).unwrap();
            assert!(process.wait(Duration::from_secs(10)).unwrap().success());
            assert_eq!(process.run_log(), format!("{text}\nto stderr\n"));
        }
    }

    #[test]
    fn a_program_that_ignores_the_signal_is_killed() {
        let (mut process, launch) = shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
        process.launch(&launch).unwrap();
        while !process.run_log().contains("up") {
            std::thread::yield_now();
        }
        assert!(!process.stop(Signal::Term, Duration::from_millis(50)));
        assert_eq!(process.pid(), None);
    }

    #[test]
    fn a_missing_program_ends_and_says_so_in_the_log() {
        let (mut process, launch) = shell("");
        process.launch(&Launch { program: "/no/such/program".into(), ..launch }).unwrap();
        assert!(!process.wait(Duration::from_secs(10)).unwrap().success());
        assert!(process.run_log().contains("/no/such/program"), "{}", process.run_log());
    }

    #[test]
    fn the_end_of_a_long_log_is_short() {
        let log: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let end = log_end(&log);
        assert_eq!(end.lines().count(), 20);
        assert!(end.ends_with("  line 99"));
        assert_eq!(log_end(""), "");
    }
}
