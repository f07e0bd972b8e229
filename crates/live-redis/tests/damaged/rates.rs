//! The counters of rate admission.

use std::sync::Arc;

use live_redis::LiveRedisError;
use rate_plan::{Limits, Node, RateTree, Scope};

use crate::common::{Hot, now};
use crate::{TYPES, refused, replace, set_field};

/// What no script writes as a rate counter.
fn bad_counters() -> Vec<Vec<u8>> {
    let above = (1_i64 << 53).to_be_bytes();
    let negative = (-1_i64).to_be_bytes();
    let zero = 0_i64.to_be_bytes();
    let mut bad: Vec<Vec<u8>> = vec![b"".to_vec(), b"5".to_vec(), vec![0; 31], vec![0; 33]];
    for place in 0..4 {
        for number in [above, negative] {
            bad.push((0..4).flat_map(|at| if at == place { number } else { zero }).collect());
        }
    }
    bad
}

fn chain() -> Arc<RateTree> {
    let node = |kind: &str, parent| Node {
        scope: Scope::new(kind, "x").unwrap(),
        parent,
        limits: Limits { rpm: Some(9), tpm: None },
    };
    Arc::new(RateTree::new(vec![node("o", None), node("t", Some(0)), node("k", Some(1))]).unwrap())
}

#[tokio::test]
async fn a_rate_counter_of_another_form_is_damage_to_every_script_wherever_it_stands_on_the_path() {
    let tree = chain();
    let plan = tree.plan(2).unwrap();
    let other = Arc::new(tree.with_limits(1, Limits { rpm: Some(8), tpm: None }).unwrap());
    let rate = |hot: &Hot| hot.key(&format!("rate:{}:o/x", now().timestamp() / 60));
    let mut tried = 0;
    for value in &bad_counters() {
        for field in [&b"k/x"[..], b"t/x", b"o/x"] {
            let hot = Hot::private().await;
            let admitted = hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap();
            let ticket = admitted.ticket().unwrap();
            set_field(&hot, &rate(&hot), field, value).await;
            let two = [(plan.clone(), 1), (tree.plan(1).unwrap(), 1)];
            for error in [
                refused(&hot, "one", hot.redis.admit_rate_plan(&plan, 1, now())).await,
                refused(&hot, "batch", hot.redis.admit_rate_plans("o/x", &two, now())).await,
                refused(&hot, "rebuild", hot.redis.admit_rate_plan(&other.plan(0).unwrap(), 1, now())).await,
                refused(&hot, "settle", hot.redis.settle(ticket, 7)).await,
                refused(&hot, "refund", hot.redis.refund(ticket)).await,
            ] {
                // A node that the request's own path does not touch need not be read by it.
                assert!(matches!(error, LiveRedisError::Damaged(_)), "{value:?} at {field:?}: {error}");
            }
            tried += 1;
        }
    }
    println!("{tried} damaged counters tried");
}

#[tokio::test]
async fn more_released_than_was_ever_promised_is_damage() {
    let hot = Hot::private().await;
    let plan = chain().plan(2).unwrap();
    assert!(hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap().is_admitted());
    let packed: Vec<u8> = [1, 5, 10, 0_i64].into_iter().flat_map(i64::to_be_bytes).collect();
    set_field(&hot, &hot.key(&format!("rate:{}:o/x", now().timestamp() / 60)), b"o/x", &packed).await;
    let error = refused(&hot, "released", hot.redis.admit_rate_plan(&plan, 1, now())).await;
    assert!(matches!(error, LiveRedisError::Damaged(_)), "{error}");
}

#[tokio::test]
async fn rate_keys_of_the_wrong_type_stop_every_script_that_uses_them() {
    let tree = chain();
    let plan = tree.plan(2).unwrap();
    let two = [(plan.clone(), 1), (plan.clone(), 1)];
    let minute = now().timestamp() / 60;
    let (rate, settled) = (format!("rate:{minute}:o/x"), format!("settled:{minute}:o/x"));
    let mut tried = 0;
    for command in TYPES {
        let hot = Hot::private().await;
        let admitted = hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap();
        let ticket = admitted.ticket().unwrap();
        if command[0] != b"SADD" {
            replace(&hot, &hot.key(&settled), command).await;
            refused(&hot, "settled", hot.redis.settle(ticket, 7)).await;
            refused(&hot, "settled", hot.redis.refund(ticket)).await;
            tried += 1;
        }
        if command[0] != b"HSET" {
            replace(&hot, &hot.key(&rate), command).await;
            refused(&hot, "rate", hot.redis.admit_rate_plan(&plan, 1, now())).await;
            refused(&hot, "rate", hot.redis.admit_rate_plans("o/x", &two, now())).await;
            refused(&hot, "rate", hot.redis.settle(ticket, 7)).await;
            tried += 1;
        }
    }
    println!("{tried} rate keys of another type tried");
}
