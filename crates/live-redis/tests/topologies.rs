//! The same calls on a Cluster, behind Sentinel, over TLS, and after what production does to connections.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{charged, limit, now, team};
use devstack::{RedisCluster, RedisSentinel, RedisServer, TlsFiles};
use live_redis::{CallError, ClientKey, LiveRedis, LiveRedisError, Options, Step, Tls};
use rate_plan::{Limits, Node, RateTree, Scope};
use spend_queue::{Acked, Enqueued, QueueError, ShardCount, SpendEvent, SpendQueue, Usd};

fn tree(organization: usize, rpm: u64) -> Arc<RateTree> {
    let node = |kind: &str, id: String, parent, rpm| Node {
        scope: Scope::new(kind, id).unwrap(),
        parent,
        limits: Limits { rpm, tpm: None },
    };
    let root = node("organization", organization.to_string(), None, Some(rpm));
    Arc::new(RateTree::new(vec![root, node("key", format!("k{organization}"), Some(0), None)]).unwrap())
}

fn event(id: &str, organization: usize) -> SpendEvent {
    let mut event = SpendEvent::new(id, "m", vec![team()]);
    event.organization_id = Some(organization.to_string());
    event.cost = Some(Usd::from_picos(7));
    event
}

/// Every kind of call, for enough organizations that every shard has some.
async fn every_call_works(redis: &LiveRedis) {
    for organization in 0..24 {
        let plan = tree(organization, 3).plan(1).unwrap();
        let first = redis.admit_rate_plan(&plan, 10, now()).await.unwrap();
        redis.settle(first.ticket().unwrap(), 4).await.unwrap();
        let partition = format!("organization/{organization}");
        let two = [(plan.clone(), 1), (plan.clone(), 1)];
        let more = redis.admit_rate_plans(&partition, &two, now()).await.unwrap();
        assert!(more.iter().all(|answer| answer.as_ref().unwrap().is_admitted()));
        redis.refund(more[1].as_ref().unwrap().ticket().unwrap()).await.unwrap();
        // Another version of the tree: a rebuild, which reads the hash's fields on the wide path.
        let changed = tree(organization, 2).plan(1).unwrap();
        let refused = redis.admit_rate_plan(&changed, 1, now()).await.unwrap();
        assert_eq!(refused.rejection().unwrap().used, 2);
        let event = event(&format!("r{organization}"), organization);
        assert!(matches!(redis.enqueue_spend(&event, now()).await.unwrap(), Enqueued::Accepted { .. }));
        assert_eq!(redis.enqueue_spend(&event, now()).await.unwrap(), Enqueued::Duplicate);
    }
    assert_eq!(redis.hot_spend(&team()).await, Usd::from_picos(24 * 7));
    let mut drained = 0;
    for shard in redis.shards().iter() {
        let batch = redis.peek_logs(shard, limit(100)).await.unwrap();
        assert_eq!(batch.depth, redis.depth(shard).await.unwrap());
        if let Some(receipt) = batch.receipt() {
            drained += batch.entries.len();
            assert_eq!(
                redis.ack_flushed(&receipt).await.unwrap(),
                Acked::Done { depth: 0, short_counters: 0 }
            );
        }
    }
    assert_eq!(drained, 24);
    telemetry_works(redis).await;
    assert_eq!(redis.hot_spend(&team()).await, Usd::ZERO);
    assert_eq!(redis.degradations(), 0);
}

