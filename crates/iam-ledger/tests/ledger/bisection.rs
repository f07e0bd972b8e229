//! What PostgreSQL refuses, and that nothing else is lost with it.

use chrono::{NaiveDate, TimeZone, Utc};
use iam_ledger::{Committed, DeadLetter, DeadLetterKind, DeadLetterPage};
use serde_json::json;
use spend_queue::{Entry, SpendEvent, Usd};

use crate::support::{Fixture, at, entries, event, scope, usd};

/// Puts a text into one field.
type Change = fn(&mut SpendEvent, Option<String>);

/// So many good entries of one dollar each.
fn good(count: usize) -> Vec<SpendEvent> {
    (0..count).map(|n| event(&format!("good-{n:04}"), &["team/a", "key/k"], Some("1"))).collect()
}

async fn letters(fixture: &Fixture) -> Vec<DeadLetter> {
    fixture.ledger.dead_letters(DeadLetterPage { limit: 1000, ..DeadLetterPage::default() }).await.unwrap()
}

/// Commits good entries with one in their middle that was changed after it was read; returns the reason of its letter.
async fn refused(fixture: &Fixture, name: &str, change: impl FnOnce(&mut SpendEvent)) -> String {
    let before = fixture.ledger.totals().await.unwrap();
    let mut events: Vec<SpendEvent> =
        (0..6).map(|n| event(&format!("{name}-{n}"), &["team/a"], Some("1"))).collect();
    events[3].model = "bad".into();
    let mut batch = entries(&events);
    change(&mut batch[3].event);
    let committed = fixture.commit(&batch).await;
    assert_eq!(committed, Committed { new: 5, refused: 1, cost: usd("5"), ..Committed::default() }, "{name}");
    let letter = letters(fixture).await.pop().unwrap();
    assert_eq!((letter.kind, letter.seq), (DeadLetterKind::Refused, Some(4)), "{name}");
    let content = fixture.ledger.dead_letter(letter.id).await.unwrap();
    assert_eq!(content.raw, batch[3].raw(), "{name}");
    let after = fixture.ledger.totals().await.unwrap();
    assert!(after.agree() && after.events == before.events + 5, "{name}: {after:?}");
    letter.reason
}

#[tokio::test]
async fn a_nul_in_any_field_is_refused_alone() {
    let fixture = Fixture::new().await;
    let nul = || Some("a\0b".to_owned());
    let changes: [(&str, Change); 11] = [
        ("request id", |event, text| event.request_id = text.unwrap()),
        ("model", |event, text| event.model = text.unwrap()),
        ("provider", |event, text| event.provider = text.unwrap()),
        ("call type", |event, text| event.call_type = text.unwrap()),
        ("status", |event, text| event.status = text.unwrap()),
        ("session", |event, text| event.session_id = text),
        ("organization", |event, text| event.organization_id = text),
        ("team", |event, text| event.team_id = text),
        ("project", |event, text| event.project_id = text),
        ("user", |event, text| event.user_id = text),
        ("key", |event, text| event.key_id = text),
    ];
    for (field, change) in changes {
        let reason = refused(&fixture, field, |event| change(event, nul())).await;
        assert!(reason.contains("SQLSTATE 22021"), "{field}: {reason}");
    }
    // In JSON a NUL is six harmless characters, which jsonb refuses for what they stand for.
    let reason = refused(&fixture, "metadata", |event| {
        event.metadata.insert("deep".into(), json!([{ "text": "a\0b" }]));
    });
    assert!(reason.await.contains("SQLSTATE 22P05"));
    let reason = refused(&fixture, "extra name", |event| {
        event.extra.insert("a\0b".into(), json!(1));
    });
    assert!(reason.await.contains("SQLSTATE 22P05"));
    // The letter of an id that no text column holds has none, and its bytes.
    assert_eq!(fixture.number("select count(*) from dead_letters where request_id is null").await, 1);
}

#[tokio::test]
async fn a_number_or_a_date_out_of_range_is_refused_alone() {
    let fixture = Fixture::new().await;
    for (name, picos, expected) in [
        ("cost beyond numeric", 10_i128.pow(30), "SQLSTATE 22003"),
        ("largest cost of all", i128::MAX, "SQLSTATE 22003"),
        ("negative cost", -1, "usage_events_cost_not_negative"),
    ] {
        let reason = refused(&fixture, name, |event| event.cost = Some(Usd::from_picos(picos))).await;
        assert!(reason.contains(expected), "{name}: {reason}");
    }
    let reason = refused(&fixture, "tokens", |event| event.prompt_tokens = u64::MAX).await;
    assert_eq!(
        reason,
        "prompt_tokens does not fit the ledger: 18446744073709551615, at most 9223372036854775807"
    );
    let reason =
        refused(&fixture, "first token", |event| event.time_to_first_token_ms = Some(u64::MAX)).await;
    assert!(reason.contains("time_to_first_token_ms does not fit"), "{reason}");
    for (name, year) in [("before all calendars", -5000), ("chrono's last", 262_000)] {
        let day = NaiveDate::from_ymd_opt(year, 1, 1).unwrap().and_hms_opt(0, 0, 0).unwrap();
        let change = |event: &mut SpendEvent| event.started_at = Some(Utc.from_utc_datetime(&day));
        if year < 0 {
            let reason = refused(&fixture, name, change).await;
            assert!(reason.contains("SQLSTATE 22008"), "{name}: {reason}");
        } else {
            // PostgreSQL's years end later than chrono's: the default partition takes it.
            let mut far = entries(&[event("far", &["team/far"], Some("1"))]);
            change(&mut far[0].event);
            assert_eq!(fixture.commit(&far).await.new, 1);
        }
    }
    for (name, id) in [("no id", String::new()), ("long id", "r".repeat(129))] {
        let reason = refused(&fixture, name, |event| event.request_id = id).await;
        assert!(reason.contains("settled_requests_request_id_length"), "{name}: {reason}");
    }
}

