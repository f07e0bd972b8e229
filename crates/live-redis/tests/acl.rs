//! The users of `docs/security.md`, made on a real server: each can make every call of its role, no other, and could do
//! with no word less.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{event, limit, now, shard, team};
use devstack::{RedisCluster, RedisServer};
use live_redis::{CallError, LiveRedis, LiveRedisError, Options, Role, Ticket, WindowClock};
use rate_plan::{Limits, Node, RatePlan, RateTree, Scope};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};
use spend_queue::{Finding, Receipt, Severity, SpendQueue};

const PAGE: &str = include_str!("../../../docs/security.md");
const MINUTE: Duration = Duration::from_secs(60);
const ROLES: [Role; 3] = [Role::Gateway, Role::Flusher, Role::Operator];

/// The words of a role's line, `user` and the name left out.
fn line(role: Role) -> Vec<String> {
    let start = format!("```acl\nuser {role} ");
    let (_, rest) = PAGE.split_once(&start).unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    // Parentheses as words of their own are allowed, and let a test leave out any other word.
    let block = block.replace('(', "( ").replace(')', " )");
    block.split_whitespace().map(str::to_owned).collect()
}

fn password(role: Role) -> String {
    format!("{role}_PASSWORD").to_uppercase()
}

/// A server of one's own, an administrator's connection to it, and the page's users.
struct Guarded {
    server: RedisServer,
    admin: MultiplexedConnection,
}

impl Guarded {
    async fn start() -> Self {
        let server = RedisServer::builder().arg("enable-debug-command", "yes").start().unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let guarded = Self { server, admin: client.get_multiplexed_async_connection().await.unwrap() };
        for role in ROLES {
            guarded.set_user(&role.to_string(), &line(role)).await;
        }
        guarded
    }

    async fn set_user(&self, name: &str, words: &[String]) {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(name).arg("reset").arg(words);
        set.query_async::<()>(&mut self.admin.clone()).await.unwrap();
    }

    async fn admin<T: FromRedisValue>(&self, command: &str) -> T {
        run(&self.admin, command).await.unwrap()
    }

    fn url(&self, role: Role) -> String {
        self.server.url_as(&role.to_string(), &password(role))
    }

    async fn client(&self, role: Role, options: Options) -> LiveRedis {
        LiveRedis::open_with(self.url(role), options).await.unwrap()
    }

    async fn open(&self, role: Role) -> LiveRedis {
        self.client(role, Options::default()).await
    }

