//! The keys that a caller's own words are part of, all at once, for who tries to forge one.

use spend_queue::{RequestDigest, Shard};

use super::KeyPrefix;

/// Each kind of key that ends with a name from outside, made of this name: the kind, as it stands behind the tag, and the
/// key. `minute` is that of the kinds that count a minute.
#[doc(hidden)]
#[must_use]
pub fn named_keys(prefix: &KeyPrefix, shard: Shard, minute: i64, name: &str) -> [(&'static str, String); 10] {
    let keys = prefix.shard(shard);
    [
        ("rate", keys.rate(minute, name)),
        ("settled", keys.settled(minute, name)),
        ("usage", keys.usage(minute, name)),
        ("rpm", keys.rpm(minute, name)),
        ("tpm", keys.tpm(minute, name)),
        ("fails", keys.fails(name)),
        ("cooldown", keys.cooldown(name)),
        ("latency", keys.latency(name)),
        ("affinity", keys.affinity(name)),
        ("str", keys.string(name)),
    ]
}

/// The keys of a shard's queue, which no name from outside may ever be: one of each kind of bucket included.
#[doc(hidden)]
#[must_use]
pub fn queue_keys(prefix: &KeyPrefix, shard: Shard, request_id: &str, generation: u64) -> Vec<String> {
    let keys = prefix.shard(shard);
    let digest = RequestDigest::of(request_id);
    let buckets = [keys.quarantine(), keys.seen(&digest, None), keys.seen(&digest, Some(generation))];
    keys.indexed_queue().into_iter().chain(buckets).collect()
}
