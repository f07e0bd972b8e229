//! The command `report`: its tables, JSON and CSV, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::process::Output;
use std::time::Duration;

use devstack::TestDatabase;
use iam_ledger::{Batch, Budget, HoldAnswer, Ledger, LedgerOptions, NewIdentity};
use serde_json::Value;
use spend_queue::{Chain, Entry, Epoch, ScopeRef, ShardCount, SpendEvent};
use support::{binary, now, shard};

/// A model whose name needs quotes in CSV, of an organization whose id does.
const MODEL: &str = "large, \"new\"";
const ORGANIZATION: &str = "acme, inc";

fn scope(kind: &str, id: &str) -> ScopeRef {
    ScopeRef::new(kind, id).unwrap()
}

async fn ledger() -> (TestDatabase, Ledger) {
    let database = devstack::postgres().unwrap().database("report").unwrap();
    let ledger = Ledger::connect(&database.url().to_owned().into(), LedgerOptions::default()).await.unwrap();
    ledger.migrate().await.unwrap();
    let budget = Budget { amount: Some("100".parse().unwrap()), ..Budget::default() };
    let organization = NewIdentity::organization(ORGANIZATION, "").with_budget(budget);
    ledger
        .create_all(&[organization, NewIdentity::key("k", "").of_organization(ORGANIZATION)])
        .await
        .unwrap();
    for (id, amount) in [("r-1", "0.000000000001"), ("open", "2.5")] {
        let amount = amount.parse().unwrap();
        let answer =
            ledger.hold(id, &scope("key", "k"), amount, Duration::from_secs(60), now()).await.unwrap();
        assert!(matches!(answer, HoldAnswer::Held(_)));
    }
    let mut chain = Chain::GENESIS;
    let entries: Vec<_> = (1..)
        .zip([("r-1", MODEL, "9007199.000000000001"), ("r-2", "small", "0.0000027")])
        .map(|(seq, (id, model, cost))| {
            let mut event =
                SpendEvent::new(id, model, vec![scope("organization", ORGANIZATION), scope("key", "k")]);
            // More digits than a float has.
            event.cost = Some(cost.parse().unwrap());
            event.organization_id = Some(ORGANIZATION.into());
            event.key_id = Some("k".into());
            event.started_at = Some(now());
            let encoded = event.encode(now()).unwrap();
            chain = encoded.chain_after(chain, seq);
            Entry::decode(encoded.entry(seq, chain).into_bytes()).unwrap()
        })
        .collect();
    ledger
        .commit(&Batch {
            epoch: &Epoch::new("report", ShardCount::ONE),
            shard: shard(),
            entries: &entries,
            committed_at: now(),
        })
        .await
        .unwrap();
    (database, ledger)
}

fn report(database: &TestDatabase, words: &[&str]) -> Output {
    binary().arg("report").args(words).env("TALLYWEIR_DATABASE_URL", database.url()).output().unwrap()
}

fn printed(database: &TestDatabase, words: &[&str]) -> String {
    let output = report(database, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn every_report_is_a_table_json_and_csv_with_the_same_rows_and_exact_amounts() {
    let (database, _ledger) = ledger().await;
    let day = "9007199.000002700001";
    for (by, rows, amount) in [
        ("day", 1, day),
        ("model", 2, "9007199.000000000001"),
        ("scope", 2, day),
        ("period", 2, day),
        ("holds", 1, "2.5"),
        ("overruns", 1, "9007199"),
    ] {
        let json: Value = serde_json::from_str(&printed(&database, &["--by", by, "--json"])).unwrap();
        assert_eq!(json["by"], by);
        let list = json["rows"].as_array().unwrap();
        assert_eq!(list.len(), rows, "{json:#}");
        let first = list[0].as_object().unwrap();
        assert!(first.values().any(|value| value == amount), "{by}: {json:#}");

        let csv = printed(&database, &["--by", by, "--csv"]);
        assert_eq!(csv.matches("\r\n").count(), rows + 1, "{csv}");
        assert!(csv.contains("\"acme, inc\"") && csv.contains(amount), "{csv}");
        let names: Vec<_> = csv.lines().next().unwrap().split(',').collect();
        assert_eq!(names.len(), first.len());
        assert!(names.iter().all(|name| first.contains_key(*name)), "{names:?}");

        let table = printed(&database, &["--by", by]);
        assert_eq!(table.lines().count(), rows + 1, "{table}");
        assert!(table.contains(amount) && !table.contains('█') && !table.contains('\u{1b}'), "{table}");
    }
    assert!(printed(&database, &["--by=model", "--csv"]).contains("\"large, \"\"new\"\"\""));
}

#[tokio::test]
async fn days_organization_and_limit_choose_the_rows() {
    let (database, _ledger) = ledger().await;
    for (words, rows) in [
        (&["--from", "2026-03-01", "--to", "2026-03-01"][..], 1),
        (&["--from=2026-03-02"], 0),
        (&["--to=2026-02-28"], 0),
        (&["--organization", ORGANIZATION], 1),
        (&["--organization="], 0),
        (&["--organization=other"], 0),
        (&["--by=model", "--limit=1"], 1),
    ] {
        let json: Value = serde_json::from_str(&printed(&database, &[words, &["--json"]].concat())).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), rows, "{words:?}");
    }
    assert_eq!(printed(&database, &["--from=2026-03-02"]), "no rows\n");
}

#[test]
fn each_bad_flag_is_one_line_with_flag_value_and_what_is_accepted() {
    let long = "x".repeat(129);
    let cases = [
        ("--by", &["", "year", "Day", "day,model", "-1"][..], "day, model, scope, period, holds or overruns"),
        (
            "--from",
            &[
                "",
                "x",
                "2026-3-1",
                "2026-02-30",
                "2026-13-01",
                "20260301",
                "-2026-03-01",
                "2026-03-01T00:00:00Z",
                "+2026-03-01",
                "1e9",
            ],
            "YYYY-MM-DD",
        ),
        ("--to", &["", "today", "2026-04-31", "0000-00-00"], "YYYY-MM-DD"),
        ("--limit", &["", "0", "-1", "100001", "1.5", "1e3", "ten", "99999999999999999999"], "1 to 100000"),
        ("--organization", &["a\nb", &long], "at most 128 bytes"),
    ];
    let mut tried = 0;
    let mut refused = |words: &[&str], expected: &[&str]| {
        let output = binary()
            .arg("report")
            .args(words)
            .env("TALLYWEIR_DATABASE_URL", "postgres://u:canary-password@127.0.0.1:1/d")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
        assert!(text.starts_with("error: ") && !text.contains("canary"), "{text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{words:?}: {text}");
        tried += 1;
    };
    for (flag, values, accepted) in cases {
        for value in values {
            refused(&[&format!("{flag}={value}")], &[flag, accepted]);
        }
    }
    refused(&["--from=2026-03-02", "--to=2026-03-01"], &["--to 2026-03-01", "--from 2026-03-02"]);
    refused(&["--json", "--csv"], &["--json", "--csv"]);
    refused(&[], &["cannot connect"]);
    println!("{tried} command lines refused");
}
