//! What the tests of this crate share.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use chrono::{DateTime, Utc};
use devstack::{RedisServer, TestRedis};
use live_redis::{LiveRedis, Options};
use redis::aio::MultiplexedConnection;
use spend_queue::{BatchLimit, EncodedEvent, ScopeRef, Shard, ShardCount, SpendEvent, Usd};

pub(crate) fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:30Z".parse().unwrap()
}

/// A client with a key prefix of its own on the server that the tests of this process share.
pub(crate) struct Hot {
    pub(crate) redis: LiveRedis,
    pub(crate) raw: MultiplexedConnection,
    pub(crate) prefix: String,
    _server: Option<RedisServer>,
}

impl Hot {
    pub(crate) async fn shared() -> Self {
        let test: TestRedis = devstack::redis().unwrap().test();
        Self::open(test.url(), test.prefix(), None).await
    }

    /// On a server of its own, where a test may do what it likes.
    pub(crate) async fn private() -> Self {
        let server = RedisServer::builder().arg("enable-debug-command", "yes").start().unwrap();
        let url = server.url().to_owned();
        Self::open(&url, "private", Some(server)).await
    }

    async fn open(url: &str, prefix: &str, server: Option<RedisServer>) -> Self {
        let options = Options::default().with_prefix(prefix.parse().unwrap());
        let redis = LiveRedis::open_with(url, options).await.unwrap();
        let raw = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
        Self { redis, raw, prefix: prefix.to_owned(), _server: server }
    }

    pub(crate) fn key(&self, what: &str) -> String {
        format!("{}:{{0}}:{what}", self.prefix)
    }

    pub(crate) async fn list(&self) -> Vec<Vec<u8>> {
        let mut raw = self.raw.clone();
        redis::cmd("LRANGE").arg(self.key("queue")).arg(0).arg(-1).query_async(&mut raw).await.unwrap()
    }

    /// Any command, for what a foreign hand would do.
    pub(crate) async fn run<T: redis::FromRedisValue>(&self, words: &[&[u8]]) -> T {
        let mut command = redis::cmd(std::str::from_utf8(words[0]).unwrap());
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query_async(&mut self.raw.clone()).await.unwrap()
    }

    /// A digest of every byte of the server (private servers only).
    pub(crate) async fn digest(&self) -> String {
        self.run(&[b"DEBUG", b"DIGEST"]).await
    }
}

pub(crate) fn team() -> ScopeRef {
    ScopeRef::new("team", "t").unwrap()
}

pub(crate) fn event(id: &str, picos: i64) -> EncodedEvent {
    charged(id, Some(picos), vec![team(), ScopeRef::new("key", "k").unwrap()])
}

pub(crate) fn charged(id: &str, picos: Option<i64>, scopes: Vec<ScopeRef>) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", scopes);
    event.cost = picos.map(|picos| Usd::from_picos(picos.into()));
    event.organization_id = Some("o".into());
    event.encode(now()).unwrap()
}

pub(crate) fn shard() -> Shard {
    ShardCount::ONE.shard_of("any")
}

pub(crate) fn limit(entries: u32) -> BatchLimit {
    BatchLimit::new(entries).unwrap()
}
