//! Identities, the view over them, and the trees that come out of it.

use iam_ledger::{Budget, BudgetPeriod, LedgerError, MAX_BUDGET, MAX_RATE_LIMIT, NewIdentity, ScopeKind};
use rate_plan::Limits;

use crate::support::{Fixture, usd};

/// Two organizations that look alike but for their ids.
fn two_organizations() -> Vec<NewIdentity> {
    let limits = |rpm| Limits { rpm, tpm: Some(MAX_RATE_LIMIT) };
    ["x", "y"]
        .into_iter()
        .flat_map(|o| {
            let id = |rest: &str| format!("{o}-{rest}");
            // Children first: one statement takes them in any order.
            [
                NewIdentity::key(id("k1"), "")
                    .of_organization(o)
                    .of_user(id("u"))
                    .with_limits(limits(Some(0))),
                NewIdentity::key(id("k2"), "").of_organization(o).of_project(id("p")).of_team(id("t")),
                NewIdentity::key(id("k3"), "").of_organization(o).of_team(id("t")),
                NewIdentity::key(id("k4"), "").of_organization(o),
                NewIdentity::user(id("u"), "").of_organization(o).of_team(id("t")),
                NewIdentity::user(id("v"), "").of_organization(o),
                NewIdentity::project(id("p"), "").of_organization(o).of_team(id("t")),
                NewIdentity::project(id("q"), "").of_organization(o),
                NewIdentity::team(id("t"), "").of_organization(o).with_limits(limits(None)),
                NewIdentity::organization(o, "").with_limits(limits(Some(100))),
            ]
        })
        .collect()
}

#[tokio::test]
async fn a_rate_tree_holds_its_organization_with_every_parent_and_nothing_else() {
    let fixture = Fixture::new().await;
    fixture.ledger.create_all(&two_organizations()).await.unwrap();
    let tree = fixture.ledger.rate_tree("x").await.unwrap();
    let shown: Vec<String> = tree
        .nodes()
        .iter()
        .map(|node| {
            let parent = node.parent.and_then(|parent| tree.node(parent));
            format!("{} < {}", node.scope, parent.map_or("-".to_owned(), |parent| parent.scope.to_string()))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "organization/x < -",
            "team/x-t < organization/x",
            "project/x-p < team/x-t",
            "project/x-q < organization/x",
            "user/x-u < team/x-t",
            "user/x-v < organization/x",
            "key/x-k1 < user/x-u",
            "key/x-k2 < project/x-p",
            "key/x-k3 < team/x-t",
            "key/x-k4 < organization/x",
        ]
    );
    let limits = |kind, id| tree.node(tree.find(kind, id).unwrap()).unwrap().limits;
    assert_eq!(limits("organization", "x"), Limits { rpm: Some(100), tpm: Some(MAX_RATE_LIMIT) });
    assert_eq!(limits("team", "x-t").rpm, None, "shared");
    assert_eq!(limits("key", "x-k1").rpm, Some(0), "blocked");
}

#[tokio::test]
async fn a_user_without_an_organization_has_a_tree_of_its_own() {
    let fixture = Fixture::new().await;
    fixture
        .ledger
        .create_all(&[
            NewIdentity::user("solo", ""),
            NewIdentity::key("solo-key", "").of_user("solo"),
            NewIdentity::user("other", ""),
            NewIdentity::key("other-key", "").of_user("other"),
        ])
        .await
        .unwrap();
    let tree = fixture.ledger.user_rate_tree("solo").await.unwrap();
    assert_eq!(tree.len(), 2);
    assert_eq!(tree.node(tree.find("key", "solo-key").unwrap()).unwrap().parent, tree.find("user", "solo"));
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let fixture = Fixture::new().await;
    fixture.ledger.create_all(&two_organizations()).await.unwrap();
    let error = fixture.ledger.rate_tree("z").await.unwrap_err();
    assert!(
        matches!(&error, LedgerError::NotFound { kind: ScopeKind::Organization, id } if id == "z"),
        "{error}"
    );
    assert!(!error.is_transient());
    assert!(fixture.ledger.user_rate_tree("x-u").await.is_err(), "this user has an organization");
}

