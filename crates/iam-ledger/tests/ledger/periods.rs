//! Which day and which budget period an event belongs to.

use chrono::NaiveDate;
use iam_ledger::{Batch, Budget, BudgetPeriod, DeadLetterPage, NewIdentity, Replayed};
use spend_queue::SpendEvent;

use crate::support::{Fixture, at, batch, commit_time, entries, entries_at, event, scope};

fn started(id: &str, scopes: &[&str], start: &str) -> SpendEvent {
    SpendEvent { started_at: Some(at(start)), ..event(id, scopes, Some("1")) }
}

async fn organization(fixture: &Fixture, id: &str, period: BudgetPeriod, time_zone: &str) {
    let budget = Budget { amount: None, period, time_zone: time_zone.to_owned() };
    fixture.ledger.create(&NewIdentity::organization(id, "").with_budget(budget)).await.unwrap();
}

async fn periods(fixture: &Fixture, id: &str) -> Vec<(String, u64)> {
    let periods = fixture.ledger.spend_of(&scope(&format!("organization/{id}"))).await.unwrap();
    periods.into_iter().map(|period| (period.period_start.to_rfc3339(), period.paid_events)).collect()
}

#[tokio::test]
async fn an_event_just_before_midnight_counts_in_its_own_day_and_period() {
    let fixture = Fixture::new().await;
    organization(&fixture, "o", BudgetPeriod::Daily, "UTC").await;
    let event = started("r", &["organization/o"], "2026-03-04T23:59:59.9Z");
    fixture.commit(&entries(&[event])).await;
    assert_eq!(commit_time().date_naive(), NaiveDate::from_ymd_opt(2026, 3, 5).unwrap());
    assert_eq!(fixture.text("select day::text from usage_daily").await, "2026-03-04");
    assert_eq!(periods(&fixture, "o").await, [("2026-03-04T00:00:00+00:00".to_owned(), 1)]);
}

#[tokio::test]
async fn a_period_begins_at_midnight_of_the_scopes_own_time_zone() {
    let fixture = Fixture::new().await;
    organization(&fixture, "month", BudgetPeriod::Monthly, "Europe/Berlin").await;
    organization(&fixture, "week", BudgetPeriod::Weekly, "America/New_York").await;
    organization(&fixture, "day", BudgetPeriod::Daily, "Asia/Kolkata").await;
    organization(&fixture, "none", BudgetPeriod::None, "Asia/Kolkata").await;
    let all = ["organization/month", "organization/week", "organization/day", "organization/none"];
    fixture
        .commit(&entries(&[
            started("r-1", &all, "2026-02-28T22:59:59.999999Z"),
            started("r-2", &all, "2026-02-28T23:00:00Z"),
            // The first Monday of March in New York begins at 05:00 UTC.
            started("r-3", &all, "2026-03-02T04:59:59Z"),
            started("r-4", &all, "2026-03-02T05:00:00Z"),
        ]))
        .await;
    let expect = |list: &[(&str, u64)]| {
        list.iter().map(|(start, count)| ((*start).to_owned(), *count)).collect::<Vec<_>>()
    };
    assert_eq!(
        periods(&fixture, "month").await,
        expect(&[("2026-01-31T23:00:00+00:00", 1), ("2026-02-28T23:00:00+00:00", 3)])
    );
    assert_eq!(
        periods(&fixture, "week").await,
        expect(&[("2026-02-23T05:00:00+00:00", 3), ("2026-03-02T05:00:00+00:00", 1)])
    );
    assert_eq!(
        periods(&fixture, "day").await,
        expect(&[("2026-02-28T18:30:00+00:00", 2), ("2026-03-01T18:30:00+00:00", 2)])
    );
    assert_eq!(periods(&fixture, "none").await, expect(&[("1970-01-01T00:00:00+00:00", 4)]));
}

#[tokio::test]
async fn a_day_is_as_long_as_its_clock_says_when_clocks_change() {
    let fixture = Fixture::new().await;
    organization(&fixture, "o", BudgetPeriod::Daily, "Europe/Berlin").await;
    // On 2025-03-30 clocks went from 02:00 to 03:00: 23 hours.
    fixture
        .commit(&entries(&[
            started("r-1", &["organization/o"], "2025-03-29T23:00:00Z"),
            started("r-2", &["organization/o"], "2025-03-30T21:59:59Z"),
            started("r-3", &["organization/o"], "2025-03-30T22:00:00Z"),
        ]))
        .await;
    let expected = [("2025-03-29T23:00:00+00:00".to_owned(), 2), ("2025-03-30T22:00:00+00:00".to_owned(), 1)];
    assert_eq!(periods(&fixture, "o").await, expected);
}

