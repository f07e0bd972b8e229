//! `key` and `budget`.

use iam_ledger::{LedgerError, ScopeKind};
use serde_json::json;

use crate::office::{Office, complaint, json};

async fn office_with_a_key() -> (Office, String) {
    let office = Office::open().await;
    let report = office
        .applied("[[organizations]]\nid = 'o'\nbudget_usd = '10'\n[[keys]]\nid = 'k'\norganization = 'o'\n");
    let secret = report["keys"][0]["secret"].as_str().unwrap().to_owned();
    (office, secret)
}

#[tokio::test]
async fn a_rotated_key_has_another_secret_and_the_old_one_ends_at_once_or_later() {
    let (office, first) = office_with_a_key().await;
    let rotated = json(&office.run(&["key", "rotate", "k", "--grace-seconds", "600", "--json"]));
    let second = rotated["secret"].as_str().unwrap();
    assert!(rotated["old_valid_until"].is_string());
    assert!(office.who(&first).await.is_ok() && office.who(second).await.is_ok());
    let output = office.run(&["key", "rotate", "k"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let third = text.split_whitespace().find(|word| word.starts_with("tw_")).unwrap();
    assert!(!String::from_utf8(output.stderr).unwrap().contains("tw_"));
    assert!(office.who(third).await.is_ok());
    for old in [&*first, second] {
        assert!(matches!(office.who(old).await, Err(LedgerError::NotAuthenticated)));
    }
}

#[tokio::test]
async fn a_blocked_key_is_refused_until_it_is_unblocked() {
    let (office, secret) = office_with_a_key().await;
    for (word, blocked) in [("block", true), ("block", true), ("unblock", false)] {
        assert_eq!(
            json(&office.run(&["key", word, "k", "--json"])),
            json!({ "key": "k", "blocked": blocked })
        );
        assert_eq!(office.record(ScopeKind::Key, "k").await.blocked, blocked);
        assert!(office.who(&secret).await.is_ok(), "it is known all the time");
    }
}

#[tokio::test]
async fn a_budget_is_set_exactly_and_taken_away() {
    let (office, _) = office_with_a_key().await;
    let set = json(&office.run(&["budget", "key/k", "0.000000000001", "--json"]));
    let expected =
        json!({ "scope": "key/k", "budget_usd": "0.000000000001", "was_usd": null, "period": "none" });
    assert_eq!(set, expected);
    let amount = office.record(ScopeKind::Key, "k").await.budget.amount;
    assert_eq!(amount.map(|amount| amount.picos()), Some(1));
    let cleared = office.run(&["budget", "key/k", "none"]);
    let text = String::from_utf8(cleared.stdout).unwrap();
    assert_eq!(text, "updated    key/k: budget_usd 0.000000000001 -> none, period none\n");
    assert_eq!(office.record(ScopeKind::Key, "k").await.budget.amount, None);
}

#[tokio::test]
async fn what_is_not_there_or_too_much_is_one_line() {
    let (office, _) = office_with_a_key().await;
    for (words, message) in [
        (&["key", "rotate", "nobody"][..], "there is no key \"nobody\""),
        (&["key", "block", "nobody"], "there is no key \"nobody\""),
        (&["budget", "team/nobody", "5"], "there is no team \"nobody\""),
        (&["budget", "key/k", "10.000000000001"], "over-allocated: organization \"o\""),
    ] {
        let error = complaint(&office.run(words));
        assert!(error.starts_with(message), "{error}");
    }
    for words in [
        &["budget", "tenant/x", "5"][..],
        &["budget", "key/k", "5 USD"],
        &["budget", "key/k", "-1"],
        &["key", "rotate"],
    ] {
        assert_eq!(office.run(words).status.code().filter(|code| *code != 0), Some(2), "{words:?}");
    }
}
