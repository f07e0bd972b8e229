//! Every key that this crate uses, in one place.
//!
//! A key is `<prefix>:{<shard>}:<what>`: the braces are a Redis Cluster hash tag, so all keys of a shard live
//! in one slot and one script can change them together. What a caller names (a partition, an id, a key) comes last
//! and raw, behind a fixed number of separators and after the tag, so no name can forge another key.
//!
//! Telemetry, counters and strings have the tag too: an id lives in the shard that its own hash names, as a partition
//! does. So a deployment's two failure keys share a slot, and many ids are read by one pipeline a shard. These tagged
//! keys, with the minute before the id, are in place of untagged ones such as `<prefix>:fails:<id>`.

mod named;

use std::fmt;
use std::str::FromStr;

use spend_queue::{RequestDigest, ScopeRef, Shard};
use thiserror::Error;

pub use named::{named_keys, queue_keys};

/// The partition of flat plans that name none.
pub const FLAT_PARTITION: &str = "flat";

/// The buckets of remembered request ids are chosen by 15 bits. At a million ids each is a hash of about 30, small enough to
/// be searched quickly, and up to 512 fields (`hash-max-listpack-entries`, so 16 million ids) Redis keeps it in a compact form.
/// One bit more costs 30 bytes an id at a million ids; one less doubles the search (`docs/performance.md`).
const SEEN_BUCKET_BITS: u32 = 15;

/// How many buckets there are.
pub(crate) const SEEN_BUCKETS: u16 = 1 << SEEN_BUCKET_BITS;

/// What every key starts with: 1 to 64 characters of `a-z A-Z 0-9 . _ : -`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(String);

/// A key prefix with a character that could break the layout, or of a wrong length.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("key prefix {0:?}: 1 to 64 characters of a-z A-Z 0-9 . _ : - are possible")]
pub struct KeyPrefixError(String);

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("tallyweir".to_owned())
    }
}

impl FromStr for KeyPrefix {
    type Err = KeyPrefixError;

    fn from_str(text: &str) -> Result<Self, KeyPrefixError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if (1..=64).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(KeyPrefixError(text.chars().take(70).collect()))
        }
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The keys of one shard.
pub(crate) struct ShardKeys<'a> {
    prefix: &'a KeyPrefix,
    shard: Shard,
}

impl KeyPrefix {
    pub(crate) fn shard(&self, shard: Shard) -> ShardKeys<'_> {
        ShardKeys { prefix: self, shard }
    }
}

impl ShardKeys<'_> {
    fn key(&self, what: fmt::Arguments<'_>) -> String {
        format!("{}:{{{}}}:{what}", self.prefix, self.shard)
    }

    /// Hash of the counters of one partition in one UTC minute.
    pub(crate) fn rate(&self, minute: i64, partition: &str) -> String {
        self.key(format_args!("rate:{minute}:{partition}"))
    }

    /// Set of the tickets of one partition and minute that are settled.
    pub(crate) fn settled(&self, minute: i64, partition: &str) -> String {
        self.key(format_args!("settled:{minute}:{partition}"))
    }

    /// String: failures of a deployment in the counting window.
    pub(crate) fn fails(&self, id: &str) -> String {
        self.key(format_args!("fails:{id}"))
    }

    /// String: there while a deployment is cooled.
    pub(crate) fn cooldown(&self, id: &str) -> String {
        self.key(format_args!("cooldown:{id}"))
    }

    /// List of a deployment's latencies in seconds, newest first.
    pub(crate) fn latency(&self, id: &str) -> String {
        self.key(format_args!("latency:{id}"))
    }

    /// String: tokens of a deployment in one UTC minute.
    pub(crate) fn usage(&self, minute: i64, id: &str) -> String {
        self.key(format_args!("usage:{minute}:{id}"))
    }

    /// String: requests of a subject in one UTC minute.
    pub(crate) fn rpm(&self, minute: i64, id: &str) -> String {
        self.key(format_args!("rpm:{minute}:{id}"))
    }

    /// String: tokens of a subject in one UTC minute.
    pub(crate) fn tpm(&self, minute: i64, id: &str) -> String {
        self.key(format_args!("tpm:{minute}:{id}"))
    }

    /// String: an affinity.
    pub(crate) fn affinity(&self, key: &str) -> String {
        self.key(format_args!("affinity:{key}"))
    }

    /// String: a short-lived string.
    pub(crate) fn string(&self, key: &str) -> String {
        self.key(format_args!("str:{key}"))
    }

    /// List of entries, oldest first.
    pub(crate) fn queue(&self) -> String {
        self.key(format_args!("queue"))
    }

    /// Hash of sequence, chain, format and shard count.
    pub(crate) fn state(&self) -> String {
        self.key(format_args!("state"))
    }

    /// Hash of scope ref to pending picodollars.
    pub(crate) fn hot(&self) -> String {
        self.key(format_args!("hot"))
    }

    /// Hash of scope ref to pending paid events.
    pub(crate) fn count(&self) -> String {
        self.key(format_args!("count"))
    }

    /// Sorted set of organization and start of pending events.
    pub(crate) fn since(&self) -> String {
        self.key(format_args!("since"))
    }

    /// Hash of the same to pending picodollars.
    pub(crate) fn since_amount(&self) -> String {
        self.key(format_args!("since:amount"))
    }

    /// List of what an operator moved aside.
    pub(crate) fn quarantine(&self) -> String {
        self.key(format_args!("quarantine"))
    }

    /// List of what was found to have left the queue without an acknowledgement.
    pub(crate) fn lost(&self) -> String {
        self.key(format_args!("lost"))
    }

    /// The queue and its index, in the order of `lua/parts/index.lua`.
    pub(crate) fn indexed_queue(&self) -> [String; 6] {
        [self.queue(), self.state(), self.hot(), self.count(), self.since(), self.since_amount()]
    }

    /// Hash of one bucket of remembered request ids: that of ids that are remembered for ever, or of one generation.
    pub(crate) fn seen(&self, digest: &RequestDigest, generation: Option<u64>) -> String {
        self.seen_in(seen_bucket(digest), generation)
    }

    /// The same, of a bucket by its number.
    pub(crate) fn seen_in(&self, bucket: u16, generation: Option<u64>) -> String {
        match generation {
            None => self.key(format_args!("seen:{bucket:04x}")),
            Some(generation) => self.key(format_args!("seen:{generation}:{bucket:04x}")),
        }
    }
}

