//! How much to measure.

use std::time::Duration;

/// Sizes of the four measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Events of the backlog.
    pub(crate) events: usize,
    /// How long the flusher is watched while nothing comes.
    pub(crate) idle: Duration,
    /// How long events come at a steady rate.
    pub(crate) steady: Duration,
    /// How often it is told to stop.
    pub(crate) stops: u32,
}

impl Effort {
    pub(crate) const fn of(quick: bool) -> Self {
        let (idle, steady) = if quick { (5, 5) } else { (30, 60) };
        Self {
            events: if quick { 50_000 } else { 1_000_000 },
            idle: Duration::from_secs(idle),
            steady: Duration::from_secs(steady),
            stops: if quick { 3 } else { 10 },
        }
    }
}
