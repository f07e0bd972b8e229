//! The operator's tools, as processes against a real queue.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::process::Output;

use devstack::TestRedis;
use live_redis::{LiveRedis, Options};
use serde_json::Value;
use spend_queue::{BatchLimit, Index, PendingSpend, SpendQueue, Usd};
use support::{binary, event, shard, team};

/// A queue of one's own, and the binary that looks at it.
struct Queue {
    redis: TestRedis,
    hot: LiveRedis,
}

impl Queue {
    async fn with(events: u32) -> Self {
        let redis = devstack::redis().unwrap().test();
        let options = Options::default().with_prefix(redis.prefix().parse().unwrap());
        let hot = LiveRedis::open_with(redis.url(), options).await.unwrap();
        for id in 0..events {
            hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
        }
        Self { redis, hot }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = binary();
        command.args(words).env("RUST_LOG", "error");
        command.env("TALLYWEIR_REDIS_URL", self.redis.url()).env("TALLYWEIR_PREFIX", self.redis.prefix());
        command.output().unwrap()
    }

    fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(self.text(&[words, &["--json"]].concat()).trim_end()).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words:?}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("error: ") && text.trim_end().lines().count() <= 4, "{text}");
        text
    }

    async fn raw<T: redis::FromRedisValue>(&self, command: &str, words: &[&[u8]]) -> T {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(command).arg(words).query_async(&mut connection).await.unwrap()
    }

    fn key(&self, what: &str) -> Vec<u8> {
        format!("{}:{{0}}:{what}", self.redis.prefix()).into_bytes()
    }

    fn list(&self) -> Vec<u8> {
        self.key("queue")
    }

    /// Takes so many entries off, as a flusher that has committed them.
    async fn flush(&self, entries: u32) {
        let limit = BatchLimit::new(entries).unwrap();
        let batch = self.hot.peek(shard(), limit).await.unwrap();
        self.hot.ack(&batch.receipt().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_sound_queue_is_shown_as_sound() {
    let queue = Queue::with(3).await;
    let report = queue.json(&["status"]);
    assert_eq!((&report["entries"], &report["consistent"]), (&3.into(), &true.into()));
    let shard = &report["shards"][0];
    assert_eq!(
        (&shard["head_seq"], &shard["next_seq"], &shard["index"]),
        (&1.into(), &4.into(), &"proven".into())
    );
    assert!(shard["bytes"].as_u64().unwrap() > 500, "{shard}");
    assert_eq!(shard["top"].as_array().unwrap().len(), 2);
    assert_eq!(shard["pending"][1]["pending_usd"], "0.000000000015");
    let text = queue.text(&["status"]);
    for shown in ["proven", "team/t", "organization/o", "0.000000000015", "1..4"] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    let empty = Queue::with(0).await;
    assert_eq!(empty.json(&["status"])["entries"], 0);
    assert!(empty.text(&["peek"]).contains("0 entries"));
    assert!(empty.text(&["quarantine"]).contains("is empty"));
}

#[tokio::test]
async fn a_corrupt_third_entry_is_shown_moved_aside_and_put_back() {
    let queue = Queue::with(5).await;
    let sound: Vec<Vec<u8>> = queue.raw("LRANGE", &[&queue.list(), b"2", b"2"]).await;
    let _: String = queue.raw("LSET", &[&queue.list(), b"2", b"\x1b[31m no entry \xff"]).await;

    let peeked = queue.json(&["peek"]);
    assert_eq!((peeked["entries"].as_array().unwrap().len(), &peeked["depth"]), (2, &5.into()));
    assert_eq!((&peeked["stop"]["reason"], &peeked["stop"]["position"]), (&"corrupt".into(), &2.into()));
    let text = queue.text(&["peek"]);
    assert!(text.contains("item 2 is no entry") && !text.contains('\u{1b}'), "{text}");
    assert!(
        queue.text(&["quarantine"]).contains("it is a sound entry"),
        "the head is not the corrupt one yet"
    );

    queue.flush(2).await;
    let status = queue.text(&["status"]);
    assert!(
        status.contains("shard 0 stands still") && status.contains("usage-flusher quarantine"),
        "{status}"
    );
    assert_eq!(queue.json(&["status"])["consistent"], false);
    let shown = queue.json(&["quarantine"]);
    assert_eq!((&shown["done"], &shown["entries"]), (&false.into(), &3.into()), "only shown");
    let digest = shown["sha1"].as_str().unwrap();
    let text = queue.refused(&["quarantine", "--head", &"0".repeat(40), "--reason", "x", "--yes"]);
    assert!(text.contains("nothing was moved"), "{text}");
    assert_eq!(queue.hot.depth(shard()).await, Ok(3));

    let done = queue.json(&["quarantine", "--head", digest, "--reason", "cut by a crash", "--yes"]);
    assert_eq!((&done["done"], &done["entries"]), (&true.into(), &2.into()));
    let peeked = queue.hot.peek(shard(), BatchLimit::MAX).await.unwrap();
    assert_eq!((peeked.entries.len(), peeked.index), (2, Index::Proven), "the index was made anew");
    assert_eq!(queue.hot.pending(&team()).await, Ok(Usd::from_picos(10)));
    let listed = queue.json(&["quarantine", "--list"]);
    assert_eq!(
        (&listed["items"][0]["reason"], &listed["items"][0]["sha1"]),
        (&"cut by a crash".into(), &digest.into())
    );
    assert!(queue.text(&["quarantine", "--list"]).contains("cut by a crash"));

    // The entry as it was, put back by the same way.
    let _: u64 = queue.raw("DEL", &[&queue.key("quarantine")]).await;
    let _: u64 = queue.raw("RPUSH", &[&queue.key("quarantine"), &[b"{}\n", &sound[0][..]].concat()]).await;
    assert!(queue.text(&["quarantine", "--restore", "0"]).contains("would go back"));
    assert!(queue.refused(&["quarantine", "--restore", "7", "--yes"]).contains("place 7"));
    assert_eq!(queue.json(&["quarantine", "--restore", "0", "--yes"])["entries"], 3);
    let peeked = queue.hot.peek(shard(), BatchLimit::MAX).await.unwrap();
    assert_eq!((peeked.entries.len(), peeked.index), (3, Index::Proven));
    assert_eq!(queue.json(&["quarantine", "--list"])["items"], Value::Array(vec![]));
}

#[tokio::test]
async fn an_index_in_doubt_is_mended_on_demand_only() {
    let queue = Queue::with(4).await;
    let _: Vec<u8> = queue.raw("LPOP", &[&queue.list()]).await;
    let output = queue.run(&["repair"]);
    assert!(!output.status.success(), "in doubt is not sound");
    assert!(String::from_utf8(output.stdout).unwrap().contains("--yes"));
    assert_eq!(queue.json(&["status"])["shards"][0]["index"], "doubtful");
    let done = queue.json(&["repair", "--yes"]);
    assert_eq!(
        (&done["sound"], &done["shards"][0]["outcome"], &done["shards"][0]["entries"]),
        (&true.into(), &"rebuilt".into(), &3.into())
    );
    assert_eq!(queue.hot.hot_spend(&team()).await, Usd::from_picos(15));

    let hot = queue.key("hot");
    let _: u64 = queue.raw("HSET", &[&hot, b"team/t", b"-3"]).await;
    assert_eq!(queue.json(&["status"])["shards"][0]["damaged_counters"], 1);
    queue.json(&["repair", "--yes"]);
    assert_eq!(
        queue.hot.pending(&team()).await,
        Ok(Usd::from_picos(15)),
        "a counter of nonsense is mended too"
    );

    let _: u64 = queue.raw("LPUSH", &[&queue.list(), b"garbage"]).await;
    let output = queue.run(&["repair", "--yes", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!output.status.success());
    assert_eq!(
        (&report["shards"][0]["outcome"], &report["shards"][0]["position"]),
        (&"blocked".into(), &0.into())
    );
}

#[tokio::test]
async fn wrong_words_are_named_with_what_is_accepted() {
    let queue = Queue::with(1).await;
    for (words, said) in [
        (&["peek", "--shard", "x"][..], "`older`"),
        (&["peek", "--shard", "1"], "--shard 1: there is none; 0 to 0 are accepted with --shards 1"),
        (&["peek", "--shard", "older"], "--older-queue"),
        (&["peek", "--limit", "0"], "1 to 10000"),
        (&["quarantine", "--head", "ab"], "40 hexadecimal digits"),
        (&["quarantine", "--head", "0123456789012345678901234567890123456789"], "--reason"),
        (&["quarantine", "--list", "--restore", "0"], "--restore"),
        (&["status", "--shards", "2"], "this client was set up for 2"),
        (&["status", "--scan-bound", "0"], "--scan-bound"),
    ] {
        let output = queue.run(words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(said), "{words:?}: {text}");
    }
    let long = "x".repeat(129);
    let digest = queue.json(&["quarantine"])["sha1"].as_str().unwrap().to_owned();
    let text = queue.refused(&["quarantine", "--head", &digest, "--reason", &long, "--yes"]);
    assert!(text.contains("reason has 129 bytes") || text.contains("128"), "{text}");
    assert_eq!(queue.hot.depth(shard()).await, Ok(1));
}