#[tokio::test]
async fn an_event_without_a_start_counts_by_its_end_and_without_both_by_the_commit() {
    let fixture = Fixture::new().await;
    let mut ended = event("ended", &["team/a"], Some("1"));
    ended.started_at = None;
    ended.ended_at = Some(at("2026-02-01T00:00:00Z"));
    let mut timeless = event("timeless", &["team/a"], Some("1"));
    timeless.started_at = None;
    fixture.commit(&entries(&[ended, timeless])).await;
    let row = "select string_agg(concat_ws(' ', request_id, started_at at time zone 'UTC', reported_start is null), \
               ', ' order by request_id) from usage_events";
    let expected = "ended 2026-02-01 00:00:00 t, timeless 2026-03-05 12:00:00 t";
    assert_eq!(fixture.text(row).await, expected);
    assert_eq!(
        fixture.text("select string_agg(day::text, ' ' order by day) from usage_daily").await,
        "2026-02-01 2026-03-05"
    );
}

#[tokio::test]
async fn the_last_microsecond_of_a_period_that_is_flushed_the_next_day_stays_in_it() {
    let fixture = Fixture::new().await;
    organization(&fixture, "day", BudgetPeriod::Daily, "UTC").await;
    organization(&fixture, "month", BudgetPeriod::Monthly, "UTC").await;
    let both = ["organization/day", "organization/month"];
    let edges = [
        ("2026-01-31", "2026-02-01"),
        ("2026-02-28", "2026-03-01"),
        ("2028-02-28", "2028-02-29"),
        ("2028-02-29", "2028-03-01"),
        ("2026-12-31", "2027-01-01"),
    ];
    for (n, (last, first)) in edges.iter().enumerate() {
        let events = [
            started(&format!("last-{n}"), &both, &format!("{last}T23:59:59.999999Z")),
            started(&format!("first-{n}"), &both, &format!("{first}T00:00:00Z")),
        ];
        // Both in one batch, on the later day.
        let flushed = at(&format!("{first}T08:00:00Z"));
        let entries = entries_at(&events, flushed);
        let batch = Batch { committed_at: flushed, ..batch(&entries) };
        assert_eq!(fixture.ledger.commit(&batch).await.unwrap().new, 2, "{last}");
    }
    let start = |day: &str| format!("{day}T00:00:00+00:00");
    let mut days: Vec<_> = edges.iter().flat_map(|(last, first)| [start(last), start(first)]).collect();
    days.sort();
    let days: Vec<(String, u64)> =
        days.chunk_by(|one, other| one == other).map(|same| (same[0].clone(), same.len() as u64)).collect();
    assert_eq!(periods(&fixture, "day").await, days);
    let months = ["2026-01", "2026-02", "2026-03", "2026-12", "2027-01", "2028-02", "2028-03"];
    let counts = [1, 2, 1, 1, 1, 3, 1];
    let months: Vec<_> =
        months.iter().zip(counts).map(|(month, count)| (start(&format!("{month}-01")), count)).collect();
    assert_eq!(periods(&fixture, "month").await, months);
    let of_days = "select string_agg(day || ' ' || events, ', ' order by day) from usage_daily where day >= '2028-01-01'";
    assert_eq!(fixture.text(of_days).await, "2028-02-28 1, 2028-02-29 2, 2028-03-01 1");
}

#[tokio::test]
async fn a_late_event_of_a_past_period_never_touches_the_new_one() {
    let fixture = Fixture::new().await;
    organization(&fixture, "o", BudgetPeriod::Monthly, "America/New_York").await;
    fixture.commit(&entries(&[started("new", &["organization/o"], "2026-03-01T05:00:00Z")])).await;
    let new = ("2026-03-01T05:00:00+00:00".to_owned(), 1);
    assert_eq!(periods(&fixture, "o").await, std::slice::from_ref(&new));
    // In a batch with one of the new period, in a bisected batch, and by a letter that is replayed.
    fixture.commit(&entries(&[started("late-1", &["organization/o"], "2026-03-01T04:59:59.999999Z")])).await;
    let mut bisected = entries(&[
        started("late-2", &["organization/o"], "2026-02-10T00:00:00Z"),
        started("late-3", &["organization/o"], "2026-02-11T00:00:00Z"),
    ]);
    bisected[1].event.status = "\0".into();
    assert_eq!(fixture.commit(&bisected).await.refused, 1);
    let letters = fixture.ledger.dead_letters(DeadLetterPage::default()).await.unwrap();
    let replayed = fixture.ledger.replay(letters[0].id, at("2026-05-01T00:00:00Z")).await.unwrap();
    assert!(matches!(replayed, Replayed::Settled { .. }), "{replayed:?}");
    assert_eq!(periods(&fixture, "o").await, [("2026-02-01T05:00:00+00:00".to_owned(), 3), new]);
}

