//! What an answer is good for: its ticket, once and in its own minute, and what a refusal says about waiting.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::Arc;

use common::{Hot, now};
use live_redis::{InputError, LiveRedisError, SettleRefusal, Ticket};
use rate_plan::{Decision, Limits, MAX_LIMIT, Node, RatePlan, RateTree, Scope};

fn node(kind: &str, parent: Option<usize>, limits: Limits) -> Node {
    Node { scope: Scope::new(kind, kind).unwrap(), parent, limits }
}

fn rpm(rpm: u64) -> Limits {
    Limits { rpm: Some(rpm), tpm: None }
}

/// An organization with one key.
fn tree(organization: u64) -> Arc<RateTree> {
    let nodes = vec![node("o", None, rpm(organization)), node("k", Some(0), rpm(2))];
    Arc::new(RateTree::new(nodes).unwrap())
}

#[tokio::test]
async fn a_ticket_corrects_its_own_minute_once_and_nothing_else() {
    let hot = Hot::shared().await;
    let tree = tree(100);
    let plan = tree.plan(1).unwrap();
    let admitted = hot.redis.admit_rate_plan(&plan, 10, now()).await.unwrap().into_ticket().unwrap();
    let later = now() + chrono::TimeDelta::minutes(1);
    let other = hot.redis.admit_rate_plan(&plan, 7, later).await.unwrap().into_ticket().unwrap();

    hot.redis.settle(&admitted, 25).await.unwrap();
    let repeated = LiveRedisError::Settle(SettleRefusal::Repeated);
    assert_eq!(hot.redis.settle(&admitted, 99).await.unwrap_err(), repeated);
    assert_eq!(hot.redis.refund(&admitted).await.unwrap_err(), repeated);
    let usage = async |at| {
        let peek = hot.redis.admit_rate_plan(&tree.plan(0).unwrap(), 0, at).await.unwrap();
        let Decision::Admitted(admitted) = peek.decision() else { panic!("{peek:?}") };
        let usage = admitted.usage[0];
        hot.redis.refund(peek.ticket().unwrap()).await.unwrap();
        (usage.rpm - 1, usage.tpm)
    };
    assert_eq!(usage(now()).await, (1, 25));
    assert_eq!(usage(later).await, (1, 7), "another minute is not touched");
    hot.redis.refund(&other).await.unwrap();
    assert_eq!(usage(later).await, (0, 0));
}

#[tokio::test]
async fn tickets_that_cannot_be_settled_are_told_apart_and_change_nothing() {
    let hot = Hot::private().await;
    let tree = tree(100);
    let plan = tree.plan(1).unwrap();
    let ticket = async || hot.redis.admit_rate_plan(&plan, 10, now()).await.unwrap().into_ticket().unwrap();
    let refused = async |ticket: &Ticket, why| {
        let digest = hot.digest().await;
        for error in
            [hot.redis.settle(ticket, 3).await.unwrap_err(), hot.redis.refund(ticket).await.unwrap_err()]
        {
            assert_eq!(error, LiveRedisError::Settle(why));
        }
        assert_eq!(hot.digest().await, digest);
    };

    let foreign = Hot::shared().await.redis.admit_rate_plan(&plan, 10, now()).await.unwrap();
    refused(foreign.ticket().unwrap(), SettleRefusal::Foreign).await;

    let lost = ticket().await;
    let key = hot.key(&format!("rate:{}:o/o", now().timestamp() / 60));
    let _: i64 = hot.run(&[b"DEL", key.as_bytes()]).await;
    refused(&lost, SettleRefusal::Expired).await;

    // The minute goes on after the loss: its counters have less than the lost ticket counted.
    let small = hot.redis.admit_rate_plan(&plan, 9, now()).await.unwrap();
    assert!(small.is_admitted());
    refused(&lost, SettleRefusal::Unknown).await;

    let most = ticket().await;
    let error = hot.redis.settle(&most, MAX_LIMIT + 1).await.unwrap_err();
    assert_eq!(error, LiveRedisError::Settle(SettleRefusal::TooLarge));
    let error = hot.redis.settle(&most, MAX_LIMIT).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::CounterFull(_)), "{error}");
}

#[tokio::test]
async fn a_refusal_says_when_waiting_helps_and_when_nothing_ever_fits() {
    let hot = Hot::shared().await;
    let team = node("team", None, Limits { rpm: None, tpm: Some(100) });
    let tree = Arc::new(RateTree::new(vec![team]).unwrap());
    let plan = tree.plan(0).unwrap();
    let at = "2026-03-01T12:00:42Z".parse().unwrap();
    assert!(hot.redis.admit_rate_plan(&plan, 60, at).await.unwrap().is_admitted());
    let not_now = hot.redis.admit_rate_plan(&plan, 60, at).await.unwrap();
    assert_eq!(not_now.retry_after(), Some(18));
    assert_eq!(not_now.rejection().unwrap().to_string(), "team tpm_limit");
    let headers = not_now.response_headers();
    assert!(headers.contains(&("retry-after", "18".to_owned())), "{headers:?}");
    let never = hot.redis.admit_rate_plan(&plan, 1024, at).await.unwrap();
    assert_eq!(never.retry_after(), None);
    assert!(never.rejection().unwrap().can_never_fit());
}

#[tokio::test]
async fn plans_of_several_trees_in_one_call_are_refused_before_anything_is_sent() {
    let hot = Hot::shared().await;
    let request = |rpm: u64, node: usize| -> (RatePlan, i64) { (tree(rpm).plan(node).unwrap(), 1) };
    for (requests, place) in [
        (vec![request(100, 1), request(99, 1)], 1),
        (vec![request(100, 1), request(100, 0), request(99, 1), request(98, 1)], 2),
    ] {
        let error = hot.redis.admit_rate_plans("o/o", &requests, now()).await.unwrap_err();
        assert_eq!(error, LiveRedisError::Input(InputError::SeveralTrees { field: "requests", place }));
        assert!(error.to_string().contains(&format!("place {place}")), "{error}");
    }
    assert_eq!(hot.keys().await, Vec::<String>::new());
    let same = [request(100, 1), request(100, 0)];
    assert_eq!(
        hot.redis.admit_rate_plans("o/o", &same, now()).await.unwrap().len(),
        2,
        "equal trees are one"
    );
}
