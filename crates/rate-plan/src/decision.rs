//! What admission answers.

use core::fmt;

use crate::{Dimension, Scope};

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[must_use = "a request that is not known to be admitted must not run"]
pub enum Decision {
    /// Every limit on the path allows the request.
    Admitted,
    /// A limit refuses it; no counter moves.
    Rejected(Rejection),
}

impl Decision {
    /// Whether the request may run.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted)
    }

    /// The limit that refused, if one did.
    #[must_use]
    pub const fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Admitted => None,
            Self::Rejected(rejection) => Some(rejection),
        }
    }
}

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
    /// The node's limit, per minute.
    pub limit: u64,
    /// What the node had used in this minute.
    pub used: u64,
    /// What the node keeps for fixed allocations below it that this path does not draw on. Summed over a large tree
    /// it can exceed every limit; it then stops at [`u64::MAX`], which refuses all the same.
    pub held_for_siblings: u64,
    /// What the request would have added: 1, or its estimate.
    pub demand: u64,
}

impl Rejection {
    /// Whether the demand is above the limit itself, so that no minute, however idle, can admit it.
    ///
    /// A limit of 0 refuses even a demand of 0, so it is never fitted either. When false, what was used passes with the minute; what is held for siblings need not.
    #[must_use]
    pub const fn can_never_fit(&self) -> bool {
        self.limit == 0 || self.demand > self.limit
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
    }
}
