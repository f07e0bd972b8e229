//! The doctor on real servers that are healthy, and that are not.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::time::Duration;

use chrono::Utc;
use common::event;
use devstack::{AppendFsync, RedisBuilder, RedisCluster, RedisServer};
use live_redis::{DedupRetention, LiveRedis, Options, Role, StrictOpenError, WindowClock};
use spend_queue::{EncodedEvent, Finding, Severity, ShardCount, SpendEvent, SpendQueue};
use tokio::net::TcpListener;

const CANARY: &str = "canary-password";

fn healthy() -> RedisBuilder {
    RedisServer::builder().appendonly(true).appendfsync(AppendFsync::Always).arg("maxmemory", "1gb")
}

fn options(shards: u16) -> Options {
    Options::default().with_shards(ShardCount::new(shards).unwrap())
}

fn find<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.check == check)
        .unwrap_or_else(|| panic!("no {check} in {findings:#?}"))
}

fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap()
}

/// Opening strictly must fail; returns its one line and the checks that it names.
async fn refused(url: &str, options: Options, role: Role) -> (String, Vec<&'static str>) {
    let error = LiveRedis::open_strict(url, options, role).await.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n') && !format!("{text}{error:?}").contains(CANARY), "{text}");
    match error {
        StrictOpenError::Unfit(findings) => {
            assert!(
                findings.iter().all(|finding| text.contains(finding.check) && text.contains(&finding.mend))
            );
            (text, findings.iter().map(|finding| finding.check).collect())
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn all_is_well_on_a_healthy_server_for_every_role() {
    let server = healthy().password(CANARY).start().unwrap();
    for role in [Role::Gateway, Role::Flusher, Role::Operator, Role::Repairer] {
        let redis = LiveRedis::open_strict(server.url(), Options::default(), role).await.unwrap();
        let findings = redis.doctor(role).await;
        assert_eq!(worst(&findings), Severity::Ok, "{findings:#?}");
        let checks: Vec<_> =
            findings.iter().map(|finding| finding.check.trim_start_matches("redis.")).collect();
        let all = [
            "version",
            "eviction",
            "maxmemory",
            "persistence",
            "replication",
            "clock",
            "shards",
            "options",
            "scripts",
            "rights",
        ];
        assert_eq!(checks, all);
        assert!(!format!("{findings:?}").contains(CANARY));
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_until_it_does_not() {
    let server = healthy().arg("maxmemory-policy", "allkeys-lru").start().unwrap();
    let (text, checks) = refused(server.url(), Options::default(), Role::Gateway).await;
    assert_eq!(checks, ["redis.eviction"]);
    assert!(text.contains("allkeys-lru") && text.contains("noeviction"), "{text}");
    let mut admin =
        redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let mut mend = redis::cmd("CONFIG");
    mend.arg("SET").arg("maxmemory-policy").arg("noeviction");
    mend.query_async::<()>(&mut admin).await.unwrap();
    LiveRedis::open_strict(server.url(), Options::default(), Role::Gateway).await.unwrap();
}

#[tokio::test]
async fn weak_persistence_and_no_memory_limit_are_said_and_not_refused() {
    let server = RedisServer::builder().start().unwrap();
    let redis = LiveRedis::open_strict(server.url(), Options::default(), Role::Flusher).await.unwrap();
    let findings = redis.doctor(Role::Flusher).await;
    let persistence = find(&findings, "redis.persistence");
    assert_eq!(persistence.severity, Severity::Warning);
    assert!(persistence.why.contains("loses everything since the last snapshot"), "{persistence:?}");
    assert_eq!(find(&findings, "redis.maxmemory").severity, Severity::Note);
    assert_eq!(worst(&findings), Severity::Warning);
}

#[tokio::test]
async fn a_user_without_script_rights_is_refused_by_name_of_what_it_lacks() {
    let user = format!("weak on >{CANARY} ~* +@all -evalsha -script|load -rpush");
    let server = healthy().acl_user(user).start().unwrap();
    let url = server.url_as("weak", CANARY);
    let (text, checks) = refused(&url, options(3), Role::Gateway).await;
    assert_eq!(checks, ["redis.scripts", "redis.rights"]);
    for lacking in ["SCRIPT LOAD", "EVALSHA", "RPUSH tallyweir:{0}:queue", "RPUSH tallyweir:{2}:queue"] {
        assert!(text.contains(lacking), "{text}");
    }
    let (_, checks) = refused(&url, Options::default(), Role::Operator).await;
    assert_eq!(checks, ["redis.scripts"], "an operator pushes nothing");
}

#[tokio::test]
async fn what_may_not_be_asked_is_a_warning_of_its_own_and_scripts_are_tried() {
    let server = healthy()
        .acl_user(format!("silent on >{CANARY} ~* +@all -acl -info -config"))
        .acl_user(format!("mute on >{CANARY} ~* +@all -acl -info -config -evalsha -time"))
        .start()
        .unwrap();
    let redis = LiveRedis::open_strict(server.url_as("silent", CANARY), Options::default(), Role::Flusher)
        .await
        .unwrap();
    let findings = redis.doctor(Role::Flusher).await;
    for check in ["version", "eviction", "maxmemory", "persistence", "replication", "rights"] {
        let finding = find(&findings, &format!("redis.{check}"));
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.contains("is not known"), "{finding:?}");
    }
    assert_eq!(find(&findings, "redis.scripts").severity, Severity::Ok);
    let (_, checks) = refused(&server.url_as("mute", CANARY), Options::default(), Role::Flusher).await;
    assert_eq!(checks, ["redis.scripts"]);
}

#[tokio::test]
async fn another_shard_count_is_refused_wherever_the_queue_has_entries() {
    let server = healthy().start().unwrap();
    let four = LiveRedis::open_with(server.url(), options(4)).await.unwrap();
    four.enqueue(&event("r1", 5)).await.unwrap();
    LiveRedis::open_strict(server.url(), options(4), Role::Flusher).await.unwrap();
    for other in [1, 2, 5] {
        let error = LiveRedis::open_strict(server.url(), options(other), Role::Flusher).await.unwrap_err();
        assert!(matches!(error, StrictOpenError::Open(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("has 4 shards") && text.contains(&format!("set up for {other}")), "{text}");
    }
    // Where the first shard lost its record, another one still has it, and only the doctor looks there.
    let mut admin =
        redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let mut harm = redis::cmd("HDEL");
    harm.arg("tallyweir:{0}:state").arg("shards").query_async::<()>(&mut admin).await.unwrap();
    let mut keep = redis::cmd("HSET");
    keep.arg("tallyweir:{3}:state").arg("shards").arg(4).query_async::<()>(&mut admin).await.unwrap();
    for other in [1, 2, 5] {
        let (text, checks) = refused(server.url(), options(other), Role::Flusher).await;
        assert_eq!(checks, ["redis.shards"]);
        assert!(text.contains("the queue has 4 shards") && text.contains(&format!("uses {other}")), "{text}");
    }
}

/// An event of this moment: the record of its gateway's settings has its time.
fn queued_now(id: &str) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![common::team()]);
    event.organization_id = Some("o".into());
    event.encode(Utc::now()).unwrap()
}

#[tokio::test]
async fn gateways_that_disagree_on_clock_or_memory_are_found_whichever_is_asked() {
    let server = healthy().start().unwrap();
    let with = |clock, retention| options(3).with_window_clock(clock).with_dedup_retention(retention);
    let open = |options| LiveRedis::open_strict(server.url(), options, Role::Gateway);
    let two_hours = DedupRetention::AtLeast(Duration::from_secs(7200));
    let first = open(with(WindowClock::Local, DedupRetention::Permanent)).await.unwrap();
    first.enqueue(&queued_now("r1")).await.unwrap();
    for (clock, retention, word) in [
        (WindowClock::Redis, DedupRetention::Permanent, "the server's clock"),
        (WindowClock::Local, two_hours, "for 7200 s at least"),
    ] {
        let findings = first.doctor(Role::Gateway).await;
        assert_eq!(find(&findings, "redis.options").severity, Severity::Ok, "{findings:#?}");
        let other = open(with(clock, retention)).await.unwrap();
        let findings = other.doctor(Role::Gateway).await;
        let found = find(&findings, "redis.options");
        assert_eq!(found.severity, Severity::Warning, "{found:?}");
        for word in [word, "each gateway's clock", "for ever"] {
            assert!(found.what.contains(word), "{found:?}");
        }
        assert!(found.mend.contains("--window-clock") && found.mend.contains("--dedup-retention"));
        for role in [Role::Flusher, Role::Operator, Role::Repairer] {
            let findings = other.doctor(role).await;
            let found = find(&findings, "redis.options");
            assert_eq!(found.severity, Severity::Ok, "{role}: {found:?}");
            assert!(found.what.contains("each gateway's clock") && found.what.contains(word), "{found:?}");
        }
        // From now on it is the other that the queue records.
        other.enqueue(&queued_now(word)).await.unwrap();
        for (redis, role) in [(&first, Role::Gateway), (&other, Role::Gateway), (&other, Role::Flusher)] {
            let findings = redis.doctor(role).await;
            let found = find(&findings, "redis.options");
            assert_eq!(found.severity, Severity::Warning, "{role}: {found:?}");
            assert!(found.what.contains(word) && found.what.contains("each gateway's clock"), "{found:?}");
        }
        let mut admin =
            redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        for shard in 0..3 {
            let mut forget = redis::cmd("HDEL");
            forget.arg(format!("tallyweir:{{{shard}}}:state")).arg("settings").arg("settings_since");
            forget.arg("settings_before").query_async::<()>(&mut admin).await.unwrap();
        }
        first.enqueue(&queued_now(&format!("{word} again"))).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_one_fatal_finding_and_an_unopened_one_an_error() {
    let mut server = healthy().start().unwrap();
    let options = Options::default().with_deadline(Duration::from_millis(500));
    let redis = LiveRedis::open_with(server.url(), options).await.unwrap();
    server.kill();
    let findings = redis.doctor(Role::Gateway).await;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!((findings[0].check, findings[0].severity), ("redis.reachable", Severity::Fatal));

    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url = format!("redis://:{CANARY}@127.0.0.1:{port}");
    let error = LiveRedis::open_strict(url, Options::default(), Role::Gateway).await.unwrap_err();
    assert!(matches!(error, StrictOpenError::Open(_)) && !error.to_string().contains(CANARY), "{error}");
}

#[tokio::test]
async fn a_host_without_redis_is_told_what_that_means() {
    let findings = LiveRedis::disabled().doctor(Role::Gateway).await;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].severity, Severity::Warning);
}

#[tokio::test]
async fn a_replica_is_refused() {
    let primary = healthy().start().unwrap();
    let replica = healthy().arg("replicaof", format!("127.0.0.1 {}", primary.port())).start().unwrap();
    let redis = LiveRedis::open_with(replica.url(), Options::default()).await.unwrap();
    let findings = redis.doctor(Role::Flusher).await;
    assert_eq!(find(&findings, "redis.replication").severity, Severity::Fatal, "{findings:#?}");
}

#[tokio::test]
async fn each_primary_of_a_cluster_is_looked_at() {
    let cluster = RedisCluster::builder().primaries(3).start().unwrap();
    let nodes: Vec<_> = cluster.servers().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redis+cluster://{}", nodes.join(","));
    let redis = LiveRedis::open_strict(url.as_str(), options(8), Role::Gateway).await.unwrap();
    let findings = redis.doctor(Role::Gateway).await;
    assert_eq!(find(&findings, "redis.slots").severity, Severity::Ok, "{findings:#?}");
    assert_eq!(find(&findings, "redis.rights").severity, Severity::Ok, "{findings:#?}");

    let second = cluster.servers().nth(1).unwrap();
    let mut admin =
        redis::Client::open(second.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let mut harm = redis::cmd("CONFIG");
    harm.arg("SET").arg("maxmemory-policy").arg("allkeys-lru");
    harm.query_async::<()>(&mut admin).await.unwrap();
    let (text, checks) = refused(&url, options(8), Role::Gateway).await;
    assert_eq!(checks, ["redis.eviction"]);
    assert!(text.contains(&nodes[1]), "{text}");
}
