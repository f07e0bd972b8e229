//! Amounts, and the periods that they belong to.

use chrono::{DateTime, Utc};
use spend_queue::{EncodedEvent, Enqueued, PendingSpend, SpendEvent, SpendQueue, Usd};

use crate::common::{Hot, charged, event, limit, now, shard, team};
use crate::{pending, scope};

#[tokio::test]
async fn amounts_that_are_none_move_no_counter() {
    let hot = Hot::private().await;
    hot.redis.enqueue(&event("there", 5)).await.unwrap();
    let before = hot.digest().await;
    for text in [
        "-1",
        "-0.000000000001",
        "NaN",
        "nan",
        "inf",
        "Infinity",
        "-inf",
        "1e400",
        "0x10",
        "",
        " 1",
        "1,5",
        "$1",
    ] {
        let refused = match text.parse::<Usd>() {
            Err(_) => true,
            Ok(cost) => {
                let event = SpendEvent { cost: Some(cost), ..SpendEvent::new("r", "m", vec![team()]) };
                hot.redis.enqueue_spend(&event, now()).await.is_err()
            }
        };
        assert!(refused, "{text:?}");
    }
    assert_eq!(hot.digest().await, before);
}

#[tokio::test]
async fn tiny_amounts_add_up_exactly() {
    for (calls, cost, sum) in [(10_000, "0.0000027", "0.027"), (1_000, "0.004", "4"), (1_000, "0.1", "100")] {
        let hot = Hot::shared().await;
        let cost: Usd = cost.parse().unwrap();
        let picos = Some(cost.counter().unwrap());
        let events: Vec<EncodedEvent> =
            (0..calls).map(|n| charged(&format!("r{n}"), picos, vec![team()])).collect();
        let sent = futures_util::future::join_all(events.iter().map(|event| hot.redis.enqueue(event))).await;
        assert!(sent.iter().all(|answer| matches!(answer, Ok(Enqueued::Accepted { .. }))));
        let sum: Usd = sum.parse().unwrap();
        assert_eq!(hot.redis.pending(&team()).await, Ok(sum));
        let mut taken = Usd::ZERO;
        while let Some(receipt) = hot.redis.peek(shard(), limit(3_000)).await.unwrap().receipt() {
            taken = taken.checked_add(receipt.charges[&team()].amount).unwrap();
            hot.redis.ack(&receipt).await.unwrap();
            assert_eq!(hot.redis.pending(&team()).await, Ok(sum.checked_sub(taken).unwrap()));
        }
        assert_eq!(taken, sum);
    }
}

#[tokio::test]
async fn only_what_started_in_the_new_period_occupies_it() {
    let renewal: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().unwrap();
    let starts = [
        (Some("2026-02-28T23:59:59.999999Z"), 1, false),
        (Some("2026-02-28T00:00:00Z"), 2, false),
        (Some("2026-03-01T00:00:00Z"), 4, true),
        (Some("2026-03-01T00:00:00.000001Z"), 8, true),
        (None, 16, true),
    ];
    let hot = Hot::shared().await;
    for (start, picos, _) in starts {
        let mut event = SpendEvent::new(format!("r{picos}"), "m", vec![scope("organization/o"), team()]);
        event.cost = Some(Usd::from_picos(picos));
        event.started_at = start.map(|start| start.parse().unwrap());
        hot.redis.enqueue_spend(&event, now()).await.unwrap();
    }
    // The same while it is flushed, entry by entry.
    for flushed in 0..=starts.len() {
        let left = &starts[flushed..];
        let current: i128 = left.iter().filter(|(.., current)| *current).map(|(_, picos, _)| picos).sum();
        assert_eq!(hot.redis.pending_since("o", renewal).await, Ok(Usd::from_picos(current)), "{flushed}");
        let all: i128 = left.iter().map(|(_, picos, _)| picos).sum();
        assert_eq!((pending(&hot, "organization/o").await, pending(&hot, "team/t").await), (all, all));
        if let Some(receipt) = hot.redis.peek(shard(), limit(1)).await.unwrap().receipt() {
            hot.redis.ack(&receipt).await.unwrap();
        }
    }
}