#[tokio::test]
async fn a_quarter_of_an_hour_belongs_to_one_period_also_where_a_day_began_within_it() {
    let fixture = Fixture::new().await;
    // An offset of no whole quarters, until 1972; and one of three quarters.
    organization(&fixture, "lmt", BudgetPeriod::Daily, "Africa/Monrovia").await;
    organization(&fixture, "quarters", BudgetPeriod::Daily, "Asia/Kathmandu").await;
    let day = |text: &str, count: u64| (text.to_owned(), count);
    let old = [
        "1970-06-01T00:29:59.999999Z",
        "1970-06-01T00:30:00Z",
        "1970-06-01T00:44:30Z",
        "1970-06-01T00:45:00Z",
    ];
    let edge = ["2026-03-01T18:14:59.999999Z", "2026-03-01T18:15:00Z"];
    let of = |prefix: &str, scope: &'static str, starts: &[&str]| {
        let events =
            starts.iter().enumerate().map(|(n, start)| started(&format!("{prefix}-{n}"), &[scope], start));
        entries(&events.collect::<Vec<_>>())
    };
    fixture.commit(&of("lmt", "organization/lmt", &old)).await;
    fixture.commit(&of("quarters", "organization/quarters", &edge)).await;
    assert_eq!(
        periods(&fixture, "lmt").await,
        [day("1970-05-31T00:44:30+00:00", 3), day("1970-06-01T00:44:30+00:00", 1)]
    );
    assert_eq!(
        periods(&fixture, "quarters").await,
        [day("2026-02-28T18:15:00+00:00", 1), day("2026-03-01T18:15:00+00:00", 1)]
    );
}

#[tokio::test]
async fn any_date_finds_a_partition() {
    let fixture = Fixture::new().await;
    let events: Vec<_> = ["1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999999Z", "2026-03-01T00:00:00Z"]
        .into_iter()
        .enumerate()
        .map(|(n, start)| started(&format!("r-{n}"), &["team/a"], start))
        .collect();
    fixture.commit(&entries(&events)).await;
    assert_eq!(fixture.ledger.totals().await.unwrap().events, 3);
    assert_eq!(
        fixture.text("select string_agg(day::text, ' ' order by day) from usage_daily").await,
        "1970-01-01 1999-12-31 2026-03-01"
    );
}

#[tokio::test]
async fn a_partition_made_late_takes_its_events_out_of_the_default_one() {
    let fixture = Fixture::new().await;
    fixture
        .commit(&entries(&[
            started("r-1", &["team/a"], "2024-01-31T23:59:59.999999Z"),
            started("r-2", &["team/a"], "2024-02-01T00:00:00Z"),
            started("r-3", &["team/a"], "2024-02-29T23:59:59.999999Z"),
            started("r-4", &["team/a"], "2024-03-01T00:00:00Z"),
        ]))
        .await;
    let february = NaiveDate::from_ymd_opt(2024, 2, 15);
    assert_eq!(fixture.ledger.ensure_partitions(february, 1).await.unwrap(), 1);
    assert_eq!(fixture.ledger.ensure_partitions(february, 1).await.unwrap(), 0);
    assert_eq!(
        fixture
            .text("select string_agg(request_id, ' ' order by request_id) from usage_events_2024_02")
            .await,
        "r-2 r-3"
    );
    assert_eq!(fixture.number("select count(*) from usage_events_default").await, 2);
    assert_eq!(fixture.ledger.totals().await.unwrap().events, 4);
    let again = fixture.commit(&entries(&[started("r-2", &["team/a"], "2024-02-01T00:00:00Z")])).await;
    assert_eq!(again.duplicates, 1);
}
