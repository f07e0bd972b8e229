//! Corrections of what was counted.

use crate::{Dimension, MAX_LIMIT, Usage, UsageError};

/// A correction of what was counted on a path, as when a request is settled or given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Adjustment {
    /// Requests to add; negative to take away.
    pub rpm: i64,
    /// Tokens to add; negative to take away.
    pub tpm: i64,
}

impl Adjustment {
    /// The correction in one dimension.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> i64 {
        match dimension {
            Dimension::Rpm => self.rpm,
            Dimension::Tpm => self.tpm,
        }
    }

    pub(crate) const fn get_mut(&mut self, dimension: Dimension) -> &mut i64 {
        match dimension {
            Dimension::Rpm => &mut self.rpm,
            Dimension::Tpm => &mut self.tpm,
        }
    }

    /// A counter after this correction; it stops at 0 on its way down. `index` is the node that an error names.
    ///
    /// # Errors
    ///
    /// [`UsageError::CounterFull`] when it would rise above [`MAX_LIMIT`].
    pub(crate) fn applied(self, used: Usage, dimension: Dimension, index: usize) -> Result<u64, UsageError> {
        let (before, change) = (used.get(dimension), self.get(dimension));
        let after = before.saturating_add_signed(change);
        if after > MAX_LIMIT {
            let demand = change.unsigned_abs();
            return Err(UsageError::CounterFull { index, dimension, used: before, demand });
        }
        Ok(after)
    }
}
