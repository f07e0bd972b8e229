//! Which errors a commit sits out by itself, and for how long.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::LedgerError;

/// Attempts after the first. Conflicts pass within one transaction of the other side; what lasts longer is the caller's.
const RETRIES: usize = 7;
/// The shortest wait: a small batch's transaction.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest wait, before jitter.
const LONGEST: Duration = Duration::from_millis(500);

/// Counts attempts at one batch. With all waits at their longest it lasts about two seconds.
pub(crate) struct Patience {
    waits: ExponentialBackoff,
    /// A COMMIT without an answer. As long as no later attempt succeeds, this is what is true.
    in_doubt: Option<LedgerError>,
}

impl Patience {
    pub(crate) fn new() -> Self {
        // Jitter: two committers that met once should not meet again.
        let builder =
            ExponentialBuilder::new().with_min_delay(SHORTEST).with_max_delay(LONGEST).with_factor(3.0);
        Self { waits: builder.with_max_times(RETRIES).with_jitter().build(), in_doubt: None }
    }

    /// How long to wait before the next attempt.
    ///
    /// # Errors
    ///
    /// What the caller must be told: the error, or the unknown outcome of an earlier attempt, which a later error does
    /// not make known.
    pub(crate) fn after(&mut self, error: LedgerError) -> Result<Duration, LedgerError> {
        let passes = error.is_conflict() || error.is_outcome_unknown();
        let wait = if passes { self.waits.next() } else { None };
        let Some(wait) = wait else { return Err(self.in_doubt.take().unwrap_or(error)) };
        tracing::debug!(%error, wait_ms = wait.as_millis(), "a commit is tried again");
        if error.is_outcome_unknown() {
            self.in_doubt.get_or_insert(error);
        }
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown() -> LedgerError {
        LedgerError::at_commit(sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into()))
    }

    fn down() -> LedgerError {
        LedgerError::query("beginning")(sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into()))
    }

    #[test]
    fn waits_grow_and_end() {
        let mut patience = Patience::new();
        let mut whole = Duration::ZERO;
        for _ in 0..RETRIES {
            let wait = patience.after(unknown()).unwrap();
            assert!((SHORTEST..=2 * LONGEST).contains(&wait), "{wait:?}");
            whole += wait;
        }
        assert!(whole < Duration::from_secs(4), "{whole:?}");
        assert!(patience.after(unknown()).is_err());
    }

    #[test]
    fn what_does_not_pass_by_itself_is_the_callers_at_once() {
        assert!(matches!(Patience::new().after(down()), Err(LedgerError::Query { .. })));
    }

    #[test]
    fn an_outcome_stays_unknown_when_the_server_is_gone_afterwards() {
        let mut patience = Patience::new();
        patience.after(unknown()).unwrap();
        assert!(matches!(patience.after(down()), Err(LedgerError::OutcomeUnknown { .. })));
    }
}
