//! The names of keys in Redis, made of what callers say.

use std::str::FromStr;

use live_redis::{KeyPrefix, named_keys, queue_keys};
use spend_queue::ShardCount;

use crate::lines;

/// Kinds of keys that count a minute, which stands before the name.
const OF_A_MINUTE: [&str; 5] = ["rate", "settled", "usage", "rpm", "tpm"];

/// Each key tells back the prefix, shard, kind, minute and name that it was made of, by the one rule of its layout: so no two
/// different ones are the same key, and no name reaches another's. Its hash tag, as Redis reads it, is the shard.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let lines = lines(bytes);
    let [prefix, minute, names @ ..] = &lines[..] else { return };
    let Ok(prefix) = KeyPrefix::from_str(prefix) else {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        return assert!(!(1..=64).contains(&prefix.len()) || !prefix.bytes().all(legal), "{prefix:?}");
    };
    let minute: i64 = minute.parse().unwrap_or(29_000_000);
    let count = ShardCount::new(16).unwrap_or_default();
    for name in names {
        let shard = count.shard_of(name);
        for (kind, key) in named_keys(&prefix, shard, minute, name) {
            let (before, tag, what, minute_told, name_told) = told(&key);
            assert_eq!((before, tag), (prefix.to_string().as_str(), shard.to_string().as_str()), "{key:?}");
            assert_eq!((what, name_told), (kind, name.as_str()), "{key:?}");
            assert_eq!(minute_told, OF_A_MINUTE.contains(&kind).then_some(minute), "{key:?}");
            assert_eq!(hash_tag(&key), tag, "{key:?}");
        }
        let generation = minute.unsigned_abs();
        let own = queue_keys(&prefix, shard, name, generation);
        let named = named_keys(&prefix, shard, minute, name);
        for key in &own {
            assert_eq!(hash_tag(key), shard.to_string(), "{key:?}");
            assert!(named.iter().all(|(_, other)| other != key), "{key:?}");
            let what = told(key).2;
            assert!(named.iter().all(|(kind, _)| *kind != what), "a name could become {key:?}");
        }
    }
}

/// What a key says: `<prefix>:{<shard>}:<kind>[:<minute>]:<name>`. A prefix has no brace, a shard and a kind no colon.
fn told(key: &str) -> (&str, &str, &str, Option<i64>, &str) {
    let (prefix, rest) = key.split_once(":{").expect("a prefix");
    let (shard, rest) = rest.split_once("}:").expect("a shard");
    let (kind, rest) = rest.split_once(':').unwrap_or((rest, ""));
    if !OF_A_MINUTE.contains(&kind) {
        return (prefix, shard, kind, None, rest);
    }
    let (minute, name) = rest.split_once(':').expect("a minute");
    (prefix, shard, kind, Some(minute.parse().expect("a number")), name)
}

/// What Redis Cluster hashes: between the first brace and the next closing one, if anything is.
fn hash_tag(key: &str) -> &str {
    let Some((_, rest)) = key.split_once('{') else { return key };
    rest.split_once('}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}
