//! Which history a number belongs to.

use core::fmt;
use std::sync::Arc;

use crate::ShardCount;

/// A history of sequence numbers: one deployment's key prefix with one number of shards. Numbers of a shard go up within an
/// epoch and begin at 1 in each, so two of them compare only within one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    prefix: Arc<str>,
    shards: ShardCount,
}

impl Epoch {
    /// The epoch of this key prefix and this number of shards.
    #[must_use]
    pub fn new(prefix: impl Into<Arc<str>>, shards: ShardCount) -> Self {
        Self { prefix: prefix.into(), shards }
    }

    /// The key prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The number of shards.
    #[must_use]
    pub const fn shards(&self) -> ShardCount {
        self.shards
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.shards == ShardCount::ONE { "" } else { "s" };
        write!(f, "prefix {}, {} shard{plural}", self.prefix, self.shards)
    }
}
