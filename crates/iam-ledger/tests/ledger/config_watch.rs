//! How soon gateways see a change, and what they do while they cannot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use devstack::{Durability, PostgresServer};
use iam_ledger::{
    ConfigWatch, IdentityCache, IdentityCacheOptions, IdentityPatch, Keyring, Ledger, LedgerError,
    LedgerOptions, NewIdentity, Pepper, RateTreeCache, ScopeKind, WatchOptions, WatchStatus,
};
use rate_plan::RateTree;
use secrecy::SecretString;
use spend_queue::ScopeRef;

use crate::support::{Fixture, commit_time, connect, scope};

/// So long that only a notification can explain what is seen before.
const NEVER: Duration = Duration::from_secs(3600);
/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

struct Gateway {
    trees: RateTreeCache,
    identities: IdentityCache,
    watch: ConfigWatch,
}

impl Gateway {
    /// One that is listening.
    async fn start(ledger: &Ledger, interval: Duration) -> Self {
        let trees = RateTreeCache::new(ledger.clone(), 100);
        let keyring = Keyring::new(ledger.clone(), Pepper::new(vec![7; 32]).unwrap());
        let options = IdentityCacheOptions { max_age: NEVER, ..IdentityCacheOptions::default() };
        let identities = IdentityCache::new(keyring, options);
        let options = WatchOptions { interval };
        let watch = ConfigWatch::start(ledger.clone(), options, trees.clone(), identities.clone());
        let gateway = Self { trees, identities, watch };
        gateway.until("listening", |status| status.listening).await;
        gateway
    }

    async fn until(&self, what: &str, reached: impl FnMut(&WatchStatus) -> bool) {
        let mut status = self.watch.subscribe();
        match tokio::time::timeout(PATIENCE, status.wait_for(reached)).await {
            Ok(Ok(_)) => {}
            _ => panic!("never {what}: {:?}", self.watch.status()),
        }
    }

    /// Waits for a value in the cache, without asking the database.
    async fn until_rpm(&self, root: &ScopeRef, id: &str, rpm: u64) {
        let started = Instant::now();
        while self.trees.cached(root).and_then(|tree| rpm_of(&tree, id)) != Some(rpm) {
            assert!(started.elapsed() < PATIENCE, "{rpm} never seen: {:?}", self.watch.status());
            tokio::task::yield_now().await;
        }
    }

    async fn key_of(&self, secret: &SecretString) -> Result<String, LedgerError> {
        self.identities.authenticate(secret, commit_time()).await.map(|it| it.key_id().to_owned())
    }
}

fn rpm_of(tree: &RateTree, team: &str) -> Option<u64> {
    tree.node(tree.find("team", team)?)?.limits.rpm
}

fn rpm(limit: u64) -> IdentityPatch {
    IdentityPatch::new().set_rpm(limit)
}

async fn organization(ledger: &Ledger, id: &str) -> ScopeRef {
    let rows =
        [NewIdentity::organization(id, ""), NewIdentity::team(format!("{id}-t"), "").of_organization(id)];
    ledger.create_all(&rows).await.unwrap();
    scope(&format!("organization/{id}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_seen_within_milliseconds_of_its_commit() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let gateway = Gateway::start(&fixture.ledger, NEVER).await;
    gateway.trees.get(&root).await.unwrap();
    let mut times = Vec::new();
    for limit in 1..=50 {
        fixture.ledger.update(ScopeKind::Team, "o-t", &rpm(limit)).await.unwrap();
        let committed = Instant::now();
        gateway.until_rpm(&root, "o-t", limit).await;
        times.push(committed.elapsed());
    }
    times.sort_unstable();
    println!("commit to visible: median {:?}, worst {:?} of {}", times[25], times[49], times.len());
    assert!(times[49] < Duration::from_secs(5), "{times:?}");
}

#[tokio::test]
async fn a_tree_that_was_read_costs_no_query() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let trees = RateTreeCache::new(fixture.ledger.clone(), 10);
    assert!(trees.cached(&root).is_none());
    let first = trees.get(&root).await.unwrap();
    fixture.ledger.close().await;
    assert!(Arc::ptr_eq(&first, &trees.get(&root).await.unwrap()));
    assert!(Arc::ptr_eq(&first, &trees.cached(&root).unwrap()));
    assert!(trees.get(&scope("organization/other")).await.is_err());
}

#[tokio::test]
async fn a_key_that_is_younger_than_the_tree_has_a_plan_and_one_that_moved_has_none() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let keyring = Keyring::new(fixture.ledger.clone(), Pepper::new(vec![7; 32]).unwrap());
    let trees = RateTreeCache::new(fixture.ledger.clone(), 10);
    assert_eq!(trees.get(&root).await.unwrap().find("key", "k"), None);
    let key = NewIdentity::key("k", "").of_organization("o").of_team("o-t");
    let secret = keyring.create_key(&key).await.unwrap().into();
    let identity = keyring.authenticate(&secret, commit_time()).await.unwrap();
    let plan = trees.plan(&identity).await.unwrap();
    let kinds = plan.path().as_slice().iter().map(|&node| plan.tree().nodes()[node].scope.kind());
    assert_eq!(kinds.collect::<Vec<_>>(), ["key", "team", "organization"]);

    let other = RateTreeCache::new(fixture.ledger.clone(), 10);
    fixture.run("delete from api_keys").await;
    let error = other.plan(&identity).await.unwrap_err();
    assert!(matches!(error, LedgerError::NotFound { kind: ScopeKind::Key, .. }), "{error}");
}

