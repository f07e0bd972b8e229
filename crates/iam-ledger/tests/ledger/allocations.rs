//! What a parent has is never promised twice, whoever writes at the same time.

use std::time::{Duration, Instant};

use iam_ledger::{
    AllocationDimension, Budget, BudgetPeriod, IdentityPatch, Ledger, LedgerError, LedgerOptions,
    NewIdentity, OverAllocation, Quantity, ScopeKind,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rate_plan::{Dimension, Limits, Node, RateTree};

use crate::support::{Fixture, at, commit_time, connect, entries, event, usd};

const WRITERS: usize = 12;

fn rpm(limit: u64) -> Limits {
    Limits { rpm: Some(limit), tpm: None }
}

fn budget(amount: &str, period: BudgetPeriod) -> Budget {
    Budget { amount: Some(usd(amount)), period, ..Budget::default() }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, LedgerError>) -> OverAllocation {
    match result {
        Err(LedgerError::OverAllocated(refusal)) => *refusal,
        other => panic!("not refused for its allocation: {other:?}"),
    }
}

fn money(amount: &str) -> Quantity {
    Quantity::Usd(usd(amount))
}

#[tokio::test]
async fn sixty_and_sixty_do_not_fit_under_a_hundred() {
    let fixture = Fixture::new().await;
    let ledger = &fixture.ledger;
    ledger.create(&NewIdentity::organization("o", "").with_limits(rpm(100))).await.unwrap();
    ledger.create(&NewIdentity::team("a", "").of_organization("o").with_limits(rpm(60))).await.unwrap();
    let second = NewIdentity::team("b", "").of_organization("o").with_limits(rpm(60));
    let refused = refusal(ledger.create(&second).await);
    let expected = OverAllocation {
        kind: ScopeKind::Organization,
        id: "o".to_owned(),
        dimension: AllocationDimension::Rpm,
        available: Quantity::PerMinute(100),
        allocated: Quantity::PerMinute(60),
        asked: Quantity::PerMinute(60),
    };
    assert_eq!(refused, expected);
    assert_eq!(fixture.number("select count(*) from teams").await, 1, "rolled back");
    ledger.create(&second.with_limits(rpm(40))).await.unwrap();
}

#[tokio::test]
async fn shared_scopes_pass_on_what_is_below_them() {
    let fixture = Fixture::new().await;
    let ledger = &fixture.ledger;
    let below = [
        NewIdentity::organization("o", "").with_limits(rpm(100)),
        NewIdentity::team("t", "").of_organization("o"),
        NewIdentity::user("u", "").of_organization("o").of_team("t"),
        NewIdentity::key("k", "").of_organization("o").of_user("u").with_limits(rpm(60)),
        NewIdentity::project("p", "").of_organization("o"),
    ];
    ledger.create_all(&below).await.unwrap();
    let service = NewIdentity::key("s", "").of_organization("o").of_project("p").with_limits(rpm(41));
    assert_eq!(refusal(ledger.create(&service).await).id, "o");
    // A fixed scope stands for all below it, so that the same key fits under one.
    let fixed = IdentityPatch::new().set_rpm(40);
    ledger.update(ScopeKind::Project, "p", &fixed).await.unwrap();
    let refused = refusal(ledger.create(&service).await);
    assert_eq!((refused.kind, refused.available), (ScopeKind::Project, Quantity::PerMinute(40)));
    ledger.create(&service.with_limits(rpm(40))).await.unwrap();
    assert_eq!(refusal(ledger.update(ScopeKind::Team, "t", &IdentityPatch::new().set_rpm(61)).await).id, "o");
    assert_eq!(refusal(ledger.update(ScopeKind::Team, "t", &IdentityPatch::new().set_rpm(59)).await).id, "t");
}

#[tokio::test]
async fn a_parent_is_not_lowered_below_what_its_children_hold() {
    let fixture = Fixture::new().await;
    let ledger = &fixture.ledger;
    let below = [
        NewIdentity::organization("o", "").with_limits(rpm(100)),
        NewIdentity::team("t", "").of_organization("o").with_limits(rpm(60)),
    ];
    ledger.create_all(&below).await.unwrap();
    let refused =
        refusal(ledger.update(ScopeKind::Organization, "o", &IdentityPatch::new().set_rpm(59)).await);
    assert_eq!(
        refused.to_string(),
        "organization \"o\" would have 59 in rpm, with 60 allocated below it and 0 more asked"
    );
    ledger.update(ScopeKind::Organization, "o", &IdentityPatch::new().set_rpm(60)).await.unwrap();
    ledger.update(ScopeKind::Organization, "o", &IdentityPatch::new().clear_rpm()).await.unwrap();
    ledger.update(ScopeKind::Team, "t", &IdentityPatch::new().set_rpm(1000)).await.unwrap();
    let error = ledger.update(ScopeKind::Organization, "o", &IdentityPatch::new().set_rpm(999)).await;
    assert_eq!(refusal(error).allocated, Quantity::PerMinute(1000), "fixed again below what is held");
}

#[tokio::test]
async fn an_over_allocation_from_elsewhere_stops_only_what_makes_it_worse() {
    let fixture = Fixture::new().await;
    fixture
        .run(
            "insert into organizations (id, name, rpm_limit) values ('o', '', 100); \
             insert into teams (id, organization_id, name, rpm_limit) values ('a', 'o', '', 90), ('b', 'o', '', 90)",
        )
        .await;
    let ledger = &fixture.ledger;
    let update = |team: &'static str, rpm| async move {
        ledger.update(ScopeKind::Team, team, &IdentityPatch::new().set_rpm(rpm)).await
    };
    update("a", 80).await.unwrap();
    update("b", 90).await.unwrap();
    assert_eq!(refusal(update("b", 91).await).asked, Quantity::PerMinute(1));
    let free = NewIdentity::team("c", "").of_organization("o").with_limits(rpm(0));
    ledger.create(&free).await.unwrap();
    update("a", 10).await.unwrap();
    assert_eq!(ledger.identity(ScopeKind::Team, "a").await.unwrap().limits, rpm(10));
}

