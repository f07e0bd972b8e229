//! The roles of `docs/security.md`: what each can do, and what it cannot.

use std::time::Duration;

use chrono::TimeDelta;
use devstack::{Database, Durability, PostgresServer};
use iam_ledger::{
    DeadLetterPage, HoldAnswer, IdentityPatch, Keyring, Ledger, LedgerError, LedgerOptions, NewIdentity,
    Pepper, RateTreeCache, Released, Replayed, ReportFilter, ScopeKind, SpoolAnnouncement,
};
use rate_plan::Limits;
use secrecy::SecretString;
use spend_queue::Severity;
use sqlx::postgres::PgPool;
use url::Url;

use crate::hot::Hot;
use crate::quota::budget;
use crate::support::{batch, commit_time, connect, entries, epoch, event, scope, secret, shard, usd};

const PAGE: &str = include_str!("../../../../docs/security.md");

const TTL: Duration = Duration::from_secs(60);

fn everything() -> ReportFilter {
    ReportFilter { organization_id: None, from: None, to: None, limit: 10 }
}

/// A private server, because roles belong to the server and not to a database.
struct Guarded {
    database: Database,
    owner: Ledger,
    _server: PostgresServer,
}

impl Guarded {
    async fn start() -> Self {
        let server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
        let database = server.database("privilege").unwrap();
        let owner = connect(&database, LedgerOptions::default()).await;
        owner.migrate().await.unwrap();
        let sql = PgPool::connect(database.url()).await.unwrap();
        let blocks: Vec<_> =
            PAGE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert_eq!(blocks.len(), 2);
        for block in blocks {
            sqlx::raw_sql(block).execute(&sql).await.unwrap();
        }
        for role in ["flusher", "gateway", "auditor", "admin"] {
            let set = format!("alter role tallyweir_{role} password 'p'");
            sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&sql).await.unwrap();
        }
        Self { database, owner, _server: server }
    }

    fn url(&self, role: &str) -> String {
        let mut url = Url::parse(self.database.url()).unwrap();
        url.set_username(&format!("tallyweir_{role}")).unwrap();
        url.set_password(Some("p")).unwrap();
        url.into()
    }

    async fn ledger(&self, role: &str) -> Ledger {
        Ledger::connect(&secret(&self.url(role)), LedgerOptions::default()).await.unwrap()
    }

    /// Statements that must be refused for lack of rights (42501) or because the role only reads (25006).
    async fn denied(&self, role: &str, statements: &[&'static str]) {
        let sql = PgPool::connect(&self.url(role)).await.unwrap();
        for statement in statements {
            let error = sqlx::raw_sql(*statement).execute(&sql).await.unwrap_err();
            let code = error.as_database_error().and_then(|error| error.code()).unwrap().into_owned();
            assert!(["42501", "25006"].contains(&&*code), "{role}: {statement}: {error}");
        }
    }
}

