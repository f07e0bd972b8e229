//! Reading the ledger back.

use chrono::NaiveDate;
use iam_ledger::{DailyUsage, UsageRange, UsageSums};
use spend_queue::SpendEvent;

use crate::support::{Fixture, at, entries, event, scope, usd};

#[tokio::test]
async fn usage_is_summed_by_day_organization_provider_and_model() {
    let fixture = Fixture::new().await;
    let make = |id: &str, organization: Option<&str>, start: &str, cost| SpendEvent {
        organization_id: organization.map(str::to_owned),
        key_id: Some(format!("key of {id}")),
        started_at: Some(at(start)),
        ..event(id, &["team/a"], cost)
    };
    fixture
        .commit(&entries(&[
            make("r-1", Some("o"), "2026-03-01T00:00:00Z", Some("1")),
            make("r-2", Some("o"), "2026-03-01T23:59:59.999999Z", None),
            make("r-3", Some("o"), "2026-03-02T00:00:00Z", Some("0.5")),
            make("r-4", None, "2026-03-01T00:00:00Z", Some("4")),
        ]))
        .await;
    let day = |day| NaiveDate::from_ymd_opt(2026, 3, day).unwrap();
    let read = |organization: Option<&str>, from, until| {
        let range = UsageRange {
            organization_id: organization.map(str::to_owned),
            from: day(from),
            until: day(until),
        };
        let ledger = fixture.ledger.clone();
        async move { ledger.daily_usage(&range).await.unwrap() }
    };
    let first = DailyUsage {
        day: day(1),
        organization_id: "o".into(),
        provider: String::new(),
        model: "small".into(),
        sums: UsageSums {
            events: 2,
            unpriced_events: 1,
            prompt_tokens: 2,
            completion_tokens: 2,
            cached_tokens: 0,
            cost: usd("1"),
        },
    };
    assert_eq!(read(Some("o"), 1, 2).await, [first]);
    assert_eq!(read(Some("o"), 1, 3).await.len(), 2);
    assert_eq!(read(Some(""), 1, 3).await[0].sums.cost, usd("4"));
    assert_eq!(read(None, 1, 3).await.len(), 3);
}

#[tokio::test]
async fn a_walk_over_settled_events_sees_each_once_whatever_the_page() {
    let fixture = Fixture::new().await;
    // In several partitions, so that pages cross them.
    let events: Vec<SpendEvent> = (0..25)
        .map(|n| SpendEvent {
            started_at: Some(at(&format!("202{}-03-01T00:00:00Z", n % 7))),
            ..event(&format!("r-{n:02}"), &["team/a", "key/k"], (n % 3 > 0).then_some("0.5"))
        })
        .collect();
    fixture.commit(&entries(&events)).await;
    for page in [1, 7, 25, 1000] {
        let mut scan = fixture.ledger.settled_events(page);
        let mut seen = Vec::new();
        loop {
            let events = scan.next_page().await.unwrap();
            if events.is_empty() {
                break;
            }
            assert!(events.len() <= page as usize);
            seen.extend(events);
        }
        let ids: Vec<&str> = seen.iter().map(|event| &*event.request_id).collect();
        assert_eq!(ids, events.iter().map(|event| &*event.request_id).collect::<Vec<_>>());
        assert_eq!((seen[0].cost, seen[1].cost), (None, Some(usd("0.5"))));
        assert_eq!(seen[0].scopes, [scope("team/a"), scope("key/k")]);
        assert_eq!((seen[0].prompt_tokens, seen[0].completion_tokens), (1, 1));
    }
}
