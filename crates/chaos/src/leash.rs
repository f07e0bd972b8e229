//! A leash for processes that must not outlive ours.
//!
//! A destructor does not run when a process is killed; what always happens is that the kernel closes its files. So a small
//! shell reads a pipe of which we hold the writing end, knows from it which processes run, and kills them when it ends.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

const SCRIPT: &str = r#"
trap '' HUP INT TERM
pids=
while read -r word pid; do
    kept=
    for known in $pids; do [ "$known" = "$pid" ] || kept="$kept $known"; done
    pids=$kept
    [ "$word" = add ] && pids="$pids $pid"
done
for pid in $pids; do kill -s KILL "$pid" 2>/dev/null; done
"#;

/// Our end of it. Dropping it kills whatever is still on it.
#[derive(Debug)]
pub(crate) struct Leash {
    shell: Child,
}

impl Leash {
    pub(crate) fn new() -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "chaos-leash"]);
        // Not our output: whoever reads it to its end would wait. Not our group: Ctrl-C goes to the whole group.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { shell: command.spawn().context("cannot start a shell")? })
    }

    /// Puts a process on it.
    pub(crate) fn add(&mut self, pid: u32) -> Result<()> {
        self.tell("add", pid)
    }

    /// Takes a process off it that has been waited for, so that no other with its id is ever killed.
    pub(crate) fn remove(&mut self, pid: u32) -> Result<()> {
        self.tell("remove", pid)
    }

    fn tell(&mut self, word: &str, pid: u32) -> Result<()> {
        let Some(pipe) = &mut self.shell.stdin else { bail!("the leash has no pipe") };
        writeln!(pipe, "{word} {pid}").context("telling the leash")
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Sends a signal by its short name.
pub(crate) fn signal(pid: u32, name: &str) -> Result<()> {
    let pid = pid.to_string();
    let status = Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "kill", name, &pid]).status();
    let status = status.context("cannot start a shell")?;
    if !status.success() {
        bail!("signal {name} to {pid}: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_a_leash_ends_with_it_and_what_was_taken_off_goes_on() {
        let mut leash = Leash::new().unwrap();
        let sleeper = || Command::new("sleep").arg("600").spawn().unwrap();
        let (mut held, mut freed) = (sleeper(), sleeper());
        leash.add(held.id()).unwrap();
        leash.add(freed.id()).unwrap();
        leash.remove(freed.id()).unwrap();
        drop(leash);
        assert!(!held.wait().unwrap().success());
        assert!(freed.try_wait().unwrap().is_none());
        freed.kill().unwrap();
        freed.wait().unwrap();
    }
}
