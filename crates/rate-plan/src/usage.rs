//! Counters of the current minute.

use crate::Dimension;

/// What one node has used in one minute, each 0 to [`MAX_LIMIT`](crate::MAX_LIMIT).
///
/// A usage slice holds one entry for each node of the tree, in the tree's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Usage {
    /// Requests admitted.
    pub rpm: u64,
    /// Tokens admitted: by estimate, and by what was really used once the request is settled.
    pub tpm: u64,
}

impl Usage {
    /// The counter of one dimension.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Rpm => self.rpm,
            Dimension::Tpm => self.tpm,
        }
    }

    pub(crate) const fn get_mut(&mut self, dimension: Dimension) -> &mut u64 {
        match dimension {
            Dimension::Rpm => &mut self.rpm,
            Dimension::Tpm => &mut self.tpm,
        }
    }

    /// This usage with one more request of this estimate, which the caller knows to fit.
    pub(crate) fn counted(mut self, estimate: i64) -> Self {
        for dimension in Dimension::ALL {
            *self.get_mut(dimension) += dimension.demand(estimate);
        }
        self
    }
}
