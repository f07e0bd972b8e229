//! Enqueueing, one event alone or several that wait together (docs/decisions/0017).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{FromRedisValue, Value};
use spend_queue::{EncodedEvent, Enqueued, Shard};

use crate::error::{CallError, LiveRedisError};
use crate::keys::seen_field;
use crate::lane::{Batch, Lanes};
use crate::settings::AgreedSettings;
use crate::{LiveRedis, script};

/// Who waits for an enqueue, by shard and lane. Each event has an answer of its own: one that is refused refuses no other.
pub(crate) type EnqueueLanes = Lanes<(Shard, u8), EncodedEvent, Result<Enqueued, LiveRedisError>>;

/// Lanes of one shard, so calls that are under way at once: while the server works on one, this host makes the next ready and
/// reads the answers of the one before.
const LANES: u8 = 2;

/// The most bytes of events in one call, so that a call of large events does not stand long before an admission.
const BATCH_BYTES: usize = 256 * 1024;

/// Events of one call: bodies of at most [`BATCH_BYTES`], or a single larger one.
#[derive(Default)]
struct Bodies(usize);

impl Batch<EncodedEvent> for Bodies {
    fn takes(&mut self, event: &EncodedEvent) -> bool {
        let first = self.0 == 0;
        self.0 += event.body().len();
        first || self.0 <= BATCH_BYTES
    }
}

impl LiveRedis {
    /// Waits for a place in the shard's next call. The caller may go at any time: the event is then queued or not, and
    /// enqueueing it again is safe.
    pub(super) async fn enqueue_in_lane(&self, event: &EncodedEvent) -> Result<Enqueued, LiveRedisError> {
        self.agree_on_shards().await?;
        let shard = self.shard_count().shard_of(event.partition());
        // Events that are enqueued at once have no order among them, so any lane will do; a retry takes the same one.
        let [.., last] = *event.digest().as_bytes();
        let lane = (shard, last % LANES);
        let (answer, free) = self.shared.enqueue_lanes.join(&lane, event.clone());
        if free {
            let redis = self.clone();
            tokio::spawn(async move { redis.drive_enqueues(lane).await });
        }
        self.within_deadline(answer.wait()).await?
    }

    /// Makes call after call until nobody waits.
    async fn drive_enqueues(&self, lane: (Shard, u8)) {
        let (shard, _) = lane;
        let call = |events: Arc<[EncodedEvent]>| async move { self.enqueue_batch(shard, &events).await };
        let shape = |events: &[EncodedEvent]| {
            let of =
                |event: &EncodedEvent| (event.body().len(), event.charges().count(), event.starts().count());
            format!("bytes, charges and starts of each: {:?}", events.iter().map(of).collect::<Vec<_>>())
        };
        let lane = self.shared.enqueue_lanes.drive(lane);
        lane.run::<Bodies, _>(("enqueue", self.shared.options.micro_batch), shape, call).await;
    }

    async fn enqueue_batch(
        &self,
        shard: Shard,
        events: &[EncodedEvent],
    ) -> Result<Vec<Result<Enqueued, LiveRedisError>>, LiveRedisError> {
        let keys = self.shared.options.prefix.shard(shard);
        let generation = self.shared.options.dedup_retention.generation_millis();
        let mut call = script::ENQUEUE.prepare_invoke();
        self.key_index(&mut call, shard);
        call.key(keys.lost());
        call.arg(self.shard_count().get());
        // Kept for two generations, since an id is looked up in its own and in the one before; and in the one behind, where
        // a host whose clock is ahead may have put it.
        call.arg(if generation.is_some() { 3 } else { 1 })
            .arg(generation.map_or(0, |length| length.saturating_mul(2)));
        call.arg(AgreedSettings::of(&self.shared.options).to_string());
        let charged = Charged::by(events);
        call.arg(charged.scopes.len()).arg(charged.places.len()).arg(charged.scopes).arg(charged.places);
        for (event, numbers) in events.iter().zip(charged.numbers) {
            let digest = event.digest();
            match generation.map(|length| event.encoded().get() / length) {
                None => drop(call.key(keys.seen(&digest, None))),
                Some(current) => {
                    call.key(keys.seen(&digest, Some(current)));
                    call.key(keys.seen(&digest, Some(current.saturating_sub(1))));
                    call.key(keys.seen(&digest, Some(current.saturating_add(1))));
                }
            }
            call.arg(seen_field(&digest)).arg(&event.payload_check().short()[..]).arg(event.encoded().get());
            call.arg(event.charges().next().map_or(0, |(_, picos)| picos)).arg(numbers).arg(event.body());
        }
        let answers = self.hot_script::<Vec<Vec<Value>>>(&call).await?;
        Ok(answers.iter().map(|answer| read_answer(answer)).collect())
    }

