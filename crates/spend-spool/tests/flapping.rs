//! Many callers at once.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{FlakyQueue, Mode, event};
use spend_queue::{MemoryQueue, ShardCount};
use spend_spool::{Delivery, Spool, SpoolOptions, SpooledQueue};
use tempfile::TempDir;
use tokio::sync::Barrier;

fn options() -> SpoolOptions {
    SpoolOptions {
        circuit: Duration::from_millis(2),
        shortest_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(2),
        ..SpoolOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_callers_with_duplicates_while_the_queue_flaps_and_the_replay_runs() {
    const IDS: usize = 200;
    let folder = TempDir::new().unwrap();
    let queue = FlakyQueue::new(Mode::Flapping);
    let spooled = Spool::open(folder.path().join("spool"), options()).unwrap().wrap(queue.clone());
    let done = Arc::new(AtomicBool::new(false));
    let replayer = tokio::spawn({
        let (replayer, done) = (spooled.replayer(), Arc::clone(&done));
        async move {
            while !done.load(Ordering::SeqCst) {
                replayer.replay_once().await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    let start = Arc::new(Barrier::new(64));
    let callers: Vec<_> = (0..64)
        .map(|caller| {
            let (spooled, start) = (spooled.clone(), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                let mut taken = Vec::new();
                // Every id comes from 16 callers, with two payloads.
                for n in 0..IDS / 4 {
                    let id = (n * 4 + caller % 4 + caller) % IDS;
                    let payload = format!("p-{}", caller % 2);
                    let id = format!("r-{id}");
                    match spooled.enqueue(&event(&id, &payload)).await.unwrap() {
                        Delivery::Queued { .. } => taken.push((id, payload, true)),
                        Delivery::Spooled { .. } => taken.push((id, payload, false)),
                        Delivery::Duplicate | Delivery::Conflict => {}
                    }
                }
                taken
            })
        })
        .collect();
    let mut taken = Vec::new();
    for caller in callers {
        taken.extend(caller.await.unwrap());
    }
    done.store(true, Ordering::SeqCst);
    replayer.await.unwrap();
    queue.set(Mode::Up);
    let last = spooled.replayer();
    while !spooled.spool().is_empty() {
        last.replay_once().await.unwrap();
    }
    // `payloads` fails if an id is there twice.
    let queued = queue.payloads();
    let ids: BTreeSet<_> = taken.iter().map(|(id, ..)| id.clone()).collect();
    assert_eq!(queued.keys().cloned().collect::<BTreeSet<_>>(), ids);
    let mut late = 0;
    for (id, payload, was_queued) in &taken {
        if queued[id] != *payload {
            // Spooled while the queue, which had the first payload, could not be asked.
            assert!(!was_queued, "{id} was queued with {payload} and is {}", queued[id]);
            late += 1;
        }
    }
    assert_eq!(
        spooled.spool().status().conflicts,
        late,
        "each of those is kept as a conflict, and nothing else"
    );
    let spooled_first = taken.iter().filter(|(.., was_queued)| !was_queued).count();
    assert!(spooled_first > 0, "the queue never flapped");
}

/// Writes `total` events from so many callers into the spool; events a second.
async fn fill(spooled: &SpooledQueue<FlakyQueue>, callers: usize, total: usize) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let spooled = spooled.clone();
            tokio::spawn(async move {
                for n in (caller..total).step_by(callers) {
                    let delivery = spooled.enqueue(&event(&format!("r-{callers}-{n}"), "a")).await.unwrap();
                    assert!(matches!(delivery, Delivery::Spooled { .. }), "{delivery:?}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    total as f64 / begun.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_share_transactions_and_nothing_is_left_after_the_replay() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool");
    let spooled =
        Spool::open(&path, SpoolOptions { circuit: Duration::from_secs(3_600), ..SpoolOptions::default() })
            .unwrap()
            .wrap(FlakyQueue::new(Mode::Down));
    let alone = fill(&spooled, 1, 200).await;
    let together = fill(&spooled, 64, 6_400).await;
    let bytes = spooled.spool().bytes();
    let file = std::fs::metadata(&path).unwrap().len();
    drop(spooled);
    let memory = Spool::open(&path, SpoolOptions::default()).unwrap().wrap(MemoryQueue::new(ShardCount::ONE));
    let (replayer, begun) = (memory.replayer(), Instant::now());
    while !memory.spool().is_empty() {
        assert!(replayer.replay_once().await.unwrap().accepted > 0);
    }
    let replayed = 6_600.0 / begun.elapsed().as_secs_f64();
    println!(
        "spool: {alone:.0} writes/s from 1 caller, {together:.0} from 64; replay {replayed:.0}/s; \
         file {file} bytes for {bytes} of bodies"
    );
    assert!(together > alone, "one transaction a write: {alone:.0}/s alone, {together:.0}/s together");
}
