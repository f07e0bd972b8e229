//! What is refused: each input with its typed error, and nothing written.

use iam_ledger::{Budget, IdentityPatch, LedgerError, MAX_NAME_BYTES, NewIdentity, ScopeKind};
use rate_plan::Limits;
use spend_queue::Usd;

use crate::support::{Fixture, commit_time, usd};

enum Input {
    Create(NewIdentity),
    CreateKey(NewIdentity),
    Update(ScopeKind, String, IdentityPatch),
    Read(ScopeKind, String),
    Rotate(String),
    Tree(String),
    Authenticate(String),
    Sql(&'static str),
}

/// The typed error, in short.
fn name(error: &LedgerError) -> String {
    match error {
        LedgerError::Identity { .. } => "identity".to_owned(),
        LedgerError::OverAllocated(it) => format!("over-allocated {}", it.dimension),
        LedgerError::TimeZone(_) => "time zone".to_owned(),
        LedgerError::NotFound { .. } => "not found".to_owned(),
        LedgerError::NotAuthenticated => "not authenticated".to_owned(),
        LedgerError::Query { .. } => error.constraint().unwrap_or("query").to_owned(),
        other => format!("{other:?}"),
    }
}

async fn give(fixture: &Fixture, input: &Input) -> Result<(), String> {
    let (ledger, keyring) = (&fixture.ledger, fixture.keyring());
    let result = match input {
        Input::Create(identity) => ledger.create(identity).await,
        Input::CreateKey(identity) => keyring.create_key(identity).await.map(drop),
        Input::Update(kind, id, patch) => ledger.update(*kind, id, patch).await,
        Input::Read(kind, id) => ledger.identity(*kind, id).await.map(drop),
        Input::Rotate(id) => keyring.rotate_key(id, None).await.map(drop),
        Input::Tree(id) => ledger.rate_tree(id).await.map(drop),
        Input::Authenticate(text) => {
            keyring.authenticate(&text.clone().into(), commit_time()).await.map(drop)
        }
        Input::Sql(statement) => {
            let result = sqlx::raw_sql(*statement).execute(&fixture.sql).await;
            return result.map(drop).map_err(|error| {
                let error = error.into_database_error().expect("an answer of the server");
                error.constraint().unwrap_or(&error.code().unwrap_or_default()).to_owned()
            });
        }
    };
    result.map_err(|error| {
        let message = error.to_string();
        assert!(!error.is_transient() && message.lines().count() == 1 && message.len() < 600, "{message}");
        name(&error)
    })
}

async fn digest(fixture: &Fixture) -> String {
    fixture
        .text(
            "select string_agg(concat_ws(' ', name, rows, digest), ', ') from ( \
             select 'o' as name, count(*) as rows, md5(string_agg(t::text, '' order by id)) as digest from organizations t \
             union all select 't', count(*), md5(string_agg(t::text, '' order by id)) from teams t \
             union all select 'p', count(*), md5(string_agg(t::text, '' order by id)) from projects t \
             union all select 'u', count(*), md5(string_agg(t::text, '' order by id)) from users t \
             union all select 'k', count(*), md5(string_agg(t::text, '' order by id)) from api_keys t \
             union all select 'v', count(*), md5(string_agg(t::text, '' order by root_kind, root_id)) \
                 from config_versions t) s",
        )
        .await
}

fn limits(rpm: Option<u64>, tpm: Option<u64>) -> Limits {
    Limits { rpm, tpm }
}

fn team(id: impl Into<String>) -> NewIdentity {
    NewIdentity::team(id, "").of_organization("o")
}

fn key(id: impl Into<String>) -> NewIdentity {
    NewIdentity::key(id, "").of_organization("o")
}

fn budget(amount: Usd) -> Budget {
    Budget { amount: Some(amount), ..Budget::default() }
}

fn zone(name: &str) -> Budget {
    Budget { time_zone: name.to_owned(), ..Budget::default() }
}

fn bad_ids() -> Vec<String> {
    let mut ids: Vec<String> =
        ["", "a\nb", "\0", "a\u{1f}", "\u{7f}", "a\u{85}b", "\u{9f}"].map(String::from).into();
    ids.extend(["x".repeat(129), "\u{e9}".repeat(65), "x".repeat(1 << 20)]);
    ids
}

fn wrong_secrets(good: &str) -> Vec<String> {
    let body = good.strip_prefix("tw_").unwrap();
    vec![
        String::new(),
        "tw_".to_owned(),
        body.to_owned(),
        good[..good.len() - 1].to_owned(),
        format!("{good}A"),
        format!("{good}\n"),
        format!(" {good}"),
        format!("TG_{body}"),
        format!("tg-{body}"),
        format!("xx_{body}"),
        format!("tw_{}=", &body[..42]),
        format!("tw_{}+", &body[..42]),
        format!("tw_{}/", &body[..42]),
        format!("tw_{}\0", &body[..42]),
        format!("tw_\0{}", &body[1..]),
        format!("tw_{}\u{e9}", &body[..41]),
        format!("tw_\u{202e}{}", &body[..40]),
        format!("tw_{}' or '1'='1", &body[..29]),
        "tw_".repeat(16),
        "x".repeat(1 << 20),
        format!("tw_{}", "A".repeat(1 << 20)),
        // Of the right form and unknown.
        format!("tw_{}", "A".repeat(43)),
        format!("tw_{}", "abcdefg".repeat(6)) + "A",
    ]
}

fn inputs(secret: &str) -> Vec<(Input, &'static str)> {
    use Input::{Authenticate, Create, CreateKey, Read, Rotate, Sql, Tree, Update};
    use ScopeKind::{Key, Organization, Team};
    let patch = IdentityPatch::new;
    let update = |kind, id: &str, patch| Update(kind, id.to_owned(), patch);
    let mut inputs = vec![
        // More than the parent has.
        (Create(team("n").with_limits(limits(Some(41), None))), "over-allocated rpm"),
        (Create(team("n").with_limits(limits(None, Some(401)))), "over-allocated tpm"),
        (Create(team("n").with_budget(budget(usd("4.000000000001")))), "over-allocated usd"),
        (Create(key("n").of_team("t").with_limits(limits(Some(61), None))), "over-allocated rpm"),
        (CreateKey(key("n").of_team("t").with_limits(limits(Some(61), None))), "over-allocated rpm"),
        (update(Team, "t", patch().set_rpm(101)), "over-allocated rpm"),
        (update(Team, "t", patch().set_tpm(1001)), "over-allocated tpm"),
        (update(Team, "t", patch().set_budget(usd("10.01"))), "over-allocated usd"),
        (update(Organization, "o", patch().set_rpm(59)), "over-allocated rpm"),
        (update(Organization, "o", patch().set_rpm(0)), "over-allocated rpm"),
        (update(Organization, "o", patch().set_tpm(599)), "over-allocated tpm"),
        (update(Organization, "o", patch().set_budget(usd("5.99"))), "over-allocated usd"),
        (update(Key, "k", patch().set_rpm(61)), "over-allocated rpm"),
        // Limits: a u64 has no -1, so that it arrives as what it wraps to, and as itself past the types.
        (Create(team("n").with_limits(limits(Some(1 << 31), None))), "identity"),
        (Create(team("n").with_limits(limits(None, Some(1 << 31)))), "identity"),
        (Create(team("n").with_limits(limits(Some(u64::MAX), None))), "identity"),
        (update(Team, "t", patch().set_rpm(1 << 31)), "identity"),
        (update(Team, "t", patch().set_tpm(1 << 31)), "identity"),
        (update(Team, "t", patch().set_tpm(u64::MAX)), "identity"),
        (Sql("update teams set rpm_limit = -1"), "rate_limit_range"),
        (Sql("update teams set tpm_limit = 2147483648"), "rate_limit_range"),
        // Money.
        (Create(team("n").with_budget(budget(usd("-1")))), "identity"),
        (Create(team("n").with_budget(budget(usd("-0.000000000001")))), "identity"),
        (Create(team("n").with_budget(budget(usd("1e18")))), "identity"),
        (update(Team, "t", patch().set_budget(usd("-0.000000000001"))), "identity"),
        (update(Team, "t", patch().set_budget(usd("1e18"))), "identity"),
        (update(Team, "t", patch().set_budget(Usd::from_picos(i128::MIN))), "identity"),
        (Sql("update teams set budget_usd = 'NaN'"), "usd_is_a_number"),
        (Sql("update teams set budget_usd = 'Infinity'"), "22003"),
        (Sql("update teams set budget_usd = -1"), "usd_not_negative"),
        (Sql("update teams set budget_period = 'yearly'"), "budget_period_known"),
        // Time zones.
        (Create(team("n").with_budget(zone("Mars/Olympus"))), "time zone"),
        (Create(team("n").with_budget(zone("europe berlin"))), "identity"),
        (Create(team("n").with_budget(zone(""))), "identity"),
        (Create(team("n").with_budget(zone("UTC\0"))), "identity"),
        (Create(team("n").with_budget(zone(&"Z".repeat(1 << 20)))), "identity"),
        (update(Team, "t", patch().set_time_zone("Mars/Olympus")), "time zone"),
        (update(Team, "t", patch().set_time_zone("")), "identity"),
        // Names.
        (Create(NewIdentity::team("n", "a\0b").of_organization("o")), "identity"),
        (Create(NewIdentity::team("n", "x".repeat(MAX_NAME_BYTES + 1)).of_organization("o")), "identity"),
        (update(Team, "t", patch().set_name("a\nb")), "identity"),
        (update(Team, "t", patch().set_name("x".repeat(1 << 20))), "identity"),
        // Owners.
        (Create(NewIdentity::team("n", "")), "identity"),
        (Create(NewIdentity::organization("n", "").of_organization("o")), "identity"),
        (Create(NewIdentity::key("n", "")), "identity"),
        (Create(NewIdentity::team("n", "").of_organization("none")), "teams_organization_fkey"),
        (Create(key("n").of_team("none")), "api_keys_team_fkey"),
        (Create(key("n").of_user("none")), "api_keys_user_fkey"),
        (Create(team("t")), "teams_pkey"),
        (CreateKey(key("k")), "api_keys_pkey"),
        (CreateKey(team("n")), "identity"),
        // What is not there.
        (update(Team, "none", patch().set_rpm(1)), "not found"),
        (Read(Team, "none".to_owned()), "not found"),
        (Rotate("none".to_owned()), "not found"),
        (Tree("none".to_owned()), "not found"),
    ];
    for id in bad_ids() {
        inputs.push((Create(team(id.clone())), "identity"));
        inputs.push((Create(key("n").of_team(id.clone())), "identity"));
        inputs.push((CreateKey(key(id.clone())), "identity"));
        inputs.push((Update(Team, id.clone(), patch().set_rpm(1)), "identity"));
        inputs.push((Read(Key, id.clone()), "identity"));
        inputs.push((Rotate(id.clone()), "identity"));
        inputs.push((Tree(id), "identity"));
    }
    inputs.extend(wrong_secrets(secret).into_iter().map(|text| (Authenticate(text), "not authenticated")));
    inputs
}

#[tokio::test]
async fn every_bad_input_has_its_error_and_writes_nothing() {
    let fixture = Fixture::new().await;
    let rows = [
        NewIdentity::organization("o", "")
            .with_limits(limits(Some(100), Some(1000)))
            .with_budget(budget(usd("10"))),
        team("t").with_limits(limits(Some(60), Some(600))).with_budget(budget(usd("6"))),
    ];
    fixture.ledger.create_all(&rows).await.unwrap();
    let secret = fixture.keyring().create_key(&key("k").of_team("t")).await.unwrap();
    let before = digest(&fixture).await;
    let inputs = inputs(secret.expose_secret());
    for (place, (input, expected)) in inputs.iter().enumerate() {
        assert_eq!(give(&fixture, input).await, Err((*expected).to_owned()), "input {place}");
        assert_eq!(digest(&fixture).await, before, "input {place} ({expected}) wrote something");
    }
    println!("{} bad inputs refused, nothing written", inputs.len());
    assert!(inputs.len() >= 60);
    fixture.keyring().authenticate(&secret.into(), commit_time()).await.unwrap();
}

#[tokio::test]
async fn a_secret_of_wrong_form_is_refused_without_asking_the_database() {
    let fixture = Fixture::new().await;
    fixture.ledger.create(&NewIdentity::organization("o", "")).await.unwrap();
    let keyring = fixture.keyring();
    let secret = keyring.create_key(&key("k")).await.unwrap();
    fixture.ledger.close().await;
    let mut refused = 0;
    for text in wrong_secrets(secret.expose_secret()) {
        match keyring.authenticate(&text.into(), commit_time()).await {
            Err(LedgerError::NotAuthenticated) => refused += 1,
            // Of the right form: only the database could tell.
            Err(LedgerError::Query { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 21);
}
