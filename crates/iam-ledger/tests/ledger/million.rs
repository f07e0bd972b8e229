//! A million events: every sum exact, and every query still finds its rows by an index.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use iam_ledger::{KindSpend, LedgerOptions};
use spend_queue::{Entry, Usd};
use sqlx::Arguments;
use sqlx::postgres::PgArguments;

use crate::support::{Fixture, Plan, at, batch, entries, event, scope};

const EVENTS: usize = 1_000_000;
const BATCH: usize = 5_000;
const KEYS: usize = 1_000;
/// Days that the events are spread over: three months, and so three partitions.
const DAYS: usize = 80;

/// What is never read from end to end.
const LARGE: [&str; 6] =
    ["settled_requests", "usage_events", "usage_daily", "scope_spend", "api_keys", "dead_letters"];

fn first_day() -> DateTime<Utc> {
    at("2026-01-05T00:00:00Z")
}

/// Like a random id: not in the order of the index.
fn request_id(n: usize) -> String {
    format!("{:016x}", (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Prices down to the last picodollar, so that an error of one shows.
fn cost(n: usize) -> Usd {
    Usd::from_picos(2_700_000_000 + (n * 7919 % 1_000_003) as i128)
}

/// One entry of each key and model, to be renamed and dated for each event: encoding a million of them would take longer
/// than committing them.
fn bodies() -> Vec<Entry> {
    let events: Vec<_> = (0..BATCH)
        .map(|n| {
            let (organization, key) = (format!("o-{}", n % 20), format!("k-{}", n % KEYS));
            let scopes = [format!("organization/{organization}"), format!("key/{key}")];
            let mut event = event("r", &[&scopes[0], &scopes[1]], Some("1"));
            event.organization_id = Some(organization);
            event.key_id = Some(key);
            event
        })
        .collect();
    entries(&events)
}

/// Commits them all; returns the generator's own sum.
async fn fill(fixture: &Fixture) -> Usd {
    let mut entries = bodies();
    let mut sum = Usd::ZERO;
    for start in (0..EVENTS).step_by(BATCH) {
        for (n, entry) in (start..).zip(&mut entries) {
            let day = i64::try_from(n / BATCH * DAYS / (EVENTS / BATCH)).unwrap();
            entry.link.as_mut().unwrap().seq = n as u64;
            entry.event.request_id = request_id(n);
            entry.event.cost = Some(cost(n));
            entry.event.started_at =
                Some(first_day() + TimeDelta::days(day) + TimeDelta::milliseconds(n as i64 % 5_000));
            sum = sum.checked_add(cost(n)).unwrap();
        }
        let committed = fixture.commit(&entries).await;
        assert_eq!(committed.new, BATCH as u64);
    }
    sum
}

#[tokio::test]
async fn a_million_events_add_up_to_the_last_picodollar_and_are_found_by_index() {
    let fixture = Fixture::with(LedgerOptions { max_connections: 1, ..LedgerOptions::default() }).await;
    fixture.ledger.ensure_partitions(NaiveDate::from_ymd_opt(2026, 1, 1), 3).await.unwrap();
    let sum = fill(&fixture).await;

    let totals = fixture.ledger.totals().await.unwrap();
    assert!(totals.agree(), "{totals:?}");
    assert_eq!((totals.settled_requests, totals.events), (EVENTS as u64, EVENTS as u64));
    assert_eq!((totals.cost_by_events, totals.cost_by_days), (sum, sum));
    let kind =
        |kind: &str, scopes| KindSpend { kind: kind.into(), scopes, spend: sum, paid_events: EVENTS as u64 };
    assert_eq!(
        fixture.ledger.spend_by_kind().await.unwrap(),
        [kind("key", KEYS as u64), kind("organization", 20)]
    );
    assert_eq!(fixture.ledger.default_partition_rows().await.unwrap(), 0);

    identities_and_letters(&fixture).await;
    commits_find_rows_by_index(&fixture).await;
    reads_find_rows_by_index(&fixture).await;
}

/// As many as a large host has, so that reading all of them would show.
async fn identities_and_letters(fixture: &Fixture) {
    fixture
        .run(
            "insert into organizations (id, name) select 'o-' || n, '' from generate_series(0, 199) n; \
             insert into api_keys (id, organization_id, name) \
             select 'k-' || n, 'o-' || n % 200, '' from generate_series(0, 49999) n; \
             insert into dead_letters (shard, kind, reason, raw, recorded_at, replayed_at, replay_outcome) \
             select 0, 'refused', '', n::text::bytea, now(), now(), 'settled' from generate_series(1, 20000) n; \
             analyze",
        )
        .await;
}

/// Arguments in the order of a query's parameters.
macro_rules! arguments {
    ($($value:expr),* $(,)?) => {{
        let mut arguments = PgArguments::default();
        $(arguments.add($value).unwrap();)*
        arguments
    }};
}

async fn commits_find_rows_by_index(fixture: &Fixture) {
    let plan = |query, arguments| Plan::of(&fixture.sql, query, arguments);
    let ids: Vec<String> = (0..1_000).map(|n| request_id(n * 997)).collect();
    plan(
        include_str!("../../queries/claim_requests.sql"),
        arguments!(ids.clone(), vec![vec![0_u8; 16]; ids.len()], at("2026-03-05T00:00:00Z")),
    )
    .await
    .uses("settled_requests_pkey")
    .never_reads_all_of(&LARGE);
    plan(include_str!("../../queries/settled_checks.sql"), arguments!(ids))
        .await
        .uses("settled_requests_pkey")
        .never_reads_all_of(&LARGE);

    let rows = 500;
    let texts = |prefix: &str| (0..rows).map(|n| format!("{prefix}-{n}")).collect::<Vec<String>>();
    let (empty, counts) = (vec![String::new(); rows], vec![1_i64; rows]);
    plan(
        include_str!("../../queries/add_daily_usage.sql"),
        arguments!(
            vec![first_day().date_naive(); rows],
            vec!["o-1"; rows],
            empty.clone(),
            empty.clone(),
            empty.clone(),
            texts("k"),
            empty,
            vec!["small"; rows],
            counts.clone(),
            vec![0_i64; rows],
            counts.clone(),
            counts.clone(),
            counts.clone(),
            vec!["1"; rows],
        ),
    )
    .await
    .uses("usage_daily_pkey")
    .never_reads_all_of(&LARGE);
    plan(
        include_str!("../../queries/add_scope_spend.sql"),
        arguments!(
            vec!["key"; rows],
            texts("k"),
            (1..=rows as i64).collect::<Vec<_>>(),
            vec![first_day(); rows],
            vec!["1"; rows],
            counts,
        ),
    )
    .await
    .uses("scope_spend_pkey")
    .uses("api_keys_pkey")
    .never_reads_all_of(&LARGE);
    plan(
        include_str!("../../queries/log_flush.sql"),
        arguments!("tests", 1_i32, 0_i32, 1_i64, 2_i64, vec![0_u8; 20], 2_i32, first_day()),
    )
    .await
    .uses("flush_log_pkey");
    plan(
        include_str!("../../queries/record_dead_letters.sql"),
        arguments!(
            0_i32,
            first_day(),
            vec![1_i64],
            vec!["r"],
            vec!["refused"],
            vec!["why"],
            vec![vec![1_u8]]
        ),
    )
    .await
    .uses("dead_letters_entry_key")
    .never_reads_all_of(&LARGE);
}

async fn reads_find_rows_by_index(fixture: &Fixture) {
    let plan = |query, arguments| Plan::of(&fixture.sql, query, arguments);
    plan(include_str!("../../queries/spend_of_scope.sql"), arguments!("key", "k-7"))
        .await
        .uses("scope_spend_pkey")
        .never_reads_all_of(&LARGE);
    let day = first_day().date_naive();
    plan(
        include_str!("../../queries/daily_usage.sql"),
        arguments!(Some("o-1"), day, day + TimeDelta::days(7)),
    )
    .await
    .uses_one_of(&["usage_daily_pkey", "usage_daily_day_idx"])
    .never_reads_all_of(&LARGE);
    plan(include_str!("../../queries/settled_page.sql"), arguments!("8", 1_000_i64))
        .await
        .uses("usage_events_2026_02_pkey")
        .never_reads_all_of(&LARGE);
    plan(include_str!("../../queries/dead_letters_page.sql"), arguments!(0_i64, 100_i64, true))
        .await
        .uses("dead_letters_open_idx")
        .never_reads_all_of(&LARGE);
    for query in
        [include_str!("../../queries/dead_letter.sql"), include_str!("../../queries/lock_dead_letter.sql")]
    {
        plan(query, arguments!(9_i64)).await.uses("dead_letters_pkey").never_reads_all_of(&LARGE);
    }
    plan(include_str!("../../queries/mark_replayed.sql"), arguments!(9_i64, first_day(), "settled"))
        .await
        .uses("dead_letters_pkey")
        .never_reads_all_of(&LARGE);
    // And the figures behind the plans: one scope's spend is where the events put it.
    let of_key = fixture.ledger.spend_of(&scope("key/k-7")).await.unwrap();
    let expected = Usd::checked_sum((7..EVENTS).step_by(KEYS).map(cost)).unwrap();
    assert_eq!(of_key.iter().map(|period| period.spend).collect::<Vec<_>>(), [expected]);
    // A batch that comes again is recognised at this size as at any other.
    let mut again = bodies();
    again.truncate(10);
    again[0].event.request_id = request_id(3);
    let committed = fixture.ledger.commit(&batch(&again[..1])).await.unwrap();
    assert_eq!(committed.new, 0);
}
