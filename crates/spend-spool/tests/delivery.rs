//! What becomes of an event that the queue does not take.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::time::Duration;

use common::{FlakyError, FlakyQueue, Mode, event, now};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use spend_queue::{Millis, QueueError};
use spend_spool::{
    Because, Delivery, KeepError, Spool, SpoolOpenError, SpoolOptions, SpooledQueue, StorageError,
};
use tempfile::TempDir;

fn spool(folder: &TempDir, options: SpoolOptions) -> Spool {
    Spool::open(folder.path().join("spool"), options).unwrap()
}

fn setup(mode: Mode) -> (TempDir, FlakyQueue, SpooledQueue<FlakyQueue>) {
    let folder = TempDir::new().unwrap();
    let queue = FlakyQueue::new(mode);
    let spooled = spool(&folder, SpoolOptions::default()).wrap(queue.clone());
    (folder, queue, spooled)
}

#[tokio::test]
async fn a_queue_that_works_leaves_the_spool_empty() {
    let (_folder, queue, spooled) = setup(Mode::Up);
    let first = spooled.enqueue(&event("r-1", "a")).await.unwrap();
    assert!(matches!(first, Delivery::Queued { seq: 1, depth: 1 }), "{first:?}");
    assert!(matches!(spooled.enqueue(&event("r-1", "a")).await.unwrap(), Delivery::Duplicate));
    assert!(matches!(spooled.enqueue(&event("r-1", "b")).await.unwrap(), Delivery::Conflict));
    assert!(spooled.spool().is_empty());
    assert_eq!(queue.ids(), ["r-1"]);
}

#[tokio::test]
async fn any_error_of_the_queue_sends_the_event_to_disk_and_is_told() {
    for (mode, expected) in [
        (Mode::Down, FlakyError::Down),
        (Mode::LostReply, FlakyError::LostReply),
        (Mode::Broken, FlakyError::Broken),
    ] {
        let (_folder, _queue, spooled) = setup(mode);
        let event = event("r-1", "a");
        match spooled.enqueue(&event).await.unwrap() {
            Delivery::Spooled { because: Because::Queue(error) } => assert_eq!(error, expected),
            other => panic!("{mode:?}: {other:?}"),
        }
        let status = spooled.spool().status();
        assert_eq!((status.events, status.bytes), (1, event.body().len() as u64));
        assert_eq!(status.oldest, Some(Millis::of(now())));
    }
}

#[tokio::test]
async fn the_first_payload_under_an_id_wins_while_it_is_spooled() {
    let (_folder, queue, spooled) = setup(Mode::Down);
    spooled.enqueue(&event("r-1", "first")).await.unwrap();
    queue.set(Mode::Up);
    assert!(matches!(spooled.enqueue(&event("r-1", "first")).await.unwrap(), Delivery::Duplicate));
    assert!(matches!(spooled.enqueue(&event("r-1", "second")).await.unwrap(), Delivery::Conflict));
    assert_eq!(queue.ids(), [""; 0], "nothing overtook what is spooled");
    spooled.replayer().replay_once().await.unwrap();
    assert_eq!(queue.payloads()["r-1"], "first");
}

#[tokio::test(start_paused = true)]
async fn the_circuit_spares_callers_a_dead_queue_and_finds_it_again() {
    let (_folder, queue, spooled) = setup(Mode::Down);
    spooled.enqueue(&event("r-0", "a")).await.unwrap();
    assert_eq!(queue.asked(), 1);
    for id in ["r-1", "r-2", "r-3"] {
        let delivery = spooled.enqueue(&event(id, "a")).await.unwrap();
        assert!(matches!(delivery, Delivery::Spooled { because: Because::CircuitOpen }), "{delivery:?}");
    }
    assert_eq!(queue.asked(), 1, "nobody waited for the dead queue");
    tokio::time::advance(Duration::from_secs(1)).await;
    spooled.enqueue(&event("r-4", "a")).await.unwrap();
    spooled.enqueue(&event("r-5", "a")).await.unwrap();
    assert_eq!(queue.asked(), 2, "one probe");
    queue.set(Mode::Up);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(matches!(spooled.enqueue(&event("r-6", "a")).await.unwrap(), Delivery::Queued { .. }));
    assert!(matches!(spooled.enqueue(&event("r-7", "a")).await.unwrap(), Delivery::Queued { .. }));
    assert_eq!(spooled.spool().len(), 6);
}

#[tokio::test]
async fn an_error_for_good_is_an_answer_and_opens_no_circuit() {
    let (_folder, queue, spooled) = setup(Mode::Broken);
    spooled.enqueue(&event("r-1", "a")).await.unwrap();
    spooled.enqueue(&event("r-2", "a")).await.unwrap();
    assert_eq!(queue.asked(), 2);
}