    /// Makes sure that the deployment has this client's shard count, and records it where none is.
    ///
    /// With one shard, the enqueue script does both. With several, an event may land in a shard that a client with another
    /// count would not look at, so the count is first recorded where every client looks.
    async fn agree_on_shards(&self) -> Result<(), LiveRedisError> {
        if self.shard_count().get() == 1 || self.shared.shards_agreed.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.stored_shard_count().await?.is_none() {
            let mut record = redis::cmd("HSETNX");
            record.arg(self.first_state()).arg("shards").arg(self.shard_count().get());
            let _: bool = self.hot_command(&record).await?;
            self.stored_shard_count().await?;
        }
        self.shared.shards_agreed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The shard count that the deployment has recorded, if it has.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::ShardCount`] when it is another than this client's.
    pub(crate) async fn stored_shard_count(&self) -> Result<Option<u16>, LiveRedisError> {
        let mut read = redis::cmd("HMGET");
        read.arg(self.first_state()).arg("shards");
        let (stored,): (Option<String>,) = self.hot_command(&read).await?;
        let Some(stored) = stored else { return Ok(None) };
        let ours = self.shard_count().get();
        if stored == ours.to_string() {
            return Ok(Some(ours));
        }
        Err(LiveRedisError::ShardCount(format!(
            "the queue has {} shards, this client was set up for {ours}",
            stored.escape_debug()
        )))
    }

    /// The state of the first shard, which every shard count has.
    fn first_state(&self) -> String {
        let first = self.shard_count().iter().next().unwrap_or(Shard::OLDER);
        self.shared.options.prefix.shard(first).state()
    }
}

/// What the events of a call charge: each counter is named, read and written once, however many events charge it.
struct Charged {
    scopes: Vec<String>,
    places: Vec<String>,
    /// For each event what it charges, by number from 1: the scopes, then the places; two bytes each, big-endian.
    numbers: Vec<Vec<u8>>,
}

impl Charged {
    fn by(events: &[EncodedEvent]) -> Self {
        let (mut scopes, mut places) = (Names::default(), Names::default());
        let numbered = events.iter().map(|event| {
            let scopes: Vec<_> = event.charges().map(|(scope, _)| scopes.number(scope.to_string())).collect();
            (scopes, event.starts().map(|start| places.number(start.to_string())).collect::<Vec<_>>())
        });
        let numbered: Vec<_> = numbered.collect();
        let past_scopes = scopes.count();
        let numbers = numbered.into_iter().map(|(scopes, places)| {
            let places = places.into_iter().map(|place| place.saturating_add(past_scopes));
            scopes.into_iter().chain(places).flat_map(u16::to_be_bytes).collect()
        });
        Self { numbers: numbers.collect(), scopes: scopes.names, places: places.names }
    }
}

/// Names, numbered from 1 in the order of their first use. A call has far fewer than 2^16: each stands in the body of an
/// event, so [`BATCH_BYTES`] bounds them.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Names {
    fn count(&self) -> u16 {
        u16::try_from(self.names.len()).unwrap_or(u16::MAX)
    }

    fn number(&mut self, name: String) -> u16 {
        let next = self.count().saturating_add(1);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

/// What the script answers about one event.
fn read_answer(answer: &[Value]) -> Result<Enqueued, LiveRedisError> {
    let number = |at: usize| answer.get(at).and_then(|value| u64::from_redis_value(value.clone()).ok());
    let text = |at: usize| answer.get(at).and_then(|value| String::from_redis_value(value.clone()).ok());
    match (number(0), number(1), number(2), text(1)) {
        (Some(0), Some(seq), Some(depth), _) => Ok(Enqueued::Accepted { seq, depth }),
        (Some(1), ..) => Ok(Enqueued::Duplicate),
        (Some(2), ..) => Ok(Enqueued::Conflict),
        (Some(3), _, _, Some(scope)) => Err(LiveRedisError::CounterFull(format!(
            "pending spend of {} would exceed 9223372.036854775807 USD",
            scope.escape_debug()
        ))),
        (Some(4), _, _, Some(what)) => Err(LiveRedisError::Damaged(what)),
        _ => Err(CallError::Answer(format!("enqueue answered {answer:?}")).into()),
    }
}