    async fn raw(&self, role: Role) -> MultiplexedConnection {
        redis::Client::open(self.url(role)).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    async fn digest(&self) -> String {
        self.admin("DEBUG DIGEST").await
    }

    /// Awaits calls that must be refused for lack of rights and change nothing.
    async fn denied<T: std::fmt::Debug>(&self, call: impl Future<Output = Result<T, LiveRedisError>>) {
        let before = self.digest().await;
        let error = call.await.unwrap_err();
        assert!(matches!(&error, LiveRedisError::Call(CallError::Refused(_))), "{error:?}");
        let text = error.to_string().to_lowercase();
        assert!(["permission", "can't access", "can't run"].iter().any(|said| text.contains(said)), "{text}");
        assert_eq!(self.digest().await, before, "{error}");
    }
}

async fn run<T: FromRedisValue>(connection: &MultiplexedConnection, command: &str) -> RedisResult<T> {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.query_async(&mut connection.clone()).await
}

fn plan(rpm: u64) -> RatePlan {
    let node = |kind, parent, rpm| Node {
        scope: Scope::new(kind, "a").unwrap(),
        parent,
        limits: Limits { rpm, tpm: None },
    };
    let nodes = vec![node("organization", None, Some(rpm)), node("team", Some(0), None)];
    Arc::new(RateTree::new(nodes).unwrap()).plan(1).unwrap()
}

async fn ticket(redis: &LiveRedis) -> Ticket {
    redis.admit_rate_plan(&plan(50), 10, now()).await.unwrap().into_ticket().unwrap()
}

async fn receipt(redis: &LiveRedis) -> Receipt {
    redis.peek(shard(), limit(10)).await.unwrap().receipt().unwrap()
}

fn severity(findings: &[Finding], check: &str) -> Severity {
    findings.iter().find(|finding| finding.check == check).map(|finding| finding.severity).unwrap()
}

#[tokio::test]
async fn a_gateway_can_make_each_of_its_calls() {
    let guarded = Guarded::start().await;
    let redis = guarded.open(Role::Gateway).await;
    // Two versions of one tree in one minute: a rebuild.
    let first = ticket(&redis).await;
    assert!(redis.admit_rate_plan(&plan(60), 10, now()).await.unwrap().is_admitted());
    let two = [(plan(60), 1), (plan(60), 2)];
    assert_eq!(redis.admit_rate_plans("other", &two, now()).await.unwrap().len(), 2);
    let scopes = vec![(Scope::new("key", "k").unwrap(), Limits { rpm: Some(9), tpm: Some(9) })];
    assert!(redis.admit_rates(scopes, 1, now()).await.unwrap().is_admitted());
    redis.settle(&first, 4).await.unwrap();
    redis.refund(&ticket(&redis).await).await.unwrap();
    let by_server =
        guarded.client(Role::Gateway, Options::default().with_window_clock(WindowClock::Redis)).await;
    assert!(by_server.admit_rate_plan(&plan(50), 10, chrono::Utc::now()).await.unwrap().is_admitted());

    redis.enqueue(&event("r1", 5)).await.unwrap();
    redis.enqueue(&event("r1", 5)).await.unwrap();
    assert_eq!(redis.depth(shard()).await.unwrap(), 1);
    assert_eq!(redis.hot_spend(&team()).await.picos(), 5);

    assert!(redis.record_failure("d", 1, MINUTE).await.unwrap());
    redis.add_latency("d", 0.5).await.unwrap();
    redis.add_usage("d", 7, now()).await.unwrap();
    assert_eq!(redis.cooled(&["d"]).await.unwrap().len(), 1);
    assert_eq!(redis.latencies(&["d"]).await.unwrap().len(), 1);
    assert_eq!(redis.usages(&["d"], now()).await.unwrap()["d"], 7);
    assert_eq!(redis.hit_rpm("k", now()).await.unwrap(), 1);
    assert_eq!(redis.hit_tpm("k", 3, now()).await.unwrap(), 3);
    redis.set_string("s", "v", MINUTE).await.unwrap();
    assert_eq!(redis.get_string("s").await.unwrap().as_deref(), Some("v"));
    redis.write_affinity("a", "v", MINUTE).await.unwrap();
    assert_eq!(redis.read_affinity("a").await.unwrap().as_deref(), Some("v"));
    assert!(redis.compare_affinity("a", "v", MINUTE).await.unwrap());
    assert!(redis.swap_affinity("a", Some("v"), "w", MINUTE).await.unwrap());
    assert_eq!(redis.degradations(), 0, "no permissive call was refused in silence");
}

#[tokio::test]
async fn a_flusher_and_an_operator_can_make_each_of_their_calls() {
    let guarded = Guarded::start().await;
    let gateway = guarded.open(Role::Gateway).await;
    for id in ["r1", "r2"] {
        gateway.enqueue(&event(id, 5)).await.unwrap();
    }
    let operator = guarded.open(Role::Operator).await;
    assert_eq!(operator.peek(shard(), limit(10)).await.unwrap().entries.len(), 2);
    assert_eq!(operator.depth(shard()).await.unwrap(), 2);
    assert_eq!(operator.hot_spend(&team()).await.picos(), 10);

    let flusher = guarded.open(Role::Flusher).await;
    for left in [1, 0] {
        let receipt = flusher.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
        flusher.ack(&receipt).await.unwrap();
        assert_eq!(flusher.depth(shard()).await.unwrap(), left);
    }
    assert_eq!(operator.degradations(), 0);
}

#[tokio::test]
async fn calls_of_other_roles_are_denied_and_write_nothing() {
    let guarded = Guarded::start().await;
    let [gateway, flusher, operator] = [
        guarded.open(Role::Gateway).await,
        guarded.open(Role::Flusher).await,
        guarded.open(Role::Operator).await,
    ];
    let ticket = ticket(&gateway).await;
    gateway.enqueue(&event("r1", 5)).await.unwrap();
    gateway.write_affinity("a", "v", MINUTE).await.unwrap();
    let receipt = receipt(&flusher).await;

    guarded.denied(gateway.peek(shard(), limit(1))).await;
    guarded.denied(gateway.ack(&receipt)).await;
    for stranger in [&flusher, &operator] {
        guarded.denied(stranger.enqueue(&event("r2", 5))).await;
        guarded.denied(stranger.admit_rate_plan(&plan(50), 1, now())).await;
        guarded.denied(stranger.record_failure("d", 1, MINUTE)).await;
        guarded.denied(stranger.add_latency("d", 0.5)).await;
        guarded.denied(stranger.add_usage("d", 7, now())).await;
        guarded.denied(stranger.hit_rpm("k", now())).await;
        guarded.denied(stranger.read_affinity("a")).await;
        guarded.denied(stranger.write_affinity("a", "w", MINUTE)).await;
        guarded.denied(stranger.compare_affinity("a", "v", MINUTE)).await;
        guarded.denied(stranger.swap_affinity("a", None, "w", MINUTE)).await;
    }
    guarded.denied(operator.ack(&receipt)).await;
    gateway.settle(&ticket, 1).await.unwrap();
    flusher.ack(&receipt).await.unwrap();
}

#[tokio::test]
async fn other_commands_and_other_prefixes_are_denied_to_every_role() {
    let guarded = Guarded::start().await;
    guarded.open(Role::Gateway).await.enqueue(&event("r1", 5)).await.unwrap();
    guarded.admin::<()>("SET other:{0}:str:x v").await;
    let before = guarded.digest().await;
    for role in ROLES {
        let raw = guarded.raw(role).await;
        for command in [
            "KEYS *",
            "SCAN 0",
            "FLUSHALL",
            "FLUSHDB",
            "CONFIG GET requirepass",
            "CONFIG SET maxmemory-policy allkeys-lru",
            "ACL SETUSER gateway allkeys",
            "ACL LIST",
            "EVAL return 0",
            "SCRIPT FLUSH",
            "FUNCTION LIST",
            "DEBUG DIGEST",
            "SHUTDOWN",
            "PUBLISH c m",
            "SET tollgate:{0}:queue x",
            "DEL tollgate:{0}:queue",
            "DEL tollgate:{0}:state",
            "LPOP tollgate:{0}:queue",
            "LSET tollgate:{0}:queue 0 x",
            "EXPIRE tollgate:{0}:queue 1",
            "RENAME tollgate:{0}:queue other",
            "GET other:{0}:str:x",
            "SET other:{0}:str:x w",
            "RPUSH other:{0}:queue x",
            "RPUSH x:tollgate:{0}:queue x",
            "HSET tollgate1:{0}:state x x",
        ] {
            let error = run::<redis::Value>(&raw, command).await.unwrap_err();
            assert_eq!(error.code(), Some("NOPERM"), "{role}: {command}: {error}");
        }
        let elsewhere = guarded.client(role, Options::default().with_prefix("other".parse().unwrap())).await;
        guarded.denied(elsewhere.enqueue(&event("r2", 5))).await;
        guarded.denied(elsewhere.admit_rate_plan(&plan(50), 1, now())).await;
        guarded.denied(elsewhere.peek(shard(), limit(1))).await;
        guarded.denied(elsewhere.depth(shard())).await;
        guarded.denied(elsewhere.read_affinity("x")).await;
    }
    for gateway_only in
        ["LRANGE tollgate:{0}:queue 0 -1", "LTRIM tollgate:{0}:queue 1 0", "LINDEX tollgate:{0}:queue 0"]
    {
        let error = run::<redis::Value>(&guarded.raw(Role::Gateway).await, gateway_only).await.unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{gateway_only}");
    }
    assert_eq!(guarded.digest().await, before);
}

#[tokio::test]
async fn the_doctor_finds_each_line_enough_and_no_word_of_it_superfluous() {
    let guarded = Guarded::start().await;
    for role in ROLES {
        let redis = guarded.open(role).await;
        let healthy = redis.doctor(role).await;
        for check in ["redis.rights", "redis.scripts", "redis.eviction", "redis.clock", "redis.shards"] {
            assert_eq!(severity(&healthy, check), Severity::Ok, "{role}: {healthy:#?}");
        }
        let words = line(role);
        for at in 0..words.len() {
            if !words[at].starts_with(['+', '~', '%']) {
                continue;
            }
            let mut fewer = words.clone();
            let word = fewer.remove(at);
            guarded.set_user(&role.to_string(), &fewer).await;
            let findings = redis.doctor(role).await;
            let worse = findings.iter().filter(|finding| {
                matches!(finding.severity, Severity::Warning | Severity::Fatal) && !healthy.contains(finding)
            });
            assert!(worse.count() > 0, "{role} does not need {word}");
        }
        guarded.set_user(&role.to_string(), &words).await;
        assert_eq!(severity(&redis.doctor(role).await, "redis.rights"), Severity::Ok);
    }
}

#[tokio::test]
async fn in_a_cluster_a_few_more_words_are_enough() {
    let (_, more) = PAGE.split_once("Redis Cluster: add `").unwrap();
    let (more, _) = more.split_once('`').unwrap();
    let user =
        format!("gateway {} {more}", line(Role::Gateway).join(" ").replace("( ", "(").replace(" )", ")"));
    let cluster =
        RedisCluster::builder().primaries(3).nodes(RedisServer::builder().acl_user(user)).start().unwrap();
    let nodes: Vec<_> = cluster.servers().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redis+cluster://gateway:{}@{}", password(Role::Gateway), nodes.join(","));
    let options = Options::default().with_shards("8".parse().unwrap());
    let redis = LiveRedis::open_strict(url, options, Role::Gateway).await.unwrap();
    let findings = redis.doctor(Role::Gateway).await;
    assert_eq!(severity(&findings, "redis.slots"), Severity::Ok, "{findings:#?}");
    for id in ["a", "b", "c", "d", "e"] {
        redis.write_affinity(id, "v", MINUTE).await.unwrap();
        assert!(redis.admit_rate_plan_in(id, &plan(50), 1, now()).await.unwrap().is_admitted());
    }
    redis.enqueue(&event("r1", 5)).await.unwrap();
}
