//! Budgets by the period of event time: where periods begin and end, and what a new one starts with.

use iam_ledger::{Budget, BudgetPeriod, NewIdentity, QuotaLevel};
use spend_queue::SpendEvent;

use crate::hot::Hot;
use crate::support::{Fixture, at, entries, event, scope, usd};

fn started(id: &str, start: &str, cost: &str) -> SpendEvent {
    SpendEvent { started_at: Some(at(start)), ..event(id, &["organization/o"], Some(cost)) }
}

async fn organization(fixture: &Fixture, id: &str, period: BudgetPeriod, time_zone: &str) {
    let budget = Budget { amount: Some(usd("100")), period, time_zone: time_zone.to_owned() };
    fixture.ledger.create(&NewIdentity::organization(id, "").with_budget(budget)).await.unwrap();
}

async fn level(fixture: &Fixture, id: &str, hot: &Hot, now: &str) -> QuotaLevel {
    let subject = scope(&format!("organization/{id}"));
    fixture.ledger.quota_path(&subject, hot, at(now)).await.unwrap().levels.remove(0)
}

#[tokio::test]
async fn periods_begin_and_end_where_the_calendar_of_their_zone_says() {
    let fixture = Fixture::new().await;
    let (daily, weekly, monthly) = (BudgetPeriod::Daily, BudgetPeriod::Weekly, BudgetPeriod::Monthly);
    let cases = [
        // The last microsecond of a day and the first of the next.
        (daily, "UTC", "2026-03-04T23:59:59.999999Z", "2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z"),
        (daily, "UTC", "2026-03-05T00:00:00Z", "2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z"),
        // Month ends, the leap day, years.
        (monthly, "UTC", "2026-01-31T23:59:59.999999Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        (monthly, "UTC", "2026-02-28T23:59:59.999999Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"),
        (monthly, "UTC", "2028-02-29T23:59:59.999999Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        (daily, "UTC", "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"),
        (monthly, "UTC", "2026-12-31T23:59:59.999999Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        // Weeks from Monday.
        (weekly, "UTC", "2026-03-01T23:59:59.999999Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"),
        (weekly, "UTC", "2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"),
        // Berlin: 23 hours on the last Sunday of March, 25 on that of October, and a week and a month with each.
        (daily, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        (daily, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        (weekly, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"),
        (monthly, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"),
        (monthly, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"),
        // Half an hour and three quarters off.
        (
            daily,
            "Asia/Kolkata",
            "2026-03-04T18:29:59.999999Z",
            "2026-03-03T18:30:00Z",
            "2026-03-04T18:30:00Z",
        ),
        (daily, "Asia/Kathmandu", "2026-03-04T18:15:00Z", "2026-03-04T18:15:00Z", "2026-03-05T18:15:00Z"),
        // Beirut's clocks skip midnight itself: the day begins at one.
        (daily, "Asia/Beirut", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"),
        (daily, "Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z"),
    ];
    for (n, (period, zone, now, start, end)) in cases.into_iter().enumerate() {
        let id = format!("o-{n}");
        organization(&fixture, &id, period, zone).await;
        let level = level(&fixture, &id, &Hot::default(), now).await;
        assert_eq!(
            (level.period_start, level.period_end),
            (at(start), Some(at(end))),
            "{period:?} {zone} {now}"
        );
    }
}

#[tokio::test]
async fn one_periods_end_is_the_next_ones_start_for_every_hour_of_a_year() {
    let fixture = Fixture::new().await;
    let gaps = "select count(*) from unnest(array['daily', 'weekly', 'monthly']) as p (period), \
                unnest(array['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Asia/Beirut', 'Africa/Cairo', \
                             'Australia/Lord_Howe', 'Pacific/Apia']) as z (zone), \
                generate_series(timestamptz '2026-01-01 00:00+00', '2026-12-31 23:00+00', interval '1 hour') as t (now) \
                where period_end(period, now, zone) <> period_start(period, period_end(period, now, zone), zone) \
                   or period_start(period, period_end(period, now, zone) - interval '1 microsecond', zone) \
                      <> period_start(period, now, zone) \
                   or now not between period_start(period, now, zone) and period_end(period, now, zone) - interval '1 microsecond'";
    assert_eq!(fixture.number(gaps).await, 0);
    assert_eq!(
        fixture
            .number("select count(*) from (values (period_end('none', now(), 'UTC'))) v (e) where e is null")
            .await,
        1
    );
}

#[tokio::test]
async fn a_late_event_of_a_past_period_never_touches_the_new_one() {
    let fixture = Fixture::new().await;
    organization(&fixture, "o", BudgetPeriod::Daily, "UTC").await;
    fixture
        .commit(&entries(&[
            started("late", "2026-03-04T23:59:59.999999Z", "30"),
            started("first", "2026-03-05T00:00:00Z", "2"),
        ]))
        .await;
    let read = async |now| level(&fixture, "o", &Hot::default(), now).await.settled;
    assert_eq!(read("2026-03-05T12:00:00Z").await, usd("2"));
    assert_eq!(read("2026-03-04T12:00:00Z").await, usd("30"), "its own period still has it");
    assert_eq!(read("2026-03-06T00:00:00Z").await, usd("0"));
}

#[tokio::test]
async fn a_period_that_renews_while_money_is_hot_counts_only_what_started_in_it() {
    let fixture = Fixture::new().await;
    organization(&fixture, "o", BudgetPeriod::Daily, "Europe/Berlin").await;
    let hot = Hot::of(vec![
        started("yesterday", "2026-03-04T22:59:59.999Z", "70"),
        started("today", "2026-03-04T23:00:00Z", "1"),
        SpendEvent { started_at: None, ..started("timeless", "2026-03-05T00:00:00Z", "0.5") },
    ]);
    let before = level(&fixture, "o", &hot, "2026-03-04T22:59:59.999Z").await;
    assert_eq!(before.hot, Some(usd("71.5")));
    let after = level(&fixture, "o", &hot, "2026-03-04T23:00:00Z").await;
    assert_eq!((after.hot, after.remaining), (Some(usd("1.5")), Some(usd("98.5"))));
}

#[tokio::test]
async fn changing_a_budget_finds_what_was_spent_in_its_new_period_and_resets_nothing() {
    let fixture = Fixture::new().await;
    organization(&fixture, "o", BudgetPeriod::Daily, "UTC").await;
    let charges =
        [("r-1", "2026-02-27"), ("r-2", "2026-03-01"), ("r-3", "2026-03-04"), ("r-4", "2026-03-05")];
    for (id, day) in charges {
        fixture.commit(&entries(&[started(id, &format!("{day}T10:00:00Z"), "1")])).await;
    }
    let read = async || level(&fixture, "o", &Hot::default(), "2026-03-05T12:00:00Z").await;
    assert_eq!(read().await.settled, usd("1"));
    // The month knows its days, the week its days from Monday, and no period knows everything.
    for (period, settled) in [("monthly", "3"), ("weekly", "2"), ("none", "4"), ("daily", "1")] {
        let change = format!("update organizations set budget_period = '{period}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(change)).execute(&fixture.sql).await.unwrap();
        assert_eq!(read().await.settled, usd(settled), "{period}");
    }
    // The other way round a longer period's sum is taken apart.
    fixture.run("update organizations set budget_period = 'monthly'").await;
    fixture.commit(&entries(&[started("r-5", "2026-03-05T11:00:00Z", "5")])).await;
    fixture.run("update organizations set budget_period = 'daily', budget_usd = 7").await;
    let changed = read().await;
    assert_eq!((changed.settled, changed.remaining), (usd("6"), Some(usd("1"))));
    assert_eq!(fixture.spent(&scope("organization/o")).await, usd("9"));
}
