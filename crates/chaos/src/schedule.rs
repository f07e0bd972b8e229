//! Which fault comes when: the same seed gives the same faults in the same order.

use std::time::Duration;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fault::Kind;

/// The mean pause before a fault, in milliseconds, before what it disturbs may have to become free.
const MEAN_PAUSE_MILLIS: u64 = 1_300;

/// One fault of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What happens.
    pub kind: Kind,
    /// How long to wait before it.
    pub pause: Duration,
    /// How long until it is healed.
    pub lasts: Duration,
    /// Whom it strikes, modulo how many there are.
    pub whom: usize,
}

/// An endless sequence of faults: every kind once in a random order, then kinds at random.
#[derive(Debug, Clone)]
pub struct Schedule {
    rng: ChaCha8Rng,
    first_round: Vec<Kind>,
    longest: Duration,
}

impl Schedule {
    /// The schedule of a seed; no fault lasts longer than `longest`.
    #[must_use]
    pub fn new(seed: u64, longest: Duration) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut first_round = Kind::ALL.to_vec();
        first_round.shuffle(&mut rng);
        Self { rng, first_round, longest }
    }

    /// Whether every kind has come.
    #[must_use]
    pub const fn had_all_kinds(&self) -> bool {
        self.first_round.is_empty()
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let kind = self.first_round.pop().or_else(|| Kind::ALL.choose(&mut self.rng).copied())?;
        let pause = self.rng.random_range(MEAN_PAUSE_MILLIS / 2..=MEAN_PAUSE_MILLIS * 3 / 2);
        let lasts = Duration::from_millis(self.rng.random_range(kind.lasts_millis())).min(self.longest);
        Some(Step { kind, pause: Duration::from_millis(pause), lasts, whom: self.rng.random_range(0..1_000) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_seed_decides_everything() {
        let steps = |seed| Schedule::new(seed, LONG).take(100).collect::<Vec<_>>();
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn every_kind_comes_before_any_comes_twice() {
        let mut schedule = Schedule::new(3, LONG);
        let first: BTreeSet<_> = schedule.by_ref().take(Kind::ALL.len()).map(|step| step.kind).collect();
        assert_eq!(first.len(), Kind::ALL.len());
        assert!(schedule.had_all_kinds());
    }

    #[test]
    fn a_first_round_fits_into_a_minute_and_ten_minutes_hold_two_hundred_faults() {
        for seed in 0..200 {
            let pauses =
                |count| Schedule::new(seed, LONG).take(count).map(|step| step.pause).sum::<Duration>();
            assert!(pauses(Kind::ALL.len()) < Duration::from_secs(50));
            assert!(pauses(200) < Duration::from_secs(400));
        }
    }

    #[test]
    fn short_runs_have_short_faults() {
        let longest = Duration::from_millis(700);
        assert!(Schedule::new(1, longest).take(500).all(|step| step.lasts <= longest));
    }

    #[test]
    fn names_are_distinct() {
        let names: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
