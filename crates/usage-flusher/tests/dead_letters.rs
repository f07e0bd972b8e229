//! The command `dead-letters` with the real binary: list, show, replay.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::process::Output;

use devstack::TestDatabase;
use iam_ledger::{Batch, Ledger, LedgerOptions};
use serde_json::Value;
use spend_queue::{Chain, Entry, Epoch, ShardCount, Usd};
use support::{binary, event, now, shard, team};

/// A ledger that refuses the model `m`, as every event of these tests has it, for one of two ids.
struct Refusing {
    database: TestDatabase,
    ledger: Ledger,
}

fn entry(id: &str, picos: i64, seq: u64) -> Entry {
    let encoded = event(id, picos);
    Entry::decode(encoded.entry(seq, encoded.chain_after(Chain::GENESIS, seq)).into_bytes()).unwrap()
}

impl Refusing {
    /// With a settled event, a conflict with it (letter 1 or 2), and a refused event (the other).
    async fn start() -> Self {
        let database = devstack::postgres().unwrap().database("letters").unwrap();
        let ledger =
            Ledger::connect(&database.url().to_owned().into(), LedgerOptions::default()).await.unwrap();
        ledger.migrate().await.unwrap();
        database
            .execute("refuse", "alter table usage_events add constraint no_bad check (request_id <> 'bad')")
            .unwrap();
        let entries = [entry("good", 5, 1), entry("good", 6, 2), entry("bad", 7, 3)];
        let epoch = Epoch::new("letters", ShardCount::ONE);
        let batch = Batch { epoch: &epoch, shard: shard(), entries: &entries, committed_at: now() };
        let committed = ledger.commit(&batch).await.unwrap();
        assert_eq!((committed.new, committed.conflicts.len(), committed.refused), (1, 1, 1));
        Self { database, ledger }
    }

    fn mend(&self) {
        self.database.execute("mend", "alter table usage_events drop constraint no_bad").unwrap();
    }

    fn run(&self, words: &[&str]) -> (Output, String) {
        let mut command = binary();
        command.arg("dead-letters").args(words).env("TALLYWEIR_DATABASE_URL", self.database.url());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (output, text)
    }

    /// The one object that `--json` prints, and the exit code.
    fn json(&self, words: &[&str]) -> (Value, i32) {
        let (output, text) = self.run(&[words, &["--json"]].concat());
        assert_eq!(text.lines().count(), 1, "{words:?}: {text} {}", String::from_utf8_lossy(&output.stderr));
        (serde_json::from_str(&text).unwrap(), output.status.code().unwrap())
    }

    /// The number of the only letter of a kind.
    fn id(&self, kind: &str) -> String {
        let (list, code) = self.json(&["list", "--all"]);
        assert_eq!(code, 0);
        let letters = list["letters"].as_array().unwrap();
        letters.iter().find(|letter| letter["kind"] == kind).unwrap()["id"].to_string()
    }

    async fn spent(&self) -> Usd {
        let periods = self.ledger.spend_of(&team()).await.unwrap();
        Usd::checked_sum(periods.iter().map(|period| period.spend)).unwrap()
    }
}

#[tokio::test]
async fn letters_are_listed_a_page_at_a_time_and_shown_whole() {
    let refusing = Refusing::start().await;
    let (table, text) = refusing.run(&["list"]);
    assert!(table.status.success(), "{text}");
    assert!(text.contains("conflict") && text.contains("no_bad") && text.contains("bad"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");

    let (first, _) = refusing.json(&["list", "--limit", "1"]);
    let next = first["next"].to_string();
    let (second, _) = refusing.json(&["list", "--limit", "1", "--after", &next]);
    assert_ne!(first["letters"][0]["id"], second["letters"][0]["id"]);
    let (end, _) = refusing.json(&["list", "--after", &second["letters"][0]["id"].to_string()]);
    assert_eq!((end["letters"].as_array().unwrap().len(), &end["next"]), (0, &Value::Null));

    let id = refusing.id("refused");
    let (shown, _) = refusing.json(&["show", &id]);
    assert_eq!(
        (&shown["request_id"], &shown["seq"], &shown["open"]),
        (&"bad".into(), &3.into(), &true.into())
    );
    assert_eq!(shown["raw"].as_str().unwrap().as_bytes(), entry("bad", 7, 3).raw());
    let (_, text) = refusing.run(&["show", &id]);
    assert!(
        text.contains("reason    storing events: new row") && text.contains("\"spend_pusd\":7"),
        "{text}"
    );
}

#[tokio::test]
async fn nothing_changes_without_yes_and_a_mended_letter_is_settled_with_it() {
    let refusing = Refusing::start().await;
    let id = refusing.id("refused");
    let (forecast, code) = refusing.json(&["replay", &id]);
    assert_eq!(
        (&forecast["attempts"][0]["outcome"], &forecast["changed"], code),
        (&"would_replay".into(), &false.into(), 0)
    );
    let (_, text) = refusing.run(&["replay", &id]);
    assert!(text.contains("nothing was changed; add --yes"), "{text}");
    assert!(refusing.ledger.dead_letter(id.parse().unwrap()).await.unwrap().letter.replay.is_none());

    let (again, code) = refusing.json(&["replay", &id, "--yes"]);
    assert_eq!((&again["attempts"][0]["outcome"], code), (&"refused".into(), 1));
    assert!(again["attempts"][0]["detail"].as_str().unwrap().contains("no_bad"), "{again}");

    refusing.mend();
    let (done, code) = refusing.json(&["replay", &id, &id, "--yes"]);
    assert_eq!((done["attempts"].as_array().unwrap().len(), code), (1, 0), "{done}");
    assert_eq!(done["attempts"][0]["outcome"], "settled");
    assert_eq!(refusing.spent().await, Usd::from_picos(12));
    let (done, code) = refusing.json(&["replay", &id, "--yes"]);
    assert_eq!((&done["attempts"][0]["outcome"], code), (&"already_done".into(), 0));
    assert_eq!(refusing.spent().await, Usd::from_picos(12));
    let (open, _) = refusing.json(&["list"]);
    assert_eq!(open["letters"].as_array().unwrap().len(), 1, "the conflict is left");
}

#[tokio::test]
async fn a_conflict_is_never_replayed_and_says_why_and_a_missing_letter_stops_nobody() {
    let refusing = Refusing::start().await;
    refusing.mend();
    let (conflict, refused) = (refusing.id("conflict"), refusing.id("refused"));
    for yes in [&["--yes"][..], &[]] {
        let (output, text) = refusing.run(&[&["replay", &*conflict], yes].concat());
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("names another call that is settled"), "{text}");
    }
    let (mixed, code) = refusing.json(&["replay", "999999", &conflict, &refused, "--yes"]);
    let outcomes: Vec<_> =
        mixed["attempts"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!((outcomes, code), (vec!["missing".into(), "not_replayable".into(), "settled".into()], 1));
    assert_eq!(refusing.spent().await, Usd::from_picos(12));
}

#[tokio::test]
async fn a_letter_that_does_not_exist_and_a_database_that_is_not_migrated_are_one_clear_line() {
    let refusing = Refusing::start().await;
    let (output, _) = refusing.run(&["show", "999999"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: there is no dead letter 999999\n");
    let bare = devstack::postgres().unwrap().database("bare").unwrap();
    let output =
        binary().args(["dead-letters", "list"]).env("TALLYWEIR_DATABASE_URL", bare.url()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("usage-flusher migrate") && text.trim_end().lines().count() == 1, "{text}");
}
