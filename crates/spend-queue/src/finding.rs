//! What a doctor says about a server: the form that the Redis and the PostgreSQL side share.

use core::fmt;

use serde::Serialize;

/// How much a finding matters, from nothing to everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing need be done.
    Note,
    /// It works, and something that it promises is weaker than it could be, or could not be asked.
    Warning,
    /// Money or limits are at stake: a strict start refuses.
    Fatal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Fatal => "fatal",
        })
    }
}

/// One answer of a doctor. Each text is one line and holds no password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `redis.eviction`. A stable name, for alerts and scripts.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What is so.
    pub what: String,
    /// Why it matters; empty when all is well.
    pub why: String,
    /// How to mend it; empty when all is well.
    pub mend: String,
    /// Whether it may be over without anybody's doing: a fail-over, a promotion. A supervisor then does well to try again.
    #[serde(skip)]
    pub passes: bool,
}

impl Finding {
    /// All is well.
    #[must_use]
    pub fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(check, Severity::Ok, what, "", "")
    }

    /// A finding of any severity.
    #[must_use]
    pub fn new(
        check: &'static str,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { check, severity, what: what.into(), why: why.into(), mend: mend.into(), passes: false }
    }

    /// The same, as one that may be over without anybody's doing.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { passes: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_ordered_and_named_in_json_as_in_text() {
        let all = [Severity::Ok, Severity::Note, Severity::Warning, Severity::Fatal];
        assert!(all.is_sorted());
        for severity in all {
            assert_eq!(serde_json::to_string(&severity).unwrap(), format!("\"{severity}\""));
        }
        assert_eq!(format!("{:8}|", Severity::Ok), "ok      |");
    }
}
