//! What was spent in the period that is running stays spent when its budget gets another calendar: in quotas, in holds and in
//! allocations alike.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use iam_ledger::{
    Budget, BudgetPeriod, HoldAnswer, IdentityPatch, LedgerError, NewIdentity, Quantity, ScopeKind,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spend_queue::{SpendEvent, Usd};

use crate::hot::Hot;
use crate::support::{Fixture, at, entries, entries_at, event, scope, usd};

const BUDGET: &str = "1000";

fn started(id: &str, start: DateTime<Utc>, cost: Usd) -> SpendEvent {
    SpendEvent { started_at: Some(start), cost: Some(cost), ..event(id, &["organization/o"], None) }
}

async fn spend(fixture: &Fixture, id: &str, start: &str, cost: &str) {
    fixture.commit(&entries(&[started(id, at(start), usd(cost))])).await;
}

async fn organization(fixture: &Fixture, budget: &str, period: BudgetPeriod, zone: &str) {
    let budget = Budget { amount: Some(usd(budget)), period, time_zone: zone.to_owned() };
    fixture.ledger.create(&NewIdentity::organization("o", "").with_budget(budget)).await.unwrap();
}

async fn change(fixture: &Fixture, period: BudgetPeriod, zone: &str) {
    let patch = IdentityPatch::new().set_period(period).set_time_zone(zone);
    fixture.ledger.update(ScopeKind::Organization, "o", &patch).await.unwrap();
}

/// What a quota, a hold and an allocation say is settled in the organization's running period, and where that begins and ends.
async fn settled(fixture: &Fixture, now: DateTime<Utc>) -> (Usd, DateTime<Utc>, Option<DateTime<Utc>>) {
    let (ledger, subject) = (&fixture.ledger, scope("organization/o"));
    let level = ledger.quota_path(&subject, &Hot::default(), now).await.unwrap().levels.remove(0);
    let whole = level.budget.unwrap();
    let above = whole.checked_add(usd("1")).unwrap();
    let hold = ledger.hold("too-much", &subject, above, Duration::from_secs(60), now).await.unwrap();
    let HoldAnswer::Exhausted(of_hold) = hold else { panic!("{hold:?}") };
    assert_eq!(
        (of_hold.settled, of_hold.period_start, of_hold.period_end),
        (level.settled, level.period_start, level.period_end)
    );
    let child = Budget { amount: Some(above), ..Budget::default() };
    let child = NewIdentity::team("too-much", "").of_organization("o").with_budget(child);
    let Err(LedgerError::OverAllocated(refusal)) = ledger.create_all_at(&[child], now).await else {
        panic!("allocated")
    };
    let left = if level.settled < whole { whole.checked_sub(level.settled).unwrap() } else { Usd::ZERO };
    assert_eq!(refusal.available, Quantity::Usd(left));
    (level.settled, level.period_start, level.period_end)
}

#[tokio::test]
async fn a_daily_budget_that_becomes_monthly_leaves_its_children_what_is_left_of_the_month() {
    let fixture = Fixture::new().await;
    organization(&fixture, "100", BudgetPeriod::Daily, "UTC").await;
    spend(&fixture, "r-1", "2026-03-02T09:00:00Z", "35").await;
    spend(&fixture, "r-2", "2026-03-04T09:00:00Z", "25").await;
    change(&fixture, BudgetPeriod::Monthly, "UTC").await;
    let now = at("2026-03-05T12:00:00Z");
    let team = |amount: &str| {
        let budget = Budget { amount: Some(usd(amount)), ..Budget::default() };
        NewIdentity::team("t", "").of_organization("o").with_budget(budget)
    };
    let error = fixture.ledger.create_all_at(&[team("40.01")], now).await.unwrap_err();
    assert!(matches!(error, LedgerError::OverAllocated(_)), "{error}");
    fixture.ledger.create_all_at(&[team("40")], now).await.unwrap();
}

#[tokio::test]
async fn another_period_or_zone_in_mid_period_finds_what_was_spent_since_its_own_beginning() {
    let fixture = Fixture::new().await;
    organization(&fixture, BUDGET, BudgetPeriod::Monthly, "Europe/Berlin").await;
    // The last quarter of February in Berlin, two in March there and February in UTC, then March for both.
    spend(&fixture, "r-1", "2026-02-28T22:59:59Z", "1").await;
    spend(&fixture, "r-2", "2026-02-28T23:00:00Z", "2").await;
    spend(&fixture, "r-3", "2026-02-28T23:59:59Z", "4").await;
    spend(&fixture, "r-4", "2026-03-01T00:00:00Z", "8").await;
    spend(&fixture, "r-5", "2026-03-05T00:30:00Z", "16").await;
    spend(&fixture, "r-6", "2026-03-05T11:00:00Z", "32").await;
    let now = at("2026-03-05T12:00:00Z");
    let (none, daily, weekly, monthly) =
        (BudgetPeriod::None, BudgetPeriod::Daily, BudgetPeriod::Weekly, BudgetPeriod::Monthly);
    for (period, zone, expected) in [
        (monthly, "Europe/Berlin", "62"),
        (monthly, "UTC", "56"),
        (monthly, "Europe/Berlin", "62"),
        (daily, "Europe/Berlin", "48"),
        (daily, "America/New_York", "32"),
        (daily, "Asia/Kolkata", "48"),
        (weekly, "UTC", "48"),
        (none, "UTC", "63"),
        (monthly, "Asia/Kathmandu", "63"),
        (none, "Asia/Kathmandu", "63"),
        (daily, "UTC", "48"),
        (monthly, "UTC", "56"),
    ] {
        change(&fixture, period, zone).await;
        assert_eq!(settled(&fixture, now).await.0, usd(expected), "{period:?} {zone}");
    }
    assert_eq!(fixture.spent(&scope("organization/o")).await, usd("63"), "nothing is lost or made");
}