#[tokio::test]
async fn money_that_is_spent_is_neither_there_nor_held() {
    let fixture = Fixture::new().await;
    let (ledger, now) = (&fixture.ledger, commit_time());
    let team = |id: &str, amount: &str| {
        NewIdentity::team(id, "").of_organization("o").with_budget(budget(amount, BudgetPeriod::Monthly))
    };
    let organization = NewIdentity::organization("o", "").with_budget(budget("100", BudgetPeriod::Monthly));
    ledger.create_all_at(&[organization, team("a", "60")], now).await.unwrap();
    // 30 by others: 70 are left, of which a holds 60.
    fixture.commit(&entries(&[event("r1", &["organization/o"], Some("30"))])).await;
    let refused = refusal(ledger.create_all_at(&[team("b", "10.000000000001")], now).await);
    assert_eq!((refused.available, refused.allocated), (money("70"), money("60")));
    assert_eq!(refused.asked, money("10.000000000001"));
    ledger.create_all_at(&[team("b", "10")], now).await.unwrap();
    // 50 by a are gone on both levels: 20 are left, of which a holds 10 and b 10.
    let both = ["organization/o", "team/a"];
    fixture.commit(&entries(&[event("r2", &both, Some("50"))])).await;
    assert_eq!(refusal(ledger.create_all_at(&[team("c", "0.01")], now).await).allocated, money("20"));
    let lower = IdentityPatch::new().set_budget(usd("99.99"));
    let refused = refusal(ledger.update_at(ScopeKind::Organization, "o", &lower, now).await);
    assert_eq!((refused.available, refused.allocated), (money("19.99"), money("20")));
    // What is overspent is not negative on either side.
    let spent_up = IdentityPatch::new().set_budget(usd("40"));
    ledger.update_at(ScopeKind::Team, "a", &spent_up, now).await.unwrap();
    ledger.create_all_at(&[team("c", "10")], now).await.unwrap();
    assert_eq!(refusal(ledger.create_all_at(&[team("d", "0.01")], now).await).allocated, money("20"));
}