#[tokio::test]
async fn an_event_that_no_partition_takes_is_refused_alone_and_replayed_when_one_does() {
    let fixture = Fixture::new().await;
    fixture.run("alter table usage_events detach partition usage_events_default").await;
    fixture.ledger.ensure_partitions(NaiveDate::from_ymd_opt(2026, 3, 1), 1).await.unwrap();
    let reason = refused(&fixture, "r", |event| event.started_at = Some(at("1999-12-31T23:59:59Z"))).await;
    assert!(
        reason.contains("no partition of relation \"usage_events\"") && reason.contains("23514"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_sum_that_overflows_refuses_only_what_does_not_fit() {
    let fixture = Fixture::new().await;
    fixture
        .run(
            "insert into scope_spend values ('team', 'full', 'epoch', 999999999999999999.999999999999 - 2, 1); \
             insert into usage_daily values ('2026-03-05', '', '', '', '', '', '', 'busy', 1, 0, 9223372036854775807, 0, 0, 0)",
        )
        .await;
    let mut events = good(5);
    // Two of the three fit, and none is wrong by itself.
    events.extend((0..3).map(|n| event(&format!("full-{n}"), &["team/full"], Some("1"))));
    events.push(SpendEvent { model: "busy".into(), ..event("tokens", &["team/b"], Some("1")) });
    let committed = fixture.commit(&entries(&events)).await;
    assert_eq!((committed.new, committed.refused, committed.cost), (7, 2, usd("7")));
    let letters = letters(&fixture).await;
    let mut seen: Vec<_> =
        letters.iter().map(|letter| (letter.request_id.as_deref().unwrap(), &*letter.reason)).collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            ("full-2", "adding scope spend: numeric field overflow (SQLSTATE 22003)"),
            ("tokens", "adding daily usage: bigint out of range (SQLSTATE 22003)")
        ]
    );
    assert_eq!(fixture.spent(&scope("team/full")).await, usd("999999999999999999.999999999999"));
    assert_eq!(fixture.spent(&scope("team/b")).await, Usd::ZERO);
}

#[tokio::test]
async fn a_batch_of_nothing_but_bad_entries_commits_its_letters_and_its_flush_log() {
    let fixture = Fixture::new().await;
    let mut batch: Vec<Entry> = entries(&good(3));
    for entry in &mut batch {
        entry.event.model = "\0".into();
    }
    for _ in 0..2 {
        // A replay of the batch, as after a lost acknowledgement, makes no second letter.
        assert_eq!(fixture.commit(&batch).await, Committed { refused: 3, ..Committed::default() });
        assert_eq!(letters(&fixture).await.len(), 3);
    }
    assert_eq!(fixture.number("select count(*) from flush_log").await, 1);
    assert_eq!(fixture.number("select count(*) from settled_requests").await, 0);
}

#[tokio::test]
async fn one_bad_entry_in_a_thousand_costs_a_logarithm_of_attempts() {
    let fixture = Fixture::new().await;
    // A sequence counts what is rolled back too.
    fixture
        .run(
            "create sequence attempts; \
             create function count_attempt() returns trigger language plpgsql as \
             $$ begin perform nextval('attempts'); return null; end $$; \
             create trigger count_attempt before insert on settled_requests for each statement execute function count_attempt();",
        )
        .await;
    let mut batch = entries(&good(1024));
    batch[777].event.status = "\0".into();
    assert_eq!(fixture.commit(&batch).await.refused, 1);
    // The whole, then two halves on each of ten levels.
    assert_eq!(fixture.number("select last_value from attempts").await, 1 + 2 * 10);
    assert_eq!(fixture.ledger.totals().await.unwrap().events, 1023);

    fixture.run("alter sequence attempts restart").await;
    let more: Vec<_> = (0..1024).map(|n| event(&format!("more-{n:04}"), &["team/a"], Some("1"))).collect();
    let mut batch = entries(&more);
    for bad in [5, 300, 301, 900] {
        batch[bad].event.status = "\0".into();
    }
    let committed = fixture.commit(&batch).await;
    assert_eq!((committed.new, committed.refused), (1020, 4));
    let attempts = fixture.number("select last_value from attempts").await;
    assert!(attempts <= 1 + 4 * 2 * 10, "{attempts}");
}

#[tokio::test]
async fn a_bisected_batch_is_as_idempotent_as_any_other() {
    let fixture = Fixture::new().await;
    let mut events = good(8);
    events[5] = events[2].clone();
    events[6] = SpendEvent { cost: Some(usd("2")), ..events[2].clone() };
    let mut batch = entries(&events);
    batch[4].event.provider = "\0".into();
    let first = fixture.commit(&batch).await;
    assert_eq!(
        (first.new, first.duplicates, &*first.conflicts, first.refused),
        (5, 1, &["good-0002".to_owned()][..], 1)
    );
    let totals = fixture.ledger.totals().await.unwrap();
    let again = fixture.commit(&batch).await;
    assert_eq!((again.new, again.duplicates, again.conflicts.len(), again.refused), (0, 6, 1, 1));
    assert_eq!(fixture.ledger.totals().await.unwrap(), totals);
    assert_eq!(letters(&fixture).await.len(), 2);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("5"));
}