#[tokio::test]
async fn a_full_spool_is_an_error_with_bound_and_both_causes() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (event("r-1", "a"), event("r-2", "a"));
    let size = one.body().len() as u64;
    let queue = FlakyQueue::new(Mode::Down);
    let spooled = spool(&folder, SpoolOptions { max_bytes: 2 * size - 1, ..SpoolOptions::default() })
        .wrap(queue.clone());
    spooled.enqueue(&one).await.unwrap();
    let error = spooled.enqueue(&two).await.unwrap_err();
    assert_eq!(error.queue, FlakyError::Down, "the queue was asked although the circuit was open");
    assert_eq!(error.spool, KeepError::Full { held: size, wanted: size, bound: 2 * size - 1 });
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains("Down") && text.contains(&(2 * size - 1).to_string()), "{text}");
    assert_eq!(spooled.spool().len(), 1);
    // What it holds is still known, and the queue is the last resort.
    assert!(matches!(spooled.enqueue(&one).await.unwrap(), Delivery::Duplicate));
    queue.set(Mode::Up);
    assert!(matches!(spooled.enqueue(&two).await.unwrap(), Delivery::Queued { .. }));
    spooled.replayer().replay_once().await.unwrap();
    assert_eq!(queue.ids(), ["r-2", "r-1"]);
    assert_eq!(spooled.spool().bytes(), 0);
}

#[tokio::test]
async fn what_is_spooled_survives_reopening() {
    let (folder, queue, spooled) = setup(Mode::Down);
    let events: Vec<_> = (0..50).map(|n| event(&format!("r-{n:02}"), "a")).collect();
    for event in &events {
        spooled.enqueue(event).await.unwrap();
    }
    let before = spooled.spool().status();
    drop(spooled);
    let spooled = spool(&folder, SpoolOptions::default()).wrap(queue.clone());
    assert_eq!(spooled.spool().status(), before);
    queue.set(Mode::Up);
    assert!(matches!(spooled.enqueue(&event("r-07", "b")).await.unwrap(), Delivery::Conflict));
    let replayed = spooled.replayer().replay_once().await.unwrap();
    assert_eq!(replayed.accepted, 50);
    let mut checks: Vec<_> = queue.entries().iter().map(|entry| entry.payload_check()).collect();
    checks.sort_by_key(|check| *check.as_bytes());
    let mut wanted: Vec<_> = events.iter().map(|event| event.payload_check()).collect();
    wanted.sort_by_key(|check| *check.as_bytes());
    assert_eq!(checks, wanted);
}

#[tokio::test]
async fn a_second_opener_is_told_that_the_file_is_in_use() {
    let (folder, _queue, spooled) = setup(Mode::Down);
    let path = folder.path().join("spool");
    let error = Spool::open(&path, SpoolOptions::default()).unwrap_err();
    assert!(matches!(&error, SpoolOpenError::InUse(named) if *named == path), "{error:?}");
    spooled.spool().close().await;
    Spool::open(&path, SpoolOptions::default()).unwrap();
    let error = spooled.enqueue(&event("r-1", "a")).await.unwrap_err();
    assert_eq!(error.spool, KeepError::Storage(StorageError::Closed));
}

#[tokio::test]
async fn options_out_of_range_and_foreign_files_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool");
    let error = Spool::open(&path, SpoolOptions { replay_batch: 0, ..SpoolOptions::default() }).unwrap_err();
    assert!(error.to_string().contains("replay_batch must be 1 to 10,000"), "{error}");
    assert!(!path.exists(), "nothing was made");
    for foreign in [&b""[..], b"x", &[7; 100_000]] {
        std::fs::write(&path, foreign).unwrap();
        let error = Spool::open(&path, SpoolOptions::default()).unwrap_err();
        assert!(matches!(error, SpoolOpenError::Damaged { .. }), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), foreign, "left as it was");
    }
    let error = Spool::open(folder.path().join("none/spool"), SpoolOptions::default()).unwrap_err();
    assert!(matches!(error, SpoolOpenError::Io { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
}

#[test]
fn what_happens_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let folder = TempDir::new().unwrap();
            let queue = FlakyQueue::new(Mode::Down);
            let size = event("r-1", "a").body().len() as u64;
            let options = SpoolOptions { max_bytes: 3 * size, ..SpoolOptions::default() };
            let spooled = spool(&folder, options).wrap(queue.clone());
            for id in ["r-1", "r-2", "r-3"] {
                spooled.enqueue(&event(id, "a")).await.unwrap();
            }
            spooled.enqueue(&event("r-4", "a")).await.unwrap_err();
            queue.set(Mode::Up);
            spend_queue::SpendQueue::enqueue(&queue, &event("r-1", "b")).await.unwrap();
            queue.refuse("r-2");
            spooled.replayer().replay_once().await.unwrap();
        });
    });
    let found: std::collections::BTreeMap<String, f64> = snapshots
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(gauge) => gauge.into_inner(),
                DebugValue::Histogram(_) => panic!("no histogram is expected"),
            };
            (key.key().name().to_owned(), value)
        })
        .collect();
    let size = event("r-1", "a").body().len() as f64;
    for (name, value) in [
        ("tallyweir_spool_spooled_total", 3.0),
        ("tallyweir_spool_refused_total", 1.0),
        ("tallyweir_spool_replayed_total", 1.0),
        ("tallyweir_spool_conflicts_total", 1.0),
        ("tallyweir_spool_set_aside_total", 1.0),
        ("tallyweir_spool_events", 1.0),
        // That of the conflict too: it stays until it is taken out.
        ("tallyweir_spool_conflicts", 1.0),
        ("tallyweir_spool_bytes", 2.0 * size),
    ] {
        assert!((found[name] - value).abs() < 0.5, "{name} is {}, not {value}", found[name]);
    }
}