#[tokio::test]
async fn each_budget_counts_in_its_own_current_period() {
    let fixture = Fixture::new().await;
    let (ledger, now) = (&fixture.ledger, commit_time());
    let zoned = Budget { time_zone: "Asia/Tokyo".to_owned(), ..budget("10", BudgetPeriod::Daily) };
    let below = [
        NewIdentity::organization("o", "").with_budget(budget("50", BudgetPeriod::Monthly)),
        NewIdentity::team("a", "").of_organization("o").with_budget(zoned),
    ];
    ledger.create_all_at(&below, now).await.unwrap();
    fixture.commit(&entries(&[event("r1", &["organization/o", "team/a"], Some("8"))])).await;
    let rest = |amount: &str| IdentityPatch::new().set_budget(usd(amount));
    ledger.create_all_at(&[NewIdentity::team("b", "").of_organization("o")], now).await.unwrap();
    // 42 are left of the month. Of its day a holds 2 more, until 15:00 UTC, when it is midnight in Tokyo; then 10 again.
    let before = at("2026-03-05T14:59:59Z");
    assert_eq!(
        refusal(ledger.update_at(ScopeKind::Team, "b", &rest("40.01"), before).await).allocated,
        money("2")
    );
    let after = at("2026-03-05T15:00:00Z");
    let refused = refusal(ledger.update_at(ScopeKind::Team, "b", &rest("40"), after).await);
    assert_eq!((refused.available, refused.allocated), (money("42"), money("10")));
    ledger.update_at(ScopeKind::Team, "b", &rest("40"), before).await.unwrap();
    // In the next month the organization has 50 again, and b, whose budget has no period, holds 40.
    let next_month = at("2026-04-01T00:00:00Z");
    let refused = refusal(ledger.update_at(ScopeKind::Team, "b", &rest("40.01"), next_month).await);
    assert_eq!((refused.available, refused.allocated), (money("50"), money("50")));
    // Another period is another count of what is spent.
    let ever = IdentityPatch::new().set_period(BudgetPeriod::Daily);
    ledger.update_at(ScopeKind::Team, "b", &ever, next_month).await.unwrap();
}

/// The rule over again, in Rust, from the tree: excess by node.
fn excess(tree: &RateTree, dimension: Dimension) -> Vec<(String, u64)> {
    let node = |(at, node): (usize, &Node)| {
        let limit = node.limits.get(dimension)?;
        let excess = tree.promised(at, dimension).saturating_sub(limit);
        (tree.children(at).len() > 0).then(|| (node.scope.to_string(), excess))
    };
    tree.nodes().iter().enumerate().filter_map(node).collect()
}

#[tokio::test]
async fn random_writes_are_decided_as_the_rate_tree_says() {
    let fixture = Fixture::new().await;
    let ledger = &fixture.ledger;
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut below = vec![NewIdentity::organization("o", "")];
    for t in 0..3 {
        let team = format!("t{t}");
        below.push(NewIdentity::team(&team, "").of_organization("o"));
        below.push(NewIdentity::key(format!("{team}-s"), "").of_organization("o").of_team(&team));
        below.push(NewIdentity::project(format!("{team}-p"), "").of_organization("o").of_team(&team));
        below.push(
            NewIdentity::key(format!("{team}-pk"), "").of_organization("o").of_project(format!("{team}-p")),
        );
        for u in 0..2 {
            let user = format!("{team}-u{u}");
            below.push(NewIdentity::user(&user, "").of_organization("o").of_team(&team));
            below.push(NewIdentity::key(format!("{user}-k"), "").of_organization("o").of_user(&user));
        }
    }
    below.push(NewIdentity::key("o-k", "").of_organization("o"));
    ledger.create_all(&below).await.unwrap();
    let (mut done, mut refused) = (0, 0);
    for step in 0..300 {
        let target = &below[random.random_range(0..below.len())];
        let room = match target.kind {
            ScopeKind::Organization => 60,
            ScopeKind::Team => 25,
            _ => 12,
        };
        let value: u64 = random.random_range(0..=room);
        let clear = random.random_bool(0.25);
        let dimension = Dimension::ALL[random.random_range(0..2)];
        let patch = match (dimension, clear) {
            (Dimension::Rpm, true) => IdentityPatch::new().clear_rpm(),
            (Dimension::Rpm, false) => IdentityPatch::new().set_rpm(value),
            (Dimension::Tpm, true) => IdentityPatch::new().clear_tpm(),
            (Dimension::Tpm, false) => IdentityPatch::new().set_tpm(value),
        };
        let before = ledger.rate_tree("o").await.unwrap();
        let at = before.find(target.kind.as_str(), &target.id).unwrap();
        let mut limits = before.nodes()[at].limits;
        let limit = if dimension == Dimension::Rpm { &mut limits.rpm } else { &mut limits.tpm };
        *limit = (!clear).then_some(value);
        let after = before.with_limits(at, limits).unwrap();
        let old = excess(&before, dimension);
        let worse = excess(&after, dimension).into_iter().any(|(scope, excess)| {
            excess > old.iter().find(|(other, _)| *other == scope).map_or(0, |(_, excess)| *excess)
        });
        let result = ledger.update(target.kind, &target.id, &patch).await;
        let stored = ledger.rate_tree("o").await.unwrap();
        if worse {
            refusal(result);
            assert_eq!(stored.fingerprint(), before.fingerprint(), "step {step}");
            refused += 1;
        } else {
            result.unwrap();
            assert_eq!(stored.fingerprint(), after.fingerprint(), "step {step}");
            done += 1;
        }
    }
    println!("{done} random writes done, {refused} refused");
    assert!(done > 50 && refused > 50, "{done} {refused}");
}

