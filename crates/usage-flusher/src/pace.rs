//! How much to take at once and how long to wait: pure, without a clock.

use std::time::Duration;

use spend_queue::{BatchLimit, MAX_BATCH};
use thiserror::Error;

/// The bounds that batch sizes and waits move between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceLimits {
    /// The smallest batch asked for. Low bounds the work of a first commit after a quiet time. So many entries are worth a
    /// transaction at once; fewer wait for more.
    pub smallest: BatchLimit,
    /// The largest batch asked for. High drains a backlog faster, and makes each transaction longer.
    pub largest: BatchLimit,
    /// The wait after a step that left less than the smallest batch, in which the next one gathers. Long means fewer
    /// transactions, and older events.
    pub linger: Duration,
    /// The longest wait while nothing comes.
    pub idle: Duration,
}

/// Bounds that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PaceError {
    /// The smallest batch is above the largest.
    #[error("the smallest batch ({0}) is above the largest ({1})")]
    Batch(u32, u32),
    /// The linger is above the idle wait.
    #[error("the linger ({0:?}) is above the idle wait ({1:?})")]
    Wait(Duration, Duration),
}

/// After so many steps at a size to which batches were lowered, twice as many entries are tried again: seldom, since each try that
/// fails costs a time-out.
const STEPS_BEFORE_RAISE: u32 = 16;

/// Batch size and wait of one shard: sizes double while the queue is ahead of the flusher and shrink when it is
/// not; waits start at the linger and double while nothing comes. A batch that could not be committed in its time halves what may
/// be asked for, also below the smallest batch.
#[derive(Debug, Clone)]
pub struct Pace {
    limits: PaceLimits,
    size: BatchLimit,
    wait: Duration,
    lowered: Option<Lowered>,
}

/// What may be asked for after a batch that was too large.
#[derive(Debug, Clone, Copy)]
struct Lowered {
    entries: u32,
    /// Steps at this size since it was lowered or raised.
    steps: u32,
}

impl Pace {
    /// Starts small and prompt.
    ///
    /// # Errors
    ///
    /// When a lower bound is above its upper bound.
    pub fn new(limits: PaceLimits) -> Result<Self, PaceError> {
        if limits.smallest > limits.largest {
            return Err(PaceError::Batch(limits.smallest.get(), limits.largest.get()));
        }
        if limits.linger > limits.idle {
            return Err(PaceError::Wait(limits.linger, limits.idle));
        }
        Ok(Self { limits, size: limits.smallest, wait: limits.linger, lowered: None })
    }

    /// How many entries to commit together next.
    #[must_use]
    pub const fn size(&self) -> BatchLimit {
        self.size
    }

    /// Takes in what the last step was like; returns how long to wait before the next.
    ///
    /// `taken` is the number of entries that it took off, `left` what the shard still held after it. What arrived meanwhile is
    /// no backlog: at a steady rate there is always something left, and going on for that would make a transaction of every few.
    pub fn after(&mut self, taken: u64, left: u64) -> Duration {
        if taken == 0 {
            self.resize(0);
            let wait = self.wait;
            self.wait = (wait * 2).min(self.limits.idle);
            return wait;
        }
        self.wait = self.limits.linger;
        self.raise(taken);
        if left >= self.limits.smallest.get().into() {
            self.resize(u64::from(self.size.get()) * 2);
            return Duration::ZERO;
        }
        self.resize(taken);
        self.limits.linger
    }

    /// Takes in that a batch of this size could not be committed in its time, and that half of it may be.
    pub fn too_large(&mut self) {
        let entries = (self.size.get() / 2).max(1);
        self.lowered = Some(Lowered { entries, steps: 0 });
        self.resize(entries.into());
    }

    /// Lets batches grow again, after enough steps that were full at the lowered size.
    fn raise(&mut self, taken: u64) {
        let Some(lowered) = &mut self.lowered else { return };
        if taken < lowered.entries.into() {
            return;
        }
        lowered.steps += 1;
        if lowered.steps == STEPS_BEFORE_RAISE {
            *lowered = Lowered { entries: lowered.entries.saturating_mul(2), steps: 0 };
            if lowered.entries >= self.limits.largest.get() {
                self.lowered = None;
            }
        }
    }

