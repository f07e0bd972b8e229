//! Every call on a queue with every damage: it fails and changes nothing, or what strict reads say afterwards is exact.

use chrono::{DateTime, Utc};
use live_redis::{CallError, LiveRedisError, OperatorNote, Quarantined};
use spend_queue::{EncodedEvent, Entry, PendingSpend, Receipt, ScopeRef, SpendEvent, SpendQueue, Usd};

use crate::common::{Hot, limit, now, shard, team};
use crate::damages::{Call, Damage, EARLY, of_absence, of_type, of_value};
use crate::{entries, refused};

fn organization() -> ScopeRef {
    ScopeRef::new("organization", "o").unwrap()
}

fn early() -> DateTime<Utc> {
    now() - chrono::TimeDelta::seconds(30)
}

fn started(id: &str, at: DateTime<Utc>) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![team(), organization()]);
    event.cost = Some(Usd::from_picos(5));
    event.started_at = Some(at);
    event.encode(now()).unwrap()
}

/// A queue of three, one of which is looked at, and a fourth entry in quarantine.
struct Filled {
    receipt: Receipt,
    head: Entry,
    aside: Quarantined,
}

impl Filled {
    async fn fill(hot: &Hot) -> Self {
        let _: String = hot.run(&[b"FLUSHALL"]).await;
        hot.redis.enqueue(&started("aside", early())).await.unwrap();
        let aside = hot.redis.peek(shard(), limit(1)).await.unwrap().entries.remove(0);
        let note = OperatorNote { reason: "a test".into(), at: now() };
        assert_eq!(hot.redis.quarantine(shard(), aside.raw(), &note).await, Ok(Some(0)));
        for (id, at) in [("a", early()), ("b", now()), ("c", now())] {
            hot.redis.enqueue(&started(id, at)).await.unwrap();
        }
        let mut batch = hot.redis.peek(shard(), limit(1)).await.unwrap();
        let aside = hot.redis.quarantined(shard(), 1).await.unwrap().remove(0);
        Self { receipt: batch.receipt().unwrap(), head: batch.entries.remove(0), aside }
    }

    /// Makes the call and answers what is said, where it fails also when it fails as a value.
    async fn call(&self, hot: &Hot, call: Call) -> Result<String, LiveRedisError> {
        fn text<T: std::fmt::Debug>(answer: Result<T, LiveRedisError>) -> Result<String, LiveRedisError> {
            answer.map(|answer| format!("{answer:?}"))
        }
        let redis = &hot.redis;
        match call {
            Call::Enqueue => text(redis.enqueue(&started("d", early())).await),
            Call::Ack => text(redis.ack(&self.receipt).await),
            Call::Peek => text(redis.peek(shard(), limit(10)).await),
            Call::Pending => text(redis.pending(&organization()).await),
            Call::PendingSince => text(redis.pending_since("o", now()).await),
            Call::Backlog => text(redis.backlog(shard()).await),
            Call::Status => text(redis.queue_status(shard()).await),
            Call::Repair => text(redis.repair_index(shard()).await),
            Call::Quarantine => {
                let note = OperatorNote { reason: "a test".into(), at: now() };
                text(redis.quarantine(shard(), self.head.raw(), &note).await)
            }
            Call::Restore => match redis.restore(shard(), &self.aside).await {
                // Another item is there: nothing changes.
                Ok(None) => Err(LiveRedisError::Damaged("the item is another one".into())),
                answer => text(answer),
            },
            Call::ListQuarantine => text(redis.quarantined(shard(), 10).await),
        }
    }
}

