//! What can go wrong while getting, starting or stopping a server.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::service::{Service, Version};

/// The result of this crate's operations.
pub type Result<T, E = DevstackError> = std::result::Result<T, E>;

/// Why a server could not be found, started, stopped or used.
///
/// No message contains a password. [`is_transient`](Self::is_transient) says whether the same call may succeed
/// later without anybody changing anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevstackError {
    /// Nothing usable is installed, and nothing could be installed. The message gives the commands to type.
    #[error("{service} was not found on this machine{}\n{}", tried(.attempted.as_deref()), .service.instructions())]
    NotFound {
        /// The service that was wanted.
        service: Service,
        /// Why an installation that was attempted did not help.
        attempted: Option<String>,
    },

    /// A server program is there, but it is older than this project can use.
    #[error("{} is version {found}, but {service} {} or newer is needed\n{}", .path.display(), .service.minimum(), .service.instructions())]
    TooOld {
        /// The service that was wanted.
        service: Service,
        /// The program that was found.
        path: PathBuf,
        /// Its version.
        found: Version,
    },

    /// An environment variable that should point to a program or a server does not.
    #[error("{variable} is set but cannot be used: {reason}")]
    BadVariable {
        /// The variable's name.
        variable: &'static str,
        /// What is wrong with its value.
        reason: String,
    },

    /// The server process ended before it answered.
    #[error("{service} ended while it was starting ({status}); the end of its log:\n{log}")]
    Exited {
        /// The service.
        service: Service,
        /// How the process ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },

    /// The server runs but did not answer in time.
    #[error("{service} did not answer within {within:?} ({last}); the end of its log:\n{log}")]
    NotReady {
        /// The service.
        service: Service,
        /// How long it was given.
        within: Duration,
        /// What the last attempt to talk to it met.
        last: String,
        /// The last lines of its log.
        log: String,
    },

    /// The server did not end in time after it was asked to; it has been killed.
    #[error("{service} did not stop within {within:?} and was killed; the end of its log:\n{log}")]
    NotStopped {
        /// The service.
        service: Service,
        /// How long it was given.
        within: Duration,
        /// The last lines of its log.
        log: String,
    },

    /// Every port that was tried was taken by somebody else before the server could bind it.
    #[error("no free port on 127.0.0.1 between {first} and {last} after {attempts} attempts")]
    NoFreePort {
        /// The lowest port that is considered.
        first: u16,
        /// The highest port that is considered.
        last: u16,
        /// How many were tried.
        attempts: u32,
    },

    /// The operation does not fit the server's state, such as starting one that runs.
    #[error("{service} is {state}: cannot {operation}")]
    WrongState {
        /// The service.
        service: Service,
        /// The state it is in.
        state: &'static str,
        /// What was asked for.
        operation: &'static str,
    },

    /// A database name prefix that is not 1 to 24 bytes of `a-z`, `0-9` and `_`, starting with a letter.
    #[error("database prefix {0:?} must be 1 to 24 bytes of a-z, 0-9 and _, starting with a letter")]
    BadPrefix(String),

    /// PostgreSQL answered a statement with an error, or could not be reached.
    #[error("PostgreSQL: cannot {doing}: {reason}")]
    Sql {
        /// What was being done.
        doing: String,
        /// The server's or the client's message.
        reason: String,
    },

    /// Something that only a program on this machine can do was wanted, and only Docker could have provided Redis.
    #[error("{what} needs the {service} program on this machine; Docker is not enough\n{}", .service.instructions())]
    NeedsProgram {
        /// The service that was wanted.
        service: Service,
        /// What it was wanted for.
        what: &'static str,
    },

    /// A number or an index that is out of its range.
    #[error("{what} is {value}, but must be {first} to {last}")]
    OutOfRange {
        /// What the number counts or names.
        what: &'static str,
        /// The number.
        value: usize,
        /// The lowest allowed one.
        first: usize,
        /// The highest allowed one.
        last: usize,
    },

    /// A server of a Cluster or of a Sentinel group refused a command, or could not be reached.
    #[error("Redis: cannot {doing}: {reason}")]
    Redis {
        /// What was being done.
        doing: String,
        /// The server's or the system's message.
        reason: String,
    },

    /// The servers of a group run but did not reach a state in which they agree and serve.
    #[error("{what} was not in order after {within:?} ({last}); the ends of the logs:\n{logs}")]
    NotSettled {
        /// The kind of group.
        what: &'static str,
        /// How long it was given.
        within: Duration,
        /// What was still wrong.
        last: String,
        /// The last lines of each server's log.
        logs: String,
    },

    /// A certificate could not be made.
    #[error("cannot make a certificate: {reason}")]
    Certificate {
        /// What the library says.
        reason: String,
    },

    /// A `docker` command failed.
    #[error("docker {command} failed: {reason}")]
    Docker {
        /// The subcommand.
        command: &'static str,
        /// The end of its output.
        reason: String,
    },

    /// An operating system call failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The system's error.
        source: io::Error,
    },

    /// The one server (or the one look-up) that this whole process shares failed at its first use.
    #[error(transparent)]
    Shared(Arc<DevstackError>),
}

impl DevstackError {
    /// Whether the same call may succeed later without a change to the machine or the code: true for a server that
    /// was too slow to start or stop, servers that have not agreed yet, and a shortage of ports.
    pub fn is_transient(&self) -> bool {
        // A shared failure is remembered for the life of the process, whatever its cause.
        matches!(
            self,
            Self::NotReady { .. }
                | Self::NotStopped { .. }
                | Self::NotSettled { .. }
                | Self::NoFreePort { .. }
        )
    }

    pub(crate) fn redis(doing: impl Into<String>) -> impl FnOnce(String) -> Self {
        let doing = doing.into();
        move |reason| Self::Redis { doing, reason }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

fn tried(attempted: Option<&str>) -> String {
    attempted.map_or_else(String::new, |reason| format!(" ({reason})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_with_the_commands_of_every_platform() {
        for service in [Service::Redis, Service::Postgres] {
            let text = DevstackError::NotFound { service, attempted: Some("apt-get: no network".into()) }
                .to_string();
            for part in ["no network", "sudo apt-get install", "sudo dnf install", "brew install", "docker"] {
                assert!(text.contains(part), "{part:?} is not in {text}");
            }
        }
    }

    #[test]
    fn an_old_program_is_reported_with_both_versions() {
        let error = DevstackError::TooOld {
            service: Service::Redis,
            path: "/usr/bin/redis-server".into(),
            found: Version { major: 6, minor: 0 },
        };
        let text = error.to_string();
        assert!(
            text.starts_with("/usr/bin/redis-server is version 6.0, but Redis 7.0 or newer is needed"),
            "{text}"
        );
        assert!(!error.is_transient());
    }
}
