//! The roles of `docs/security.md`: what each can do, and what it cannot.

use devstack::{Database, Durability, PostgresServer};
use iam_ledger::{DeadLetterPage, Ledger, LedgerOptions, Replayed};
use spend_queue::Severity;
use sqlx::postgres::PgPool;
use url::Url;

use crate::support::{batch, commit_time, connect, entries, event, secret};

const PAGE: &str = include_str!("../../../../docs/security.md");

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
        for role in ["flusher", "gateway", "auditor"] {
            let set = format!("alter role tollgate_{role} password 'p'");
            sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&sql).await.unwrap();
        }
        Self { database, owner, _server: server }
    }

    fn url(&self, role: &str) -> String {
        let mut url = Url::parse(self.database.url()).unwrap();
        url.set_username(&format!("tollgate_{role}")).unwrap();
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
    let good = entries(&[event("r1", &["team/t"], Some("0.5")), event("r2", &["team/t"], Some("0.5"))]);
    assert_eq!(flusher.commit(&batch(&good)).await.unwrap().new, 2);
    assert_eq!(flusher.commit(&batch(&good)).await.unwrap().duplicates, 2);
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
                "select secret_hmac from api_keys",
                "update organizations set budget_usd = 1",
                "create table mine ()",
                "drop table flush_log",
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
    let gateway = guarded.ledger("gateway").await;
    gateway.require_migrated().await.unwrap();
    gateway.spend_by_kind().await.unwrap();
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
        "select secret_hmac from api_keys",
        "create table mine ()",
    ];
    guarded.denied("gateway", &writes).await;
    let hidden =
        ["select * from usage_events", "select * from settled_requests", "select * from dead_letters"];
    guarded.denied("gateway", &hidden).await;
    assert_eq!(auditor.dead_letters(DeadLetterPage::default()).await.unwrap(), []);
    guarded.denied("auditor", &writes).await;
}
