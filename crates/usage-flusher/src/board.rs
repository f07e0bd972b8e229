//! What the flusher knows of itself, for `/status`, `/readyz` and the gauges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::{counter, gauge};
use serde::Serialize;
use spend_queue::Shard;

/// How long a server may have been silent before the flusher calls itself not ready.
const SILENCE: Duration = Duration::from_secs(10);

/// A notice board: every part of the service writes what it sees, and the endpoints read it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Notices>>);

/// Everything on the board, as `/status` shows it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Notices {
    /// When the service started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it was told to stop.
    pub stopping_since: Option<DateTime<Utc>>,
    /// Redis.
    pub redis: Contact,
    /// PostgreSQL.
    pub postgresql: Contact,
    /// Complete months ahead that have a partition.
    pub partition_headroom_months: Option<u32>,
    /// Rows that no monthly partition accepted.
    pub default_partition_rows: Option<u64>,
    /// Each shard.
    pub shards: BTreeMap<String, ShardNotice>,
}

/// How it goes with a server.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Contact {
    /// When it last answered.
    pub answered_at: Option<DateTime<Utc>>,
    /// What went wrong since then.
    pub error: Option<String>,
}

/// How it goes with a shard.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ShardNotice {
    /// Whether this process works on it.
    pub owned: bool,
    /// Entries that wait.
    pub entries: u64,
    /// When the oldest of them was made ready.
    pub oldest: Option<DateTime<Utc>>,
    /// Bytes of the list in Redis.
    pub bytes: u64,
    /// Whether strict reads go through the entries.
    pub index_doubtful: bool,
    /// Entries that were moved aside.
    pub quarantined: u64,
    /// Entries that left the list without being acknowledged, and that nobody dealt with.
    pub lost: u64,
    /// When the last batch was settled and acknowledged.
    pub flushed_at: Option<DateTime<Utc>>,
    /// Events of all batches.
    pub flushed: u64,
    /// Why the last step failed; empty after one that did not.
    pub error: Option<String>,
    /// Whether an operator must look at it.
    pub needs_operator: bool,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Notices> {
        // Each notice is written whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on the board now.
    #[must_use]
    pub fn read(&self) -> Notices {
        self.lock().clone()
    }

    /// Changes what is on the board.
    pub fn write(&self, change: impl FnOnce(&mut Notices)) {
        change(&mut self.lock());
    }

    /// Changes what is known of a shard.
    pub fn shard(&self, shard: Shard, change: impl FnOnce(&mut ShardNotice)) {
        change(self.lock().shards.entry(shard.to_string()).or_default());
    }

    /// A step that went well.
    pub(crate) fn stepped(&self, shard: Shard, entries: u64, now: DateTime<Utc>) {
        self.shard(shard, |notice| {
            (notice.error, notice.needs_operator) = (None, false);
            if entries > 0 {
                notice.flushed_at = Some(now);
                notice.flushed += entries;
            }
        });
    }

    /// A step that failed.
    pub(crate) fn failed(&self, shard: Shard, error: String, needs_operator: bool) {
        let kind = if needs_operator { "operator" } else { "transient" };
        counter!("tallyweir_step_failures_total", "shard" => shard.to_string(), "kind" => kind).increment(1);
        self.shard(shard, |notice| {
            notice.error = Some(error);
            notice.needs_operator = needs_operator;
        });
    }

    /// Which shards are ours.
    pub(crate) fn owns(&self, sources: &[Shard], held: &BTreeSet<Shard>) {
        for shard in sources {
            let owned = held.contains(shard);
            gauge!("tallyweir_shard_owned", "shard" => shard.to_string()).set(if owned { 1.0 } else { 0.0 });
            self.shard(*shard, |notice| notice.owned = owned);
        }
    }
}

impl Contact {
    /// It answered.
    pub fn answered(&mut self, now: DateTime<Utc>) {
        *self = Self { answered_at: Some(now), error: None };
    }

    /// It did not, or said no.
    pub fn failed(&mut self, error: String) {
        self.error = Some(error);
    }

    fn trouble(&self, name: &str, now: DateTime<Utc>) -> Option<String> {
        let since = match self.answered_at {
            None => "has not answered yet".to_owned(),
            Some(at) if (now - at).to_std().is_ok_and(|silent| silent > SILENCE) => {
                format!("has not answered since {}", at.format("%FT%TZ"))
            }
            Some(_) => return None,
        };
        let why = self.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        Some(format!("{name} {since}{why}"))
    }
}

impl Notices {
    /// Why the flusher is not ready, each in a line; empty when it is. A backlog or a shard that waits for an operator is
    /// no reason: another replica could not help.
    #[must_use]
    pub fn unready(&self, now: DateTime<Utc>) -> Vec<String> {
        let stopping = self.stopping_since.map(|at| format!("it is stopping since {}", at.format("%FT%TZ")));
        let servers = [self.redis.trouble("Redis", now), self.postgresql.trouble("PostgreSQL", now)];
        stopping.into_iter().chain(servers.into_iter().flatten()).collect()
    }

    /// What an operator should know although the flusher is ready, each in a line.
    #[must_use]
    pub fn remarks(&self, now: DateTime<Utc>) -> Vec<String> {
        let mut remarks = Vec::new();
        for (name, shard) in &self.shards {
            let age = shard.oldest.and_then(|oldest| (now - oldest).to_std().ok()).unwrap_or_default();
            if shard.entries > 0 {
                remarks.push(format!(
                    "shard {name}: {} entries wait, the oldest for {} s",
                    shard.entries,
                    age.as_secs()
                ));
            }
            if let (Some(error), true) = (&shard.error, shard.needs_operator) {
                remarks.push(format!("shard {name} needs an operator: {error}"));
            }
            if shard.index_doubtful {
                remarks.push(format!("shard {name}: the index of pending spend is in doubt"));
            }
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-03-01T12:00:30Z".parse().unwrap()
    }

    #[test]
    fn it_is_ready_once_both_servers_answered_and_says_which_does_not() {
        let mut notices = Notices::default();
        assert_eq!(notices.unready(now()), ["Redis has not answered yet", "PostgreSQL has not answered yet"]);
        notices.redis.answered(now());
        notices.postgresql.answered(now());
        assert_eq!(notices.unready(now()), [""; 0]);
        notices.postgresql.failed("connection refused".into());
        assert_eq!(notices.unready(now() + SILENCE), [""; 0], "a hiccup");
        let later = now() + SILENCE + Duration::from_secs(1);
        assert_eq!(
            notices.unready(later),
            [
                "Redis has not answered since 2026-03-01T12:00:30Z",
                "PostgreSQL has not answered since 2026-03-01T12:00:30Z: connection refused",
            ]
        );
        notices.stopping_since = Some(now());
        assert!(notices.unready(now())[0].contains("stopping"));
    }

    #[test]
    fn a_backlog_is_remarked_and_no_reason_to_be_taken_out_of_service() {
        let board = Board::default();
        let shard = spend_queue::ShardCount::ONE.shard_of("");
        board.shard(shard, |notice| {
            notice.entries = 3;
            notice.oldest = Some(now() - Duration::from_secs(90));
        });
        board.failed(shard, "the head cannot be read".into(), true);
        let notices = board.read();
        assert_eq!(
            notices.remarks(now()),
            [
                "shard 0: 3 entries wait, the oldest for 90 s",
                "shard 0 needs an operator: the head cannot be read",
            ]
        );
        board.stepped(shard, 2, now());
        assert_eq!(board.read().shards["0"].error, None);
    }
}
