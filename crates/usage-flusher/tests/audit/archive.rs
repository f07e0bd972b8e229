//! Months whose events were archived: exact stays exact, and it is said what was not read.

use chrono::{DateTime, Utc};
use spend_queue::{ScopeRef, SpendEvent, SpendQueue, Usd};

use crate::support::{Stack, now, team};
use crate::{audit, checks, flush_at, says};

/// An event of January.
fn january(id: u32) -> spend_queue::EncodedEvent {
    let mut event =
        SpendEvent::new(format!("j{id}"), "m", vec![team(), ScopeRef::new("organization", "o").unwrap()]);
    event.cost = Some(Usd::from_picos(5));
    event.organization_id = Some("o".into());
    let started: DateTime<Utc> = "2026-01-17T12:00:00Z".parse().unwrap();
    event.started_at = Some(started);
    event.encode(now()).unwrap()
}

async fn with_january() -> Stack {
    let stack = Stack::start().await;
    stack.database.execute("partitions", "select ensure_usage_partitions('2026-01-01', 3)").unwrap();
    for id in 0..4 {
        stack.hot.enqueue(&january(id)).await.unwrap();
    }
    crate::enqueue(&stack, 0..3).await;
    flush_at(&stack, 100, now()).await;
    stack
}

const ARCHIVE: &str = "select archive_usage_month('2026-01-20')";

#[tokio::test]
async fn an_archived_month_stays_exact_and_is_named_as_not_read() {
    let stack = with_january().await;
    assert_eq!(audit(&stack)["verdict"], "exact");
    stack.database.execute("archive", ARCHIVE).unwrap();
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
    assert!(says(&report, "not_looked_at", &["month archived: 2026-01 (4 events, not read)"]), "{report}");
    // The partition is a table of its own now; whether it is kept is another matter.
    stack.database.execute("drop", "drop table usage_events_2026_01").unwrap();
    assert_eq!(audit(&stack)["verdict"], "exact");
    // What comes late for the month is stored and counted.
    stack.hot.enqueue(&january(9)).await.unwrap();
    flush_at(&stack, 100, now()).await;
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
}

#[tokio::test]
async fn what_another_hand_did_to_an_archived_month_is_named() {
    for (statement, check) in [
        ("update usage_daily set cost_usd = cost_usd + 1 where day = '2026-01-17'", "ledger.days"),
        ("delete from settled_requests where request_id = 'j1'", "ledger.requests"),
        ("update scope_spend set spend_usd = spend_usd + 1 where kind = 'team'", "ledger.scopes"),
        (
            "insert into usage_events select * from usage_events_2026_01 where request_id = 'j2'",
            "ledger.requests",
        ),
    ] {
        let stack = with_january().await;
        stack.database.execute("archive", ARCHIVE).unwrap();
        stack.database.execute("a hand-made difference", statement).unwrap();
        let report = audit(&stack);
        assert!(checks(&report).contains(&check), "{statement}: {report}");
    }
}

#[tokio::test]
async fn a_month_that_does_not_agree_or_has_not_ended_is_not_archived() {
    let stack = with_january().await;
    stack.database.execute("archive", ARCHIVE).unwrap();
    for statement in [ARCHIVE, "select archive_usage_month((now() at time zone 'UTC')::date)"] {
        stack.database.execute("archive", statement).unwrap_err();
    }
    let stack = with_january().await;
    let harm = "update usage_daily set completion_tokens = completion_tokens + 1 where day = '2026-01-17'";
    stack.database.execute("a hand-made difference", harm).unwrap();
    let error = format!("{:?}", stack.database.execute("archive", ARCHIVE).unwrap_err());
    assert!(error.contains("nothing was archived"), "{error}");
    let attached = "do $$ begin assert exists (select from usage_events where request_id = 'j1'); end $$";
    stack.database.execute("still there", attached).unwrap();
}
