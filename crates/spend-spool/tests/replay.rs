//! How what is spooled gets back to the queue.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::time::Duration;

use common::{FlakyQueue, Mode, event};
use spend_queue::SpendQueue;
use spend_spool::{Because, Delivery, KeepError, Spool, SpoolOptions, SpooledQueue};
use tempfile::TempDir;
use tokio::sync::oneshot;

async fn spooled(options: SpoolOptions, ids: &[&str]) -> (TempDir, FlakyQueue, SpooledQueue<FlakyQueue>) {
    let folder = TempDir::new().unwrap();
    let queue = FlakyQueue::new(Mode::Down);
    let spooled = Spool::open(folder.path().join("spool"), options).unwrap().wrap(queue.clone());
    for id in ids {
        spooled.enqueue(&event(id, "a")).await.unwrap();
    }
    (folder, queue, spooled)
}

fn one_by_one() -> SpoolOptions {
    SpoolOptions { replay_batch: 2, replay_concurrency: 1, ..SpoolOptions::default() }
}

#[tokio::test]
async fn the_oldest_go_first_a_batch_a_step() {
    let (_folder, queue, spooled) = spooled(one_by_one(), &["r-3", "r-1", "r-2"]).await;
    queue.set(Mode::Up);
    let replayer = spooled.replayer();
    assert_eq!(replayer.replay_once().await.unwrap().accepted, 2);
    assert_eq!(queue.ids(), ["r-3", "r-1"]);
    assert_eq!(replayer.replay_once().await.unwrap().accepted, 1);
    assert_eq!(queue.ids(), ["r-3", "r-1", "r-2"]);
    assert_eq!(replayer.replay_once().await.unwrap(), Default::default());
    assert_eq!(spooled.spool().oldest(), None);
}

#[tokio::test]
async fn a_transient_error_takes_nothing_off_and_stops_the_step() {
    let (_folder, queue, spooled) = spooled(one_by_one(), &["r-1", "r-2", "r-3"]).await;
    let before = queue.asked();
    let replayed = spooled.replayer().replay_once().await.unwrap();
    assert_eq!((replayed.stayed, replayed.settled()), (2, 0));
    assert_eq!(queue.asked() - before, 1);
    assert_eq!(spooled.spool().len(), 3);
}

#[tokio::test]
async fn an_event_whose_reply_was_lost_is_found_to_be_there() {
    let (_folder, queue, spooled) = spooled(one_by_one(), &[]).await;
    queue.set(Mode::LostReply);
    spooled.enqueue(&event("r-1", "a")).await.unwrap();
    spooled.replayer().replay_once().await.unwrap();
    queue.set(Mode::Up);
    assert_eq!(spooled.replayer().replay_once().await.unwrap().duplicates, 1);
    assert_eq!(queue.ids(), ["r-1"]);
    assert!(spooled.spool().is_empty());
}

