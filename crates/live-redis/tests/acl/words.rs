//! Whether the doctor finds each line enough, and no word of it superfluous.

use devstack::{RedisCluster, RedisServer};
use live_redis::{LiveRedis, Options, Role};
use spend_queue::{PendingSpend, Severity, SpendQueue};

use crate::common::{event, now, team};
use crate::{Guarded, MINUTE, PAGE, ROLES, line, line_for_older, older, password, plan, severity};

/// With each word of the line left out in turn, the doctor must find something; with all of them, nothing.
async fn each_word_is_needed(guarded: &Guarded, role: Role, words: &[String], options: Options) -> usize {
    let redis = guarded.client(role, options).await;
    let healthy = redis.doctor(role).await;
    for check in ["redis.rights", "redis.scripts", "redis.eviction", "redis.clock", "redis.shards"] {
        assert_eq!(severity(&healthy, check), Severity::Ok, "{role}: {healthy:#?}");
    }
    let mut left_out = 0;
    for at in (0..words.len()).filter(|&at| words[at].starts_with(['+', '~', '%'])) {
        let mut fewer = words.to_vec();
        let word = fewer.remove(at);
        guarded.set_user(&role.to_string(), &fewer).await;
        let findings = redis.doctor(role).await;
        let worse = findings.iter().filter(|finding| {
            matches!(finding.severity, Severity::Warning | Severity::Fatal) && !healthy.contains(finding)
        });
        assert!(worse.count() > 0, "{role} does not need {word}");
        left_out += 1;
    }
    guarded.set_user(&role.to_string(), words).await;
    assert_eq!(severity(&redis.doctor(role).await, "redis.rights"), Severity::Ok);
    left_out
}

#[tokio::test]
async fn the_doctor_finds_each_line_enough_and_no_word_of_it_superfluous() {
    let guarded = Guarded::start().await;
    let mut left_out = 0;
    for role in ROLES {
        left_out += each_word_is_needed(&guarded, role, &line(role), Options::default()).await;
    }
    println!("{left_out} words left out, one at a time");
}

#[tokio::test]
async fn the_doctor_asks_about_an_older_queue_where_there_is_one() {
    let guarded = Guarded::start_with_older().await;
    for role in ROLES {
        guarded.set_user(&role.to_string(), &line(role)).await;
        let without = guarded.client(role, Options::default()).await.doctor(role).await;
        assert_eq!(severity(&without, "redis.rights"), Severity::Ok, "{role}");
        let redis = guarded.client(role, older()).await;
        let findings = redis.doctor(role).await;
        for check in ["redis.rights", "redis.scripts"] {
            let finding = findings.iter().find(|finding| finding.check == check).unwrap();
            assert_eq!(finding.severity, Severity::Fatal, "{role}: {finding:?}");
            assert!(
                finding.what.contains("xhub:spendlog") && !finding.what.contains("tallyweir"),
                "{finding:?}"
            );
        }
        let words = [line(role), line_for_older(role)].concat();
        guarded.set_user(&role.to_string(), &words).await;
        each_word_is_needed(&guarded, role, &words, older()).await;
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
    assert_eq!(redis.pending(&team()).await.unwrap().picos(), 5);
}
