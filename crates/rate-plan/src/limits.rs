//! Limits and the two dimensions that they bound.

use core::fmt;

/// The largest limit, estimate and counter: 2^53 - 1, about 9.0e15.
///
/// Redis scripts compute in IEEE doubles. Up to here every integer is exact in them, so that a script and this
/// crate cannot differ by rounding.
pub const MAX_LIMIT: u64 = (1 << 53) - 1;

/// What is counted in a minute: requests or tokens.
///
/// `Display` writes `rpm` or `tpm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Dimension {
    /// Requests per minute. Each request demands 1.
    Rpm,
    /// Tokens per minute. A request demands its estimate.
    Tpm,
}

impl Dimension {
    /// Both dimensions, in the order in which they are checked.
    pub const ALL: [Self; 2] = [Self::Rpm, Self::Tpm];

    /// What a request with this token estimate demands: 1 request, or its estimate with a negative one read as 0.
    #[must_use]
    pub fn demand(self, estimate: i64) -> u64 {
        match self {
            Self::Rpm => 1,
            Self::Tpm => u64::try_from(estimate).unwrap_or(0),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
        })
    }
}

/// The limits of one node, each per minute.
///
/// `None` makes the node *shared* in that dimension: it has no limit of its own but is still counted. `Some(0)`
/// blocks it. A [`RateTree`](crate::RateTree) refuses limits above [`MAX_LIMIT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
// A misspelt limit that is dropped in silence would be no limit at all.
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Limits {
    /// Requests per minute, 0 to [`MAX_LIMIT`].
    pub rpm: Option<u64>,
    /// Tokens per minute, 0 to [`MAX_LIMIT`].
    pub tpm: Option<u64>,
}

impl Limits {
    /// No limit in either dimension.
    pub const SHARED: Self = Self { rpm: None, tpm: None };

    /// The limit in one dimension.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Rpm => self.rpm,
            Dimension::Tpm => self.tpm,
        }
    }

    /// What a fixed node may still use; `None` for a shared one. Zero when the limit was lowered below the usage.
    pub(crate) fn unused(&self, dimension: Dimension, used: u64) -> Option<u64> {
        self.get(dimension).map(|limit| limit.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_estimate_demands_no_tokens_and_still_one_request() {
        assert_eq!(Dimension::Tpm.demand(-5), 0);
        assert_eq!(Dimension::Tpm.demand(i64::MIN), 0);
        assert_eq!(Dimension::Tpm.demand(7), 7);
        assert_eq!(Dimension::Rpm.demand(-5), 1);
    }
}