#[tokio::test]
async fn reading_a_tree_costs_its_organization_and_not_the_tables() {
    let fixture = Fixture::new().await;
    fixture
        .run(
            "insert into organizations (id, name) select 'o' || n, '' from generate_series(1, 3000) n; \
             insert into teams (id, organization_id, name) select 't' || n, 'o' || n, '' from generate_series(1, 3000) n; \
             insert into projects (id, organization_id, name) select 'p' || n, 'o' || n, '' from generate_series(1, 3000) n; \
             insert into users (id, organization_id, name) select 'u' || n, 'o' || n, '' from generate_series(1, 3000) n; \
             insert into api_keys (id, organization_id, name) select 'k' || n, 'o' || n, '' from generate_series(1, 3000) n; \
             analyze",
        )
        .await;
    for (query, table_count) in [
        (include_str!("../../queries/organization_scopes.sql"), 5),
        (include_str!("../../queries/user_scopes.sql"), 2),
    ] {
        // As prepared by a driver, so without knowing the value.
        let mut session = fixture.sql.acquire().await.unwrap();
        let prepare = format!(
            "deallocate all; set plan_cache_mode = force_generic_plan; prepare tree (text) as {query}"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(prepare)).execute(&mut *session).await.unwrap();
        let plan: Vec<String> = sqlx::query_scalar("explain execute tree ('o7')")
            .persistent(false)
            .fetch_all(&mut *session)
            .await
            .unwrap();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan"), "{plan}");
        assert!(plan.matches("Index Cond").count() >= table_count, "{plan}");
    }
}

#[tokio::test]
async fn an_owner_of_another_organization_or_of_none_is_refused() {
    let fixture = Fixture::new().await;
    fixture.ledger.create_all(&two_organizations()).await.unwrap();
    for (identity, constraint) in [
        (NewIdentity::team("n", "").of_organization("z"), "teams_organization_fkey"),
        (NewIdentity::project("n", "").of_organization("x").of_team("y-t"), "projects_team_fkey"),
        (NewIdentity::user("n", "").of_organization("x").of_team("y-t"), "users_team_fkey"),
        (NewIdentity::user("n", "").of_team("x-t"), "users_team_needs_organization"),
        (NewIdentity::key("n", "").of_organization("x").of_user("y-u"), "api_keys_user_fkey"),
        (NewIdentity::key("n", "").of_user("y-u"), "api_keys_user_fkey"),
        (NewIdentity::key("n", "").of_organization("x").of_project("y-p"), "api_keys_project_fkey"),
        (NewIdentity::key("n", "").of_organization("x").of_team("y-t"), "api_keys_team_fkey"),
        (NewIdentity::organization("x", ""), "organizations_pkey"),
    ] {
        let error = fixture.ledger.create(&identity).await.unwrap_err();
        assert_eq!(error.constraint(), Some(constraint), "{error}");
        assert!(!error.is_transient());
    }
    assert_eq!(fixture.number("select count(*) from scopes").await, 20);
}

#[tokio::test]
async fn ids_limits_and_budgets_that_break_a_rule_are_refused_by_the_database_too() {
    let fixture = Fixture::new().await;
    for (row, constraint) in [
        ("''", "identifier_length"),
        ("repeat('x', 129)", "identifier_length"),
        ("E'a\\nb'", "identifier_without_control_characters"),
        ("U&'a\\007f'", "identifier_without_control_characters"),
        ("U&'a\\0085b'", "identifier_without_control_characters"),
    ] {
        let insert = format!("insert into organizations (id, name) values ({row}, '')");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&fixture.sql).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().constraint(), Some(constraint), "{row}: {error}");
    }
    for (column, value, constraint) in [
        ("rpm_limit", "-1", "rate_limit_range"),
        ("tpm_limit", "2147483648", "rate_limit_range"),
        ("budget_usd", "-0.000000000001", "usd_not_negative"),
        ("budget_period", "'hourly'", "budget_period_known"),
    ] {
        let insert = format!("insert into organizations (id, name, {column}) values ('o', '', {value})");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&fixture.sql).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().constraint(), Some(constraint), "{column}: {error}");
    }
    let longest = "\u{e9}".repeat(64);
    fixture.ledger.create(&NewIdentity::organization(longest, "")).await.unwrap();
    let zone = Budget { time_zone: "Mars/Olympus".into(), ..Budget::default() };
    let error =
        fixture.ledger.create(&NewIdentity::organization("o", "").with_budget(zone)).await.unwrap_err();
    assert!(error.to_string().contains("time zone \"Mars/Olympus\" not recognized"), "{error}");
}

#[tokio::test]
async fn a_budget_is_stored_exactly() {
    let fixture = Fixture::new().await;
    for (id, amount) in [("least", usd("0.000000000001")), ("most", MAX_BUDGET)] {
        let budget =
            Budget { amount: Some(amount), period: BudgetPeriod::Monthly, time_zone: "Europe/Berlin".into() };
        fixture.ledger.create(&NewIdentity::organization(id, "").with_budget(budget)).await.unwrap();
    }
    let row = "select string_agg(concat_ws(' ', id, budget_usd, budget_period, budget_time_zone), ', ' order by id) \
               from scopes";
    assert_eq!(
        fixture.text(row).await,
        "least 0.000000000001 monthly Europe/Berlin, most 999999999999999999.999999999999 monthly Europe/Berlin"
    );
}