#[tokio::test]
async fn a_flusher_settles_and_cannot_rewrite_what_is_settled() {
    let guarded = Guarded::start().await;
    let flusher = guarded.ledger("flusher").await;
    flusher.require_migrated().await.unwrap();
    guarded.owner.create(&NewIdentity::organization("o", "")).await.unwrap();
    let good = entries(&[event("r1", &["team/t"], Some("0.5")), event("r2", &["team/t"], Some("0.5"))]);
    assert_eq!(flusher.commit(&batch(&good)).await.unwrap().new, 2);
    assert_eq!(flusher.commit(&batch(&good)).await.unwrap().duplicates, 2);
    let early = commit_time() - TimeDelta::days(1);
    let old = guarded.owner.hold("old", &scope("organization/o"), usd("1"), TTL, early).await.unwrap();
    assert!(matches!(old, HoldAnswer::Held(_)));
    assert_eq!(flusher.expire_holds(commit_time(), 10).await.unwrap(), 1);
    assert_eq!(flusher.prune_flush_log(epoch(), shard(), commit_time(), 10).await.unwrap(), 0);
    assert_eq!(flusher.usage_by_day(&everything()).await.unwrap().len(), 1);
    let mut bad = entries(&[event("r3", &["team/t"], Some("0.5"))]);
    bad[0].event.status = "\0".into();
    assert_eq!(flusher.commit(&batch(&bad)).await.unwrap().refused, 1);
    let letters = flusher.dead_letters(DeadLetterPage::default()).await.unwrap();
    let replayed = flusher.replay(letters[0].id, commit_time()).await.unwrap();
    assert!(matches!(replayed, Replayed::Settled { .. }), "{replayed:?}");
    let findings = flusher.doctor().await;
    assert!(findings.iter().all(|finding| !finding.what.contains("is not known")), "{findings:#?}");
    guarded
        .denied(
            "flusher",
            &[
                "update settled_requests set payload_check = payload_check",
                "delete from settled_requests",
                "update usage_events set cost_usd = 0",
                "delete from usage_events",
                "truncate usage_daily",
                "delete from scope_spend",
                "delete from holds",
                "insert into holds select * from holds",
                "insert into hold_reservations select * from hold_reservations",
                "select secret_hmac from api_keys",
                "update organizations set budget_usd = 1",
                "create table mine ()",
                "drop table flush_log",
                "update flush_log set last_seq = last_seq + 1",
                "delete from dead_letters",
                "update dead_letters set raw = ''",
                "update dead_letters set kind = 'refused'",
                "update _sqlx_migrations set success = false",
            ],
        )
        .await;
    assert!(guarded.owner.totals().await.unwrap().agree());
}

