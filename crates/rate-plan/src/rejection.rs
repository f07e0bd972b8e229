//! Which limit refused a request, and whether waiting can help.

use core::fmt;

use crate::{Dimension, Scope, seconds_until_next_minute};

/// The first limit that refuses a request: all of RPM before any of TPM, each from leaf to root.
///
/// It refuses because `limit` is 0, or because `used + held_for_siblings + demand > limit`.
///
/// `Display` writes the reason that callers see, `<kind> rpm_limit` or `<kind> tpm_limit`, and nothing else: an id
/// in it would tell one tenant about another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rejection {
    /// Index of the refusing node in its tree.
    pub node: usize,
    /// Scope of the refusing node.
    pub scope: Scope,
    /// The dimension that refused.
    pub dimension: Dimension,
    /// The node's limit, per minute, 0 to [`MAX_LIMIT`](crate::MAX_LIMIT).
    pub limit: u64,
    /// What the node had used in this minute, 0 to [`MAX_LIMIT`](crate::MAX_LIMIT).
    pub used: u64,
    /// What the node keeps for fixed allocations below it that this path does not draw on, 0 to
    /// [`MAX_LIMIT`](crate::MAX_LIMIT). Children may be promised more than the node has, so this can exceed `limit`.
    pub held_for_siblings: u64,
    /// What the request would have added: 1, or its estimate.
    pub demand: u64,
}

impl Rejection {
    /// Whether the demand is above the limit itself, so that no minute, however idle, can admit it.
    ///
    /// A limit of 0 refuses even a demand of 0, so it is never fitted either.
    #[must_use]
    pub const fn can_never_fit(&self) -> bool {
        self.limit == 0 || self.demand > self.limit
    }

    /// Seconds until the next minute, 1 to 60, if that minute can admit what this one refused; `None` if waiting
    /// cannot help as long as the configuration stands.
    ///
    /// That is so when the demand [can never fit](Self::can_never_fit), and also when what is held for siblings
    /// leaves no room for it by itself: when a sibling uses a reserved unit, it moves from `held_for_siblings` to
    /// `used`, so the sum of both is never below what was held at the start of the minute, in this minute or any
    /// other. `Some` is no promise: others may be faster.
    #[must_use]
    pub const fn retry_after(&self, unix_seconds: i64) -> Option<u64> {
        if self.can_never_fit() || self.held_for_siblings.saturating_add(self.demand) > self.limit {
            return None;
        }
        Some(seconds_until_next_minute(unix_seconds))
    }

    /// What a smaller request on the same path could still have used: `limit - used - held_for_siblings`, or 0.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used).saturating_sub(self.held_for_siblings)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}_limit", self.scope.kind(), self.dimension)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn rejection(dimension: Dimension, limit: u64, demand: u64) -> Rejection {
        let scope = Scope::new("team", "secret-name").unwrap();
        Rejection { node: 0, scope, dimension, limit, used: 0, held_for_siblings: 0, demand }
    }

    #[test]
    fn a_rejection_names_the_kind_and_the_dimension_and_nothing_else() {
        assert_eq!(rejection(Dimension::Rpm, 1, 1).to_string(), "team rpm_limit");
        assert_eq!(rejection(Dimension::Tpm, 1, 1).to_string(), "team tpm_limit");
    }

    #[test]
    fn a_demand_above_the_limit_can_never_fit_and_one_equal_to_it_can() {
        assert!(rejection(Dimension::Tpm, 100, 1024).can_never_fit());
        assert!(rejection(Dimension::Tpm, 100, 101).can_never_fit());
        assert!(!rejection(Dimension::Tpm, 100, 100).can_never_fit());
    }

    #[test]
    fn nothing_ever_fits_a_blocked_node() {
        assert!(rejection(Dimension::Tpm, 0, 0).can_never_fit());
        assert_eq!(rejection(Dimension::Tpm, 0, 0).retry_after(5), None);
    }

    #[test]
    fn waiting_helps_against_usage_and_not_against_reservations_or_a_small_limit() {
        let used = Rejection { used: 95, ..rejection(Dimension::Tpm, 100, 10) };
        assert_eq!((used.retry_after(42), used.remaining()), (Some(18), 5));
        let held = Rejection { held_for_siblings: 91, ..used.clone() };
        assert_eq!((held.retry_after(42), held.remaining()), (None, 0));
        let barely = Rejection { held_for_siblings: 90, ..used };
        assert_eq!(barely.retry_after(0), Some(60));
        assert_eq!(rejection(Dimension::Tpm, 9, 10).retry_after(42), None);
    }
}