/// What strict reads must say: what the entries themselves say, or an error where they cannot be read.
async fn strict_reads_are_exact(hot: &Hot, what: &str) {
    let sum = |entries: &[Entry], since: Option<DateTime<Utc>>| -> Usd {
        let current = |entry: &&Entry| since.is_none_or(|since| entry.event.started_at.unwrap() >= since);
        Usd::checked_sum(entries.iter().filter(current).map(|entry| entry.event.cost.unwrap())).unwrap()
    };
    let entries = entries(hot).await;
    for (said, since) in [
        (hot.redis.pending(&organization()).await, None),
        (hot.redis.pending_since("o", now()).await, Some(now())),
    ] {
        match (said, &entries) {
            (Ok(said), Some(entries)) => assert_eq!(said, sum(entries, since), "{what}"),
            (Ok(said), None) => panic!("{what}: {said} of a queue that cannot be read"),
            (Err(error), _) => assert!(matches!(error, LiveRedisError::Damaged(_)), "{what}: {error}"),
        }
    }
}

/// Every call with every one of these damages, each on a queue made anew.
async fn all_calls(damages: Vec<Damage>, is_typed: impl Fn(Call, &LiveRedisError) -> bool) {
    let hot = Hot::private().await;
    let (mut tried, mut failed) = (0, 0);
    for damage in damages {
        for call in Call::ALL {
            let filled = Filled::fill(&hot).await;
            damage.inflict(&hot).await;
            let what = format!("{call:?} after {}", damage.what);
            if damage.fails.contains(&call) {
                let error = refused(&hot, &what, filled.call(&hot, call)).await;
                assert!(is_typed(call, &error), "{what}: {error:?}");
                failed += 1;
            } else {
                let before = hot.digest().await;
                filled.call(&hot, call).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                if !matches!(
                    call,
                    Call::Enqueue | Call::Ack | Call::Repair | Call::Quarantine | Call::Restore
                ) {
                    assert_eq!(hot.digest().await, before, "{what}");
                }
                if !damage.fails.contains(&Call::Backlog) && !damage.fails.contains(&Call::Peek) {
                    strict_reads_are_exact(&hot, &what).await;
                }
            }
            tried += 1;
        }
    }
    println!("{tried} calls on damaged queues tried, {failed} of them failed as they must");
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_or_a_doubt() {
    all_calls(of_type(), |_, error| {
        matches!(error, LiveRedisError::Call(CallError::Refused(said)) if said.contains("wrong kind of value"))
    })
    .await;
}

#[tokio::test]
async fn a_value_that_no_script_writes_is_damage_and_never_a_number() {
    all_calls(of_value(), |call, error| {
        matches!(error, LiveRedisError::Damaged(_))
            || (call == Call::Enqueue && matches!(error, LiveRedisError::ShardCount(_)))
    })
    .await;
}

#[tokio::test]
async fn what_is_missing_is_noticed_by_its_counterpart_or_by_the_sizes() {
    all_calls(of_absence(), |_, error| matches!(error, LiveRedisError::Damaged(_))).await;
}

#[tokio::test]
async fn the_place_that_is_damaged_is_that_of_the_first_start() {
    let hot = Hot::private().await;
    Filled::fill(&hot).await;
    let places: Vec<Vec<u8>> = hot.run(&[b"ZRANGE", hot.key("since").as_bytes(), b"0", b"-1"]).await;
    assert_eq!(places[0], EARLY);
    assert_eq!(places.len(), 2);
}

#[tokio::test]
async fn a_sum_that_no_counter_holds_stops_a_repair_and_not_a_strict_read() {
    let hot = Hot::private().await;
    for id in ["a", "b"] {
        let mut event = SpendEvent::new(id, "m", vec![team()]);
        event.cost = Some(Usd::from_picos(i64::MAX.into()));
        hot.redis.enqueue(&event.encode(now()).unwrap()).await.unwrap();
        let _: u64 = hot.run(&[b"DEL", hot.key("hot").as_bytes(), hot.key("count").as_bytes()]).await;
    }
    assert_eq!(hot.redis.pending(&team()).await, Ok(Usd::from_picos(2 * i128::from(i64::MAX))));
    let digest = hot.digest().await;
    for _ in 0..2 {
        let error = hot.redis.reindex(shard()).await.unwrap_err();
        assert!(matches!(error, LiveRedisError::CounterFull(_)), "{error}");
    }
    assert_eq!(hot.digest().await, digest);
}