#[tokio::test]
async fn gateways_and_auditors_read_what_they_need_and_write_nothing() {
    let guarded = Guarded::start().await;
    guarded.owner.commit(&batch(&entries(&[event("r1", &["team/t"], Some("0.5"))]))).await.unwrap();
    let auditor = guarded.ledger("auditor").await;
    assert_eq!(auditor.totals().await.unwrap().settled_requests, 1);
    auditor.audit(epoch(), 10).await.unwrap();
    auditor.open_letters().await.unwrap();
    assert_eq!(auditor.flush_epochs().await.unwrap().len(), 1);
    assert!(!auditor.is_empty().await.unwrap());
    let gateway = guarded.ledger("gateway").await;
    let said = SpoolAnnouncement { instance: "g".into(), events: 1, bytes: 9, oldest: None };
    for _ in 0..2 {
        gateway.announce_spool(&said).await.unwrap();
    }
    assert_eq!(auditor.announced_spools(10).await.unwrap().len(), 1);
    gateway.require_migrated().await.unwrap();
    gateway.spend_by_kind().await.unwrap();
    guarded
        .owner
        .create_all(&[
            NewIdentity::organization("o", "").with_budget(budget("9")),
            NewIdentity::key("k", "").of_organization("o").with_budget(budget("2")),
            NewIdentity::key("l", "").of_organization("o").with_budget(budget("3")),
        ])
        .await
        .unwrap();
    let quota = gateway.quota_path(&scope("key/k"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!((quota.remaining(), quota.levels[1].reserved), (Some(usd("2")), usd("3")));
    let held = gateway.hold("h", &scope("key/k"), usd("1"), TTL, commit_time()).await.unwrap();
    assert!(matches!(held, HoldAnswer::Held(_)));
    assert_eq!(gateway.release("h", commit_time()).await.unwrap(), Released::Now);
    assert_eq!(auditor.hold_of("h").await.unwrap().unwrap().amount, usd("1"));
    auditor.quota_path(&scope("key/k"), &Hot::default(), commit_time()).await.unwrap();
    for ledger in [&auditor, &guarded.owner] {
        ledger.usage_by_model(&everything()).await.unwrap();
        ledger.usage_by_scope(&everything()).await.unwrap();
        ledger.spend_by_period(&everything()).await.unwrap();
        ledger.open_holds(&everything()).await.unwrap();
        ledger.overruns(&everything()).await.unwrap();
    }
    assert!(gateway.doctor().await.iter().all(|finding| finding.check != "postgresql.reachable"));
    assert!(
        auditor
            .doctor()
            .await
            .iter()
            .all(|finding| { finding.severity != Severity::Fatal || finding.check == "postgresql.fsync" })
    );
    let writes = [
        "insert into organizations (id, name) values ('o', 'o')",
        "update scope_spend set spend_usd = 0",
        "delete from usage_daily",
        "delete from holds",
        "select secret_hmac from api_keys",
        "create table mine ()",
    ];
    guarded.denied("gateway", &writes).await;
    guarded
        .denied(
            "gateway",
            &[
                "select * from usage_events",
                "select * from settled_requests",
                "select * from usage_by_day",
                "select * from dead_letters",
            ],
        )
        .await;
    guarded.denied("auditor", &["update holds set amount_usd = 1", "delete from hold_reservations"]).await;
    assert_eq!(auditor.dead_letters(DeadLetterPage::default()).await.unwrap(), []);
    guarded.denied("auditor", &writes).await;
}

#[tokio::test]
async fn an_administrator_writes_identities_and_a_gateway_authenticates_without_reading_hmacs() {
    let guarded = Guarded::start().await;
    let admin = guarded.ledger("admin").await;
    admin.require_migrated().await.unwrap();
    let limits = Limits { rpm: Some(10), tpm: None };
    let rows = [
        NewIdentity::organization("o", "").with_limits(limits),
        NewIdentity::team("t", "").of_organization("o"),
        NewIdentity::user("u", "").of_organization("o").of_team("t"),
    ];
    admin.create_all(&rows).await.unwrap();
    admin.update(ScopeKind::Team, "t", &IdentityPatch::new().set_rpm(10)).await.unwrap();
    let over = admin.update(ScopeKind::Team, "t", &IdentityPatch::new().set_rpm(11)).await;
    assert!(matches!(over, Err(LedgerError::OverAllocated(_))), "{over:?}");
    let keyring = |ledger: &Ledger| Keyring::new(ledger.clone(), Pepper::new(vec![7; 32]).unwrap());
    let key = NewIdentity::key("k", "").of_organization("o").of_user("u");
    keyring(&admin).create_key(&key).await.unwrap();
    let secret: SecretString = keyring(&admin).rotate_key("k", None).await.unwrap().into();

    let gateway = guarded.ledger("gateway").await;
    let found = keyring(&gateway).authenticate(&secret, commit_time()).await.unwrap();
    assert_eq!(found.scopes().len(), 4);
    RateTreeCache::new(gateway.clone(), 1).get(&scope("organization/o")).await.unwrap();
    for role in ["flusher", "auditor"] {
        let error =
            keyring(&guarded.ledger(role).await).authenticate(&secret, commit_time()).await.unwrap_err();
        assert_eq!(error.sqlstate().as_deref(), Some("42501"), "{role}: {error}");
    }
    guarded
        .denied(
            "gateway",
            &[
                "select secret_hmac_previous from api_keys",
                "select id from api_keys",
                "update api_keys set blocked = false",
                "update config_versions set version = 0",
                "delete from config_versions",
            ],
        )
        .await;
    guarded
        .denied(
            "admin",
            &[
                "delete from api_keys",
                "truncate config_versions",
                "update scope_spend set spend_usd = 0",
                "select * from usage_events",
                "insert into settled_requests values ('r', '', now())",
                "create table mine ()",
                "select * from authenticate_key('', now())",
                "alter function authenticate_key(bytea, timestamptz) security invoker",
            ],
        )
        .await;
    // What a caller creates cannot take the place of what the function reads.
    let sql = PgPool::connect(&guarded.url("gateway")).await.unwrap();
    let shadow =
        "create temp table api_keys (id text, secret_hmac bytea); select * from authenticate_key('', now())";
    sqlx::raw_sql(shadow).execute(&sql).await.unwrap();
}
