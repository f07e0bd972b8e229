//! Secrets: made once, replaced, and never mistaken for one another.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use iam_ledger::{
    IdentityCache, IdentityCacheOptions, IdentityPatch, Keyring, LedgerError, LedgerOptions, NewIdentity,
    Pepper, ScopeKind,
};
use rate_plan::Limits;
use secrecy::SecretString;
use sqlx::Row;
use tokio::sync::RwLock;

use crate::support::{Fixture, commit_time, connect};

const TASKS: usize = 20;
const ROTATIONS: usize = 40;

async fn with_people() -> (Fixture, Keyring) {
    let fixture = Fixture::new().await;
    let rows = [
        NewIdentity::organization("acme", ""),
        NewIdentity::team("red", "").of_organization("acme"),
        NewIdentity::project("bot", "").of_organization("acme").of_team("red"),
        NewIdentity::user("ada", "").of_organization("acme").of_team("red"),
        NewIdentity::user("solo", ""),
    ];
    fixture.ledger.create_all(&rows).await.unwrap();
    let keyring = fixture.keyring();
    (fixture, keyring)
}

fn adas(id: &str) -> NewIdentity {
    NewIdentity::key(id, "").of_organization("acme").of_user("ada")
}

fn refused<T: std::fmt::Debug>(result: &Result<T, LedgerError>) {
    assert!(matches!(result, Err(LedgerError::NotAuthenticated)), "{result:?}");
}

#[tokio::test]
async fn an_identity_knows_whether_a_budget_is_above_it() {
    let (fixture, keyring) = with_people().await;
    let secret = keyring.create_key(&adas("k").of_project("bot")).await.unwrap().into();
    let budgeted = async || keyring.authenticate(&secret, commit_time()).await.unwrap().is_budgeted();
    assert!(!budgeted().await);
    let budget = |amount: &str| IdentityPatch::new().set_budget(amount.parse().unwrap());
    // The project of a person's key is among its scopes and not above it.
    fixture.ledger.update(ScopeKind::Project, "bot", &budget("0")).await.unwrap();
    assert!(!budgeted().await);
    for (kind, id) in [(ScopeKind::Key, "k"), (ScopeKind::User, "ada"), (ScopeKind::Organization, "acme")] {
        // A budget of zero is one.
        fixture.ledger.update(kind, id, &budget("0")).await.unwrap();
        assert!(budgeted().await, "{kind}");
        fixture.ledger.update(kind, id, &IdentityPatch::new().clear_budget()).await.unwrap();
        assert!(!budgeted().await, "{kind}");
    }
}

