//! When the queue is not worth asking.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Closed, every call asks the queue. A transient failure opens it for a while, in which nothing is asked; then one
/// call a while is let through to see, until one succeeds.
///
/// One failure is enough, because what it costs is small (a while of traffic through the disk) and what it saves is not
/// (each call would wait for the deadline of a dead server).
#[derive(Debug)]
pub(crate) struct Circuit {
    open_for: Duration,
    /// `None`: closed. Else the instant from which one call may ask.
    probe_at: Mutex<Option<Instant>>,
}

impl Circuit {
    pub(crate) fn new(open_for: Duration) -> Self {
        Self { open_for, probe_at: Mutex::new(None) }
    }

    /// Whether a call may ask the queue at `now`. A probe that never reports is followed by another after a while.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let mut probe_at = self.lock();
        match *probe_at {
            None => true,
            Some(at) if now < at => false,
            Some(_) => {
                *probe_at = Some(now + self.open_for);
                true
            }
        }
    }

    /// The queue answered; `true` when that closed the circuit.
    pub(crate) fn answered(&self) -> bool {
        self.lock().take().is_some()
    }

    /// The queue failed at `now`; `true` when that opened the circuit.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        self.lock().replace(now + self.open_for).is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        // One word, written in one step.
        self.probe_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_failure_opens_it_and_one_probe_a_while_is_let_through() {
        let circuit = Circuit::new(SECOND);
        let start = Instant::now();
        assert!(circuit.admits(start) && circuit.admits(start));
        assert!(circuit.failed(start), "it was closed");
        assert!(!circuit.failed(start), "it was open");
        assert!(!circuit.admits(start + SECOND / 2));
        assert!(circuit.admits(start + SECOND), "the probe");
        assert!(!circuit.admits(start + SECOND), "only one");
        assert!(circuit.admits(start + 2 * SECOND), "the first probe never came back");
        assert!(circuit.answered());
        assert!(circuit.admits(start + 2 * SECOND) && circuit.admits(start + 2 * SECOND));
    }

    #[test]
    fn a_probe_that_fails_opens_it_for_another_while() {
        let circuit = Circuit::new(SECOND);
        let start = Instant::now();
        circuit.failed(start);
        assert!(circuit.admits(start + SECOND));
        circuit.failed(start + 3 * SECOND);
        assert!(!circuit.admits(start + 3 * SECOND + SECOND / 2));
        assert!(circuit.admits(start + 4 * SECOND));
    }
}
