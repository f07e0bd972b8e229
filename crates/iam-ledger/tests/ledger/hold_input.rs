//! What holds, releases and budgets refuse, and that nothing is written then.

use std::time::Duration;

use chrono::{DateTime, Utc};
use iam_ledger::{Budget, HoldError, LedgerError, NewIdentity};
use spend_queue::{ScopeRef, Usd};

use crate::quota::company;
use crate::support::{Fixture, commit_time, scope, usd};

const TTL: Duration = Duration::from_secs(60);

struct Call {
    request_id: String,
    amount: Usd,
    ttl: Duration,
    now: DateTime<Utc>,
}

impl Default for Call {
    fn default() -> Self {
        Self { request_id: "r".into(), amount: usd("1"), ttl: TTL, now: commit_time() }
    }
}

fn ids() -> Vec<String> {
    let mut ids = vec![String::new(), "x".repeat(129), "ü".repeat(65), "a\u{85}".into()];
    ids.extend((0..0x20_u8).map(|c| format!("a{}b", char::from(c))));
    ids.push("a\u{7f}".into());
    ids
}

#[tokio::test]
async fn every_value_out_of_range_is_refused_by_name_and_bound() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let mut calls: Vec<(Call, &str)> =
        ids().into_iter().map(|id| (Call { request_id: id, ..Call::default() }, "request id ")).collect();
    for picos in [0, -1, i128::MIN, i128::MAX, i128::from(i64::MAX) + 1, -1_000_000_000_000, 10_i128.pow(30)]
    {
        calls.push((
            Call { amount: Usd::from_picos(picos), ..Call::default() },
            "at most 9223372.036854775807 USD",
        ));
    }
    for ttl in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(999),
        Duration::from_millis(86_400_001),
        Duration::MAX,
    ] {
        calls.push((Call { ttl, ..Call::default() }, "1ms to 86400s"));
    }
    for now in [
        DateTime::<Utc>::MIN_UTC,
        DateTime::<Utc>::MAX_UTC,
        DateTime::from_timestamp(-1, 0).unwrap(),
        DateTime::from_timestamp(253_402_300_800, 0).unwrap(),
    ] {
        calls.push((Call { now, ..Call::default() }, "1970 to 9999"));
    }
    let tried = calls.len();
    for (call, expected) in calls {
        let error = fixture
            .ledger
            .hold(&call.request_id, &scope("key/ada-key"), call.amount, call.ttl, call.now)
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected) && text.lines().count() == 1 && !error.is_transient(), "{text}");
    }
    for id in ids() {
        let error = fixture.ledger.release(&id, commit_time()).await.unwrap_err();
        assert!(matches!(error, HoldError::RequestId(_)), "{error}");
    }
    assert_eq!(
        fixture.number("select count(*) from holds").await
            + fixture.number("select count(*) from hold_reservations").await,
        0
    );
    println!("{tried} holds and {} releases refused", ids().len());
    assert!(tried > 50);
}

#[test]
fn texts_that_are_no_amount_never_become_one() {
    let texts = [
        "",
        " ",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "1,5",
        "0x10",
        "1e",
        "e5",
        "--1",
        "1.0000000000001",
        "1e-13",
        "$1",
        "١",
        "1_000",
        "1 ",
        "9e99",
        "-",
    ];
    for text in texts {
        assert!(text.parse::<Usd>().is_err(), "{text:?}");
    }
    println!("{} texts refused", texts.len());
}

#[tokio::test]
async fn bounds_themselves_are_accepted() {
    let fixture = Fixture::new().await;
    fixture.ledger.create(&NewIdentity::organization("o", "")).await.unwrap();
    let largest = Usd::from_picos(i64::MAX.into());
    for (id, amount, ttl) in [
        ("x".repeat(128), Usd::from_picos(1), Duration::from_millis(1)),
        ("ü".repeat(64), largest, Duration::from_secs(86_400)),
        (" ".into(), usd("1"), TTL),
        ("'; drop table holds; --".into(), usd("1"), TTL),
    ] {
        let answer =
            fixture.ledger.hold(&id, &scope("organization/o"), amount, ttl, commit_time()).await.unwrap();
        assert!(matches!(answer, iam_ledger::HoldAnswer::Held(_)), "{id}: {answer:?}");
    }
    // Two of the largest exceed what one counter holds and not what the ledger does.
    fixture.ledger.hold("more", &scope("organization/o"), largest, TTL, commit_time()).await.unwrap();
    assert_eq!(fixture.number("select count(*) from holds").await, 5);
}

