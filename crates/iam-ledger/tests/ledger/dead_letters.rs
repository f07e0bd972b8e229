//! Dead letters: recorded with the batch, read a page at a time, replayed once.

use chrono::{DateTime, Utc};
use iam_ledger::{DeadLetter, DeadLetterKind, DeadLetterPage, LedgerError, Replay, ReplayOutcome, Replayed};
use spend_queue::{SpendEvent, Usd};

use crate::support::{Fixture, at, batch, commit_time, entries, event, scope, usd};

const ALL: DeadLetterPage = DeadLetterPage { after: 0, limit: 1000, open_only: false };

fn later() -> DateTime<Utc> {
    at("2026-04-02T00:00:00Z")
}

/// Makes PostgreSQL refuse every event of the model `odd`, until [`mend`].
async fn break_model(fixture: &Fixture) {
    fixture.run("alter table usage_events add constraint no_odd_model check (model <> 'odd')").await;
}

async fn mend(fixture: &Fixture) {
    fixture.run("alter table usage_events drop constraint no_odd_model").await;
}

fn odd(id: &str) -> SpendEvent {
    SpendEvent { model: "odd".into(), ..event(id, &["team/a"], Some("1")) }
}

async fn all(fixture: &Fixture) -> Vec<DeadLetter> {
    fixture.ledger.dead_letters(ALL).await.unwrap()
}

#[tokio::test]
async fn a_conflict_is_a_letter_of_the_same_transaction_and_can_never_be_replayed() {
    let fixture = Fixture::new().await;
    let first = event("r", &["team/a"], Some("1"));
    let other = event("r", &["team/a"], Some("2"));
    let both = entries(&[first, other]);
    for _ in 0..2 {
        assert_eq!(fixture.commit(&both).await.conflicts, ["r"]);
    }
    let letters = all(&fixture).await;
    let [letter] = &*letters else { panic!("{letters:#?}") };
    assert_eq!((letter.kind, letter.seq, letter.shard), (DeadLetterKind::Conflict, Some(2), 0));
    assert_eq!((letter.request_id.as_deref(), letter.recorded_at), (Some("r"), commit_time()));
    assert_eq!(letter.reason, "the request id was settled with another payload, which stays");
    let content = fixture.ledger.dead_letter(letter.id).await.unwrap();
    assert_eq!((&content.letter, &*content.raw), (letter, both[1].raw()));
    assert_eq!(letter.bytes, both[1].raw().len() as u64);
    assert!(!format!("{content:?}").contains("raw"), "the entry is not for logs");
    assert_eq!(fixture.ledger.replay(letter.id, later()).await.unwrap(), Replayed::NotReplayable);
    assert_eq!(all(&fixture).await, letters);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

#[tokio::test]
async fn a_refused_letter_is_replayed_once_when_its_cause_is_mended() {
    let fixture = Fixture::new().await;
    break_model(&fixture).await;
    let batch = entries(&[event("good", &["team/a"], Some("1")), odd("bad")]);
    assert_eq!(fixture.commit(&batch).await.refused, 1);
    let id = all(&fixture).await[0].id;
    let replayed = fixture.ledger.replay(id, later()).await.unwrap();
    let Replayed::Refused { reason } = replayed else { panic!("{replayed:?}") };
    assert!(reason.contains("no_odd_model") && reason.contains("23514"), "{reason}");
    let open = all(&fixture).await.remove(0);
    assert_eq!(open.replay, Some(Replay { at: later(), outcome: ReplayOutcome::Refused }));
    assert!(open.is_open());

    mend(&fixture).await;
    assert_eq!(fixture.ledger.replay(id, later()).await.unwrap(), Replayed::Settled { cost: usd("1") });
    let done = Replay { at: later(), outcome: ReplayOutcome::Settled };
    assert_eq!(fixture.ledger.replay(id, later()).await.unwrap(), Replayed::AlreadyDone(done));
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("2"));
    assert!(fixture.ledger.totals().await.unwrap().agree());
    // Done with: no longer among the open ones. A replay is no batch of the queue.
    assert_eq!(fixture.ledger.dead_letters(DeadLetterPage::default()).await.unwrap(), []);
    assert_eq!(fixture.number("select count(*) from flush_log").await, 1);
    // The queue brings it once more: it is settled, as any other.
    assert_eq!(fixture.commit(&batch).await.duplicates, 2);
}

