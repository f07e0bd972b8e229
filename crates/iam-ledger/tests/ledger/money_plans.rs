//! How the server finds what quotas, holds and settlements need, among a hundred thousand rows of each table.

use std::time::Instant;

use crate::hot::Hot;
use crate::support::{Fixture, at, scope, usd};

/// 100 organizations with 1,000 teams, 10,000 users and 100,000 keys; two periods of spend and an open hold of each key.
const MANY: &str = "
insert into organizations (id, name, budget_usd, budget_period) select 'o' || n, '', 100000, 'monthly' from generate_series(0, 99) n;
insert into teams (id, organization_id, name, budget_usd, budget_period)
    select 't' || n, 'o' || n % 100, '', case when n % 2 = 0 then 1000 end, 'daily' from generate_series(0, 999) n;
insert into users (id, organization_id, team_id, name, budget_usd, budget_period)
    select 'u' || n, 'o' || n % 100, 't' || n % 1000, '', case when n % 3 = 0 then 100 end, 'weekly' from generate_series(0, 9999) n;
insert into api_keys (id, organization_id, user_id, name, budget_usd, budget_period)
    select 'k' || n, 'o' || n % 100, 'u' || n % 10000, '', case when n % 5 = 0 then 10 end, 'daily' from generate_series(0, 99999) n;
insert into scope_spend
    select 'key', 'k' || n, timestamptz '2026-03-05Z' - d * interval '1 day', 0.5, 1 from generate_series(0, 99999) n, generate_series(0, 1) d;
insert into holds select 'h' || n, 'key', 'k' || n, 'o' || n % 100, 1, 'held', '2026-03-05Z', '2026-03-05 20:00Z' from generate_series(0, 99999) n;
insert into hold_reservations select 'h' || n, 'key', 'k' || n, 1, '2026-03-05 20:00Z' from generate_series(0, 99999) n;
insert into settled_requests select 's' || n, decode(repeat('00', 16), 'hex'), now() from generate_series(0, 99999) n;
analyze;
";
/// Tables that no query may read from end to end.
const LARGE: [&str; 5] = ["api_keys", "scope_spend", "holds", "hold_reservations", "settled_requests"];

async fn plan(fixture: &Fixture, name: &str, query: &str) -> String {
    let text = format!("explain (costs off) {query}");
    let lines: Vec<String> =
        sqlx::query_scalar(sqlx::AssertSqlSafe(text)).fetch_all(&fixture.sql).await.unwrap();
    let plan = lines.join("\n");
    for table in LARGE {
        let scans = plan.lines().filter(|line| {
            line.contains("Seq Scan on ") && line.split_whitespace().any(|word| word == table)
        });
        assert_eq!(scans.count(), 0, "{name} reads all of {table}:\n{plan}");
    }
    plan
}

/// A query file with its parameters written in.
fn filled(query: &str, values: &[&str]) -> String {
    let body: String =
        query.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
    values.iter().enumerate().rev().fold(body, |text, (n, value)| text.replace(&format!("${}", n + 1), value))
}

#[tokio::test]
async fn quotas_holds_and_settlements_read_by_index_alone() {
    let fixture = Fixture::new().await;
    fixture.run(MANY).await;
    let at_noon = "timestamptz '2026-03-05 12:00Z'";

    let quota = filled(include_str!("../../queries/quota_levels.sql"), &["'key'", "'k6'", at_noon]);
    let text = plan(&fixture, "quota_levels", &quota).await;
    for index in ["api_keys_budgeted_idx", "scope_spend_pkey", "hold_reservations_scope_idx"] {
        assert!(text.contains(index), "{index}:\n{text}");
    }
    let shape = filled(include_str!("../../queries/quota_shape.sql"), &["'key'", "'k6'", at_noon, "64"]);
    let text = plan(&fixture, "quota_shape", &shape).await;
    assert!(text.contains("api_keys_pkey") && text.contains("api_keys_budgeted_idx"), "{text}");
    let scopes = ["'organization'", "'o6'", "array['key', 'user']", "array['k6', 'u6']"];
    let periods = [
        "array[timestamptz '2026-03-05Z', '2026-03-02Z']",
        "array[null::timestamptz, '2026-03-09Z']",
        at_noon,
    ];
    let amounts =
        filled(include_str!("../../queries/quota_amounts.sql"), &[&scopes[..], &periods[..]].concat());
    let text = plan(&fixture, "quota_amounts", &amounts).await;
    for index in ["scope_spend_pkey", "hold_reservations_scope_idx"] {
        assert!(text.contains(index), "{index}:\n{text}");
    }
    let lock = filled(include_str!("../../queries/lock_budgets.sql"), &["'key'", "'k6'", "false"]);
    plan(&fixture, "lock_budgets", &lock).await;
    let values = ["'new'", "'key'", "'k6'", "'1'", at_noon, "timestamptz '2026-03-05 12:10Z'", "true"];
    let place = filled(include_str!("../../queries/place_hold.sql"), &values);
    let text = plan(&fixture, "place_hold", &place).await;
    assert!(text.contains("settled_requests_pkey") && text.contains("api_keys_budgeted_idx"), "{text}");
    let settle = "(select array_agg('h' || n) from generate_series(1, 20) n)";
    let costs = "(select array_agg(5::bigint) from generate_series(1, 20) n)";
    let settle = filled(include_str!("../../queries/settle_holds.sql"), &[settle, costs, at_noon]);
    let text = plan(&fixture, "settle_holds", &settle).await;
    assert!(text.contains("holds_pkey") && text.contains("hold_reservations_pkey"), "{text}");
    let release = filled(include_str!("../../queries/release_hold.sql"), &["'h6'", at_noon]);
    assert!(plan(&fixture, "release_hold", &release).await.contains("holds_pkey"));
    let expire = filled(include_str!("../../queries/expire_holds.sql"), &[at_noon, "100"]);
    assert!(plan(&fixture, "expire_holds", &expire).await.contains("holds_due_idx"));

    // What the plans come to, for the log: of twenty organizations four have a thousand budgeted keys, the others none.
    let (now, hot) = (at("2026-03-05T12:00:00Z"), Hot::default());
    let begun = Instant::now();
    for n in 0..20 {
        fixture.ledger.quota_path(&scope(&format!("key/k{n}")), &hot, now).await.unwrap();
    }
    let quotas = begun.elapsed() / 20;
    let begun = Instant::now();
    for n in 0..20 {
        let subject = scope(&format!("key/k{n}"));
        fixture
            .ledger
            .hold(&format!("new-{n}"), &subject, usd("0.001"), std::time::Duration::from_secs(60), now)
            .await
            .unwrap();
    }
    println!("a quota took {quotas:?}, a hold {:?}", begun.elapsed() / 20);
}
