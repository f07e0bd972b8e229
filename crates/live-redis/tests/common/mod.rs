//! What the tests of this crate share.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use chrono::{DateTime, Utc};
use devstack::{RedisServer, TestRedis};
use live_redis::{LiveRedis, LiveRedisError, Options};
use redis::aio::MultiplexedConnection;
use spend_queue::{BatchLimit, EncodedEvent, ScopeRef, Shard, ShardCount, SpendEvent, Usd};

pub(crate) fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:30Z".parse().unwrap()
}

/// Deadlines are tested elsewhere; here a busy machine must not look like a fault.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// A client with a key prefix of its own on the server that the tests of this process share.
pub(crate) struct Hot {
    pub(crate) redis: LiveRedis,
    pub(crate) raw: MultiplexedConnection,
    pub(crate) prefix: String,
    url: String,
    server: Option<RedisServer>,
}

impl Hot {
    pub(crate) async fn shared() -> Self {
        Self::shared_with(|options| options).await
    }

    pub(crate) async fn shared_with(change: impl FnOnce(Options) -> Options) -> Self {
        let test: TestRedis = devstack::redis().unwrap().test();
        Self::open(test.url(), test.prefix(), None, change).await
    }

    /// On a server of its own, where a test may do what it likes.
    pub(crate) async fn private() -> Self {
        Self::private_with(|options| options).await
    }

    pub(crate) async fn private_with(change: impl FnOnce(Options) -> Options) -> Self {
        let server = RedisServer::builder().arg("enable-debug-command", "yes").start().unwrap();
        Self::on(server, change).await
    }

    /// On this server, which ends with the client.
    pub(crate) async fn on(server: RedisServer, change: impl FnOnce(Options) -> Options) -> Self {
        let url = server.url().to_owned();
        Self::open(&url, "private", Some(server), change).await
    }

    async fn open(
        url: &str,
        prefix: &str,
        server: Option<RedisServer>,
        change: impl FnOnce(Options) -> Options,
    ) -> Self {
        let options = change(Options::default().with_prefix(prefix.parse().unwrap()).with_deadline(PATIENCE));
        let redis = LiveRedis::open_with(url, options).await.unwrap();
        let raw = connect(url).await;
        Self { redis, raw, prefix: prefix.to_owned(), url: url.to_owned(), server }
    }

    /// Another host's client of the same deployment.
    pub(crate) async fn another(&self, change: impl FnOnce(Options) -> Options) -> LiveRedis {
        LiveRedis::open_with(self.url.as_str(), change(self.redis.options().clone())).await.unwrap()
    }

    /// Kills the server (private ones only), starts it on what it has kept, and connects anew.
    pub(crate) async fn crash(&mut self) {
        let server = self.server.as_mut().unwrap();
        server.kill();
        server.start_again().unwrap();
        self.raw = connect(&self.url).await;
        self.redis = self.another(|options| options).await;
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

    /// Milliseconds that a key of shard 0 has left; -1 without expiry, -2 without key.
    pub(crate) async fn left(&self, what: &str) -> i64 {
        self.run(&[b"PTTL", self.key(what).as_bytes()]).await
    }

    /// All keys of this client, whatever their shard.
    pub(crate) async fn keys(&self) -> Vec<String> {
        self.run(&[b"KEYS", format!("{}:*", self.prefix).as_bytes()]).await
    }

    /// The keys of this client that would stay for ever.
    pub(crate) async fn lasting(&self) -> Vec<String> {
        let mut lasting = Vec::new();
        for key in self.keys().await {
            if self.run::<i64>(&[b"PTTL", key.as_bytes()]).await < 0 {
                lasting.push(key);
            }
        }
        lasting
    }

    /// Puts a value at a key of shard 0, with a time to live, whatever was there.
    pub(crate) async fn plant(&self, what: &str, words: &[&[u8]]) {
        let key = self.key(what);
        let _: i64 = self.run(&[b"DEL", key.as_bytes()]).await;
        let mut command = vec![words[0], key.as_bytes()];
        command.extend(&words[1..]);
        let _: redis::Value = self.run(&command).await;
        let _: i64 = self.run(&[b"EXPIRE", key.as_bytes(), b"500"]).await;
    }

    /// Awaits a call that must fail for good and change not one byte (private servers only).
    pub(crate) async fn unchanged<T: std::fmt::Debug>(
        &self,
        call: impl Future<Output = Result<T, LiveRedisError>>,
    ) -> LiveRedisError {
        let before = self.digest().await;
        let error = call.await.unwrap_err();
        assert_eq!(self.digest().await, before, "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        error
    }

    /// A digest of every byte of the server (private servers only).
    pub(crate) async fn digest(&self) -> String {
        self.run(&[b"DEBUG", b"DIGEST"]).await
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
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