#[tokio::test]
async fn a_scope_that_was_charged_before_a_table_knew_it_keeps_its_spend_and_so_does_one_that_is_made_anew() {
    let fixture = Fixture::new().await;
    spend(&fixture, "r-1", "2026-02-05T12:00:00Z", "1").await;
    spend(&fixture, "r-2", "2026-03-05T11:00:00Z", "2").await;
    let now = at("2026-03-05T12:00:00Z");
    organization(&fixture, BUDGET, BudgetPeriod::Monthly, "UTC").await;
    assert_eq!(settled(&fixture, now).await.0, usd("2"));
    fixture.run("delete from organizations").await;
    spend(&fixture, "r-3", "2026-03-05T11:30:00Z", "4").await;
    organization(&fixture, BUDGET, BudgetPeriod::Daily, "Asia/Tokyo").await;
    assert_eq!(settled(&fixture, now).await.0, usd("6"));
    assert_eq!(fixture.spent(&scope("organization/o")).await, usd("7"));
}

#[tokio::test]
async fn a_change_waits_for_a_commit_under_way_and_moves_what_it_charges() {
    let fixture = Fixture::new().await;
    organization(&fixture, BUDGET, BudgetPeriod::Monthly, "UTC").await;
    spend(&fixture, "r-1", "2026-03-01T10:00:00Z", "1").await;
    // Held up behind its charges: the last statement of a commit is the flush log's.
    let mut locked = fixture.sql.begin().await.unwrap();
    sqlx::query("lock table flush_log in access exclusive mode").execute(&mut *locked).await.unwrap();
    let (ledger, batch) =
        (fixture.ledger.clone(), entries(&[started("r-2", at("2026-03-05T10:00:00Z"), usd("2"))]));
    let commit = tokio::spawn(async move { ledger.commit(&crate::support::batch(&batch)).await.unwrap() });
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    while fixture.number(waiting).await < 1 {
        tokio::task::yield_now().await;
    }
    let ledger = fixture.ledger.clone();
    let changed = tokio::spawn(async move {
        let patch = IdentityPatch::new().set_period(BudgetPeriod::Daily);
        ledger.update(ScopeKind::Organization, "o", &patch).await.unwrap();
    });
    while fixture.number(waiting).await < 2 {
        tokio::task::yield_now().await;
    }
    locked.rollback().await.unwrap();
    commit.await.unwrap();
    changed.await.unwrap();
    assert_eq!(settled(&fixture, at("2026-03-05T12:00:00Z")).await.0, usd("2"));
    assert_eq!(fixture.spent(&scope("organization/o")).await, usd("3"));
}

#[tokio::test]
async fn old_quarters_are_pruned_and_spend_by_period_stays() {
    let fixture = Fixture::new().await;
    organization(&fixture, BUDGET, BudgetPeriod::Daily, "UTC").await;
    let now = Utc::now();
    let (old, young) = (now - TimeDelta::days(71), now - TimeDelta::days(69));
    fixture
        .commit(&entries_at(&[started("old", old, usd("1")), started("young", young, usd("2"))], now))
        .await;
    assert_eq!(fixture.ledger.prune_spend_quarters(100).await.unwrap(), 1);
    assert_eq!(fixture.ledger.prune_spend_quarters(100).await.unwrap(), 0);
    change(&fixture, BudgetPeriod::None, "UTC").await;
    assert_eq!(settled(&fixture, now).await.0, usd("3"));
    change(&fixture, BudgetPeriod::Monthly, "UTC").await;
    assert_eq!(fixture.spent(&scope("organization/o")).await, usd("3"));
}

#[tokio::test]
async fn whatever_the_order_of_charges_and_changes_all_three_say_what_the_events_of_the_period_sum_to() {
    let seed = 20_260_305;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let periods = [BudgetPeriod::None, BudgetPeriod::Daily, BudgetPeriod::Weekly, BudgetPeriod::Monthly];
    let zones = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "America/Adak",
        "Australia/Lord_Howe",
        "Asia/Beirut",
    ];
    // Around the changes of clocks in spring 2026.
    let now = at("2026-03-29T13:07:00Z");
    for case in 0..12 {
        let fixture = Fixture::new().await;
        organization(&fixture, BUDGET, periods[case % periods.len()], "UTC").await;
        let mut events: Vec<(DateTime<Utc>, Usd)> = Vec::new();
        for step in 0..24 {
            if random.random_bool(0.6) {
                let hours = if random.random_bool(0.5) { 48 } else { 24 * 40 };
                let start = now - TimeDelta::seconds(random.random_range(0..3600 * hours));
                let cost = Usd::from_picos(random.random_range(1..3_000_000_000_000));
                fixture.commit(&entries_at(&[started(&format!("r-{step}"), start, cost)], now)).await;
                events.push((start, cost));
            } else {
                let (period, zone) =
                    (periods[random.random_range(0..4)], zones[random.random_range(0..zones.len())]);
                change(&fixture, period, zone).await;
            }
            let (said, first, beyond) = settled(&fixture, now).await;
            let of_period = events
                .iter()
                .filter(|(start, _)| *start >= first && beyond.is_none_or(|beyond| *start < beyond));
            let expected = Usd::checked_sum(of_period.map(|(_, cost)| *cost)).unwrap();
            assert_eq!(said, expected, "seed {seed}, case {case}, step {step}: {first} to {beyond:?}");
        }
        let all = Usd::checked_sum(events.iter().map(|(_, cost)| *cost)).unwrap();
        assert_eq!(fixture.spent(&scope("organization/o")).await, all);
    }
}
