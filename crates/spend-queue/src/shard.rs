//! Where a partition of the queue lives.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// The most shards that one deployment can have: a Redis Cluster has no more slots to give.
pub const MAX_SHARDS: u16 = 16_384;

/// One shard: one hash tag, so one Redis Cluster slot, one list, one chain; or the list of an older deployment, which is
/// drained as one more shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u16);

/// How many shards the partitions of a deployment are spread over (1 to 16,384).
///
/// The count decides where an event goes, so all hosts of a deployment must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardCount(u16);

/// A shard count outside 1 to 16,384.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} shards asked for, 1 to {MAX_SHARDS} are possible")]
pub struct ShardCountError(pub u16);

/// A text that is no shard count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a whole number of shards from 1 to {MAX_SHARDS} is accepted")]
pub struct ParseShardCountError;

impl Shard {
    /// The list that an older deployment left or still writes (entry format 1). It has no numbers and no chain.
    pub const OLDER: Self = Self(u16::MAX);

    /// Whether it is the list of an older deployment.
    #[must_use]
    pub const fn is_older(self) -> bool {
        self.0 == Self::OLDER.0
    }

    /// The shard's number, from 0; 65,535 for [`Shard::OLDER`].
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_older() { f.pad("older") } else { self.0.fmt(f) }
    }
}

impl ShardCount {
    /// One shard, the default.
    pub const ONE: Self = Self(1);

    /// So many shards.
    ///
    /// # Errors
    ///
    /// When the count is 0 or above [`MAX_SHARDS`].
    pub const fn new(count: u16) -> Result<Self, ShardCountError> {
        if count == 0 || count > MAX_SHARDS { Err(ShardCountError(count)) } else { Ok(Self(count)) }
    }

    /// The number of shards.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The shard of a partition (the text of its billing root's scope ref): `xxh3_64(partition) mod count`.
    #[must_use]
    pub fn shard_of(self, partition: &str) -> Shard {
        let index = xxh3_64(partition.as_bytes()) % u64::from(self.0);
        Shard(u16::try_from(index).unwrap_or_default())
    }

    /// All shards, in order.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        (0..self.0).map(Shard)
    }
}

impl FromStr for ShardCount {
    type Err = ParseShardCountError;

    fn from_str(text: &str) -> Result<Self, ParseShardCountError> {
        text.parse().ok().and_then(|count| Self::new(count).ok()).ok_or(ParseShardCountError)
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self::ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_always_lands_on_the_same_existing_shard() {
        let count = ShardCount::new(7).unwrap();
        let mut hit = [false; 7];
        for n in 0..200 {
            let partition = format!("organization/{n}");
            let shard = count.shard_of(&partition);
            assert_eq!(shard, count.shard_of(&partition));
            hit[usize::from(shard.index())] = true;
        }
        assert_eq!(hit, [true; 7]);
        assert_eq!(count.iter().count(), 7);
    }

    #[test]
    fn impossible_counts_are_refused() {
        assert_eq!(ShardCount::new(0), Err(ShardCountError(0)));
        assert!(ShardCount::new(MAX_SHARDS).is_ok());
        assert!(ShardCount::new(MAX_SHARDS + 1).is_err());
    }
}
