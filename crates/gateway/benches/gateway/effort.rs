//! How much to measure.

use std::time::Duration;

/// Sizes of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds of each load.
    pub(crate) rounds: usize,
    /// How long a round of the slow load is.
    pub(crate) slow: Duration,
    /// How long a round of the fast load is.
    pub(crate) fast: Duration,
    /// How long a round at saturation is.
    pub(crate) saturated: Duration,
    /// Requests over which memory is watched.
    pub(crate) requests: u64,
}

impl Effort {
    pub(crate) const fn of(quick: bool) -> Self {
        let (rounds, slow, fast, saturated) = if quick { (2, 4, 3, 3) } else { (5, 10, 5, 6) };
        Self {
            rounds,
            slow: Duration::from_secs(slow),
            fast: Duration::from_secs(fast),
            saturated: Duration::from_secs(saturated),
            requests: if quick { 5_000 } else { 100_000 },
        }
    }
}
