//! The numbers of a shard that never reach the flush log, and are named elsewhere: recorded losses, and what was moved aside.

use live_redis::QueueStatus;

/// Numbers that need not be named again as a gap.
#[derive(Debug, Default)]
pub(super) struct Accounted {
    /// First and last of each run, in order of the first.
    runs: Vec<(u64, u64)>,
}

impl Accounted {
    pub(super) fn of(status: &QueueStatus) -> Self {
        let lost = status.losses.iter().map(|loss| (loss.first, loss.last));
        let aside = status.quarantined.iter().filter_map(|item| item.seq).map(|seq| (seq, seq));
        Self::new(lost.chain(aside).collect())
    }

    fn new(mut runs: Vec<(u64, u64)>) -> Self {
        runs.sort_unstable();
        Self { runs }
    }

    /// Whether each of these numbers is accounted for.
    pub(super) fn covers(&self, first: u64, last: u64) -> bool {
        let mut open = first;
        for (from, to) in &self.runs {
            if *from <= open && open <= *to {
                open = to.saturating_add(1);
            }
        }
        open > last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_a_gap_together_and_only_without_a_hole() {
        let accounted = Accounted::new(vec![(7, 7), (4, 6), (5, 5), (9, 9)]);
        for (first, last, covered) in [
            (4, 7, true),
            (5, 6, true),
            (7, 7, true),
            (4, 8, false),
            (3, 4, false),
            (7, 9, false),
            (9, 9, true),
        ] {
            assert_eq!(accounted.covers(first, last), covered, "{first} to {last}");
        }
        assert!(!Accounted::default().covers(1, 1));
    }
}
