//! What each role cannot do, and that it writes nothing when it tries.

use live_redis::{LiveRedis, Options, Role};
use spend_queue::{PendingSpend, Shard, SpendQueue};

use crate::common::{event, limit, now, shard, team};
use crate::{Guarded, MINUTE, ROLES, note, older, plan, receipt, run, ticket};

/// What only a gateway may do.
async fn cannot_serve(guarded: &Guarded, redis: &LiveRedis) {
    guarded.denied(redis.enqueue(&event("r2", 5))).await;
    guarded.denied(redis.admit_rate_plan(&plan(50), 1, now())).await;
    guarded.denied(redis.record_failure("d", 1, MINUTE)).await;
    guarded.denied(redis.add_latency("d", 0.5)).await;
    guarded.denied(redis.add_usage("d", 7, now())).await;
    guarded.denied(redis.hit_rpm("k", now())).await;
    guarded.denied(redis.read_affinity("a")).await;
    guarded.denied(redis.write_affinity("a", "w", MINUTE)).await;
    guarded.denied(redis.compare_affinity("a", "v", MINUTE)).await;
    guarded.denied(redis.swap_affinity("a", None, "w", MINUTE)).await;
}

/// What only a repairer may do with the quarantine; one item is in it.
async fn cannot_move(guarded: &Guarded, redis: &LiveRedis) {
    let repairer = guarded.open(Role::Repairer).await;
    let item = repairer.quarantined(shard(), 1).await.unwrap().remove(0);
    let head = repairer.peek(shard(), limit(1)).await.unwrap().entries.remove(0);
    guarded.denied(redis.quarantine(shard(), head.raw(), &note())).await;
    guarded.denied(redis.restore(shard(), &item)).await;
    guarded.denied(redis.acknowledge_quarantined(shard(), &item, &note())).await;
}

#[tokio::test]
async fn calls_of_other_roles_are_denied_and_write_nothing() {
    let guarded = Guarded::start().await;
    let [gateway, flusher, operator, repairer] = [
        guarded.open(Role::Gateway).await,
        guarded.open(Role::Flusher).await,
        guarded.open(Role::Operator).await,
        guarded.open(Role::Repairer).await,
    ];
    let ticket = ticket(&gateway).await;
    for id in ["r1", "r3"] {
        gateway.enqueue(&event(id, 5)).await.unwrap();
    }
    gateway.write_affinity("a", "v", MINUTE).await.unwrap();
    let head = flusher.peek(shard(), limit(1)).await.unwrap().entries.remove(0);
    assert_eq!(repairer.quarantine(shard(), head.raw(), &note()).await, Ok(Some(1)));
    repairer.reindex(shard()).await.unwrap();
    let receipt = receipt(&flusher).await;

    for stranger in [&flusher, &operator, &repairer] {
        cannot_serve(&guarded, stranger).await;
        guarded.denied(stranger.settle(&ticket, 1)).await;
    }
    for stranger in [&gateway, &operator, &repairer] {
        guarded.denied(stranger.ack(&receipt)).await;
    }
    for stranger in [&gateway, &flusher, &operator] {
        cannot_move(&guarded, stranger).await;
    }
    guarded.denied(operator.repair_index(shard())).await;
    guarded.denied(gateway.quarantined(shard(), 1)).await;
    for stranger in [&gateway, &flusher] {
        guarded.denied(stranger.queue_status(shard())).await;
    }
    // All that is pending it may read, since it keeps the counters; not the order of the starts.
    guarded.denied(flusher.pending_since("o", now())).await;
    gateway.settle(&ticket, 1).await.unwrap();
    flusher.ack(&receipt).await.unwrap();
}

#[tokio::test]
async fn the_queue_of_an_older_deployment_is_closed_to_whom_its_words_are_not_given() {
    let guarded = Guarded::start_with_older().await;
    let flusher = guarded.client(Role::Flusher, older()).await;
    let receipt = flusher.peek(Shard::OLDER, limit(1)).await.unwrap().receipt().unwrap();
    for role in [Role::Gateway, Role::Operator, Role::Repairer] {
        guarded.denied(guarded.client(role, older()).await.ack(&receipt)).await;
    }
    for role in ROLES {
        guarded.set_user(&role.to_string(), &crate::line(role)).await;
        let redis = guarded.client(role, older()).await;
        guarded.denied(redis.peek(Shard::OLDER, limit(1))).await;
        guarded.denied(redis.ack(&receipt)).await;
        guarded.denied(redis.depth(Shard::OLDER)).await;
        guarded.denied(redis.pending(&team())).await;
    }
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
            "SET tallyweir:{0}:queue x",
            "DEL tallyweir:{0}:queue",
            "DEL tallyweir:{0}:state",
            "RPOP tallyweir:{0}:queue",
            "LSET tallyweir:{0}:queue 0 x",
            "EXPIRE tallyweir:{0}:queue 1",
            "MEMORY DOCTOR",
            "DEL tallyweir:{0}:quarantine",
            "DEL tallyweir:{0}:lost",
            "LTRIM tallyweir:{0}:lost 1 0",
            "LTRIM tallyweir:{0}:quarantine 1 0",
            "LRANGE xhub:spendlog 0 -1",
            "GET xhub:spend:team/t",
            "RENAME tallyweir:{0}:queue other",
            "GET other:{0}:str:x",
            "SET other:{0}:str:x w",
            "RPUSH other:{0}:queue x",
            "RPUSH x:tallyweir:{0}:queue x",
            "HSET tallyweir1:{0}:state x x",
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
    let besides: [(Role, &[&str]); 4] = [
        (
            Role::Gateway,
            &["LTRIM tallyweir:{0}:queue 1 0", "LPOP tallyweir:{0}:queue", "LSET tallyweir:{0}:lost 0 x"],
        ),
        (
            Role::Flusher,
            &["RPUSH tallyweir:{0}:queue x", "LPOP tallyweir:{0}:queue", "LSET tallyweir:{0}:lost 0 x"],
        ),
        (
            Role::Operator,
            &[
                "LTRIM tallyweir:{0}:queue 1 0",
                "RPUSH tallyweir:{0}:queue x",
                "LPOP tallyweir:{0}:queue",
                "HSET tallyweir:{0}:state x x",
                "HSET tallyweir:{0}:hot x x",
                "DEL tallyweir:{0}:hot",
                "ZADD tallyweir:{0}:since 0 x",
                "RPUSH tallyweir:{0}:quarantine x",
            ],
        ),
        (
            Role::Repairer,
            &[
                "LTRIM tallyweir:{0}:queue 1 0",
                "RPUSH tallyweir:{0}:queue x",
                "HSET tallyweir:{0}:seen:0000 x x",
                "LPOP tallyweir:{0}:quarantine",
            ],
        ),
    ];
    for (role, commands) in besides {
        for command in commands {
            let error = run::<redis::Value>(&guarded.raw(role).await, command).await.unwrap_err();
            assert_eq!(error.code(), Some("NOPERM"), "{role}: {command}");
        }
    }
    assert_eq!(guarded.digest().await, before);
}
