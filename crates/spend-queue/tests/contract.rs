//! The obligations of the queue's contract, shown on the model.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use chrono::{DateTime, Utc};
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, Index, MemoryQueue, MemoryQueueError, Receipt, Reindexed,
    ScopeRef, Shard, ShardCount, SpendEvent, Stop, Usd,
};

fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn team() -> ScopeRef {
    ScopeRef::new("team", "t").unwrap()
}

fn event(id: &str, picos: i64) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![team()]);
    event.cost = Some(Usd::from_picos(picos.into()));
    event.encode(now()).unwrap()
}

fn shard() -> Shard {
    ShardCount::ONE.iter().next().unwrap()
}

fn limit() -> BatchLimit {
    BatchLimit::new(100).unwrap()
}

fn filled(ids: &[&str]) -> MemoryQueue {
    let queue = MemoryQueue::default();
    for id in ids {
        assert!(matches!(queue.enqueue_now(&event(id, 5)).unwrap(), Enqueued::Accepted { .. }));
    }
    queue
}

fn receipt(queue: &MemoryQueue) -> Receipt {
    queue.peek_now(shard(), limit()).receipt().unwrap()
}

#[test]
fn a_retry_changes_nothing_and_another_payload_is_a_conflict() {
    let queue = filled(&["a"]);
    let before = queue.raw(shard());
    assert_eq!(queue.enqueue_now(&event("a", 5)), Ok(Enqueued::Duplicate));
    assert_eq!(queue.enqueue_now(&event("a", 6)), Ok(Enqueued::Conflict));
    assert_eq!(queue.raw(shard()), before);
    assert_eq!(queue.hot(&team()).amount, Usd::from_picos(5));
}

#[test]
fn an_id_is_remembered_after_its_event_left_the_queue() {
    let queue = filled(&["a"]);
    assert_eq!(queue.ack_now(&receipt(&queue)), Acked::Done { depth: 0, short_counters: 0 });
    assert_eq!(queue.enqueue_now(&event("a", 5)), Ok(Enqueued::Duplicate));
    assert_eq!(queue.hot(&team()).paid_events, 0);
}

#[test]
fn sequence_and_chain_go_on_after_the_queue_was_empty() {
    let queue = filled(&["a"]);
    let before = queue.peek_now(shard(), limit());
    let _ = queue.ack_now(&before.receipt().unwrap());
    assert_eq!(queue.enqueue_now(&event("b", 5)), Ok(Enqueued::Accepted { seq: 2, depth: 1 }));
    let entry = queue.peek_now(shard(), limit()).entries.remove(0);
    let chain = before.entries[0].link.unwrap().chain;
    assert_eq!(entry.link.unwrap().chain, event("b", 5).chain_after(chain, 2));
}

#[test]
fn free_and_unpriced_events_are_queued_and_move_no_money() {
    let queue = MemoryQueue::default();
    let unpriced = SpendEvent::new("u", "m", vec![team()]).encode(now()).unwrap();
    for event in [&unpriced, &event("free", 0)] {
        assert!(matches!(queue.enqueue_now(event), Ok(Enqueued::Accepted { .. })));
    }
    assert_eq!(queue.hot(&team()).paid_events, 0);
    assert_eq!(queue.peek_now(shard(), limit()).entries.len(), 2);
}

#[test]
fn an_acknowledgement_of_a_diverged_tail_changes_nothing() {
    let queue = filled(&["e1", "e2", "e3"]);
    let committed = receipt(&queue);
    let other = filled(&["e1", "x2", "x3"]).raw(shard());
    queue.tamper(shard(), |list| *list = other.clone().into());
    assert_eq!(queue.ack_now(&committed), Acked::Changed);
    assert_eq!(queue.raw(shard()), other);
}

#[test]
fn only_the_first_of_two_equal_acknowledgements_counts() {
    let queue = filled(&["a", "b"]);
    let committed = receipt(&queue);
    queue.enqueue_now(&event("c", 7)).unwrap();
    assert_eq!(queue.ack_now(&committed), Acked::Done { depth: 1, short_counters: 0 });
    assert_eq!(queue.ack_now(&committed), Acked::Changed);
    assert_eq!(queue.hot(&team()).amount, Usd::from_picos(7));
}

#[test]
fn a_corrupt_entry_ends_the_batch_before_it_and_is_never_skipped() {
    let queue = filled(&["a", "b"]);
    queue.tamper(shard(), |list| list[1] = b"garbage".to_vec());
    let peeked = queue.peek_now(shard(), limit());
    assert_eq!(peeked.entries.len(), 1);
    assert!(matches!(peeked.stop, Some(Stop::Corrupt { position: 1, .. })));
    let _ = queue.ack_now(&peeked.receipt().unwrap());
    let stuck = queue.peek_now(shard(), limit());
    assert_eq!((stuck.receipt(), stuck.depth), (None, 1));
}

#[test]
fn entries_around_a_gap_are_committed_in_batches_of_their_own() {
    let queue = filled(&["a", "b", "c"]);
    queue.tamper(shard(), |list| drop(list.remove(1)));
    let peeked = queue.peek_now(shard(), limit());
    assert_eq!((peeked.entries.len(), &peeked.stop), (1, &Some(Stop::ChainBreak { position: 1 })));
    let _ = queue.ack_now(&peeked.receipt().unwrap());
    let rest = queue.peek_now(shard(), limit());
    assert_eq!((rest.entries[0].event.request_id.as_str(), &rest.stop), ("c", &None));
}

#[test]
fn a_counter_that_would_overflow_refuses_the_whole_event() {
    let queue = MemoryQueue::default();
    queue.enqueue_now(&event("a", i64::MAX)).unwrap();
    assert!(queue.enqueue_now(&event("b", 1)).is_err());
    assert_eq!(queue.raw(shard()).len(), 1);
    assert!(matches!(queue.enqueue_now(&event("free", 0)), Ok(Enqueued::Accepted { seq: 2, .. })));
}

