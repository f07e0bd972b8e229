//! Processes of one kind, watched over: whoever ends is started again until the crew is retired.

use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::leash::{Leash, signal};

/// How often ended processes are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a process that ended by itself waits before it is started again.
const RESTART_AFTER: Duration = Duration::from_millis(300);

/// How a member's next life is started: given its number, from 1.
type Launch = Box<dyn Fn(u32) -> Result<Command> + Send>;

struct Member {
    launch: Launch,
    child: Option<Child>,
    life: u32,
    start_at: Instant,
}

struct Members {
    all: Vec<Member>,
    leash: Leash,
    retired: bool,
}

/// A crew of processes.
pub(crate) struct Crew {
    members: Arc<Mutex<Members>>,
    watch: Option<JoinHandle<Result<()>>>,
}

impl Crew {
    /// Starts them all, and the thread that watches over them.
    pub(crate) fn start(launches: Vec<Launch>) -> Result<Self> {
        let now = Instant::now();
        let all = launches.into_iter().map(|launch| Member { launch, child: None, life: 0, start_at: now });
        let mut members = Members { all: all.collect(), leash: Leash::new()?, retired: false };
        members.look()?;
        let members = Arc::new(Mutex::new(members));
        let watched = Arc::clone(&members);
        let watch = thread::spawn(move || {
            loop {
                thread::sleep(LOOK_EVERY);
                let mut members = lock(&watched);
                if members.retired {
                    return Ok(());
                }
                members.look()?;
            }
        });
        Ok(Self { members, watch: Some(watch) })
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.members).all.len()
    }

    /// Sends a signal to a member, if it runs at the moment; answers whether it did.
    pub(crate) fn signal(&self, whom: usize, name: &str) -> Result<bool> {
        let mut members = lock(&self.members);
        let Some(child) = members.all.get_mut(whom).and_then(|member| member.child.as_mut()) else {
            return Ok(false);
        };
        // Not waited for yet, so the id is still its own.
        signal(child.id(), name).map(|()| true)
    }

    /// How many lives the members have had beyond their first.
    pub(crate) fn restarts(&self) -> u32 {
        lock(&self.members).all.iter().map(|member| member.life.saturating_sub(1)).sum()
    }

    /// Asks all to end (`SIGTERM`) and waits; who takes longer is killed, and counted in the answer.
    pub(crate) fn retire(&mut self, within: Duration) -> Result<u32> {
        lock(&self.members).retired = true;
        if let Some(watch) = self.watch.take() {
            match watch.join() {
                Ok(watched) => watched?,
                Err(_) => bail!("the thread that watches over processes died"),
            }
        }
        let mut members = lock(&self.members);
        members.reap()?;
        for member in &members.all {
            if let Some(child) = &member.child {
                signal(child.id(), "CONT")?;
                signal(child.id(), "TERM")?;
            }
        }
        let give_up = Instant::now() + within;
        while members.all.iter().any(|member| member.child.is_some()) && Instant::now() < give_up {
            thread::sleep(LOOK_EVERY);
            members.reap()?;
        }
        let mut killed = 0;
        for member in &mut members.all {
            if let Some(child) = &mut member.child {
                child.kill().context("killing a process that did not end")?;
                killed += 1;
                child.wait().context("waiting for a killed process")?;
            }
        }
        members.reap()?;
        Ok(killed)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut members = lock(&self.members);
        members.retired = true;
        for child in members.all.iter_mut().filter_map(|member| member.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = members.reap();
    }
}

impl Members {
    /// Takes note of who has ended.
    fn reap(&mut self) -> Result<()> {
        for member in &mut self.all {
            let Some(child) = &mut member.child else { continue };
            if child.try_wait().context("looking after a process")?.is_some() {
                self.leash.remove(child.id())?;
                member.child = None;
                member.start_at = Instant::now() + RESTART_AFTER;
            }
        }
        Ok(())
    }

    /// Starts again who has ended.
    fn look(&mut self) -> Result<()> {
        self.reap()?;
        for member in &mut self.all {
            if member.child.is_none() && Instant::now() >= member.start_at {
                member.life += 1;
                let child = (member.launch)(member.life)?.spawn().context("starting a process")?;
                self.leash.add(child.id())?;
                member.child = Some(child);
            }
        }
        Ok(())
    }
}

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(_: u32) -> Result<Command> {
        let mut command = Command::new("sleep");
        command.arg("600");
        Ok(command)
    }

    #[test]
    fn who_is_killed_is_started_again_until_the_crew_is_retired() {
        let mut crew = Crew::start(vec![Box::new(sleeper), Box::new(sleeper)]).unwrap();
        assert!(crew.signal(0, "KILL").unwrap());
        let give_up = Instant::now() + Duration::from_secs(20);
        while crew.restarts() == 0 {
            assert!(Instant::now() < give_up, "not started again");
            thread::sleep(LOOK_EVERY);
        }
        assert_eq!(crew.retire(Duration::from_secs(20)).unwrap(), 0);
        assert!(!crew.signal(0, "KILL").unwrap());
        assert_eq!(crew.restarts(), 1);
    }

    #[test]
    fn who_does_not_end_when_asked_is_killed_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let mark = ready.clone();
        let deaf = move |_| {
            let mut command = Command::new("sh");
            let script = "trap '' TERM; : >\"$1\"; while :; do sleep 0.05; done";
            command.args(["-c", script, "deaf"]).arg(&mark);
            Ok(command)
        };
        let mut crew = Crew::start(vec![Box::new(deaf)]).unwrap();
        let give_up = Instant::now() + Duration::from_secs(20);
        while !ready.exists() {
            assert!(Instant::now() < give_up, "not ready");
            thread::sleep(LOOK_EVERY);
        }
        assert_eq!(crew.retire(Duration::from_millis(200)).unwrap(), 1);
    }
}