#[tokio::test]
async fn a_secret_stands_for_its_key_and_everything_above() {
    let (fixture, keyring) = with_people().await;
    let limits = Limits { rpm: Some(5), tpm: None };
    for (key, ids) in [
        (adas("k1").with_limits(limits), [Some("ada"), None, Some("red"), Some("acme")]),
        (adas("k2").of_project("bot"), [Some("ada"), Some("bot"), Some("red"), Some("acme")]),
        (
            NewIdentity::key("service", "").of_organization("acme").of_team("red"),
            [None, None, Some("red"), Some("acme")],
        ),
        (
            NewIdentity::key("robot", "").of_organization("acme").of_project("bot"),
            [None, Some("bot"), Some("red"), Some("acme")],
        ),
        (NewIdentity::key("root", "").of_organization("acme"), [None, None, None, Some("acme")]),
        (NewIdentity::key("mine", "").of_user("solo"), [Some("solo"), None, None, None]),
    ] {
        let secret: SecretString = keyring.create_key(&key).await.unwrap().into();
        let found = keyring.authenticate(&secret, commit_time()).await.unwrap();
        let owners = [found.user_id(), found.project_id(), found.team_id(), found.organization_id()];
        assert_eq!((found.key_id(), owners, found.limits()), (&*key.id, ids, key.limits));
        let root = if key.id == "mine" { "user/solo" } else { "organization/acme" };
        assert_eq!(found.root().to_string(), root);
        // Its path in the rate tree, but for a person's project.
        let tree = match found.organization_id() {
            Some(organization) => fixture.ledger.rate_tree(organization).await.unwrap(),
            None => fixture.ledger.user_rate_tree("solo").await.unwrap(),
        };
        let path = tree.path_from(tree.find("key", &key.id).unwrap()).unwrap();
        let path: Vec<_> = path.as_slice().iter().map(|at| tree.nodes()[*at].scope.to_string()).collect();
        let personal = found.user_id().is_some();
        let scopes = found.scopes().iter().filter(|it| !(personal && it.kind == ScopeKind::Project));
        assert_eq!(path, scopes.map(|it| format!("{}/{}", it.kind, it.id)).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn only_the_hmac_reaches_the_database() {
    let (fixture, keyring) = with_people().await;
    let secret = keyring.create_key(&adas("k")).await.unwrap();
    keyring.authenticate(&secret.expose_secret().into(), commit_time()).await.unwrap();
    let dump = fixture.text("select string_agg(k::text, ' ') from api_keys k").await;
    let encoded = secret.expose_secret().strip_prefix("tw_").unwrap();
    let hex: String = secret.expose_secret().bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(!dump.contains(encoded) && !dump.contains(&hex), "{dump}");
    let plain = "select octet_length(secret_hmac)::bigint from api_keys";
    assert_eq!(fixture.number(plain).await, 32);
    // Under another pepper the same secret is unknown.
    let other = Keyring::new(fixture.ledger.clone(), Pepper::new(vec![8; 32]).unwrap());
    refused(&other.authenticate(&secret.expose_secret().into(), commit_time()).await);
    assert!(!format!("{secret:?} {keyring:?}").contains(encoded));
}

#[tokio::test]
async fn what_is_blocked_authenticates_and_says_so() {
    let (fixture, keyring) = with_people().await;
    let secret: SecretString = keyring.create_key(&adas("k")).await.unwrap().into();
    let block = |blocked| IdentityPatch::new().set_blocked(blocked);
    for (kind, id) in [
        (ScopeKind::Key, "k"),
        (ScopeKind::User, "ada"),
        (ScopeKind::Team, "red"),
        (ScopeKind::Organization, "acme"),
    ] {
        fixture.ledger.update(kind, id, &block(true)).await.unwrap();
        let found = keyring.authenticate(&secret, commit_time()).await.unwrap();
        let blocked: Vec<_> = found.blocked().map(|it| (it.kind, &*it.id)).collect();
        assert_eq!(blocked, [(kind, id)]);
        let error = found.require_unblocked().unwrap_err();
        assert_eq!(error.to_string(), format!("{kind} {id:?} is blocked"));
        assert!(!error.is_transient());
        fixture.ledger.update(kind, id, &block(false)).await.unwrap();
    }
    keyring.authenticate(&secret, commit_time()).await.unwrap().require_unblocked().unwrap();
}

#[tokio::test]
async fn a_rotated_key_keeps_its_id_and_its_old_secret_ends_when_told() {
    let (_fixture, keyring) = with_people().await;
    let now = commit_time();
    let key = |secret: SecretString, at| {
        let keyring = keyring.clone();
        async move { keyring.authenticate(&secret, at).await.map(|it| it.key_id().to_owned()) }
    };
    let text = |secret: &iam_ledger::KeySecret| -> SecretString { secret.expose_secret().into() };
    let first = keyring.create_key(&adas("k")).await.unwrap();
    let second = keyring.rotate_key("k", None).await.unwrap();
    refused(&key(text(&first), now).await);
    assert_eq!(key(text(&second), now).await.unwrap(), "k");
    let until = now + Duration::from_secs(60);
    let third = keyring.rotate_key("k", Some(until)).await.unwrap();
    for secret in [&second, &third] {
        assert_eq!(key(text(secret), until - Duration::from_millis(1)).await.unwrap(), "k");
    }
    refused(&key(text(&second), until).await);
    // Only one old secret at a time.
    let fourth = keyring.rotate_key("k", Some(until)).await.unwrap();
    refused(&key(text(&second), now).await);
    assert_eq!(key(text(&third), now).await.unwrap(), "k");
    assert_eq!(key(text(&fourth), now).await.unwrap(), "k");
    keyring.rotate_key("k", None).await.unwrap();
    refused(&key(text(&third), now).await);
}

#[tokio::test]
async fn a_key_without_a_secret_gets_its_first_by_rotation() {
    let (fixture, keyring) = with_people().await;
    fixture.ledger.create(&adas("k")).await.unwrap();
    let secret = keyring.rotate_key("k", Some(commit_time())).await.unwrap();
    let found = keyring.authenticate(&secret.into(), commit_time()).await.unwrap();
    assert_eq!(found.key_id(), "k");
    let none = keyring.rotate_key("nobody", None).await;
    assert!(matches!(none, Err(LedgerError::NotFound { kind: ScopeKind::Key, .. })), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_a_key_is_rotated_no_secret_ever_stands_for_another() {
    let (fixture, keyring) = with_people().await;
    let options = LedgerOptions { max_connections: 20, ..LedgerOptions::default() };
    let keyring_of_all =
        Keyring::new(connect(&fixture.database, options).await, Pepper::new(vec![7; 32]).unwrap());
    let cache = IdentityCache::new(keyring_of_all.clone(), IdentityCacheOptions::default());
    // Every secret that ever was, and whose it is.
    let mut secrets: HashMap<String, &str> = HashMap::new();
    for id in ["rotated", "still"] {
        let secret = keyring.create_key(&adas(id)).await.unwrap();
        secrets.insert(secret.expose_secret().to_owned(), id);
    }
    let secrets = Arc::new(RwLock::new(secrets));
    let done = Arc::new(AtomicBool::new(false));
    let (known, unknown) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (keyring, cache, secrets) = (keyring_of_all.clone(), cache.clone(), Arc::clone(&secrets));
        let (done, known, unknown) = (Arc::clone(&done), Arc::clone(&known), Arc::clone(&unknown));
        tasks.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let all: Vec<(String, &str)> =
                    secrets.read().await.iter().map(|(secret, id)| (secret.clone(), *id)).collect();
                for (secret, id) in all {
                    let secret = secret.into();
                    let found = if task % 2 == 0 {
                        keyring.authenticate(&secret, commit_time()).await
                    } else {
                        cache.authenticate(&secret, commit_time()).await.map(|it| (*it).clone())
                    };
                    match found {
                        Ok(found) => {
                            assert_eq!((found.key_id(), found.user_id()), (id, Some("ada")));
                            known.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(LedgerError::NotAuthenticated) => {
                            assert_eq!(id, "rotated", "a secret that was not replaced is always known");
                            unknown.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }));
    }
    for rotation in 0..ROTATIONS {
        let grace = (rotation % 3 == 0).then(|| commit_time() + Duration::from_secs(1));
        let secret = keyring.rotate_key("rotated", grace).await.unwrap();
        secrets.write().await.insert(secret.expose_secret().to_owned(), "rotated");
        // At once, whatever else is going on.
        let found = keyring.authenticate(&secret.into(), commit_time()).await.unwrap();
        assert_eq!(found.key_id(), "rotated");
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let (known, unknown) = (known.load(Ordering::Relaxed), unknown.load(Ordering::Relaxed));
    println!("{known} authentications right, {unknown} old secrets refused, during {ROTATIONS} rotations");
    assert!(known > 100 && unknown > 100);
}

#[tokio::test]
async fn authenticating_costs_one_key_and_not_the_table() {
    let fixture = Fixture::new().await;
    fixture
        .run(
            "insert into organizations (id, name) select 'o' || n, '' from generate_series(0, 999) n; \
             insert into teams (id, organization_id, name) select 't' || n, 'o' || n, '' from generate_series(0, 999) n; \
             insert into users (id, organization_id, team_id, name) \
             select 'u' || n, 'o' || n, 't' || n, '' from generate_series(0, 999) n; \
             insert into projects (id, organization_id, name) select 'p' || n, 'o' || n, '' from generate_series(0, 999) n; \
             insert into api_keys (id, organization_id, user_id, name, secret_hmac) \
             select 'k' || n, 'o' || n % 1000, 'u' || n % 1000, '', decode(md5(n::text) || md5('x' || n), 'hex') \
             from generate_series(1, 120000) n; \
             update api_keys set secret_hmac_previous = decode(md5('y' || id) || md5('z' || id), 'hex'), \
                 previous_valid_until = now() where id like '%7'; \
             analyze",
        )
        .await;
    // The text that the server runs, out of the server.
    let body = fixture.text("select pg_get_function_sqlbody('authenticate_key'::regproc)").await;
    let query = body
        .trim()
        .trim_start_matches("BEGIN ATOMIC")
        .trim_end_matches("END")
        .replace("authenticate_key.given_hmac", "$1")
        .replace("authenticate_key.given_instant", "$2")
        .replace("given_hmac", "$1")
        .replace("given_instant", "$2");
    let query = query.trim().trim_end_matches(';');
    let mut session = fixture.sql.acquire().await.unwrap();
    let prepare =
        format!("set plan_cache_mode = force_generic_plan; prepare who (bytea, timestamptz) as {query}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(prepare)).execute(&mut *session).await.unwrap();
    let explain = "explain (analyze, costs off, timing off) \
                   execute who (decode(md5('77') || md5('x77'), 'hex'), now())";
    let rows = sqlx::raw_sql(explain).fetch_all(&mut *session).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    println!("{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");
    for index in ["api_keys_secret_hmac_key", "api_keys_secret_hmac_previous_key", "config_versions_pkey"] {
        assert!(plan.contains(&format!("Index Scan using {index}")), "{index}: {plan}");
    }
    assert_eq!(plan.matches("Index Scan using").count(), 7, "one a table, two of keys: {plan}");
    let found = "select count(*) from authenticate_key(decode(md5('77') || md5('x77'), 'hex'), now())";
    assert_eq!(fixture.number(found).await, 4, "key, user, team and organization");
}