#[tokio::test]
async fn conflicts_leave_the_row_and_none_is_dropped_until_it_is_taken_out() {
    let ids: Vec<String> = (0..1_500).map(|n| format!("r-{n:04}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let size = event("r-0000", "a").body().len() as u64;
    let options = SpoolOptions { max_bytes: size * 1_500, replay_batch: 2_000, ..SpoolOptions::default() };
    let (folder, queue, wrapped) = spooled(options, &[]).await;
    let keep = ids.iter().map(|id| {
        let wrapped = &wrapped;
        async move { wrapped.enqueue(&event(id, "a")).await.unwrap() }
    });
    futures_util::future::join_all(keep).await;
    queue.set(Mode::Up);
    for id in &ids[..1_499] {
        // Another gateway was faster.
        queue.enqueue(&event(id, "b")).await.unwrap();
    }
    let replayed = wrapped.replayer().replay_once().await.unwrap();
    assert_eq!((replayed.conflicts, replayed.accepted), (1_499, 1));
    let status = wrapped.spool().status();
    assert_eq!((status.events, status.bytes, status.conflicts), (0, 0, 1_499));
    assert_eq!(status.conflict_bytes, size * 1_499);
    drop(wrapped);

    let spool = Spool::open(folder.path().join("spool"), options).unwrap();
    assert_eq!(spool.conflicts(2).await.unwrap(), [event("r-0000", "a"), event("r-0001", "a")]);
    assert_eq!(spool.conflicts(2_000).await.unwrap().len(), 1_499);
    assert_eq!(queue.payloads()["r-0000"], "b");
    // They count against the bound: what comes is refused, and none of them makes room.
    queue.set(Mode::Down);
    let wrapped = spool.wrap(queue.clone());
    wrapped.enqueue(&event("s-0000", "a")).await.unwrap();
    let error = wrapped.enqueue(&event("s-0001", "a")).await.unwrap_err();
    assert!(matches!(error.spool, KeepError::Full { .. }), "{error}");

    for _ in 0..2 {
        spool.take_conflict(&event("r-0000", "a")).await.unwrap();
        assert_eq!(spool.status().conflicts, 1_498);
        assert_eq!(spool.conflicts(1).await.unwrap(), [event("r-0001", "a")]);
    }
    wrapped.enqueue(&event("s-0001", "a")).await.unwrap();
}

#[tokio::test]
async fn events_of_a_scope_that_is_full_hold_up_no_others() {
    let options = SpoolOptions { circuit: Duration::from_secs(3_600), ..one_by_one() };
    let (_folder, queue, wrapped) = spooled(options, &[]).await;
    queue.set(Mode::Up);
    for id in ["full-1", "full-2", "full-3", "full-4"] {
        queue.refuse(id);
        let delivery = wrapped.enqueue(&event(id, "a")).await.unwrap();
        assert!(matches!(delivery, Delivery::Spooled { because: Because::Queue(_) }), "{delivery:?}");
    }
    let delivery = wrapped.enqueue(&event("r-1", "a")).await.unwrap();
    assert!(matches!(delivery, Delivery::Queued { .. }), "the circuit stays closed: {delivery:?}");
    queue.set(Mode::Down);
    wrapped.enqueue(&event("r-2", "a")).await.unwrap();
    queue.set(Mode::Up);
    let replayer = wrapped.replayer();
    for _ in 0..3 {
        replayer.replay_once().await.unwrap();
    }
    assert_eq!(queue.ids(), ["r-1", "r-2"]);
    queue.forgive();
    for _ in 0..3 {
        replayer.replay_once().await.unwrap();
    }
    assert_eq!(queue.ids().len(), 6, "each is asked again");
}

#[tokio::test]
async fn an_event_that_is_refused_for_good_does_not_block_the_rest_and_is_asked_again() {
    let (folder, queue, wrapped) = spooled(one_by_one(), &["bad-1", "bad-2", "bad-3", "r-1", "r-2"]).await;
    queue.set(Mode::Up);
    for id in ["bad-1", "bad-2", "bad-3"] {
        queue.refuse(id);
    }
    let replayer = wrapped.replayer();
    let mut set_aside = 0;
    for _ in 0..3 {
        set_aside += replayer.replay_once().await.unwrap().set_aside;
    }
    assert_eq!(set_aside, 3);
    assert_eq!(queue.ids(), ["r-1", "r-2"]);
    let status = wrapped.spool().status();
    assert_eq!((status.events, status.set_aside), (3, 3));
    assert_eq!(status.oldest, Some(event("bad-1", "a").encoded()));
    // Still spooled: their ids are taken.
    assert!(matches!(wrapped.enqueue(&event("bad-1", "b")).await.unwrap(), Delivery::Conflict));
    // Each in its turn: the second step asks the one that the first did not reach.
    queue.forgive();
    queue.refuse("bad-1");
    queue.refuse("bad-2");
    assert_eq!(replayer.replay_once().await.unwrap().stayed, 2);
    assert_eq!(replayer.replay_once().await.unwrap().accepted, 1);
    assert_eq!(queue.ids(), ["r-1", "r-2", "bad-3"]);
    // The mark is on disk.
    drop((wrapped, replayer));
    let wrapped = Spool::open(folder.path().join("spool"), one_by_one()).unwrap().wrap(queue.clone());
    assert_eq!(wrapped.spool().status().set_aside, 2);
    queue.forgive();
    assert_eq!(wrapped.replayer().replay_once().await.unwrap().accepted, 2);
    assert!(wrapped.spool().is_empty());
}

#[tokio::test]
async fn it_runs_until_it_is_stopped_through_outages_and_new_work() {
    let options = SpoolOptions {
        shortest_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(5),
        circuit: Duration::ZERO,
        ..SpoolOptions::default()
    };
    let (_folder, queue, spooled) = spooled(options, &["r-1", "r-2"]).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let replayer = spooled.replayer();
    let running = tokio::spawn(async move {
        replayer
            .run(async {
                let _ = stopped.await;
            })
            .await;
    });
    let drained = async || {
        let waiting = async {
            while !spooled.spool().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("the spool drains");
    };
    let asked = queue.asked();
    while queue.asked() < asked + 3 {
        tokio::task::yield_now().await;
    }
    queue.set(Mode::Up);
    drained().await;
    // It sleeps now; an event that is spooled wakes it.
    queue.set(Mode::Down);
    spooled.enqueue(&event("r-3", "a")).await.unwrap();
    queue.set(Mode::Up);
    drained().await;
    assert_eq!(queue.payloads().len(), 3);
    stop.send(()).unwrap();
    running.await.unwrap();
}
