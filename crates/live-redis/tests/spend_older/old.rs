//! An older deployment, played with raw commands.

use chrono::{DateTime, Utc};
use live_redis::OlderQueue;
use redis::aio::MultiplexedConnection;
use spend_queue::{ScopeRef, Shard, Usd};

use crate::common::Hot;

/// Its key prefix, on a server of its own.
const PREFIX: &str = "xhub";

/// The old flusher's acknowledgement: only the head is compared.
const OLD_ACK: &str = "if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('LTRIM', KEYS[1], ARGV[2], -1)
for i = 2, #KEYS do redis.call('INCRBYFLOAT', KEYS[i], ARGV[i + 1]) end
return 1";

/// An entry of format 1.
#[derive(Clone)]
pub(crate) struct OldCall {
    pub(crate) id: String,
    /// The amount as it stands in the JSON.
    pub(crate) spend: String,
    pub(crate) hash: &'static str,
    pub(crate) key_id: Option<&'static str>,
    /// The start as it stands in the JSON; `None` leaves the field out.
    pub(crate) start: Option<String>,
}

impl OldCall {
    pub(crate) fn new(id: impl Into<String>, spend: impl Into<String>) -> Self {
        let start = Some("\"2026-03-01T12:00:00Z\"".into());
        Self { id: id.into(), spend: spend.into(), hash: "0ff", key_id: Some("k"), start }
    }

    pub(crate) fn json(&self) -> String {
        let key_id = self.key_id.map_or_else(String::new, |id| format!("\"key_id\":\"{id}\","));
        let start = self.start.as_ref().map_or_else(String::new, |start| format!("\"start\":{start},"));
        format!(
            "{{\"request_id\":\"{}\",\"call_type\":\"chat\",\"model\":\"m\",\"api_key\":\"{}\",{key_id}\"prompt_tokens\":3,\
             \"completion_tokens\":4,\"spend\":{},\"spend_valid\":true,{start}\"cache_hit\":false,\"status\":\"success\",\
             \"team_id\":\"t\",\"user_id\":\"u\",\"org_id\":\"o\"}}",
            self.id, self.hash, self.spend
        )
    }

    /// The float counters that old programs move.
    fn counters(&self) -> [String; 4] {
        let of = |scope: &str| format!("{PREFIX}:spend:{scope}");
        [of("organization/o"), of("team/t"), of("user/u"), of(&format!("key/{}", self.hash))]
    }
}

pub(crate) fn list() -> String {
    format!("{PREFIX}:spendlog")
}

/// What an old gateway does for one call.
pub(crate) async fn enqueue(raw: &MultiplexedConnection, call: &OldCall) {
    let mut pipe = redis::pipe();
    pipe.atomic().rpush(list(), call.json()).ignore();
    for counter in call.counters() {
        pipe.cmd("INCRBYFLOAT").arg(counter).arg(&call.spend).ignore();
    }
    let () = pipe.query_async(&mut raw.clone()).await.unwrap();
}

/// What an old flusher sees.
pub(crate) async fn peek(raw: &MultiplexedConnection, most: isize) -> Vec<String> {
    redis::cmd("LRANGE").arg(list()).arg(0).arg(most - 1).query_async(&mut raw.clone()).await.unwrap()
}

/// What an old flusher does after its commit; `picos` is what the batch cost.
pub(crate) async fn acknowledge(raw: &MultiplexedConnection, batch: &[String], picos: i128) -> bool {
    let mut call = redis::cmd("EVAL");
    let counters = OldCall::new("", "0").counters();
    call.arg(OLD_ACK).arg(1 + counters.len()).arg(list());
    let less = format!("-{}", Usd::from_picos(picos));
    call.arg(&counters).arg(&batch[0]).arg(batch.len());
    for _ in &counters {
        call.arg(&less);
    }
    call.query_async(&mut raw.clone()).await.unwrap()
}

/// A server with an older deployment on it, and a client that drains it.
pub(crate) async fn deployment() -> Hot {
    Hot::private_with(|options| options.with_older_queue(OlderQueue::new(PREFIX.parse().unwrap()))).await
}

pub(crate) async fn counters(hot: &Hot) -> Vec<String> {
    let mut left: Vec<String> = hot.run(&[b"KEYS", format!("{PREFIX}:*").as_bytes()]).await;
    left.sort();
    left
}

/// Takes everything off as the new flusher does; answers what it would have committed, in order.
pub(crate) async fn drain(hot: &Hot) -> Vec<spend_queue::Entry> {
    use spend_queue::{Acked, SpendQueue};
    let mut taken = Vec::new();
    loop {
        let batch = hot.redis.peek(Shard::OLDER, crate::common::limit(7)).await.unwrap();
        let Some(receipt) = batch.receipt() else { break };
        assert!(matches!(hot.redis.ack(&receipt).await.unwrap(), Acked::Done { .. }));
        taken.extend(batch.entries);
    }
    taken
}

pub(crate) fn scope(text: &str) -> ScopeRef {
    text.parse().unwrap()
}

pub(crate) fn period() -> DateTime<Utc> {
    "2026-03-01T00:00:00Z".parse().unwrap()
}