#[tokio::test]
async fn nothing_is_kept_of_roots_that_do_not_exist() {
    let fixture = Fixture::new().await;
    let trees = RateTreeCache::new(fixture.ledger.clone(), 10);
    for root in ["organization/none", "user/none", "team/none", "anything/none"] {
        let error = trees.get(&scope(root)).await.unwrap_err();
        assert!(matches!(error, LedgerError::NotFound { .. }), "{root}: {error}");
    }
    assert!(trees.is_empty());
    fixture.ledger.create(&NewIdentity::user("solo", "")).await.unwrap();
    assert_eq!(trees.get(&scope("user/solo")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn without_notifications_a_change_is_seen_at_the_next_comparison() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let interval = Duration::from_millis(200);
    let gateway = Gateway::start(&fixture.ledger, interval).await;
    gateway.trees.get(&root).await.unwrap();
    let before = gateway.watch.status().notifications;
    // A replica's role runs no triggers, so that nobody is told.
    fixture
        .run(
            "begin; set local session_replication_role = replica; update teams set rpm_limit = 7; \
             update config_versions set version = version + 1; commit",
        )
        .await;
    let committed = Instant::now();
    gateway.until_rpm(&root, "o-t", 7).await;
    println!("without notification: visible after {:?}, interval {interval:?}", committed.elapsed());
    assert!(committed.elapsed() < interval * 10, "{:?}", committed.elapsed());
    assert_eq!(gateway.watch.status().notifications, before);
}

#[tokio::test]
async fn a_listening_connection_that_dies_is_replaced_and_nothing_is_missed() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let gateway = Gateway::start(&fixture.ledger, NEVER).await;
    gateway.trees.get(&root).await.unwrap();
    for round in 1..=3 {
        // The change is made in the same statement that ends the listener: nobody can hear of it.
        let killed = format!(
            "update teams set rpm_limit = {round}; select pg_terminate_backend(pid) from pg_stat_activity \
             where datname = current_database() and query like 'LISTEN%'"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(killed)).execute(&fixture.sql).await.unwrap();
        gateway.until_rpm(&root, "o-t", round).await;
        gateway.until("listening again", |status| status.listens == round + 1).await;
    }
    fixture.ledger.update(ScopeKind::Team, "o-t", &rpm(99)).await.unwrap();
    gateway.until_rpm(&root, "o-t", 99).await;
}

#[tokio::test]
async fn while_the_server_is_down_gateways_go_on_and_staleness_grows() {
    let mut server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let database = server.database("watch").unwrap();
    let options = LedgerOptions { acquire_timeout: Duration::from_millis(300), ..LedgerOptions::default() };
    let ledger = connect(&database, options).await;
    ledger.migrate().await.unwrap();
    let root = organization(&ledger, "o").await;
    let keyring = Keyring::new(ledger.clone(), Pepper::new(vec![7; 32]).unwrap());
    let secret = keyring.create_key(&NewIdentity::key("k", "").of_organization("o")).await.unwrap();
    let secret: SecretString = secret.into();
    let gateway = Gateway::start(&ledger, Duration::from_millis(100)).await;
    gateway.trees.get(&root).await.unwrap();
    assert_eq!(gateway.key_of(&secret).await.unwrap(), "k");

    server.kill();
    let failures = gateway.watch.status().failures;
    gateway.until("failing", |status| status.failures > failures + 2 && !status.listening).await;
    let stale = gateway.watch.staleness();
    assert!(gateway.trees.cached(&root).is_some());
    assert_eq!(gateway.key_of(&secret).await.unwrap(), "k");

    server.start_again().unwrap();
    let confirmed = gateway.watch.status().last_confirmed;
    let back = |status: &WatchStatus| status.listening && status.last_confirmed > confirmed;
    gateway.until("back", back).await;
    ledger.update(ScopeKind::Team, "o-t", &rpm(5)).await.unwrap();
    gateway.until_rpm(&root, "o-t", 5).await;
    println!("down: staleness grew to {stale:?}; back: {:?}", gateway.watch.staleness());
    assert!(stale > Duration::from_millis(100), "{stale:?}");
    ledger.close().await;
}

#[tokio::test]
async fn a_change_drops_the_identities_that_it_can_concern() {
    let fixture = Fixture::new().await;
    for id in ["o", "p"] {
        organization(&fixture.ledger, id).await;
    }
    let keyring = fixture.keyring();
    let mut secrets: Vec<SecretString> = Vec::new();
    for (key, o) in [("o-1", "o"), ("o-2", "o"), ("p-1", "p")] {
        let key = NewIdentity::key(key, "").of_organization(o).of_team(format!("{o}-t"));
        secrets.push(keyring.create_key(&key).await.unwrap().into());
    }
    let gateway = Gateway::start(&fixture.ledger, NEVER).await;
    let fill = async || {
        for secret in &secrets {
            gateway.key_of(secret).await.unwrap();
        }
        assert_eq!(gateway.identities.len(), 3);
    };
    let heard = async |more: u64| {
        let before = gateway.watch.status().notifications;
        gateway.until("heard of", |status| status.notifications >= before + more).await;
    };
    fill().await;
    let block = IdentityPatch::new().set_blocked(true);
    let (changed, ()) = tokio::join!(fixture.ledger.update(ScopeKind::Key, "o-1", &block), heard(1));
    changed.unwrap();
    assert_eq!(gateway.identities.len(), 2, "one key");
    let found = gateway.identities.authenticate(&secrets[0], commit_time()).await.unwrap();
    assert_eq!(found.blocked().count(), 1);
    fill().await;
    let (changed, ()) = tokio::join!(fixture.ledger.update(ScopeKind::Team, "o-t", &block), heard(1));
    changed.unwrap();
    assert_eq!(gateway.identities.len(), 1, "all of one organization");
    fill().await;
    let new = NewIdentity::key("o-3", "").of_organization("o");
    let (created, ()) = tokio::join!(fixture.ledger.create(&new), heard(1));
    created.unwrap();
    assert_eq!(gateway.identities.len(), 3, "a new key concerns no other");
    let (rotated, ()) = tokio::join!(keyring.rotate_key("p-1", None), heard(1));
    rotated.unwrap();
    let old = gateway.key_of(&secrets[2]).await;
    assert!(matches!(old, Err(LedgerError::NotAuthenticated)), "{old:?}");
}

#[tokio::test]
async fn equal_notifications_of_one_transaction_are_sent_once() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let gateway = Gateway::start(&fixture.ledger, NEVER).await;
    gateway.trees.get(&root).await.unwrap();
    let before = gateway.watch.status().notifications;
    let rows: Vec<_> = (0..500)
        .flat_map(|n| {
            let team = format!("n{n}");
            [
                NewIdentity::key(format!("k{n}"), "").of_organization("o").of_team(&team),
                NewIdentity::team(team, "").of_organization("o"),
            ]
        })
        .collect();
    fixture.ledger.create_all(&rows).await.unwrap();
    fixture.ledger.update(ScopeKind::Team, "o-t", &rpm(3)).await.unwrap();
    gateway.until_rpm(&root, "o-t", 3).await;
    gateway.until("heard of", |status| status.notifications >= before + 2).await;
    assert_eq!(gateway.watch.status().notifications, before + 2, "1,000 new rows, then one change");
    assert_eq!(gateway.trees.cached(&root).unwrap().len(), 1002);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_while_a_tree_is_read_is_not_lost() {
    let fixture = Fixture::new().await;
    let gateway = Gateway::start(&fixture.ledger, NEVER).await;
    for round in 0..30 {
        let id = format!("o{round}");
        let root = organization(&fixture.ledger, &id).await;
        let team = format!("{id}-t");
        let patch = rpm(9);
        let (read, changed) =
            tokio::join!(gateway.trees.get(&root), fixture.ledger.update(ScopeKind::Team, &team, &patch));
        read.unwrap();
        changed.unwrap();
        gateway.until_rpm(&root, &team, 9).await;
    }
}

#[tokio::test]
async fn noise_on_the_channel_changes_nothing() {
    let fixture = Fixture::new().await;
    let root = organization(&fixture.ledger, "o").await;
    let gateway = Gateway::start(&fixture.ledger, NEVER).await;
    let tree = gateway.trees.get(&root).await.unwrap();
    fixture.run("select pg_notify('iam_ledger_config', x) from unnest(array['', '{}', 'noise']) x").await;
    let before = gateway.watch.status().notifications;
    fixture.run("update teams set name = 'other'").await;
    gateway.until("heard of", |status| status.notifications > before).await;
    assert!(Arc::ptr_eq(&tree, &gateway.trees.cached(&root).unwrap()), "the same limits keep the same tree");
}