/// As many ledgers as writers, so that none waits for a connection of another.
async fn ledgers(fixture: &Fixture) -> Vec<Ledger> {
    let mut ledgers = Vec::new();
    for _ in 0..WRITERS {
        let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
        ledgers.push(connect(&fixture.database, options).await);
    }
    ledgers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_writers_that_fit_alone_and_not_together_exactly_one_succeeds() {
    let fixture = Fixture::new().await;
    let organizations = ["x", "y"].map(|o| NewIdentity::organization(o, "").with_limits(rpm(100)));
    fixture.ledger.create_all(&organizations).await.unwrap();
    let shared = (0..WRITERS).map(|n| NewIdentity::team(format!("shared-{n}"), "").of_organization("y"));
    fixture.ledger.create_all(&shared.collect::<Vec<_>>()).await.unwrap();
    let mut creating = Vec::new();
    let mut raising = Vec::new();
    for (n, ledger) in ledgers(&fixture).await.into_iter().enumerate() {
        let other = ledger.clone();
        creating.push(tokio::spawn(async move {
            let team = NewIdentity::team(format!("new-{n}"), "").of_organization("x").with_limits(rpm(60));
            ledger.create(&team).await
        }));
        raising.push(tokio::spawn(async move {
            let patch = IdentityPatch::new().set_rpm(60);
            other.update(ScopeKind::Team, &format!("shared-{n}"), &patch).await
        }));
    }
    for writers in [creating, raising] {
        let mut successes = 0;
        for writer in writers {
            match writer.await.unwrap() {
                Ok(()) => successes += 1,
                result => assert_eq!(refusal(result).allocated, Quantity::PerMinute(60)),
            }
        }
        assert_eq!(successes, 1);
    }
    assert_eq!(fixture.number("select sum(rpm_limit)::bigint from teams").await, 120);
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(fixture.number(deadlocks).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_wait_for_their_own_organization_only() {
    let fixture = Fixture::new().await;
    let organizations = ["x", "y"].map(|o| NewIdentity::organization(o, ""));
    fixture.ledger.create_all(&organizations).await.unwrap();
    // Another writer below x, in mid-transaction.
    let mut other = fixture.sql.begin().await.unwrap();
    sqlx::raw_sql("insert into teams (id, organization_id, name) values ('t', 'x', '')")
        .execute(&mut *other)
        .await
        .unwrap();
    let ledger = fixture.ledger.clone();
    let waiting = tokio::spawn(async move {
        ledger.create(&NewIdentity::team("x-team", "").of_organization("x").with_limits(rpm(1))).await
    });
    let blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while fixture.number(blocked).await == 0 {
        tokio::task::yield_now().await;
    }
    let below_y = NewIdentity::team("y-team", "").of_organization("y").with_limits(rpm(1));
    fixture.ledger.create(&below_y).await.unwrap();
    assert!(!waiting.is_finished());
    other.commit().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn thousands_of_rows_are_checked_at_once() {
    let fixture = Fixture::new().await;
    let mut rows = Vec::new();
    for o in 0..20 {
        let organization = format!("o{o}");
        rows.push(NewIdentity::organization(&organization, "").with_limits(rpm(1000)));
        for t in 0..10 {
            let team = format!("{organization}-t{t}");
            rows.push(NewIdentity::team(&team, "").of_organization(&organization).with_limits(rpm(100)));
            for k in 0..50 {
                let key = NewIdentity::key(format!("{team}-k{k}"), "").of_organization(&organization);
                rows.push(key.of_team(&team).with_limits(rpm(2)));
            }
        }
    }
    let started = Instant::now();
    fixture.ledger.create_all(&rows).await.unwrap();
    let elapsed = started.elapsed();
    println!("{} identities below 20 organizations created and checked in {elapsed:?}", rows.len());
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    let more = NewIdentity::key("more", "").of_organization("o7").of_team("o7-t3").with_limits(rpm(1));
    assert_eq!(refusal(fixture.ledger.create(&more).await).id, "o7-t3");
    assert_eq!(fixture.number("select version from config_versions where root_id = 'o7'").await, 3);
}
