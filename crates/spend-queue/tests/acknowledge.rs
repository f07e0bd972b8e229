//! An acknowledgement takes the entries that were peeked, or nothing, whatever another hand made of the list.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::VecDeque;

use proptest::prelude::*;
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Index, MemoryQueue, Receipt, ScopeRef, Shard, ShardCount, SpendEvent,
    Stop, Usd,
};

fn event(id: &str, picos: i64) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![ScopeRef::new("team", "t").unwrap()]);
    event.cost = Some(Usd::from_picos(picos.into()));
    event.encode("2026-03-01T12:00:00Z".parse().unwrap()).unwrap()
}

fn shard() -> Shard {
    ShardCount::ONE.iter().next().unwrap()
}

fn filled(ids: &[&str]) -> MemoryQueue {
    let queue = MemoryQueue::default();
    for id in ids {
        queue.enqueue_now(&event(id, 5)).unwrap();
    }
    queue
}

fn receipt(queue: &MemoryQueue, entries: u32) -> Receipt {
    queue.peek_now(shard(), BatchLimit::new(entries).unwrap()).receipt().unwrap()
}

#[test]
fn copies_of_the_first_and_the_last_entry_take_nothing_that_stands_between_them() {
    let queue = filled(&["a", "b", "c"]);
    let (committed, list) = (receipt(&queue, 3), queue.raw(shard()));
    queue.tamper(shard(), |kept| kept.push_back(list[0].clone()));
    queue.enqueue_now(&event("new", 7)).unwrap();
    queue.tamper(shard(), |kept| kept.push_back(list[2].clone()));
    assert!(matches!(queue.ack_now(&committed), Acked::Done { depth: 3, .. }));
    let left = queue.raw(shard());
    assert_eq!((&left[0], &left[2]), (&list[0], &list[2]));
    assert_eq!(queue.ack_now(&committed), Acked::Changed);
    assert_eq!(queue.raw(shard()), left);
}

#[test]
fn what_replaced_an_entry_in_the_middle_is_not_taken_although_the_index_is_proven() {
    let queue = filled(&["a", "b", "c", "d"]);
    let committed = receipt(&queue, 3);
    let link = queue.peek_now(shard(), BatchLimit::MAX).entries[1].link.unwrap();
    let forged = event("other", 900).entry(link.seq, link.chain).into_bytes();
    queue.tamper(shard(), |list| list[1] = forged);
    let before = queue.raw(shard());
    assert_eq!(queue.index(shard()), Index::Proven);
    assert_eq!(queue.ack_now(&committed), Acked::Changed);
    assert_eq!(queue.raw(shard()), before);
}

#[test]
fn a_receipt_whose_number_and_digest_disagree_takes_nothing() {
    let queue = filled(&["a", "b"]);
    for entries in [0, 1, 3, u32::MAX] {
        let wrong = Receipt { entries, ..receipt(&queue, 2) };
        assert_eq!(queue.ack_now(&wrong), Acked::Changed, "{entries}");
    }
    assert_eq!(queue.raw(shard()).len(), 2);
}

/// What another hand does to a list, by places that count round.
#[derive(Debug, Clone)]
enum Change {
    Copy {
        from: usize,
        to: usize,
    },
    Overwrite {
        from: usize,
        to: usize,
    },
    Remove {
        at: usize,
    },
    Garbage {
        at: usize,
    },
    /// Copies of the first entry and the one at `last` around as many others as stand between those.
    Surround {
        last: usize,
    },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let place = || 0..8_usize;
    let change = prop_oneof![
        (place(), place()).prop_map(|(from, to)| Change::Copy { from, to }),
        (place(), place()).prop_map(|(from, to)| Change::Overwrite { from, to }),
        place().prop_map(|at| Change::Remove { at }),
        place().prop_map(|at| Change::Garbage { at }),
        (1..4_usize).prop_map(|last| Change::Surround { last }),
    ];
    prop::collection::vec(change, 0..4)
}

#[test]
fn pieces_of_one_peek_are_taken_one_after_the_other_and_never_before_their_turn() {
    let queue = filled(&["a", "b", "c", "d", "e"]);
    let peeked = queue.peek_now(shard(), BatchLimit::MAX);
    let pieces: Vec<_> = peeked.entries.chunks(2).map(|piece| Receipt::of(shard(), piece).unwrap()).collect();
    assert_eq!(pieces.iter().map(|piece| piece.entries).collect::<Vec<_>>(), [2, 2, 1]);
    let team = ScopeRef::new("team", "t").unwrap();
    for (turn, left) in [(0, 3), (1, 1), (2, 0)] {
        for other in (0..pieces.len()).filter(|other| *other != turn) {
            assert_eq!(queue.ack_now(&pieces[other]), Acked::Changed, "{other} in the turn of {turn}");
        }
        assert_eq!(queue.ack_now(&pieces[turn]), Acked::Done { depth: left, short_counters: 0 });
        assert_eq!(queue.hot(&team).amount, Usd::from_picos(5 * i128::from(left)));
    }
}

#[test]
fn a_peek_ends_before_its_costs_exceed_what_a_counter_holds() {
    let queue = filled(&["a"]);
    let before = queue.peek_now(shard(), BatchLimit::MAX).entries[0].link.unwrap();
    // Another hand's: the queue itself would have refused it.
    let (huge, seq) = (event("huge", i64::MAX), before.seq + 1);
    let entry = huge.entry(seq, huge.chain_after(before.chain, seq)).into_bytes();
    queue.tamper(shard(), |list| list.push_back(entry));
    let peeked = queue.peek_now(shard(), BatchLimit::MAX);
    assert_eq!((peeked.entries.len(), peeked.stop), (1, Some(Stop::AmountBound { position: 1 })));
}

fn apply(list: &mut VecDeque<Vec<u8>>, change: &Change) {
    let length = list.len();
    if length == 0 {
        return;
    }
    match *change {
        Change::Copy { from, to } => list.insert(to % (length + 1), list[from % length].clone()),
        Change::Overwrite { from, to } => list[to % length] = list[from % length].clone(),
        Change::Remove { at } => drop(list.remove(at % length)),
        Change::Garbage { at } => list[at % length] = b"garbage".to_vec(),
        Change::Surround { last } if 2 * last <= length => {
            list.insert(last + 1, list[0].clone());
            list.insert(2 * last + 1, list[last].clone());
        }
        Change::Surround { .. } => {}
    }
}

proptest! {
    #[test]
    fn it_takes_what_was_peeked_or_nothing(entries in 1..5_u32, before in changes(), between in changes()) {
        let queue = filled(&["a", "b", "c", "d", "e", "f"]);
        queue.tamper(shard(), |list| before.iter().for_each(|change| apply(list, change)));
        let peeked = queue.peek_now(shard(), BatchLimit::new(entries).unwrap());
        let Some(committed) = peeked.receipt() else { return Ok(()) };
        queue.tamper(shard(), |list| between.iter().for_each(|change| apply(list, change)));
        // A flusher whose reply was lost, and another that was slower.
        for _ in 0..3 {
            let list = queue.raw(shard());
            let same = list.len() >= peeked.entries.len()
                && list.iter().zip(&peeked.entries).all(|(raw, entry)| raw == entry.raw());
            let acked = queue.ack_now(&committed);
            prop_assert_eq!(acked != Acked::Changed, same);
            let taken = if same { peeked.entries.len() } else { 0 };
            prop_assert_eq!(&queue.raw(shard())[..], &list[taken..]);
        }
    }
}