/// Ids that are spread over all shards, so over all slots.
async fn telemetry_works(redis: &LiveRedis) {
    let ids: Vec<String> = (0..40).map(|n| format!("deployment-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for id in &ids {
        assert!(redis.record_failure(id, 1, Duration::from_secs(60)).await.unwrap());
        redis.add_latency(id, 0.5).await.unwrap();
        redis.add_usage(id, 7, now()).await.unwrap();
        assert_eq!(redis.hit_rpm(id, now()).await.unwrap(), 1);
        redis.write_affinity(id, "a", Duration::from_secs(60)).await.unwrap();
        assert!(redis.swap_affinity(id, Some("a"), "b", Duration::from_secs(60)).await.unwrap());
    }
    assert_eq!(redis.cooled(&ids).await.unwrap().len(), 40);
    assert!(redis.latencies(&ids).await.unwrap().values().all(|mean| (mean - 0.5).abs() < 1e-9));
    assert_eq!(redis.usages(&ids, now()).await.unwrap().values().sum::<u64>(), 40 * 7);
    assert_eq!(redis.read_affinity(ids[0]).await.unwrap().as_deref(), Some("b"));
}

fn cluster_url(urls: &[String]) -> String {
    let hosts: Vec<_> =
        urls.iter().map(|url| url.trim_start_matches("redis://").trim_end_matches('/')).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

fn options(shards: u16) -> Options {
    Options::default().with_shards(ShardCount::new(shards).unwrap())
}

/// Repeats a call until it works; returns how long that took.
async fn until_it_works<T>(mut call: impl AsyncFnMut() -> Result<T, LiveRedisError>) -> (T, Duration) {
    let started = Instant::now();
    loop {
        match call().await {
            Ok(done) => return (done, started.elapsed()),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                assert!(started.elapsed() < Duration::from_secs(30), "no way back: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test]
async fn every_call_works_on_a_cluster_of_three_with_one_slot_or_with_many() {
    let cluster = RedisCluster::builder().primaries(3).start().unwrap();
    for (shards, prefix) in [(1, "one"), (16, "many")] {
        let options = options(shards).with_prefix(prefix.parse().unwrap());
        let redis = LiveRedis::open_with(cluster_url(&cluster.urls()), options).await.unwrap();
        every_call_works(&redis).await;
        redis.close();
    }
}

#[tokio::test]
async fn a_cluster_whose_primary_dies_goes_on_without_a_restart_and_keeps_what_was_replicated() {
    let mut cluster = RedisCluster::builder().primaries(3).replicas(1).start().unwrap();
    let redis = LiveRedis::open_with(cluster_url(&cluster.urls()), options(1)).await.unwrap();
    for n in 0..50 {
        redis.enqueue_spend(&event(&format!("before-{n}"), 1), now()).await.unwrap();
    }
    let mut any = redis::Client::open(&*cluster.urls()[0]).unwrap().get_connection().unwrap();
    let slot: u16 = redis::cmd("CLUSTER").arg("KEYSLOT").arg("tallyweir:{0}:queue").query(&mut any).unwrap();
    // What is acknowledged here is what the replica has too.
    let mut raw = redis::Client::open(&*cluster.urls()[cluster.primary_of(slot).unwrap()])
        .unwrap()
        .get_connection()
        .unwrap();
    let replicas: i64 = redis::cmd("WAIT").arg(1).arg(5000).query(&mut raw).unwrap();
    assert_eq!(replicas, 1);
    cluster.kill_primary_of(slot).unwrap();
    let (_, took) = until_it_works(async || redis.enqueue_spend(&event("after", 1), now()).await).await;
    println!("enqueue works again {took:?} after the primary was killed");
    let (batch, _) =
        until_it_works(async || redis.peek_logs(redis.shards().iter().next().unwrap(), limit(100)).await)
            .await;
    assert_eq!(batch.entries.len(), 51);
    let (decision, _) =
        until_it_works(async || redis.admit_rate_plan(&tree(1, 3).plan(1).unwrap(), 1, now()).await).await;
    assert!(decision.is_admitted());
}

#[tokio::test]
async fn a_fail_over_behind_sentinel_is_followed_without_a_restart() {
    let mut sentinel = RedisSentinel::builder().replicas(1).sentinels(3).start().unwrap();
    let hosts: Vec<_> = sentinel
        .sentinel_urls()
        .iter()
        .map(|url| url.trim_start_matches("redis://").trim_end_matches('/').to_owned())
        .collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinel.master_name());
    let redis = LiveRedis::open(url).await.unwrap();
    every_call_works(&redis).await;
    redis.enqueue_spend(&event("before", 99), now()).await.unwrap();
    sentinel.kill_primary().unwrap();
    let (_, took) = until_it_works(async || redis.enqueue_spend(&event("after", 99), now()).await).await;
    println!("enqueue works again {took:?} after the primary was killed");
    let shard = redis.shards().iter().next().unwrap();
    let (batch, _) = until_it_works(async || redis.peek_logs(shard, limit(10)).await).await;
    assert!(batch.entries.iter().any(|entry| entry.event.request_id == "after"));
}

#[tokio::test]
async fn tls_checks_the_server_and_shows_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles::generate(folder.path()).unwrap();
    let server = RedisServer::builder().tls(files.clone()).start().unwrap();
    assert!(server.url().starts_with("rediss://"));
    let tls = Tls {
        authority: Some(files.ca_pem().into()),
        client_certificate: Some(files.client_cert_pem().into()),
        client_key: Some(ClientKey::new(files.client_key_pem())),
    };
    let redis = LiveRedis::open_with(server.url(), Options::default().with_tls(tls.clone())).await.unwrap();
    every_call_works(&redis).await;

    // An authority that is not ours is not believed, and neither is a server that only the system's would vouch for.
    let other = tempfile::tempdir().unwrap();
    let other = TlsFiles::generate(other.path()).unwrap();
    let stranger = Tls { authority: Some(other.ca_pem().into()), ..tls.clone() };
    for options in [Options::default().with_tls(stranger), Options::default()] {
        let error = LiveRedis::open_with(server.url(), options).await.unwrap_err();
        assert_eq!(error.step, Step::Connect, "{error}");
    }
    let half = Tls { client_key: None, ..tls };
    let error =
        LiveRedis::open_with(server.url(), Options::default().with_tls(half.clone())).await.unwrap_err();
    assert_eq!(error.step, Step::Parse, "{error}");
    assert!(!format!("{half:?} {error:?}").contains("PRIVATE KEY"));
}

#[tokio::test]
async fn several_servers_in_one_url_are_read_or_refused_by_form() {
    for url in [
        "redis+cluster://",
        "redis+cluster://h:1,,h:2",
        "redis+cluster://h:1/0",
        "redis+cluster://u:canary@h:x",
        "redis+sentinel://h:1",
        "redis+sentinel://h:1/",
        "redis+sentinel://h:1/primary/x",
        "redis+sentinel://h:1/primary/-1",
        "redis+sentinel://h:1/primary?canary=1",
        "redis+other://u:canary@h",
        "rediss+cluster//h",
    ] {
        let error = LiveRedis::open(url).await.unwrap_err();
        assert_eq!(error.step, Step::Parse, "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_loaded_again() {
    let server = RedisServer::builder().start().unwrap();
    let redis = LiveRedis::open(server.url()).await.unwrap();
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    for round in 0..3 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut raw).unwrap();
        let plan = tree(round, 5).plan(1).unwrap();
        assert!(redis.admit_rate_plan(&plan, 1, now()).await.unwrap().is_admitted());
        redis.enqueue(&charged(&format!("r{round}"), Some(1), vec![team()])).await.unwrap();
    }
}

#[tokio::test]
async fn a_primary_that_is_demoted_and_promoted_again_is_used_again_without_a_restart() {
    let server = RedisServer::builder().start().unwrap();
    let deadline = Duration::from_millis(300);
    let redis = LiveRedis::open_with(server.url(), Options::default().with_deadline(deadline)).await.unwrap();
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    redis.enqueue_spend(&event("a", 1), now()).await.unwrap();
    let () =
        redis::cmd("CONFIG").arg("SET").arg("replica-serve-stale-data").arg("yes").query(&mut raw).unwrap();
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).query(&mut raw).unwrap();
    let started = Instant::now();
    let error = redis.enqueue_spend(&event("b", 1), now()).await.unwrap_err();
    assert!(
        matches!(error, LiveRedisError::Call(CallError::Unavailable(_) | CallError::Timeout(_))),
        "{error}"
    );
    assert!(error.is_transient() && started.elapsed() < Duration::from_secs(1), "{error}");
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut raw).unwrap();
    let (answer, _) = until_it_works(async || redis.enqueue_spend(&event("b", 1), now()).await).await;
    assert_eq!(answer, Enqueued::Accepted { seq: 2, depth: 2 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed_while_it_moves_and_afterwards() {
    let cluster = RedisCluster::builder().primaries(3).start().unwrap();
    let redis = LiveRedis::open_with(cluster_url(&cluster.urls()), options(1)).await.unwrap();
    let slot = RedisCluster::key_slot(b"tallyweir:{0}:queue");
    let plan = tree(1, 1000).plan(1).unwrap();
    let ids: Vec<String> = (0..10).map(|n| format!("deployment-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for id in &ids {
        redis.add_latency(id, 0.5).await.unwrap();
    }
    let mut sent = 0;
    for _ in 0..3 {
        let to = (cluster.primary_of(slot).unwrap() + 1) % 3;
        let moving = cluster.begin_slot_move(slot, to).unwrap();
        let _ = until_it_works(async || redis.admit_rate_plan(&plan, 1, now()).await).await;
        // Some keys have gone ahead (ASK), some have not; a script that needs both is told to try again.
        cluster.migrate_keys(&moving, 2).unwrap();
        assert_eq!(redis.latencies(&ids).await.unwrap().len(), 10, "each is read where it is");
        let bill = event(&format!("moving-{sent}"), 1);
        let blocked = redis.enqueue_spend(&bill, now());
        let finish = async {
            tokio::task::yield_now().await;
            tokio::task::block_in_place(|| {
                cluster.migrate_keys(&moving, 1000).unwrap();
                cluster.finish_slot_move(&moving).unwrap();
            });
        };
        let (first, ()) = tokio::join!(blocked, finish);
        if first.is_err() {
            until_it_works(async || redis.enqueue_spend(&bill, now()).await).await;
        }
        sent += 1;
        let (done, _) =
            until_it_works(async || redis.enqueue_spend(&event(&format!("moved-{sent}"), 1), now()).await)
                .await;
        assert!(matches!(done, Enqueued::Accepted { .. }));
        sent += 1;
    }
    let shard = redis.shards().iter().next().unwrap();
    let (batch, _) = until_it_works(async || redis.peek_logs(shard, limit(100)).await).await;
    assert_eq!((batch.entries.len(), batch.stop), (sent, None));
}

#[tokio::test]
async fn a_cluster_that_lost_a_slot_and_gets_it_back_is_used_again() {
    let mut cluster = RedisCluster::builder().primaries(3).start().unwrap();
    let deadline = Duration::from_millis(500);
    let options = options(1).with_deadline(deadline);
    let redis = LiveRedis::open_with(cluster_url(&cluster.urls()), options).await.unwrap();
    redis.enqueue_spend(&event("before", 1), now()).await.unwrap();
    let slot = RedisCluster::key_slot(b"tallyweir:{0}:queue");
    let dead = cluster.kill_primary_of(slot).unwrap();
    let started = Instant::now();
    let error = redis.enqueue_spend(&event("down", 1), now()).await.unwrap_err();
    assert!(error.is_transient() && started.elapsed() < Duration::from_secs(2), "{error}");
    cluster.start_again(dead).unwrap();
    let (_, took) = until_it_works(async || redis.enqueue_spend(&event("down", 1), now()).await).await;
    println!("enqueue works again {took:?} after the node was started again");
}

#[tokio::test]
async fn connections_that_are_cut_are_made_anew() {
    let server = RedisServer::builder().start().unwrap();
    let redis = LiveRedis::open(server.url()).await.unwrap();
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let plan = tree(1, 1000).plan(1).unwrap();
    for _ in 0..5 {
        let _: i64 = redis::cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .arg("SKIPME")
            .arg("yes")
            .query(&mut raw)
            .unwrap();
        let _ = until_it_works(async || redis.admit_rate_plan(&plan, 1, now()).await).await;
        until_it_works(async || redis.peek_logs(redis.shards().iter().next().unwrap(), limit(1)).await).await;
    }
}

#[tokio::test]
async fn wide_reads_that_exhaust_their_pool_do_not_hold_up_admissions() {
    let server = RedisServer::builder().start().unwrap();
    let mut options = Options::default();
    options.wide_connections = 1;
    options.deadline = Duration::from_secs(20);
    let redis = LiveRedis::open_with(server.url(), options).await.unwrap();
    for n in 0..140 {
        let mut event = event(&format!("r{n}"), 1);
        event.metadata.insert("m".into(), "x".repeat(60_000).into());
        redis.enqueue_spend(&event, now()).await.unwrap();
    }
    let shard = redis.shards().iter().next().unwrap();
    let mut peeks = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let redis = redis.clone();
        peeks.spawn(async move { redis.peek_logs(shard, limit(1000)).await.unwrap().entries.len() });
    }
    // The first peek is answered, so the others queue for the one connection.
    assert!(peeks.join_next().await.unwrap().unwrap() > 100);
    let plan = tree(1, 1000).plan(1).unwrap();
    for _ in 0..5 {
        assert!(redis.admit_rate_plan(&plan, 1, now()).await.unwrap().is_admitted());
    }
    let waiting = std::iter::from_fn(|| peeks.try_join_next()).count();
    assert!(waiting < 20, "admissions took as long as {waiting} peeks");
    assert!(peeks.len() > 10, "{} peeks are still to come", peeks.len());
    while let Some(peek) = peeks.join_next().await {
        peek.unwrap();
    }
}
