//! The last resort: servers in Docker containers, driven through the `docker` command.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::error::{DevstackError, Result};
use crate::guard::{Guard, Signal};
use crate::process::log_end;
use crate::unique::unique_suffix;

/// `docker info` waits for an engine that is stuck; we do not.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Whether a Docker engine answers.
pub(crate) fn answers() -> bool {
    let mut command = Command::new("docker");
    command.arg("info").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let deadline = Instant::now() + ANSWERS_WITHIN;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return false,
        }
    }
    end(&mut child);
    false
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// What to run in a container.
#[derive(Debug, Default)]
pub(crate) struct ContainerLaunch {
    pub(crate) image: &'static str,
    /// The port the server listens on inside.
    pub(crate) inner_port: u16,
    /// The port of 127.0.0.1 that leads to it.
    pub(crate) port: u16,
    /// Handed over by name, so that secrets do not show in the list of processes.
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) command: Vec<String>,
}

impl ContainerLaunch {
    /// The arguments of `docker`.
    fn run_args(&self, name: &str) -> Vec<String> {
        let mut args = vec!["run".to_owned(), "--detach".to_owned(), "--name".to_owned(), name.to_owned()];
        args.extend(["--publish".to_owned(), format!("127.0.0.1:{}:{}", self.port, self.inner_port)]);
        // PostgreSQL's parallel queries need more shared memory than Docker's 64 MiB.
        args.extend(["--shm-size".to_owned(), "256m".to_owned()]);
        for (variable, _) in &self.env {
            args.extend(["--env".to_owned(), (*variable).to_owned()]);
        }
        args.push(self.image.to_owned());
        args.extend(self.command.iter().cloned());
        args
    }
}

/// A container with a guard. Its data live in the image's anonymous volume and survive a stop.
#[derive(Debug)]
pub(crate) struct Container {
    name: String,
    created_for: Option<u16>,
    guard: Guard,
}

impl Container {
    /// Guards a name; nothing runs yet.
    pub(crate) fn new() -> Result<Self> {
        let name = format!("devstack-{}", unique_suffix('-'));
        let guard = Guard::of_container(&name)?;
        Ok(Self { name, created_for: None, guard })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates and starts the container, or starts it again when it exists with that port.
    pub(crate) fn launch(&mut self, launch: &ContainerLaunch) -> Result<()> {
        if self.created_for == Some(launch.port) {
            return docker("start", &["start", &self.name], &[]).map(drop);
        }
        // `docker run` leaves the container behind when its port is taken.
        let _ = docker("rm", &["rm", "--force", "--volumes", &self.name], &[]);
        docker("run", &launch.run_args(&self.name), &launch.env)?;
        self.created_for = Some(launch.port);
        Ok(())
    }

    /// How the container ended, if it has.
    pub(crate) fn ended(&self) -> Option<String> {
        let format = "{{.State.Running}} exit status: {{.State.ExitCode}}";
        match docker("inspect", &["inspect", "--format", format, &self.name], &[]) {
            Ok(text) if text.starts_with("true") => None,
            Ok(text) => Some(text.trim().trim_start_matches("false ").to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Sends `SIGKILL` and waits for the end.
    pub(crate) fn kill(&mut self) {
        let _ = docker("kill", &["kill", &self.name], &[]);
        let _ = docker("wait", &["wait", &self.name], &[]);
    }

    /// Asks the server to stop; kills it if it has not in time. Whether it stopped by itself.
    pub(crate) fn stop(&mut self, signal: Signal, within: Duration) -> bool {
        let _ = docker("kill", &["kill", "--signal", signal.name(), &self.name], &[]);
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.kill();
        false
    }

    pub(crate) fn run_log(&self) -> String {
        let mut command = Command::new("docker");
        command.args(["logs", "--tail", "50", &self.name]).stdin(Stdio::null());
        command.output().map_or_else(|e| format!("(no log: {e})"), |output| both(&output))
    }

    /// Leaves the container to itself.
    pub(crate) fn keep(&mut self) {
        self.guard.dismiss();
    }
}

fn docker(
    subcommand: &'static str,
    args: &[impl AsRef<std::ffi::OsStr>],
    env: &[(&'static str, String)],
) -> Result<String> {
    let mut command = Command::new("docker");
    command.args(args).envs(env.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    let output = command.output().map_err(DevstackError::io("run docker"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(DevstackError::Docker { command: subcommand, reason: log_end(&both(&output)) })
}

fn both(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_published_on_loopback_only_and_secrets_are_passed_by_name() {
        let launch = ContainerLaunch {
            image: "postgres:17-alpine",
            inner_port: 5432,
            port: 20_001,
            env: vec![("POSTGRES_PASSWORD", "secret".into())],
            command: vec!["postgres".into(), "-c".into(), "fsync=off".into()],
        };
        assert_eq!(
            launch.run_args("devstack-1").join(" "),
            "run --detach --name devstack-1 --publish 127.0.0.1:20001:5432 --shm-size 256m \
             --env POSTGRES_PASSWORD postgres:17-alpine postgres -c fsync=off"
        );
    }
}
