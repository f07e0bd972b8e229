//! What a subject may still spend: settled, hot and held money at every level.

use std::time::Duration;

use iam_ledger::{Budget, BudgetPeriod, HoldAnswer, InFlight, LedgerOptions, NewIdentity, QuotaError};
use spend_queue::SpendEvent;

use crate::hot::Hot;
use crate::support::{Fixture, at, commit_time, connect, entries, event, scope, usd};

const TTL: Duration = Duration::from_secs(600);

pub(crate) fn budget(amount: &str) -> Budget {
    Budget { amount: Some(usd(amount)), ..Budget::default() }
}

pub(crate) fn monthly(amount: &str) -> Budget {
    Budget { period: BudgetPeriod::Monthly, ..budget(amount) }
}

/// An organization of 100 with teams red (40) and blue (no budget), users ada (red, 10) and bob (blue), and their keys.
pub(crate) async fn company(fixture: &Fixture) {
    fixture
        .ledger
        .create_all(&[
            NewIdentity::organization("o", "").with_budget(monthly("100")),
            NewIdentity::team("red", "").of_organization("o").with_budget(budget("40")),
            NewIdentity::team("blue", "").of_organization("o"),
            NewIdentity::user("ada", "").of_organization("o").of_team("red").with_budget(budget("10")),
            NewIdentity::user("bob", "").of_organization("o").of_team("blue"),
            NewIdentity::key("ada-key", "").of_organization("o").of_user("ada"),
            NewIdentity::key("bob-key", "").of_organization("o").of_user("bob").with_budget(budget("5")),
        ])
        .await
        .unwrap();
}

fn amounts(level: &iam_ledger::QuotaLevel) -> [String; 6] {
    let of =
        |amount: Option<spend_queue::Usd>| amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string());
    [
        level.scope.to_string(),
        level.settled.to_string(),
        of(level.hot),
        level.held.to_string(),
        level.reserved.to_string(),
        of(level.remaining),
    ]
}

#[tokio::test]
async fn every_level_counts_settled_hot_and_held_and_reserves_for_budgets_beside_the_path() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    fixture
        .commit(&entries(&[event(
            "r-1",
            &["organization/o", "team/blue", "user/bob", "key/bob-key"],
            Some("2"),
        )]))
        .await;
    // Red has 3 in the queue, so that it reserves 37 of its 40 and no more.
    let hot = Hot::of(vec![
        event("r-2", &["organization/o", "team/red", "user/ada", "key/ada-key"], Some("3")),
        event("r-3", &["organization/o", "key/bob-key"], Some("0.5")),
    ]);
    let quota = fixture.ledger.quota_path(&scope("key/bob-key"), &hot, commit_time()).await.unwrap();
    assert!(quota.exact);
    let levels: Vec<_> = quota.levels.iter().map(amounts).collect();
    assert_eq!(
        levels,
        [
            ["key/bob-key", "2", "0.5", "0", "0", "2.5"],
            ["user/bob", "2", "-", "0", "0", "-"],
            ["team/blue", "2", "-", "0", "0", "-"],
            ["organization/o", "2", "3.5", "0", "37", "57.5"],
        ]
    );
    assert_eq!(quota.remaining(), Some(usd("2.5")));
    assert_eq!(quota.refusing(usd("2.5")), None);
    assert_eq!(quota.refusing(usd("2.500000000001")).unwrap().scope, scope("key/bob-key"));
    assert_eq!(quota.levels[3].period_start, at("2026-03-01T00:00:00Z"));
    assert_eq!(quota.levels[3].period_end, Some(at("2026-04-01T00:00:00Z")));
    assert_eq!(quota.levels[0].period_end, None);

    // Ada draws on red's allocation first: beside her path only bob's key reserves, at the organization.
    let quota = fixture.ledger.quota_path(&scope("key/ada-key"), &hot, commit_time()).await.unwrap();
    let levels: Vec<_> = quota.levels.iter().map(amounts).collect();
    assert_eq!(levels[1], ["user/ada", "0", "3", "0", "0", "7"]);
    assert_eq!(levels[2], ["team/red", "0", "3", "0", "0", "37"]);
    assert_eq!(levels[3], ["organization/o", "2", "3.5", "0", "2.5", "92"]);
}