#[test]
fn counters_that_hold_too_little_never_block_the_queue_and_are_reported() {
    let queue = filled(&["a", "b"]);
    let mut batch = receipt(&queue);
    queue.enqueue_now(&event("c", 5)).unwrap();
    batch.charges.values_mut().for_each(|charge| charge.amount = Usd::from_picos(16));
    assert_eq!(queue.ack_now(&batch), Acked::Done { depth: 1, short_counters: 1 });
    assert_eq!(queue.index(shard()), Index::Doubtful);
    assert_eq!(queue.ack_now(&receipt(&queue)), Acked::Done { depth: 0, short_counters: 1 });
    assert_eq!(queue.index(shard()), Index::Proven, "nothing is pending in an empty queue");
}

#[test]
fn pending_spend_is_exact_whatever_another_hand_did_to_the_list() {
    let queue = filled(&["a", "b", "c"]);
    assert_eq!(queue.pending_now(&team()), Ok(Usd::from_picos(15)));
    queue.tamper(shard(), |list| drop(list.pop_front()));
    assert_eq!((queue.hot(&team()).amount, queue.index(shard())), (Usd::from_picos(15), Index::Doubtful));
    assert_eq!(queue.pending_now(&team()), Ok(Usd::from_picos(10)), "from the entries");
    let batch = queue.peek_now(shard(), BatchLimit::new(1).unwrap()).receipt().unwrap();
    let _ = queue.ack_now(&batch);
    assert_eq!(queue.index(shard()), Index::Doubtful, "an acknowledgement does not hide what is missing");
    assert_eq!(queue.pending_now(&team()), Ok(Usd::from_picos(5)));
    assert_eq!(queue.reindex_now(shard()), Ok(Reindexed::Rebuilt { entries: 1 }));
    assert_eq!((queue.hot(&team()).amount, queue.index(shard())), (Usd::from_picos(5), Index::Proven));
}

#[test]
fn an_entry_of_another_hand_blocks_the_index_and_the_answer_until_it_is_gone() {
    let queue = filled(&["a"]);
    queue.tamper(shard(), |list| list.push_front(b"garbage".to_vec()));
    queue.enqueue_now(&event("b", 5)).unwrap();
    assert!(queue.pending_now(&team()).is_err());
    assert_eq!(queue.reindex_now(shard()), Ok(Reindexed::Blocked { position: 0 }));
    assert!(!queue.quarantine_now(shard(), b"something else"));
    assert!(queue.quarantine_now(shard(), b"garbage"));
    assert_eq!(queue.pending_now(&team()), Ok(Usd::from_picos(10)));
    assert_eq!(queue.reindex_now(shard()), Ok(Reindexed::Rebuilt { entries: 2 }));
    assert_eq!(queue.index(shard()), Index::Proven);
}

#[test]
fn only_what_started_since_an_instant_occupies_a_new_period() {
    let queue = MemoryQueue::default();
    let midnight: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().unwrap();
    for (id, picos, start) in [
        ("old", 1, Some("2026-02-28T23:59:59.999999Z")),
        ("new", 2, Some("2026-03-01T00:00:00Z")),
        ("unsaid", 4, None),
    ] {
        let mut event = SpendEvent::new(id, "m", vec![ScopeRef::new("organization", "o").unwrap(), team()]);
        event.cost = Some(Usd::from_picos(picos));
        event.started_at = start.map(|start| start.parse().unwrap());
        queue.enqueue_now(&event.encode(now()).unwrap()).unwrap();
    }
    assert_eq!(queue.pending_since_now("o", midnight), Ok(Usd::from_picos(6)));
    assert_eq!(queue.pending_since_now("o", DateTime::<Utc>::MIN_UTC), Ok(Usd::from_picos(7)));
    assert_eq!(queue.pending_since_now("other", midnight), Ok(Usd::ZERO));
    queue.tamper(shard(), |list| drop(list.pop_front()));
    assert_eq!(queue.pending_since_now("o", midnight), Ok(Usd::from_picos(6)), "from the entries");
}

#[test]
fn what_another_hand_put_in_place_of_an_entry_is_doubted_when_it_comes_to_the_head() {
    let queue = filled(&["a", "b", "c"]);
    let link = queue.peek_now(shard(), limit()).entries[1].link.unwrap();
    let forged = event("b", 900).entry(link.seq, link.chain).into_bytes();
    queue.tamper(shard(), |list| list[1] = forged);
    let peeked = queue.peek_now(shard(), limit());
    assert_eq!(
        (peeked.index, peeked.stop.as_ref()),
        (Index::Proven, Some(&Stop::ChainBreak { position: 1 }))
    );
    let _ = queue.ack_now(&peeked.receipt().unwrap());
    assert_eq!(queue.index(shard()), Index::Doubtful);
    assert_eq!(queue.pending_now(&team()), Ok(Usd::from_picos(905)), "what would be settled");
}

#[test]
fn an_index_that_no_counter_could_hold_is_not_made() {
    let queue = MemoryQueue::default();
    queue.enqueue_now(&event("a", i64::MAX)).unwrap();
    let head = queue.raw(shard()).remove(0);
    assert!(queue.quarantine_now(shard(), &head));
    queue.enqueue_now(&event("b", i64::MAX)).unwrap();
    queue.restore_now(shard(), head);
    assert_eq!(queue.reindex_now(shard()), Err(MemoryQueueError::CounterOverflow(team())));
    assert_eq!(queue.pending_now(&team()), Ok(Usd::from_picos(i128::from(i64::MAX) * 2)));
}
