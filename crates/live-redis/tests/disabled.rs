//! What each call does without Redis and when Redis fails (the contract), as one table: on a disabled client, on one
//! whose server was killed, and on one whose server takes every call and never answers.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use common::{Hot, event, limit, now, shard, team};
use devstack::RedisServer;
use live_redis::{LiveRedis, LiveRedisError, OperatorNote, Options, Quarantined, Watermarks};
use rate_plan::{Limits, Scope};
use spend_queue::{PendingQuery, PendingSpend, SpendQueue};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, watch};

const DEADLINE: Duration = Duration::from_millis(300);
const MINUTE: Duration = Duration::from_secs(60);

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Answers its fallback.
    Answers(&'static str),
    /// The same, and counts it as a degradation.
    Counts(&'static str),
    Fails,
}
use Does::{Answers, Counts, Fails};

/// Call, without Redis, with a Redis that fails.
const CONTRACT: [(&str, Does, Does); 21] = [
    ("record_failure", Answers("false"), Fails),
    ("add_latency", Answers("()"), Fails),
    ("add_usage", Answers("()"), Fails),
    ("set_string", Answers("()"), Counts("()")),
    ("cooled", Answers("{}"), Counts("{}")),
    ("latencies", Answers("{}"), Counts("{}")),
    ("usages", Answers("{}"), Counts("{}")),
    ("hot_spend", Answers("0"), Counts("0")),
    ("get_string", Answers("None"), Counts("None")),
    ("hit_rpm", Answers("0"), Fails),
    ("hit_tpm", Answers("0"), Fails),
    ("read_affinity", Fails, Fails),
    ("write_affinity", Fails, Fails),
    ("compare_affinity", Fails, Fails),
    ("swap_affinity", Fails, Fails),
    ("admit_rates", Fails, Fails),
    ("enqueue, peek, depth", Fails, Fails),
    ("pending, pending_since, pending_key, pending_all", Fails, Fails),
    ("pressure, backlog, queue_status", Fails, Fails),
    ("quarantine, quarantined, restore, reindex, repair_index", Fails, Fails),
    ("losses, marks, waiting_marks", Fails, Fails),
];

/// Something that was moved aside, on a server that works.
static ASIDE: OnceCell<Quarantined> = OnceCell::const_new();

fn note() -> OperatorNote {
    OperatorNote { reason: "a test".into(), at: now() }
}

async fn move_aside() -> Quarantined {
    let hot = Hot::shared().await;
    hot.redis.enqueue(&event("aside", 5)).await.unwrap();
    let head = hot.redis.peek(shard(), limit(1)).await.unwrap().entries.remove(0);
    assert_eq!(hot.redis.quarantine(shard(), head.raw(), &note()).await, Ok(Some(0)));
    hot.redis.quarantined(shard(), 1).await.unwrap().remove(0)
}

fn text<T: Debug, E: Into<LiveRedisError>>(answer: Result<T, E>) -> Result<String, LiveRedisError> {
    answer.map(|answer| format!("{answer:?}")).map_err(Into::into)
}

async fn call(redis: &LiveRedis, name: &str) -> Vec<Result<String, LiveRedisError>> {
    let one = match name {
        "record_failure" => text(redis.record_failure("a", 1, MINUTE).await),
        "add_latency" => text(redis.add_latency("a", 1.0).await),
        "add_usage" => text(redis.add_usage("a", 1, now()).await),
        "set_string" => text(redis.set_string("a", "v", MINUTE).await),
        "cooled" => text(redis.cooled(&["a", "b"]).await),
        "latencies" => text(redis.latencies(&["a", "b"]).await),
        "usages" => text(redis.usages(&["a", "b"], now()).await),
        "hot_spend" => Ok(redis.hot_spend(&team()).await.to_string()),
        "get_string" => text(redis.get_string("a").await),
        "hit_rpm" => text(redis.hit_rpm("a", now()).await),
        "hit_tpm" => text(redis.hit_tpm("a", 1, now()).await),
        "read_affinity" => text(redis.read_affinity("a").await),
        "write_affinity" => text(redis.write_affinity("a", "v", MINUTE).await),
        "compare_affinity" => text(redis.compare_affinity("a", "v", MINUTE).await),
        "swap_affinity" => text(redis.swap_affinity("a", None, "v", MINUTE).await),
        "admit_rates" => {
            let scopes = vec![(Scope::new("key", "k").unwrap(), Limits { rpm: None, tpm: None })];
            text(redis.admit_rates(scopes, 1, now()).await.map(|_| ()))
        }
        "enqueue, peek, depth" => {
            let event = event("a", 5);
            let (enqueued, peeked, depth) =
                tokio::join!(redis.enqueue(&event), redis.peek(shard(), limit(1)), redis.depth(shard()),);
            return vec![text(enqueued), text(peeked), text(depth)];
        }
        "pending, pending_since, pending_key, pending_all" => {
            let (team, queries) = (team(), [PendingQuery::Scope(team()), PendingQuery::Key("k".into())]);
            let (of_scope, since, of_key, all) = tokio::join!(
                redis.pending(&team),
                redis.pending_since("o", now()),
                redis.pending_key("k"),
                redis.pending_all(&queries)
            );
            return vec![text(of_scope), text(since), text(of_key), text(all)];
        }
        "pressure, backlog, queue_status" => {
            let marks = Watermarks::default();
            let (pressure, backlog, status) = tokio::join!(
                redis.pressure(&marks, now()),
                redis.backlog(shard()),
                redis.queue_status(shard())
            );
            return vec![text(pressure), text(backlog), text(status)];
        }
        "quarantine, quarantined, restore, reindex, repair_index" => {
            let (item, note) = (ASIDE.get().unwrap(), note());
            let (moved, listed, restored, reindexed, repaired) = tokio::join!(
                redis.quarantine(shard(), &item.raw, &note),
                redis.quarantined(shard(), 1),
                redis.restore(shard(), item),
                redis.reindex(shard()),
                redis.repair_index(shard()),
            );
            return vec![text(moved), text(listed), text(restored), text(reindexed), text(repaired)];
        }
        "losses, marks, waiting_marks" => {
            let (losses, marks, waiting) = tokio::join!(
                redis.losses(shard(), 1),
                redis.marks(shard(), 0, 1, now()),
                redis.waiting_marks(shard())
            );
            return vec![text(losses), text(marks), text(waiting)];
        }
        other => panic!("{other} is in the table only"),
    };
    vec![one]
}

/// Makes every call of the table, one after the other, and compares. All answer within the deadline and a little.
async fn check(redis: &LiveRedis, what: &str, column: impl Fn(&(&str, Does, Does)) -> Does) {
    ASIDE.get_or_init(move_aside).await;
    let mut longest = Duration::ZERO;
    for row in &CONTRACT {
        let (before, started) = (redis.degradations(), Instant::now());
        let answers = call(redis, row.0).await;
        longest = longest.max(started.elapsed());
        assert!(started.elapsed() < DEADLINE + Duration::from_secs(1), "{what}: {} {answers:?}", row.0);
        let counted = redis.degradations() - before;
        for answer in answers {
            let expected = column(row);
            let as_said = match (expected, &answer) {
                (Answers(fallback), Ok(answer)) => answer == fallback && counted == 0,
                (Counts(fallback), Ok(answer)) => answer == fallback && counted == 1,
                (Fails, Err(_)) => counted == 0,
                _ => false,
            };
            assert!(as_said, "{what}: {} should be {expected:?}: {answer:?}, {counted} counted", row.0);
        }
    }
    println!("{what}: {} rows, the longest call took {longest:?}", CONTRACT.len());
}

async fn open(url: &str) -> LiveRedis {
    LiveRedis::open_with(url, Options::default().with_deadline(DEADLINE)).await.unwrap()
}

/// Between clients and a server until it is silenced; then it takes everything, new connections too, and answers nothing.
async fn between(port: u16) -> (u16, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = listener.local_addr().unwrap().port();
    let (silence, silenced) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut silenced = silenced.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::select! {
                    biased;
                    () = async { drop(silenced.wait_for(|silent| *silent).await) } => std::future::pending().await,
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                }
            });
        }
    });
    (ours, silence)
}