#[tokio::test]
async fn a_lower_bound_asks_for_nothing_beside_the_path_and_is_never_above_what_is_left() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let hot = Hot::of(vec![
        event("r-1", &["organization/o", "team/red", "user/ada", "key/ada-key"], Some("3")),
        event("r-2", &["organization/o", "key/bob-key"], Some("0.5")),
    ]);
    let (subject, now) = (scope("key/bob-key"), commit_time());
    let whole = fixture.ledger.quota_path(&subject, &hot, now).await.unwrap();
    assert_eq!(hot.asked().len(), 3);
    let bound = fixture.ledger.quota_lower_bound(&subject, &hot, InFlight::Covered, now).await.unwrap();
    assert_eq!(hot.asked(), ["pending_key bob-key", "pending_since o 2026-03-01T00:00:00+00:00"]);
    assert_eq!((whole.exact, bound.exact), (true, false));
    assert_eq!(amounts(&bound.levels[0]), amounts(&whole.levels[0]), "nothing is beside the key");
    assert_eq!(
        (amounts(&bound.levels[3]), amounts(&whole.levels[3])),
        (
            ["organization/o", "0", "3.5", "0", "40", "56.5"].map(str::to_owned),
            ["organization/o", "0", "3.5", "0", "37", "59.5"].map(str::to_owned)
        )
    );
    // Red's 40 are gone, so that nothing is kept for it: the bound is the answer.
    fixture.commit(&entries(&[event("r-3", &["team/red"], Some("40"))])).await;
    let bound = fixture.ledger.quota_lower_bound(&subject, &hot, InFlight::Covered, now).await.unwrap();
    assert!(bound.exact);
    assert_eq!(bound, fixture.ledger.quota_path(&subject, &hot, now).await.unwrap());
}