/// The bucket of a request id, from 0 and below [`SEEN_BUCKETS`].
pub(crate) fn seen_bucket(digest: &RequestDigest) -> u16 {
    let [high, low, ..] = digest.as_bytes();
    u16::from_be_bytes([*high, *low]) >> (u16::BITS - SEEN_BUCKET_BITS)
}

/// The field of a request id in its bucket. It leaves out two bytes that mostly repeat the bucket's name; 126 of 128 bits of
/// the digest stay distinguishing.
pub(crate) fn seen_field(digest: &RequestDigest) -> &[u8] {
    let [_, _, field @ ..] = digest.as_bytes();
    field
}

/// The keys of an older deployment's queue (entry format 1). They have no tag, so they cannot be in a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderQueue(KeyPrefix);

impl OlderQueue {
    /// The queue under this prefix; older deployments used `xhub` unless told otherwise.
    #[must_use]
    pub const fn new(prefix: KeyPrefix) -> Self {
        Self(prefix)
    }

    /// List of entries of format 1, oldest first.
    pub(crate) fn list(&self) -> String {
        format!("{}:spendlog", self.0)
    }

    /// String: a float counter.
    pub(crate) fn counter(&self, scope: &ScopeRef) -> String {
        format!("{}:spend:{}/{}", self.0, scope.kind(), scope.id())
    }
}

impl Default for OlderQueue {
    fn default() -> Self {
        Self(KeyPrefix("xhub".to_owned()))
    }
}

impl FromStr for OlderQueue {
    type Err = KeyPrefixError;

    fn from_str(text: &str) -> Result<Self, KeyPrefixError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use spend_queue::ShardCount;

    use super::*;

    #[test]
    fn the_first_braces_of_a_key_are_the_shard_whatever_the_partition_is_called() {
        let prefix = KeyPrefix::default();
        let shard = ShardCount::new(9).unwrap().iter().nth(4).unwrap();
        for partition in ["organization/o", "organization/{7}", "a:b", "}{", ":queue"] {
            let key = prefix.shard(shard).rate(29_000_000, partition);
            assert!(key.starts_with("tallyweir:{4}:rate:29000000:"), "{key}");
            assert!(key.ends_with(partition));
        }
    }

    #[test]
    fn no_id_names_another_ids_key() {
        let prefix = KeyPrefix::default();
        let keys = prefix.shard(ShardCount::ONE.shard_of("any"));
        let ids = ["a", "1:a", "a:1", "{7}", ":", "*", "cooldown:a", "str:a", " a", "A"];
        let mut seen = std::collections::HashSet::new();
        for id in ids {
            let of_id =
                [keys.fails(id), keys.cooldown(id), keys.latency(id), keys.affinity(id), keys.string(id)];
            let of_minutes = [1, 11].map(|at| [keys.usage(at, id), keys.rpm(at, id), keys.tpm(at, id)]);
            for key in of_id.into_iter().chain(of_minutes.into_iter().flatten()) {
                assert!(key.starts_with("tallyweir:{0}:"), "{key}");
                assert!(seen.insert(key.clone()), "{key} twice");
            }
        }
    }

    #[test]
    fn a_prefix_cannot_forge_a_tag() {
        for text in ["", "a{b}", "a b", "a\n", "ü", &"x".repeat(65)] {
            assert!(text.parse::<KeyPrefix>().is_err(), "{text:?}");
        }
        assert!("gateway-1:eu_west.2".parse::<KeyPrefix>().is_ok());
    }

    #[test]
    fn ids_spread_over_small_buckets() {
        let prefix = KeyPrefix::default();
        let shard = ShardCount::ONE.shard_of("any");
        let mut buckets = std::collections::HashMap::new();
        for n in 0..100_000 {
            let digest = RequestDigest::of(&format!("request-{n}"));
            *buckets.entry(prefix.shard(shard).seen(&digest, None)).or_insert(0) += 1;
        }
        assert!(buckets.len() > 30_000, "{}", buckets.len());
        assert!(buckets.values().max() < Some(&20));
    }
}