#[tokio::test]
async fn a_replay_of_what_was_settled_meanwhile_changes_no_sum() {
    let fixture = Fixture::new().await;
    break_model(&fixture).await;
    let twice = entries(&[odd("same"), odd("other")]);
    assert_eq!(fixture.commit(&twice).await.refused, 2);
    mend(&fixture).await;
    // The batch comes again after a lost acknowledgement; and somebody uses the other id for another call.
    fixture.commit(&twice[..1]).await;
    fixture.commit(&entries(&[event("other", &["team/a"], Some("3"))])).await;
    let letters = all(&fixture).await;
    // Those of one batch are numbered in no particular order.
    let id = |seq| letters.iter().find(|letter| letter.seq == Some(seq)).unwrap().id;
    assert_eq!(fixture.ledger.replay(id(1), later()).await.unwrap(), Replayed::Duplicate);
    assert_eq!(fixture.ledger.replay(id(2), later()).await.unwrap(), Replayed::Conflict);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("4"));
    let kinds: Vec<_> = all(&fixture).await.iter().map(|letter| (letter.kind, letter.is_open())).collect();
    let (refused, conflict) = (DeadLetterKind::Refused, DeadLetterKind::Conflict);
    assert_eq!(kinds, [(refused, false), (refused, false), (conflict, true)]);
}

#[tokio::test]
async fn an_untimed_event_that_is_replayed_late_stays_in_the_day_in_which_it_was_first_tried() {
    let fixture = Fixture::new().await;
    break_model(&fixture).await;
    fixture.commit(&entries(&[SpendEvent { started_at: None, ..odd("r") }])).await;
    mend(&fixture).await;
    let id = all(&fixture).await[0].id;
    fixture.ledger.replay(id, later()).await.unwrap();
    assert_eq!(fixture.text("select day::text from usage_daily").await, "2026-03-05");
    let settled = "select (settled_at at time zone 'UTC')::text from usage_events";
    assert_eq!(fixture.text(settled).await, "2026-04-02 00:00:00");
}

#[tokio::test]
async fn two_operators_who_replay_one_letter_settle_it_once() {
    let fixture = Fixture::new().await;
    break_model(&fixture).await;
    fixture.commit(&entries(&[odd("r")])).await;
    mend(&fixture).await;
    let id = all(&fixture).await[0].id;
    let (one, two) = tokio::join!(fixture.ledger.replay(id, later()), fixture.ledger.replay(id, later()));
    let settled = [one.unwrap(), two.unwrap()];
    assert_eq!(
        settled.iter().filter(|done| matches!(done, Replayed::Settled { .. })).count(),
        1,
        "{settled:?}"
    );
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

#[tokio::test]
async fn bytes_that_are_no_entry_and_numbers_that_are_no_letter_are_said_to_be_so() {
    let fixture = Fixture::new().await;
    fixture
        .run(
            "insert into dead_letters (shard, kind, reason, raw, recorded_at) values (0, 'refused', 'r', 'not json', now())",
        )
        .await;
    let id = all(&fixture).await[0].id;
    let replayed = fixture.ledger.replay(id, later()).await.unwrap();
    assert!(matches!(replayed, Replayed::Unreadable { .. }), "{replayed:?}");
    assert!(all(&fixture).await[0].is_open());
    for error in [
        fixture.ledger.replay(id + 1, later()).await.unwrap_err(),
        fixture.ledger.dead_letter(id + 1).await.unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::NoDeadLetter { .. }) && !error.is_transient(), "{error}");
    }
}

#[tokio::test]
async fn pages_of_any_size_show_each_letter_once() {
    let fixture = Fixture::new().await;
    let mut batch = entries(&(0..7).map(|n| event(&format!("r-{n}"), &["team/a"], None)).collect::<Vec<_>>());
    batch.iter_mut().for_each(|entry| entry.event.status = "\0".into());
    fixture.commit(&batch).await;
    for limit in [1, 3, 100] {
        let (mut page, mut seen) = (DeadLetterPage { limit, ..DeadLetterPage::default() }, Vec::new());
        loop {
            let letters = fixture.ledger.dead_letters(page).await.unwrap();
            let Some(last) = letters.last() else { break };
            assert!(letters.len() <= limit as usize);
            page.after = last.id;
            seen.extend(letters.into_iter().map(|letter| letter.request_id.unwrap()));
        }
        assert!(page.after > 0, "a page says where the next begins");
        seen.sort();
        assert_eq!(seen, (0..7).map(|n| format!("r-{n}")).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_letter_that_cannot_be_recorded_takes_its_batch_with_it() {
    let fixture = Fixture::new().await;
    fixture.run("alter table dead_letters add constraint shut check (false) not valid").await;
    let mut bad = entries(&[event("good", &["team/a"], Some("1")), event("bad", &["team/a"], Some("1"))]);
    bad[1].event.status = "\0".into();
    let error = fixture.ledger.commit(&batch(&bad)).await.unwrap_err();
    assert_eq!(error.constraint(), Some("shut"), "{error}");
    assert_eq!(fixture.spent(&scope("team/a")).await, Usd::ZERO);
    assert_eq!(fixture.number("select count(*) from settled_requests").await, 0);
}