#[tokio::test]
async fn the_exhausted_level_is_named_from_the_subject_up() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    fixture.commit(&entries(&[event("r-1", &["organization/o"], Some("58"))])).await;
    let quota =
        fixture.ledger.quota_path(&scope("key/bob-key"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!(quota.exhausted(), None);
    // 58 of 100 are gone and red may use 40: 2 are left for bob, whose own 5 do not help.
    let refusing = quota.refusing(usd("2.1")).unwrap();
    assert_eq!(
        (&refusing.scope, refusing.reserved, refusing.remaining),
        (&scope("organization/o"), usd("40"), Some(usd("2")))
    );
    fixture.commit(&entries(&[event("r-2", &["organization/o"], Some("2"))])).await;
    let quota =
        fixture.ledger.quota_path(&scope("key/bob-key"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!(quota.exhausted().unwrap().scope, scope("organization/o"));
    let quota = fixture.ledger.quota_path(&scope("user/ada"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!(quota.remaining(), Some(usd("10")), "red's allocation was kept for it");
}

#[tokio::test]
async fn hot_money_is_asked_only_where_a_budget_depends_on_it() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    fixture
        .ledger
        .create_all(&[
            NewIdentity::organization("free", ""),
            NewIdentity::key("free-key", "").of_organization("free"),
            NewIdentity::user("solo", ""),
            NewIdentity::key("solo-key", "").of_user("solo").with_budget(budget("1")),
        ])
        .await
        .unwrap();
    // The queue is down; whoever has no budget does not notice.
    let hot = Hot::broken();
    let quota = fixture.ledger.quota_path(&scope("key/free-key"), &hot, commit_time()).await.unwrap();
    assert_eq!((quota.remaining(), hot.asked().len()), (None, 0));
    let error = fixture.ledger.quota_path(&scope("key/solo-key"), &hot, commit_time()).await.unwrap_err();
    assert!(
        matches!(&error, QuotaError::Hot { subject, .. } if *subject == scope("key/solo-key")),
        "{error}"
    );
    assert!(error.is_transient());
    assert_eq!(hot.asked(), ["pending_key solo-key"]);

    let hot = Hot::default();
    fixture.ledger.quota_path(&scope("key/ada-key"), &hot, commit_time()).await.unwrap();
    // Three levels have a budget, and bob's key has one that the organization reserves for.
    let expected = [
        "pending team/red",
        "pending user/ada",
        "pending_key bob-key",
        "pending_since o 2026-03-01T00:00:00+00:00",
    ];
    assert_eq!(hot.asked(), expected);
    let error = fixture.ledger.quota_path(&scope("key/nobody"), &hot, commit_time()).await.unwrap_err();
    assert_eq!((error.to_string(), error.is_transient()), ("there is no key/nobody".to_owned(), false));
}

#[tokio::test]
async fn a_request_that_is_held_and_hot_counts_once() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let path = ["organization/o", "team/blue", "user/bob", "key/bob-key"];
    let held = fixture.ledger.hold("r-1", &scope("key/bob-key"), usd("3"), TTL, commit_time()).await.unwrap();
    assert!(matches!(held, HoldAnswer::Held(_)));
    let hot = Hot::of(vec![event("r-1", &path, Some("2"))]);
    let read = async |rule| {
        let subject = scope("key/bob-key");
        fixture.ledger.quota_path_with(&subject, &hot, rule, commit_time()).await.unwrap().levels[0].used
    };
    assert_eq!(read(InFlight::Covered).await, usd("3"));
    assert_eq!(read(InFlight::Separate).await, usd("5"), "where not every request is held, both count");
    fixture.commit(&entries(&[event("r-1", &path, Some("2"))])).await;
    let quota =
        fixture.ledger.quota_path(&scope("key/bob-key"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!(
        (quota.levels[0].settled, quota.levels[0].held, quota.levels[0].used),
        (usd("2"), usd("0"), usd("2"))
    );
}

#[tokio::test]
async fn beyond_the_bound_budgets_beside_the_path_reserve_without_their_hot_money() {
    let fixture = Fixture::new().await;
    let keys = |count: usize| {
        let keys = (0..count).map(|n| {
            NewIdentity::key(format!("k-{count}-{n}"), "")
                .of_organization(format!("o-{count}"))
                .with_budget(budget("1"))
        });
        let organization = NewIdentity::organization(format!("o-{count}"), "").with_budget(budget("1000"));
        keys.chain([organization]).collect::<Vec<_>>()
    };
    for (siblings, exact, reserved) in [(64, true, "63.5"), (65, false, "65")] {
        fixture.ledger.create_all(&keys(siblings + 1)).await.unwrap();
        let count = siblings + 1;
        let hot = Hot::of(vec![event("r", &[&format!("key/k-{count}-1")], Some("0.5"))]);
        let quota = fixture
            .ledger
            .quota_path(&scope(&format!("key/k-{count}-0")), &hot, commit_time())
            .await
            .unwrap();
        assert_eq!((quota.exact, quota.levels[1].reserved), (exact, usd(reserved)), "{siblings}");
        assert!(hot.asked().len() <= 2 + 64);
    }
}

#[tokio::test]
async fn a_teams_spend_never_lands_on_a_personal_budget() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    // The event names organization, team and key; that the key is ada's charges her nothing.
    let charged = event("r-1", &["organization/o", "team/red", "key/ada-key"], Some("4"));
    fixture.commit(&entries(std::slice::from_ref(&charged))).await;
    let hot = Hot::of(vec![SpendEvent { request_id: "r-2".into(), ..charged }]);
    let quota = fixture.ledger.quota_path(&scope("key/ada-key"), &hot, commit_time()).await.unwrap();
    let levels: Vec<_> = quota.levels.iter().map(amounts).collect();
    assert_eq!(levels[1], ["user/ada", "0", "0", "0", "0", "10"]);
    assert_eq!(levels[2], ["team/red", "4", "4", "0", "0", "32"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn six_readers_at_once_on_cold_state_each_see_ledger_plus_hot_exactly() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let charges = ["organization/o", "team/red", "user/ada", "key/ada-key"];
    let settled: Vec<_> = (0..50).map(|n| event(&format!("s-{n}"), &charges, Some("0.0000027"))).collect();
    fixture.commit(&entries(&settled)).await;
    let hot = std::sync::Arc::new(Hot::of(
        (0..30).map(|n| event(&format!("h-{n}"), &charges, Some("0.000000000001"))).collect(),
    ));
    let ledger = connect(&fixture.database, LedgerOptions::default()).await;
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let (ledger, hot) = (ledger.clone(), hot.clone());
            tokio::spawn(async move {
                ledger.quota_path(&scope("key/ada-key"), &*hot, commit_time()).await.unwrap()
            })
        })
        .collect();
    for reader in readers {
        let quota = reader.await.unwrap();
        for level in quota.levels.iter().filter(|level| level.budget.is_some()) {
            assert_eq!(level.used, usd("0.00013500003"), "{level:?}");
        }
    }
}
