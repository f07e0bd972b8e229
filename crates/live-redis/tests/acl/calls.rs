//! What each role can do.

use live_redis::{DedupRetention, LiveRedis, Options, Role, Watermarks, WindowClock};
use rate_plan::{Limits, Scope};
use spend_queue::{Acked, PendingQuery, PendingSpend, Reindexed, Shard, SpendQueue, Usd};

use crate::common::{charged, event, limit, now, shard, team};
use crate::{Guarded, MINUTE, note, older, plan, receipt, ticket};

impl Guarded {
    /// The strict reads, of so many picodollars that every scope of [`event`] is charged with, while the index is proven and
    /// while it is in doubt; it is in doubt afterwards.
    async fn strict_reads(&self, redis: &LiveRedis, picos: i128) {
        let expected = Usd::from_picos(picos);
        self.admin::<u64>("HDEL tallyweir:{0}:state doubt").await;
        for _ in 0..2 {
            assert_eq!(redis.pending(&team()).await, Ok(expected));
            assert_eq!(redis.pending_key("k").await, Ok(expected));
            assert_eq!(redis.pending_since("o", now()).await.unwrap(), Usd::ZERO);
            let all =
                [PendingQuery::Organization { id: "o".into(), since: now() }, PendingQuery::Scope(team())];
            assert_eq!(redis.pending_all(&all).await, Ok(vec![Usd::ZERO, expected]));
            redis.backlog(shard()).await.unwrap();
            self.admin::<u64>("HSET tallyweir:{0}:state doubt test").await;
        }
    }
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
    let forgetful = Options::default().with_dedup_retention(DedupRetention::AtLeast(MINUTE));
    guarded.client(Role::Gateway, forgetful).await.enqueue(&event("r2", 5)).await.unwrap();
    guarded.strict_reads(&redis, 10).await;
    let watermarks = Watermarks { entries: 2, ..Watermarks::default() };
    assert!(redis.pressure(&watermarks, now()).await.unwrap().high);

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
async fn gateways_agree_on_a_shard_count() {
    let guarded = Guarded::start().await;
    let options = Options::default().with_shards("4".parse().unwrap());
    let redis = guarded.client(Role::Gateway, options).await;
    redis.enqueue(&event("r1", 5)).await.unwrap();
    assert_eq!(guarded.admin::<String>("HGET tallyweir:{0}:state shards").await, "4");
}

#[tokio::test]
async fn a_flusher_can_make_each_of_its_calls() {
    let guarded = Guarded::start().await;
    let gateway = guarded.open(Role::Gateway).await;
    let started = {
        let organization = spend_queue::ScopeRef::new("organization", "o").unwrap();
        let mut event = spend_queue::SpendEvent::new("r3", "m", vec![team(), organization]);
        event.cost = Some(Usd::from_picos(5));
        event.started_at = Some(now());
        event.encode(now()).unwrap()
    };
    for event in [event("r1", 5), event("r2", 5), started] {
        gateway.enqueue(&event).await.unwrap();
    }
    let flusher = guarded.open(Role::Flusher).await;
    let glance = flusher.queue_glance(shard()).await.unwrap();
    assert_eq!((glance.backlog.entries, glance.bytes > 0, glance.quarantined), (3, true, 0));
    assert_eq!(flusher.reindex(shard()).await, Ok(Reindexed::Proven));
    guarded.admin::<u64>("DEL tallyweir:{0}:hot").await;
    assert_eq!(flusher.reindex(shard()).await, Ok(Reindexed::Rebuilt { entries: 3 }));
    for left in [2, 1, 0] {
        let receipt = flusher.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
        assert_eq!(flusher.ack(&receipt).await, Ok(Acked::Done { depth: left, short_counters: 0 }));
        assert_eq!(flusher.depth(shard()).await, Ok(left));
        flusher.backlog(shard()).await.unwrap();
    }
    let left: Vec<String> = guarded.admin("KEYS tallyweir:{0}:[hcsq][ouiu]*").await;
    assert_eq!(left, Vec::<String>::new());
}

/// What an operator reads.
async fn look(guarded: &Guarded, redis: &LiveRedis) {
    assert_eq!(redis.peek(shard(), limit(10)).await.unwrap().entries.len(), 2);
    assert_eq!(redis.depth(shard()).await.unwrap(), 2);
    assert_eq!(redis.hot_spend(&team()).await.picos(), 10);
    assert_eq!(redis.queue_status(shard()).await.unwrap().counters.len(), 2);
    assert_eq!(redis.quarantined(shard(), 10).await.unwrap(), []);
    assert_eq!(redis.losses(shard(), 10).await.unwrap(), []);
    guarded.strict_reads(redis, 10).await;
    assert_eq!(redis.degradations(), 0);
}

#[tokio::test]
async fn an_operator_can_look_at_everything() {
    let guarded = Guarded::start().await;
    let gateway = guarded.open(Role::Gateway).await;
    for id in ["r1", "r2"] {
        gateway.enqueue(&event(id, 5)).await.unwrap();
    }
    let operator = guarded.open(Role::Operator).await;
    look(&guarded, &operator).await;
    let marks = operator.marks(shard(), 0, usize::MAX, now()).await.unwrap();
    let mut waiting = operator.waiting_marks(shard()).await.unwrap();
    waiting.sort();
    let mut marks = marks.marks;
    marks.sort();
    assert_eq!(marks, waiting, "each remembered id waits");
}

#[tokio::test]
async fn a_repairer_can_look_and_mend() {
    let guarded = Guarded::start().await;
    let gateway = guarded.open(Role::Gateway).await;
    let organization = spend_queue::ScopeRef::new("organization", "o").unwrap();
    for id in ["r1", "r2"] {
        gateway.enqueue(&event(id, 5)).await.unwrap();
    }
    let repairer = guarded.open(Role::Repairer).await;
    look(&guarded, &repairer).await;
    gateway.enqueue(&charged("r3", Some(5), vec![organization])).await.unwrap();
    assert_eq!(repairer.repair_index(shard()).await, Ok(Reindexed::Rebuilt { entries: 3 }));

    let mut heads = Vec::new();
    for left in [2, 1, 0] {
        let head = repairer.peek(shard(), limit(1)).await.unwrap().entries.remove(0);
        assert_eq!(repairer.quarantine(shard(), head.raw(), &note()).await, Ok(Some(left)));
        heads.push(head);
    }
    let first = repairer.quarantined(shard(), 1).await.unwrap().remove(0);
    assert_eq!((first.seq, first.note.as_ref(), &first.acknowledged), (Some(1), Some(&note()), &None));
    assert_eq!(repairer.acknowledge_quarantined(shard(), &first, &note()).await, Ok(true));
    assert_eq!(
        repairer.acknowledge_quarantined(shard(), &first, &note()).await,
        Ok(false),
        "it is another now"
    );
    let flusher = guarded.open(Role::Flusher).await;
    assert_eq!(flusher.queue_glance(shard()).await.unwrap().quarantined, 2, "one was dealt with");
    for held in [1, 2, 3] {
        let last = repairer.quarantined(shard(), 10).await.unwrap().pop().unwrap();
        assert_eq!(last.raw, heads.pop().unwrap().raw());
        assert_eq!(repairer.restore(shard(), &last).await, Ok(Some(held)));
    }
    assert_eq!(repairer.reindex(shard()).await, Ok(Reindexed::Rebuilt { entries: 3 }));
    assert_eq!(repairer.pending(&team()).await, Ok(Usd::from_picos(10)));
    let receipt = receipt(&flusher).await;
    assert_eq!(receipt.entries, 3);
}

/// What each role finds to be lost, it writes down; a repairer marks it as dealt with.
#[tokio::test]
async fn a_loss_is_written_down_with_the_rights_of_whoever_finds_it() {
    let guarded = Guarded::start().await;
    let gateway = guarded.open(Role::Gateway).await;
    let (flusher, repairer) = (guarded.open(Role::Flusher).await, guarded.open(Role::Repairer).await);
    gateway.enqueue(&event("r1", 5)).await.unwrap();
    guarded.admin::<u64>("DEL tallyweir:{0}:queue").await;
    gateway.enqueue(&event("r2", 5)).await.unwrap();
    gateway.enqueue(&event("r3", 5)).await.unwrap();
    guarded.admin::<String>("RPOP tallyweir:{0}:queue").await;
    assert_eq!(flusher.reindex(shard()).await, Ok(Reindexed::Rebuilt { entries: 1 }));
    gateway.enqueue(&event("r4", 5)).await.unwrap();
    guarded.admin::<String>("LPOP tallyweir:{0}:queue").await;
    let receipt = flusher.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
    assert_eq!(flusher.ack(&receipt).await, Ok(Acked::Done { depth: 0, short_counters: 0 }));
    assert_eq!(flusher.losses(shard(), 9).await.unwrap().len(), 3);
    gateway.enqueue(&event("r5", 5)).await.unwrap();
    guarded.admin::<u64>("DEL tallyweir:{0}:queue").await;
    assert_eq!(repairer.repair_index(shard()).await, Ok(Reindexed::Rebuilt { entries: 0 }));
    let losses = repairer.losses(shard(), 9).await.unwrap();
    let found: Vec<_> = losses.iter().map(|loss| (&*loss.found_by, loss.first, loss.last)).collect();
    assert_eq!(found, [("enqueue", 1, 1), ("reindex", 3, 3), ("ack", 2, 2), ("reindex", 4, 4)]);
    assert!(losses.iter().all(|loss| loss.pending.as_ref().unwrap()["team"] == Usd::from_picos(5)));
    assert_eq!(repairer.acknowledge_loss(shard(), &losses[1], &note()).await, Ok(true));
    assert_eq!(repairer.acknowledge_loss(shard(), &losses[1], &note()).await, Ok(false), "it is another now");
    let losses = repairer.losses(shard(), 9).await.unwrap();
    assert_eq!((losses.len(), losses[1].acknowledged.as_ref()), (4, Some(&note())));
}

#[tokio::test]
async fn the_queue_of_an_older_deployment_is_read_by_all_and_drained_by_the_flusher() {
    let guarded = Guarded::start_with_older().await;
    guarded.admin::<String>("INCRBYFLOAT xhub:spend:organization/o 0.5").await;
    let half = Usd::from_picos(500_000_000_000);
    for role in [Role::Gateway, Role::Operator, Role::Repairer] {
        let redis = guarded.client(role, older()).await;
        assert_eq!(redis.pending_since("o", now()).await, Ok(half), "{role}");
        assert_eq!(redis.pending_key("k").await, Ok(half), "{role}");
        assert_eq!(redis.backlog(Shard::OLDER).await.unwrap().entries, 1, "{role}");
        assert_eq!(redis.pressure(&Watermarks::default(), now()).await.unwrap().entries, 1, "{role}");
    }
    for role in [Role::Operator, Role::Repairer] {
        let redis = guarded.client(role, older()).await;
        assert_eq!(redis.queue_status(Shard::OLDER).await.unwrap().head.entries.len(), 1, "{role}");
    }
    let flusher = guarded.client(Role::Flusher, older()).await;
    assert_eq!(flusher.queue_glance(Shard::OLDER).await.unwrap().backlog.entries, 1);
    let batch = flusher.peek(Shard::OLDER, limit(10)).await.unwrap();
    let done = Acked::Done { depth: 0, short_counters: 0 };
    assert_eq!(flusher.ack(&batch.receipt().unwrap()).await, Ok(done));
    assert_eq!(guarded.admin::<Vec<String>>("KEYS xhub:*").await, Vec::<String>::new());
}
