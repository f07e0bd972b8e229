//! What a server must be like so that limits and money are safe on it, and whether this one is.

mod agreement;
mod family;
mod report;
mod rights;
mod roles;
mod server;
mod state;

use spend_queue::{Finding, Severity};
use thiserror::Error;

use crate::error::{CallError, LiveRedisError, OpenError};
use crate::{LiveRedis, Options, RedisUrl};
use report::Report;

const REACHABLE: &str = "redis.reachable";

/// Who uses a client: which commands its user must be allowed to call (`docs/security.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Admits requests, enqueues spend, keeps telemetry, counters, strings and affinities.
    Gateway,
    /// Takes committed spend off the queue.
    Flusher,
    /// Looks at the queue and at pending spend, and changes nothing.
    Operator,
    /// Mends the queue: moves entries aside and back, makes the index of pending spend anew; looks as an operator does.
    Repairer,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Flusher => "flusher",
            Self::Operator => "operator",
            Self::Repairer => "repairer",
        }
    }
}

/// Why a strict opening failed. Nothing stays open; the text has no part of the URL.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StrictOpenError {
    /// There is no connection. Trying again helps if the server is only not there yet.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server is there and unfit. Trying again helps once it is mended.
    #[error("this Redis must not be used: {}", list(.0))]
    Unfit(Vec<Finding>),
}

fn list(fatal: &[Finding]) -> String {
    let each: Vec<_> =
        fatal.iter().map(|one| format!("{}: {} ({})", one.check, one.what, one.mend)).collect();
    each.join("; ")
}

impl LiveRedis {
    /// Opens, asks the doctor, and refuses what is fatal; warnings are logged.
    ///
    /// # Errors
    ///
    /// [`StrictOpenError::Open`] as [`LiveRedis::open_with`]; [`StrictOpenError::Unfit`] names every fatal finding.
    pub async fn open_strict(
        url: impl Into<RedisUrl>,
        options: Options,
        role: Role,
    ) -> Result<Self, StrictOpenError> {
        let redis = Self::open_with(url, options).await?;
        let (fatal, others): (Vec<_>, Vec<_>) =
            redis.doctor(role).await.into_iter().partition(|finding| finding.severity == Severity::Fatal);
        for finding in others.iter().filter(|finding| finding.severity == Severity::Warning) {
            tracing::warn!(check = finding.check, why = finding.why, mend = finding.mend, "{}", finding.what);
        }
        if fatal.is_empty() {
            return Ok(redis);
        }
        redis.close();
        Err(StrictOpenError::Unfit(fatal))
    }

    /// Looks at the server as `role` needs it. Reads only, and loads one constant script. What cannot be asked is a
    /// finding too; a server that does not answer is a single fatal one.
    ///
    /// Each question has the deadline of a call; there are about ten.
    pub async fn doctor(&self, role: Role) -> Vec<Finding> {
        let mut report = Report::default();
        if let Err(error) = self.examine(role, &mut report).await {
            report.add(unreachable_server(&error));
        }
        report.into_findings()
    }

    async fn examine(&self, role: Role, report: &mut Report) -> Result<(), LiveRedisError> {
        let mode = self.examine_server(report).await?;
        self.examine_slots(mode.as_deref(), report).await?;
        self.examine_clock(report).await?;
        self.examine_state(role, report).await?;
        self.examine_rights(role, report).await
    }
}

fn unreachable_server(error: &LiveRedisError) -> Finding {
    if *error == LiveRedisError::NotConfigured {
        return Finding::new(
            REACHABLE,
            Severity::Warning,
            "this host runs without Redis",
            "admission, the spend queue and affinities fail; telemetry answers its fallbacks",
            "configure a Redis URL if the host is to limit or bill",
        );
    }
    Finding::new(
        REACHABLE,
        Severity::Fatal,
        format!("the server does not answer: {error}"),
        "nothing can be admitted or billed without it",
        "check that the server runs, that host, port, TLS and password are right, and that no firewall is between",
    )
    .passing()
}

/// The answer, or the server's reason to refuse it.
///
/// # Errors
///
/// When there was no answer at all: then there is no use in asking further.
fn answered<T>(answer: Result<T, LiveRedisError>) -> Result<Result<T, String>, LiveRedisError> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(
            error @ (LiveRedisError::NotConfigured
            | LiveRedisError::Call(
                CallError::Closed | CallError::Timeout(_) | CallError::Connection(_),
            )),
        ) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}