#[tokio::test]
async fn subjects_that_look_like_others_are_unknown() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let subjects = [
        ("key", "ADA-KEY"),
        ("key", "ada-key "),
        ("Key", "ada-key"),
        ("user", "ada-key"),
        ("key", "%"),
        ("key", "' or true --"),
        ("", ""),
        ("organization", "o/"),
    ];
    for (kind, id) in subjects {
        let Ok(subject) = ScopeRef::new(kind, id) else { continue };
        let error = fixture.ledger.hold("r", &subject, usd("1"), TTL, commit_time()).await.unwrap_err();
        assert!(matches!(error, HoldError::UnknownSubject(_)), "{error}");
    }
    assert_eq!(fixture.number("select count(*) from holds").await, 0);
}

#[tokio::test]
async fn a_budget_with_an_unknown_zone_or_period_or_below_zero_is_refused() {
    let fixture = Fixture::new().await;
    let zones = ["", "Europe/Atlantis", "Europe/Berlin ", "UTC+25:99", "Mars", "'"];
    for zone in zones {
        let budget = Budget { time_zone: zone.into(), ..Budget::default() };
        let refused = fixture.ledger.create(&NewIdentity::organization("o", "").with_budget(budget)).await;
        let error = refused.expect_err(zone);
        assert!(
            matches!(error, LedgerError::TimeZone(_) | LedgerError::Identity { .. }) && !error.is_transient(),
            "{zone}: {error}"
        );
    }
    let budget = Budget { amount: Some(usd("-0.000000000001")), ..Budget::default() };
    let error =
        fixture.ledger.create(&NewIdentity::organization("o", "").with_budget(budget)).await.unwrap_err();
    assert!(
        matches!(error, LedgerError::OutOfRange { .. } | LedgerError::Identity { .. })
            && !error.is_transient(),
        "{error}"
    );
    for statement in [
        "insert into organizations (id, name, budget_period) values ('o', '', 'yearly')",
        "insert into organizations (id, name, budget_usd) values ('o', '', 'NaN')",
        "insert into organizations (id, name, budget_usd) values ('o', '', 'Infinity')",
        "insert into organizations (id, name, budget_usd) values ('o', '', 1e18)",
    ] {
        assert!(sqlx::raw_sql(statement).execute(&fixture.sql).await.is_err(), "{statement}");
    }
    println!("{} budgets refused", zones.len() + 5);
    assert_eq!(fixture.number("select count(*) from organizations").await, 0);
}

#[tokio::test]
async fn the_schema_itself_refuses_holds_that_cannot_be() {
    let fixture = Fixture::new().await;
    let row = |amount: &str, state: &str, ended: &str, settled: &str, cost: &str| {
        format!(
            "insert into holds values ('r', 'key', 'k', null, {amount}, '{state}', '2026-01-01Z', '2026-01-02Z', {ended}, {settled}, {cost}, null)"
        )
    };
    let statements = [
        (row("0", "held", "null", "null", "null"), "holds_amount_positive"),
        (row("-1", "held", "null", "null", "null"), "usd_not_negative"),
        (row("1", "lost", "null", "null", "null"), "hold_state_known"),
        (row("1", "held", "now()", "null", "null"), "holds_ended_unless_held"),
        (row("1", "released", "null", "null", "null"), "holds_ended_unless_held"),
        (row("1", "settled", "now()", "null", "null"), "holds_settled_by_an_event"),
        (row("1", "released", "now()", "null", "1"), "holds_cost_when_settled"),
        (row("1", "settled", "now()", "now()", "1"), "holds_covered_when_settled"),
    ];
    for (statement, constraint) in statements {
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&fixture.sql).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().constraint(), Some(constraint), "{error}");
    }
}
