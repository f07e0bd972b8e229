//! The tables `[routing]`, `[limits]` and `[budget]`.

use std::time::Duration;

use serde::Deserialize;

use super::ConfigError;

/// How deployments are chosen and judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// The failures of a deployment within a minute that cool it; 0 never cools. Fewer spare clients a broken upstream
    /// sooner, more bear with a flaky one. Default: 3.
    pub allowed_failures: u32,
    /// For how long it is not chosen then, in seconds, 1 to 86,400. Default: 30.
    pub cooldown_seconds: u32,
    /// For how long a conversation stays with its deployment after its last request, in seconds, 0 to 86,400; 0 never.
    /// Longer keeps upstreams' prompt caches warm, shorter spreads load. Default: 600.
    pub affinity_seconds: u32,
}

impl Default for Routing {
    fn default() -> Self {
        Self { allowed_failures: 3, cooldown_seconds: 30, affinity_seconds: 600 }
    }
}

/// Bounds on clients and upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The largest request body, 1 KiB to 64 MiB. Default: 1 MiB.
    pub body_bytes: usize,
    /// The largest head of a request, 8 KiB to 1 MiB. Default: 16 KiB.
    pub header_bytes: usize,
    /// The most connections of clients at once, 1 to 1,000,000; others wait. Default: 10,000.
    pub connections: usize,
    /// How long a client may take to send a head, a body, or to take a part of an answer, in seconds, 1 to 3,600. Default: 10.
    pub read_timeout_seconds: u32,
    /// How long a connection to an upstream may take, in seconds, 1 to 3,600. Default: 2.
    pub upstream_connect_timeout_seconds: u32,
    /// How long a whole answer, or the first part of a stream, may take, in seconds, 1 to 86,400. Default: 120.
    pub upstream_timeout_seconds: u32,
    /// How long a stream may be silent, in seconds, 1 to 86,400. Default: 30.
    pub upstream_idle_timeout_seconds: u32,
    /// The largest answer that is no stream, and the largest event of a stream, 64 KiB to 1 GiB. Default: 32 MiB.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            header_bytes: 16 << 10,
            connections: 10_000,
            read_timeout_seconds: 10,
            upstream_connect_timeout_seconds: 2,
            upstream_timeout_seconds: 120,
            upstream_idle_timeout_seconds: 30,
            answer_bytes: 32 << 20,
        }
    }
}

/// How budgets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Whether money is looked at or set aside. Default: `check`.
    pub mode: BudgetMode,
    /// With `hold`: after how long a request's money is free again if its bill never comes, in seconds, 1 to 86,400. Longer than
    /// the longest call. Default: 300.
    pub hold_seconds: u32,
}

/// Whether money is looked at or set aside before a request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetMode {
    /// What is left is read; requests that run at the same time may together go beyond it.
    #[default]
    Check,
    /// What a request may cost is reserved durably before it runs, at every level or at none.
    Hold,
}

impl Default for Budget {
    fn default() -> Self {
        Self { mode: BudgetMode::default(), hold_seconds: 300 }
    }
}

impl Routing {
    /// How long a cooldown lasts.
    #[must_use]
    pub fn cooldown(&self) -> Duration {
        seconds(self.cooldown_seconds)
    }

    /// How long an affinity lasts; `None` when there are none.
    #[must_use]
    pub fn affinity(&self) -> Option<Duration> {
        (self.affinity_seconds > 0).then(|| seconds(self.affinity_seconds))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        range("routing.cooldown_seconds", self.cooldown_seconds, 1, 86_400)?;
        range("routing.affinity_seconds", self.affinity_seconds, 0, 86_400)
    }
}

impl Limits {
    /// See [`Limits::read_timeout_seconds`].
    #[must_use]
    pub fn read_timeout(&self) -> Duration {
        seconds(self.read_timeout_seconds)
    }

    /// See [`Limits::upstream_connect_timeout_seconds`].
    #[must_use]
    pub fn upstream_connect_timeout(&self) -> Duration {
        seconds(self.upstream_connect_timeout_seconds)
    }

    /// See [`Limits::upstream_timeout_seconds`].
    #[must_use]
    pub fn upstream_timeout(&self) -> Duration {
        seconds(self.upstream_timeout_seconds)
    }

    /// See [`Limits::upstream_idle_timeout_seconds`].
    #[must_use]
    pub fn upstream_idle_timeout(&self) -> Duration {
        seconds(self.upstream_idle_timeout_seconds)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        range("limits.body_bytes", self.body_bytes, 1 << 10, 64 << 20)?;
        range("limits.header_bytes", self.header_bytes, 8 << 10, 1 << 20)?;
        range("limits.connections", self.connections, 1, 1_000_000)?;
        range("limits.read_timeout_seconds", self.read_timeout_seconds, 1, 3_600)?;
        range("limits.upstream_connect_timeout_seconds", self.upstream_connect_timeout_seconds, 1, 3_600)?;
        range("limits.upstream_timeout_seconds", self.upstream_timeout_seconds, 1, 86_400)?;
        range("limits.upstream_idle_timeout_seconds", self.upstream_idle_timeout_seconds, 1, 86_400)?;
        range("limits.answer_bytes", self.answer_bytes, 64 << 10, 1 << 30)
    }
}

impl Budget {
    /// See [`Budget::hold_seconds`].
    #[must_use]
    pub fn hold_time(&self) -> Duration {
        seconds(self.hold_seconds)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        range("budget.hold_seconds", self.hold_seconds, 1, 86_400)
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

fn range<T: PartialOrd + Copy + std::fmt::Display>(
    place: &str,
    given: T,
    least: T,
    most: T,
) -> Result<(), ConfigError> {
    if given < least || given > most {
        return Err(ConfigError::value(place, format!("is {given}; {least} to {most} are possible")));
    }
    Ok(())
}
