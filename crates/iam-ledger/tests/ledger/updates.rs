//! Changing and reading identities.

use iam_ledger::{
    Budget, BudgetPeriod, IdentityPatch, LedgerError, MAX_BUDGET, MAX_RATE_LIMIT, NewIdentity, Owners,
    ScopeKind,
};
use rate_plan::Limits;

use crate::support::{Fixture, usd};

fn one_of_each() -> Vec<NewIdentity> {
    vec![
        NewIdentity::organization("x", "first"),
        NewIdentity::team("x", "first").of_organization("x"),
        NewIdentity::project("x", "first").of_organization("x").of_team("x"),
        NewIdentity::user("x", "first").of_organization("x").of_team("x"),
        NewIdentity::key("x", "first").of_organization("x").of_user("x").of_project("x").of_team("x"),
    ]
}

#[tokio::test]
async fn every_field_of_every_kind_is_set_and_cleared_alone() {
    let fixture = Fixture::new().await;
    let ledger = &fixture.ledger;
    ledger.create_all(&one_of_each()).await.unwrap();
    for identity in one_of_each() {
        let mut expected = ledger.identity(identity.kind, "x").await.unwrap();
        assert_eq!((&expected.owners, &*expected.name), (&identity.owners, "first"));
        type Set = fn(&mut iam_ledger::IdentityRecord);
        let changes: [(IdentityPatch, Set); 13] = [
            (IdentityPatch::new(), |_| ()),
            (IdentityPatch::new().set_rpm(0), |it| it.limits.rpm = Some(0)),
            (IdentityPatch::new().set_tpm(MAX_RATE_LIMIT), |it| it.limits.tpm = Some(MAX_RATE_LIMIT)),
            (IdentityPatch::new().set_name("second"), |it| it.name = "second".to_owned()),
            (IdentityPatch::new().set_blocked(true), |it| it.blocked = true),
            (IdentityPatch::new().set_budget(usd("0.000000000001")), |it| {
                it.budget.amount = Some(usd("0.000000000001"));
            }),
            (IdentityPatch::new().set_period(BudgetPeriod::Weekly), |it| {
                it.budget.period = BudgetPeriod::Weekly;
            }),
            (IdentityPatch::new().set_time_zone("Europe/Berlin"), |it| {
                it.budget.time_zone = "Europe/Berlin".to_owned();
            }),
            (IdentityPatch::new().clear_rpm(), |it| it.limits.rpm = None),
            (IdentityPatch::new().set_budget(MAX_BUDGET), |it| it.budget.amount = Some(MAX_BUDGET)),
            (IdentityPatch::new().clear_tpm(), |it| it.limits.tpm = None),
            (IdentityPatch::new().clear_budget(), |it| it.budget.amount = None),
            (IdentityPatch::new().set_blocked(false).set_name(""), |it| {
                it.blocked = false;
                it.name.clear();
            }),
        ];
        for (patch, set) in changes {
            ledger.update(identity.kind, "x", &patch).await.unwrap();
            set(&mut expected);
            assert_eq!(ledger.identity(identity.kind, "x").await.unwrap(), expected, "{patch:?}");
        }
    }
    let untouched = "select count(*) from scopes where rpm_limit is null and budget_period = 'weekly'";
    assert_eq!(fixture.number(untouched).await, 5);
}

#[tokio::test]
async fn an_update_of_one_kind_leaves_the_same_id_of_another_alone() {
    let fixture = Fixture::new().await;
    fixture.ledger.create_all(&one_of_each()).await.unwrap();
    fixture.ledger.update(ScopeKind::User, "x", &IdentityPatch::new().set_blocked(true)).await.unwrap();
    assert_eq!(fixture.text("select string_agg(kind, ' ') from scopes where blocked").await, "user");
}

#[tokio::test]
async fn what_is_read_is_what_was_created() {
    let fixture = Fixture::new().await;
    let budget =
        Budget { amount: Some(usd("12.5")), period: BudgetPeriod::Daily, time_zone: "Asia/Tokyo".into() };
    let limits = Limits { rpm: Some(1), tpm: None };
    let person = NewIdentity::user("ada", "Ada").with_limits(limits).with_budget(budget.clone());
    fixture.ledger.create(&person).await.unwrap();
    let read = fixture.ledger.identity(ScopeKind::User, "ada").await.unwrap();
    assert_eq!((read.kind, &*read.id, &*read.name, read.limits), (ScopeKind::User, "ada", "Ada", limits));
    assert_eq!((read.owners, read.budget, read.blocked), (Owners::default(), budget, false));
}

#[tokio::test]
async fn what_does_not_exist_is_neither_changed_nor_read() {
    let fixture = Fixture::new().await;
    for kind in
        [ScopeKind::Organization, ScopeKind::Team, ScopeKind::Project, ScopeKind::User, ScopeKind::Key]
    {
        let read = fixture.ledger.identity(kind, "x").await.map(drop);
        for result in [read, fixture.ledger.update(kind, "x", &IdentityPatch::new().set_rpm(1)).await] {
            assert!(matches!(&result, Err(LedgerError::NotFound { id, .. }) if id == "x"), "{result:?}");
        }
    }
}

#[tokio::test]
async fn a_key_cannot_name_another_team_than_its_owners() {
    let fixture = Fixture::new().await;
    let ledger = &fixture.ledger;
    let rows = [
        NewIdentity::organization("o", ""),
        NewIdentity::team("a", "").of_organization("o"),
        NewIdentity::team("b", "").of_organization("o"),
        NewIdentity::user("of-a", "").of_organization("o").of_team("a"),
        NewIdentity::user("of-none", "").of_organization("o"),
        NewIdentity::project("p-of-a", "").of_organization("o").of_team("a"),
    ];
    ledger.create_all(&rows).await.unwrap();
    let key = || NewIdentity::key("k", "").of_organization("o");
    for (key, problem) in [
        (key().of_user("of-a").of_team("b"), "names team \"b\", which is not that of its user \"of-a\""),
        (key().of_user("of-none").of_team("b"), "its user \"of-none\""),
        (key().of_project("p-of-a").of_team("b"), "its project \"p-of-a\""),
    ] {
        let error = ledger.create(&key).await.unwrap_err();
        assert!(matches!(error, LedgerError::Identity { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
    assert_eq!(fixture.number("select count(*) from api_keys").await, 0);
    // A person of team a works on a project of nobody's: billed to team a.
    ledger.create(&key().of_user("of-a").of_team("a").of_project("p-of-a")).await.unwrap();
}