    fn resize(&mut self, wanted: u64) {
        let wanted = u32::try_from(wanted).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        let bounded = wanted.clamp(self.limits.smallest.get(), self.limits.largest.get());
        let bounded = self.lowered.map_or(bounded, |lowered| bounded.min(lowered.entries));
        self.size = BatchLimit::new(bounded).unwrap_or(self.limits.smallest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(entries: u32) -> BatchLimit {
        BatchLimit::new(entries).unwrap()
    }

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pace() -> Pace {
        let limits =
            PaceLimits { smallest: limit(100), largest: limit(1000), linger: millis(100), idle: millis(700) };
        Pace::new(limits).unwrap()
    }

    #[test]
    fn a_backlog_doubles_the_batch_up_to_the_bound_and_waits_for_nothing() {
        let mut pace = pace();
        let sizes: Vec<u32> = (0..5)
            .map(|_| {
                assert_eq!(pace.after(pace.size().get().into(), 100), Duration::ZERO);
                pace.size().get()
            })
            .collect();
        assert_eq!(sizes, [200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn a_drained_queue_shrinks_the_batch_and_lets_the_next_one_gather() {
        let mut pace = pace();
        let _ = pace.after(800, 5_000);
        assert_eq!(pace.after(30, 0), millis(100));
        assert_eq!(pace.size(), limit(100));
    }

    #[test]
    fn what_arrived_during_a_step_gathers_until_it_is_worth_a_batch() {
        let mut pace = pace();
        assert_eq!(pace.after(50, 99), millis(100));
        assert_eq!(pace.after(300, 1), millis(100));
        assert_eq!(pace.size(), limit(300), "as many at once as came in one wait");
        assert_eq!(pace.after(300, 100), Duration::ZERO);
    }

    #[test]
    fn waits_double_while_nothing_comes_and_start_anew_when_something_does() {
        let mut pace = pace();
        let waits: Vec<_> = (0..5).map(|_| pace.after(0, 0)).collect();
        assert_eq!(waits, [millis(100), millis(200), millis(400), millis(700), millis(700)]);
        let _ = pace.after(1, 0);
        assert_eq!(pace.after(0, 0), millis(100));
    }

    #[test]
    fn a_batch_that_is_too_large_halves_what_is_asked_for_until_enough_have_passed() {
        let mut pace = pace();
        for _ in 0..4 {
            let _ = pace.after(1000, 5_000);
        }
        let halves = [1000, 500, 250, 125, 62].map(|size| {
            assert_eq!(pace.size(), limit(size));
            pace.too_large();
            pace.size().get()
        });
        assert_eq!(halves, [500, 250, 125, 62, 31], "also below the smallest");
        for size in [31, 62, 124, 248, 496] {
            for _ in 0..STEPS_BEFORE_RAISE {
                assert_eq!(pace.size(), limit(size));
                assert_eq!(pace.after(size.into(), 5_000), Duration::ZERO);
            }
        }
        // As much as the bound: nothing is lowered any more.
        let _ = pace.after(pace.size().get().into(), 5_000);
        for _ in 0..STEPS_BEFORE_RAISE {
            let _ = pace.after(pace.size().get().into(), 5_000);
        }
        assert_eq!(pace.size(), limit(1000));
        for _ in 0..20 {
            pace.too_large();
        }
        assert_eq!(pace.size(), BatchLimit::MIN);
    }

    #[test]
    fn contradicting_bounds_are_refused() {
        let limits = PaceLimits {
            smallest: limit(2),
            largest: limit(1),
            linger: Duration::ZERO,
            idle: Duration::ZERO,
        };
        assert_eq!(Pace::new(limits).unwrap_err(), PaceError::Batch(2, 1));
        let limits = PaceLimits { smallest: limit(1), linger: millis(2), idle: millis(1), ..limits };
        assert_eq!(Pace::new(limits).unwrap_err(), PaceError::Wait(millis(2), millis(1)));
    }
}
