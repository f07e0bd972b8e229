//! A running server, wherever it runs, and the wait until it answers.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::docker::{Container, ContainerLaunch};
use crate::error::{DevstackError, Result};
use crate::guard::Signal;
use crate::port::{PortLease, no_free_port};
use crate::process::{Launch, ServerProcess, log_end};
use crate::service::Service;

/// How often a lost race for a port is run again.
const PORT_ATTEMPTS: u32 = 10;

/// Between two attempts to talk to a server that is starting.
const POLL: Duration = Duration::from_millis(5);

/// How long a server may take to stop when asked.
const STOP_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) enum Place {
    Process(ServerProcess),
    Container(Container),
}

/// How to run a server; the kind must be that of the [`Place`].
#[derive(Debug)]
pub(crate) enum Plan {
    Process(Launch),
    Container(ContainerLaunch),
}

/// A server's place and what it is called in errors.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) service: Service,
    pub(crate) place: Place,
}

impl Instance {
    /// Starts on a port from `ports`, with another one whenever a stranger was faster, until `probe` succeeds.
    pub(crate) fn start(
        &mut self,
        mut ports: impl FnMut() -> Result<PortLease>,
        plan: impl Fn(u16) -> Plan,
        within: Duration,
        probe: impl Fn(u16, Option<u32>) -> Result<(), String>,
    ) -> Result<PortLease> {
        for _ in 0..PORT_ATTEMPTS {
            let port = ports()?;
            match self.attempt(&plan(port.number()), within, |pid| probe(port.number(), pid)) {
                Err(error) if port_taken(&error) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(port),
            }
        }
        Err(no_free_port(PORT_ATTEMPTS))
    }

    /// Starts on the same port. What the previous run leaves for a moment (PostgreSQL's sessions notice the death
    /// of their parent a little later and hold its shared memory until then) is waited for.
    pub(crate) fn start_again(
        &mut self,
        plan: &Plan,
        within: Duration,
        probe: impl Fn(Option<u32>) -> Result<(), String>,
    ) -> Result<()> {
        if self.runs() {
            return Err(self.wrong_state("running", "start it again"));
        }
        let deadline = Instant::now() + within;
        loop {
            match self.attempt(plan, within, &probe) {
                Err(error) if left_by_previous_run(&error) && Instant::now() < deadline => {
                    std::thread::sleep(POLL);
                }
                result => return result,
            }
        }
    }

    fn attempt(
        &mut self,
        plan: &Plan,
        within: Duration,
        probe: impl Fn(Option<u32>) -> Result<(), String>,
    ) -> Result<()> {
        match (&mut self.place, plan) {
            (Place::Process(process), Plan::Process(launch)) => process.launch(launch)?,
            (Place::Container(container), Plan::Container(launch)) => container.launch(launch)?,
            _ => return Err(self.wrong_state("of another kind", "run this plan")),
        }
        let service = self.service;
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended() {
                return Err(DevstackError::Exited { service, status, log: log_end(&self.run_log()) });
            }
            let Err(last) = probe(self.pid()) else { return Ok(()) };
            if Instant::now() >= deadline {
                let log = log_end(&self.run_log());
                self.kill();
                return Err(DevstackError::NotReady { service, within, last, log });
            }
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn kill(&mut self) {
        match &mut self.place {
            Place::Process(process) => process.kill(),
            Place::Container(container) => container.kill(),
        }
    }

    pub(crate) fn stop(&mut self, signal: Signal) -> Result<()> {
        let stopped = match &mut self.place {
            Place::Process(process) => process.stop(signal, STOP_WITHIN),
            Place::Container(container) => container.stop(signal, STOP_WITHIN),
        };
        if stopped {
            return Ok(());
        }
        let log = log_end(&self.run_log());
        Err(DevstackError::NotStopped { service: self.service, within: STOP_WITHIN, log })
    }

    pub(crate) fn runs(&mut self) -> bool {
        match &mut self.place {
            Place::Process(process) => process.ended().is_none() && process.pid().is_some(),
            Place::Container(container) => container.ended().is_none(),
        }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Process(process) => Some(process.folder()),
            Place::Container(_) => None,
        }
    }

    /// Leaves the server running and returns the commands that stop it and remove its data.
    pub(crate) fn keep(mut self, signal: Signal) -> Result<Vec<String>> {
        if !self.runs() {
            return Err(self.wrong_state("stopped", "keep it"));
        }
        Ok(match &mut self.place {
            Place::Process(process) => {
                let folder = process.folder().display().to_string();
                let pid = process.keep();
                let stop = pid.map(|pid| format!("kill -{} {pid}", signal.name()));
                // The pause lets the server write its last files before they are removed.
                stop.into_iter().chain(["sleep 1".to_owned(), format!("rm -rf '{folder}'")]).collect()
            }
            Place::Container(container) => {
                container.keep();
                vec![format!("docker rm --force --volumes {}", container.name())]
            }
        })
    }

    fn ended(&mut self) -> Option<String> {
        match &mut self.place {
            Place::Process(process) => process.ended().map(|status| status.to_string()),
            Place::Container(container) => container.ended(),
        }
    }

    fn pid(&self) -> Option<u32> {
        match &self.place {
            Place::Process(process) => process.pid(),
            Place::Container(_) => None,
        }
    }

    /// Whether it was launched and not stopped or killed since.
    pub(crate) fn is_up(&self) -> bool {
        match &self.place {
            Place::Process(process) => process.pid().is_some(),
            Place::Container(container) => container.ended().is_none(),
        }
    }

    pub(crate) fn run_log(&self) -> String {
        match &self.place {
            Place::Process(process) => process.run_log(),
            Place::Container(container) => container.run_log(),
        }
    }

    fn wrong_state(&self, state: &'static str, operation: &'static str) -> DevstackError {
        DevstackError::WrongState { service: self.service, state, operation }
    }
}

fn port_taken(error: &DevstackError) -> bool {
    match error {
        DevstackError::Exited { log, .. } => log.contains("Address already in use"),
        DevstackError::Docker { reason, .. } => {
            reason.contains("port is already allocated") || reason.contains("address already in use")
        }
        _ => false,
    }
}

fn left_by_previous_run(error: &DevstackError) -> bool {
    let memory = matches!(error, DevstackError::Exited { log, .. } if log.contains("pre-existing shared memory block"));
    memory || port_taken(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(log: &str) -> DevstackError {
        DevstackError::Exited { service: Service::Postgres, status: "exit status: 1".into(), log: log.into() }
    }

    #[test]
    fn a_lost_race_for_a_port_is_told_from_other_failures() {
        assert!(port_taken(&exited("bind: Address already in use")));
        assert!(!port_taken(&exited("FATAL: data directory has wrong ownership")));
        let reason = "Bind for 127.0.0.1:20001 failed: port is already allocated".into();
        assert!(port_taken(&DevstackError::Docker { command: "run", reason }));
    }

    #[test]
    fn shared_memory_of_the_previous_run_is_waited_for_but_does_not_mean_a_taken_port() {
        let error = exited("FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use");
        assert!(left_by_previous_run(&error));
        assert!(!port_taken(&error));
    }
}
