//! Kinds of key.

use spend_queue::{RequestDigest, ScopeRef};

use crate::OlderQueue;
use crate::keys::ShardKeys;

/// One kind of key, with ids that stand for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Queue,
    State,
    Seen,
    Hot,
    Count,
    Since,
    SinceAmount,
    Quarantine,
    Lost,
    OlderList,
    OlderCounter,
    Rate,
    Settled,
    Fails,
    Cooldown,
    Latency,
    Usage,
    Rpm,
    Tpm,
    Affinity,
    Text,
}

impl Family {
    /// The key in a shard; `None` for an older deployment's keys where there is none.
    pub(super) fn key(self, keys: &ShardKeys<'_>, older: Option<&OlderQueue>) -> Option<String> {
        Some(match self {
            Self::Queue => keys.queue(),
            Self::State => keys.state(),
            Self::Seen => keys.seen(&RequestDigest::of("id"), None),
            Self::Hot => keys.hot(),
            Self::Count => keys.count(),
            Self::Since => keys.since(),
            Self::SinceAmount => keys.since_amount(),
            Self::Quarantine => keys.quarantine(),
            Self::Lost => keys.lost(),
            Self::OlderList => older?.list(),
            Self::OlderCounter => older?.counter(&ScopeRef::new("key", "id").ok()?),
            Self::Rate => keys.rate(0, "id"),
            Self::Settled => keys.settled(0, "id"),
            Self::Fails => keys.fails("id"),
            Self::Cooldown => keys.cooldown("id"),
            Self::Latency => keys.latency("id"),
            Self::Usage => keys.usage(0, "id"),
            Self::Rpm => keys.rpm(0, "id"),
            Self::Tpm => keys.tpm(0, "id"),
            Self::Affinity => keys.affinity("id"),
            Self::Text => keys.string("id"),
        })
    }
}
