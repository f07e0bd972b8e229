//! What admission answers.

use alloc::vec::Vec;

use crate::{Dimension, Rejection, Usage};

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[must_use = "a request that is not known to be admitted must not run"]
pub enum Decision {
    /// Every limit on the path allows the request.
    Admitted(Admitted),
    /// A limit refuses it; no counter moves.
    Rejected(Rejection),
}

impl Decision {
    /// Whether the request may run.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted(_))
    }

    /// What an admission left on the path, if the request may run.
    #[must_use]
    pub const fn admitted(&self) -> Option<&Admitted> {
        match self {
            Self::Admitted(admitted) => Some(admitted),
            Self::Rejected(_) => None,
        }
    }

    /// The limit that refused, if one did.
    #[must_use]
    pub const fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Admitted(_) => None,
            Self::Rejected(rejection) => Some(rejection),
        }
    }

    /// [`Rejection::retry_after`] of a rejection; `None` for an admission.
    #[must_use]
    pub const fn retry_after(&self, unix_seconds: i64) -> Option<u64> {
        match self {
            Self::Admitted(_) => None,
            Self::Rejected(rejection) => rejection.retry_after(unix_seconds),
        }
    }
}

/// The state of a path once the request is counted on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Admitted {
    /// What each node of the path has used in the minute, this request included, leaf to root.
    pub usage: Vec<Usage>,
    /// The tightest request limit of the path; `None` when no node of it has one.
    pub rpm: Option<Headroom>,
    /// The tightest token limit of the path; `None` when no node of it has one.
    pub tpm: Option<Headroom>,
}

impl Admitted {
    /// The tightest limit of the path in one dimension.
    #[must_use]
    pub const fn headroom(&self, dimension: Dimension) -> Option<Headroom> {
        match dimension {
            Dimension::Rpm => self.rpm,
            Dimension::Tpm => self.tpm,
        }
    }
}

/// How much of a limit is left for further requests on the same path.
///
/// Of all limited nodes of a path, the one with the least left; of several, the one nearest to the leaf. What is
/// left is the path's until others use what they share with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Headroom {
    /// Index of the limited node in its tree.
    pub node: usize,
    /// Its limit, per minute, 1 to [`MAX_LIMIT`](crate::MAX_LIMIT).
    pub limit: u64,
    /// The limit less what was used and what is held for siblings, 0 to `limit`.
    pub remaining: u64,
}

impl Headroom {
    /// The tighter of the two; of equals the first, which is nearer to the leaf.
    pub(crate) fn tighter(below: Option<Self>, above: Self) -> Self {
        below.filter(|below| below.remaining <= above.remaining).unwrap_or(above)
    }
}

/// What the limits of one dimension say, before the other is asked.
pub(crate) enum Verdict {
    Passes(Option<Headroom>),
    Refuses(Rejection),
}