#[tokio::test]
async fn without_redis_each_call_does_what_the_contract_says() {
    let redis = LiveRedis::disabled();
    check(&redis, "disabled", |row| row.1).await;
    assert_eq!(redis.degradations(), 0);
    assert_eq!(redis.read_affinity("a").await, Err(LiveRedisError::NotConfigured));
    redis.close();
    assert_eq!(redis.read_affinity("a").await, Err(LiveRedisError::NotConfigured));
}

#[tokio::test]
async fn with_a_killed_server_each_call_does_what_the_contract_says_within_its_deadline() {
    let mut server = RedisServer::builder().start().unwrap();
    let redis = open(server.url()).await;
    server.kill();
    check(&redis, "killed", |row| row.2).await;
}

#[tokio::test]
async fn with_a_server_that_never_answers_each_call_does_what_the_contract_says_within_its_deadline() {
    let server = RedisServer::builder().start().unwrap();
    let (port, silence) = between(server.port()).await;
    let redis = open(&format!("redis://127.0.0.1:{port}/")).await;
    redis.hit_rpm("a", now()).await.unwrap();
    silence.send(true).unwrap();
    check(&redis, "silent", |row| row.2).await;
}

#[tokio::test]
async fn a_closed_client_is_one_whose_redis_fails() {
    let server = RedisServer::builder().start().unwrap();
    let redis = open(server.url()).await;
    redis.close();
    check(&redis, "closed", |row| row.2).await;
}

#[tokio::test]
async fn a_read_that_the_server_refuses_altogether_is_a_failed_call_and_no_damaged_id() {
    let server = RedisServer::builder().start().unwrap();
    let redis = open(server.url()).await;
    redis.record_failure("a", 1, MINUTE).await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let mut forbid = redis::cmd("ACL");
    forbid.arg("SETUSER").arg("default").arg("-get");
    let _: String = forbid.query_async(&mut raw).await.unwrap();
    assert!(redis.cooled(&["a", "b", "c"]).await.unwrap().is_empty());
    assert_eq!(redis.degradations(), 1);
}
