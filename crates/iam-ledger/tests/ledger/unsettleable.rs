//! An entry that can be read and not stored keeps itself from being settled, and no other.

use spend_queue::{Chain, Entry, Index, Millis, Peeked, Shard, SpendEvent, Usd};

use crate::support::{Fixture, commit_time, epoch, event, scope, shard, usd};
use iam_ledger::{Batch, DeadLetterKind, DeadLetterPage, Replayed};

/// A hundred entries with a sound chain, of which the third has a changed body.
fn hundred(part: &str, other: &str) -> Peeked {
    let (mut chain, queued) = (Chain::GENESIS, Millis::of(commit_time()));
    let raw = (1..=100).map(|seq| {
        let event = SpendEvent {
            user_id: Some("u".into()),
            status: "ok".into(),
            ..event(&format!("r-{seq}"), &["organization/o"], Some("1"))
        };
        let mut body = event.encode(commit_time()).unwrap().body().to_owned();
        if seq == 3 {
            assert!(body.contains(part), "{part} in {body}");
            body = body.replacen(part, other, 1);
        }
        chain = chain.next(seq, queued, &body);
        format!("{{\"seq\":{seq},\"chain\":\"{chain}\",\"queued\":{queued},{body}").into_bytes()
    });
    Peeked::read(shard(), raw, 100, Index::Proven)
}

#[tokio::test]
async fn of_a_hundred_entries_the_one_that_cannot_be_stored_is_a_dead_letter_and_the_others_are_settled() {
    let long = "x".repeat(129);
    let changes = [
        (r#""model":"small""#, r#""model":"a\u0000b""#.to_owned(), "model has a control character"),
        (r#""user_id":"u""#, r#""user_id":"\u0000""#.into(), "user_id has a control character"),
        (r#""status":"ok""#, r#""status":"\u0000""#.into(), "status has a control character"),
        (r#""status":"ok""#, r#""status":"\ud800""#.into(), "unreadable event"),
        (r#""request_id":"r-3""#, r#""request_id":"\u0000""#.into(), "request_id has a control character"),
        (r#""request_id":"r-3""#, format!(r#""request_id":"{long}""#), "request_id has 129 bytes"),
        (
            r#""prompt_tokens":1"#,
            r#""prompt_tokens":99999999999999"#.into(),
            "prompt_tokens is 99999999999999",
        ),
        (r#""prompt_tokens":1"#, r#""prompt_tokens":-1"#.into(), "unreadable event"),
        (r#""cache_hit":false"#, r#""cache_hit":false,"metadata":{"k":"\u0000"}"#.into(), "NUL"),
        (r#""cache_hit":false"#, r#""cache_hit":false,"end":"tomorrow""#.into(), "unreadable event"),
    ];
    for (part, other, reason) in changes {
        let fixture = Fixture::new().await;
        let peeked = hundred(part, &other);
        assert_eq!((peeked.entries.len(), &peeked.stop), (100, &None), "{other}");
        let batch =
            Batch { epoch: epoch(), shard: shard(), entries: &peeked.entries, committed_at: commit_time() };
        for settled in [99, 0] {
            // Once more, as after a lost acknowledgement.
            let committed = fixture.ledger.commit(&batch).await.unwrap();
            assert_eq!((committed.new, committed.refused), (settled, 1), "{other}");
        }
        assert_eq!(fixture.spent(&scope("organization/o")).await, usd("99"));
        let letters = fixture.ledger.dead_letters(DeadLetterPage::default()).await.unwrap();
        let [letter] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!((letter.kind, letter.seq), (DeadLetterKind::Refused, Some(3)));
        assert!(letter.reason.contains(reason), "{other}: {}", letter.reason);
        let kept = fixture.ledger.dead_letter(letter.id).await.unwrap();
        assert_eq!(kept.raw, peeked.entries[2].raw());
        let replayed = fixture.ledger.replay(letter.id, commit_time()).await.unwrap();
        assert!(matches!(replayed, Replayed::Unreadable { .. }), "{replayed:?}");
        let receipt = peeked.receipt().unwrap();
        assert_eq!(
            receipt.charges[&scope("organization/o")].amount,
            usd("100"),
            "the queue lets go of all of it"
        );
    }
}

#[tokio::test]
async fn so_it_is_with_the_entries_of_an_older_deployment() {
    let old = |n: usize, user: &str, model: &str| {
        let text = format!(
            r#"{{"request_id":"r-{n}","model":"{model}","api_key":"0ff","key_id":"k","prompt_tokens":3,"completion_tokens":4,"spend":0.5,"user_id":"{user}","org_id":"o"}}"#
        );
        text.into_bytes()
    };
    for (user, model) in [("u\\u0000", "m"), ("u", "\\u0000"), ("u", "\\ud800")] {
        let fixture = Fixture::new().await;
        let raw = (0..100).map(|n| if n == 2 { old(n, user, model) } else { old(n, "u", "m") });
        let peeked = Peeked::read(Shard::OLDER, raw, 100, Index::Proven);
        assert_eq!((peeked.entries.len(), &peeked.stop), (100, &None));
        let batch = Batch {
            epoch: epoch(),
            shard: Shard::OLDER,
            entries: &peeked.entries,
            committed_at: commit_time(),
        };
        let committed = fixture.ledger.commit(&batch).await.unwrap();
        assert_eq!((committed.new, committed.refused), (99, 1));
        assert_eq!(fixture.spent(&scope("organization/o")).await, usd("49.5"));
        let charges = peeked.receipt().unwrap().charges;
        let of_users: Usd = Usd::checked_sum(
            charges.iter().filter(|(scope, _)| scope.kind() == "user").map(|(_, charge)| charge.amount),
        )
        .unwrap();
        assert_eq!((charges[&scope("organization/o")].amount, of_users), (usd("50"), usd("50")));
    }
}

#[tokio::test]
async fn a_batch_of_nothing_but_such_entries_commits() {
    let fixture = Fixture::new().await;
    let peeked = hundred(r#""model":"small""#, r#""model":"""#);
    let alone: Vec<Entry> = peeked.entries[2..3].to_vec();
    let batch = Batch { epoch: epoch(), shard: shard(), entries: &alone, committed_at: commit_time() };
    let committed = fixture.ledger.commit(&batch).await.unwrap();
    assert_eq!((committed.new, committed.refused), (0, 1));
    assert_eq!(fixture.number("select count(*) from flush_log").await, 1);
}
