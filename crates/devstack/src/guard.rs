//! The guard: a small process that outlives ours by a moment and cleans up after it.
//!
//! A destructor does not run when a process is killed, interrupted, or ends with its servers in a `static`. What
//! always happens is that the kernel closes the process's files. So each server has a guard, a shell that reads a
//! pipe of which we hold the writing end. Each line is the process id of the server that runs now (0: none). When
//! the pipe ends, whatever the reason, the guard stops that server and removes its folder.
//!
//! The server's process id cannot be missed: the server is started by a shell that writes its own id into the pipe
//! *before* it becomes the server, and that holds the pipe open until then.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

use crate::error::{DevstackError, Result};

/// How the guard asks a server to stop: `SIGKILL` follows after ten seconds.
///
/// A guard acts only when the server's folder is thrown away, so nothing is gained by a patient shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Redis: saves if it is configured to, then exits.
    Term,
    /// PostgreSQL "fast": aborts the sessions, writes a checkpoint, exits.
    Int,
    /// PostgreSQL "immediate": exits at once, releases its shared memory (which `SIGKILL` would leave behind), and
    /// leaves the recovery to the next start.
    Quit,
}

impl Signal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Quit => "QUIT",
        }
    }
}

/// `$1` folder, `$2` signal, `$3` container. A zombie counts as ended: in a container, the process that inherits
/// orphans may never reap them. Removal is repeated because the children of a killed server write for a moment.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
pid=0
while read -r line; do
    case $line in
        keep) exit 0 ;;
        *) pid=$line ;;
    esac
done
runs() {
    kill -s 0 "$pid" 2>/dev/null || return 1
    { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 0
    case ${stat##*) } in Z*) return 1 ;; esac
}
if [ "$pid" -gt 0 ]; then
    kill -s "$2" "$pid"
    tries=0
    while runs && [ "$tries" -lt 200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    if runs; then kill -s KILL "$pid"; fi
fi
if [ -n "$3" ]; then docker rm --force --volumes "$3"; fi
tries=0
while [ -n "$1" ] && ! rm -rf -- "$1" && [ "$tries" -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
"#;

/// Our end of a guard. Dropping it makes the guard clean up, and waits until it has.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    folder: Option<PathBuf>,
}

impl Guard {
    /// Guards a server process and the folder, which from now on belongs to the guard.
    pub(crate) fn of_folder(folder: TempDir, signal: Signal) -> Result<Self> {
        let mut guard = Self::spawn(folder.path().as_os_str(), signal, "")?;
        guard.folder = Some(folder.keep());
        Ok(guard)
    }

    /// Guards a Docker container, which need not exist yet.
    pub(crate) fn of_container(name: &str) -> Result<Self> {
        Self::spawn(OsStr::new(""), Signal::Term, name)
    }

    fn spawn(folder: &OsStr, signal: Signal, container: &str) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "devstack-guard"]).arg(folder).args([signal.name(), container]);
        // Not our output: whoever reads it to its end would wait for the guard. Not our process group: the terminal
        // sends Ctrl-C to the whole group. Not our folder: it may be removed or unmounted meanwhile.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .current_dir("/");
        let mut child = command.spawn().map_err(DevstackError::io("start the guard process (sh)"))?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe, folder: None })
    }

    /// A second writing end, for the shell that becomes the server.
    pub(crate) fn pipe(&self) -> io::Result<OwnedFd> {
        let pipe = self.pipe.as_ref().ok_or_else(|| io::Error::other("the guard was dismissed"))?;
        pipe.as_fd().try_clone_to_owned()
    }

    /// Tells the guard that no server runs now, so that it never signals a process that got the same id later.
    pub(crate) fn forget(&mut self) {
        self.tell("0\n");
    }

    /// Sends the guard home: the server and its folder stay.
    pub(crate) fn dismiss(&mut self) {
        self.tell("keep\n");
        self.folder = None;
    }

    fn tell(&mut self, line: &str) {
        if let Some(pipe) = &mut self.pipe {
            // A guard that was killed cannot be told anything; our own clean-up does its work.
            let _ = pipe.write_all(line.as_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.child.wait();
        // Only if somebody killed the guard.
        if let Some(folder) = self.folder.take().filter(|folder| folder.exists()) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_has_removed_the_folder() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().to_path_buf();
        std::fs::write(path.join("a file"), "x").unwrap();
        drop(Guard::of_folder(folder, Signal::Term).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_dismissed_guard_leaves_the_folder() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().to_path_buf();
        let mut guard = Guard::of_folder(folder, Signal::Term).unwrap();
        guard.dismiss();
        drop(guard);
        assert!(path.exists());
        std::fs::remove_dir(path).unwrap();
    }

    #[test]
    fn a_killed_guard_is_replaced_by_our_own_clean_up() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().to_path_buf();
        let mut guard = Guard::of_folder(folder, Signal::Term).unwrap();
        guard.child.kill().unwrap();
        guard.forget();
        drop(guard);
        assert!(!path.exists());
    }
}
