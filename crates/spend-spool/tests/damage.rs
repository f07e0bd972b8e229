//! Processes that die, files that are cut, and bytes that change.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{FlakyQueue, Mode, event};
use spend_spool::{Delivery, Spool, SpoolError, SpoolOpenError, SpoolOptions, StorageError};
use tempfile::TempDir;

/// Where the child of [`what_was_acknowledged_survives_kill_9`] writes; without it, the child's test uses a folder of its own.
const CHILD_PATH: &str = "SPEND_SPOOL_TEST_CHILD";
const CHILD_ROUND: &str = "SPEND_SPOOL_TEST_ROUND";
const CALLERS: usize = 8;
/// What a change costs is waiting for the disk.
const WORKERS: usize = 8;

fn options() -> SpoolOptions {
    SpoolOptions { circuit: std::time::Duration::from_secs(3_600), ..SpoolOptions::default() }
}

/// The child: writes from several callers and says what is acknowledged, until it is killed. Run by itself it writes a
/// few, which must come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_writes_and_says_what_is_acknowledged() {
    let own = TempDir::new().unwrap();
    let given = std::env::var_os(CHILD_PATH).map(PathBuf::from);
    let round = std::env::var(CHILD_ROUND).unwrap_or_default();
    let path = given.clone().unwrap_or_else(|| own.path().join("spool"));
    let each = if given.is_some() { usize::MAX } else { 5 };
    let spooled = Spool::open(&path, options()).unwrap().wrap(FlakyQueue::new(Mode::Down));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (spooled, round) = (spooled.clone(), round.clone());
            tokio::spawn(async move {
                for n in 0..each {
                    let id = format!("r-{round}-{caller}-{n}");
                    let delivery = spooled.enqueue(&event(&id, "a")).await.unwrap();
                    assert!(matches!(delivery, Delivery::Spooled { .. }), "{delivery:?}");
                    writeln!(std::io::stdout().lock(), "acknowledged {id}").unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(spooled.spool().len(), (CALLERS * 5) as u64);
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool");
    let mut acknowledged = BTreeSet::new();
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_child_writes_and_says_what_is_acknowledged", "--nocapture"])
            .env(CHILD_PATH, &path)
            .env(CHILD_ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let id = |line: String| line.split_once("acknowledged ").map(|(_, id)| id.to_owned());
        // Another number each round, so that it dies at another place of its work.
        let mut heard: Vec<_> =
            lines.by_ref().map_while(Result::ok).filter_map(id).take(20 + 17 * round).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died.
        heard.extend(lines.map_while(Result::ok).filter_map(id));
        assert!(heard.len() >= 20 + 17 * round, "the child of round {round} did not write");
        acknowledged.extend(heard);

        let held = drained(&path).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let lost: Vec<_> = acknowledged.difference(&held).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} were acknowledged and are gone");
        // At most one more a caller and round: written, and not yet said.
        assert!(held.len() <= acknowledged.len() + CALLERS * (round + 1), "{} held", held.len());
    }
}

#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error(transparent)]
    Open(#[from] SpoolOpenError),
    #[error(transparent)]
    Read(#[from] StorageError),
}

/// The ids in a copy of a spool, read through a replay; the spool itself is not changed.
async fn drained(path: &Path) -> Result<BTreeSet<String>, Damage> {
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("copy");
    std::fs::copy(path, &copy).unwrap();
    let queue = FlakyQueue::new(Mode::Up);
    let spooled = Spool::open(&copy, SpoolOptions { replay_batch: 10_000, ..options() })?.wrap(queue.clone());
    let replayer = spooled.replayer();
    while !spooled.spool().is_empty() {
        replayer.replay_once().await?;
    }
    Ok(queue.payloads().into_keys().collect())
}

/// A spool of some history: written, partly replayed, written again; as a process that was killed leaves it, and as one
/// that stopped leaves it.
async fn samples(folder: &Path) -> ([Vec<u8>; 2], BTreeSet<String>) {
    let path = folder.join("spool");
    let queue = FlakyQueue::new(Mode::Down);
    let options = SpoolOptions { replay_batch: 10, ..options() };
    let spooled = Spool::open(&path, options).unwrap().wrap(queue.clone());
    let mut ids: BTreeSet<_> = (0..40).map(|n| format!("r-{n:02}")).collect();
    for id in &ids {
        spooled.enqueue(&event(id, "a")).await.unwrap();
    }
    queue.set(Mode::Up);
    spooled.replayer().replay_once().await.unwrap();
    for id in queue.ids() {
        assert!(ids.remove(&id));
    }
    queue.set(Mode::Down);
    // The last transaction brings an event in: going back to the one before it would lose a bill.
    spooled.enqueue(&event("r-last", "a")).await.unwrap();
    ids.insert("r-last".into());
    let killed = std::fs::read(&path).unwrap();
    spooled.spool().close().await;
    ([killed, std::fs::read(&path).unwrap()], ids)
}

/// Everything acknowledged, or an error; whether it was an error.
async fn whole_or_refused(path: &Path, ids: &BTreeSet<String>, what: &str) -> bool {
    match drained(path).await {
        // What was replayed already may be there again: the queue knows it.
        Ok(found) => {
            let lost: Vec<_> = ids.difference(&found).collect();
            assert!(lost.is_empty(), "{what}: opened without {lost:?}");
            false
        }
        Err(Damage::Open(SpoolOpenError::Damaged { .. } | SpoolOpenError::NewerFormat { .. })) => true,
        Err(Damage::Read(StorageError::Damaged(_))) => true,
        Err(error) => panic!("{what}: {error:?} does not say that the file is damaged"),
    }
}

#[tokio::test]
async fn a_file_cut_anywhere_is_whole_or_refused() {
    let folder = TempDir::new().unwrap();
    let (samples, ids) = samples(folder.path()).await;
    let path = folder.path().join("cut");
    for (sample, name) in samples.iter().zip(["killed", "closed"]) {
        let mut refused = 0;
        let lengths: Vec<_> =
            (0..400).step_by(7).chain((400..sample.len()).step_by(sample.len() / 60)).collect();
        for length in &lengths {
            std::fs::write(&path, &sample[..*length]).unwrap();
            refused += usize::from(whole_or_refused(&path, &ids, &format!("{name}, cut at {length}")).await);
        }
        println!("{name}: {} bytes, {refused} of {} cuts refused", sample.len(), lengths.len());
        assert!(refused > 50, "{name}: {refused}");
        std::fs::write(&path, sample).unwrap();
        assert!(!whole_or_refused(&path, &ids, name).await, "uncut");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_file_with_a_changed_byte_is_whole_or_refused() {
    let folder = TempDir::new().unwrap();
    let (samples, ids) = samples(folder.path()).await;
    for (sample, name) in samples.iter().zip(["killed", "closed"]) {
        // redb's header byte by byte, every bit of the byte that names the valid commit; then the pages that hold anything.
        let written: Vec<_> = (320..sample.len()).filter(|at| sample[*at] != 0).collect();
        let places = (0..320)
            .map(|at| (at, 1 << (at % 8)))
            .chain((0..8).map(|bit| (9, 1 << bit)))
            .chain(written.iter().step_by((written.len() / 300).max(1)).map(|at| (*at, 1 << (at % 8))));
        let places: Arc<Vec<(usize, u8)>> = Arc::new(places.collect());
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (sample, ids, places) = (sample.clone(), ids.clone(), Arc::clone(&places));
                let path = folder.path().join(format!("changed-{worker}"));
                tokio::spawn(async move {
                    let mut refused = 0;
                    for (at, bits) in places.iter().skip(worker).step_by(WORKERS) {
                        let mut changed = sample.clone();
                        changed[*at] ^= bits;
                        std::fs::write(&path, &changed).unwrap();
                        let what = format!("{name}, byte {at} xor {bits:#x}");
                        refused += usize::from(whole_or_refused(&path, &ids, &what).await);
                    }
                    refused
                })
            })
            .collect();
        let mut refused = 0;
        for worker in workers {
            refused += worker.await.unwrap();
        }
        println!("{name}: {} bytes, {refused} of {} changes refused", sample.len(), places.len());
        assert!(refused > 0, "{name}: no change was noticed");
    }
}

#[tokio::test]
async fn damage_while_the_spool_is_open_is_an_error_not_a_loss() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool");
    let spooled = Spool::open(&path, SpoolOptions { cache_bytes: 0, ..options() })
        .unwrap()
        .wrap(FlakyQueue::new(Mode::Down));
    spooled.enqueue(&event("r-1", "a")).await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let needle = b"\"request_id\":\"r-1\"";
    let mut changed = bytes.clone();
    for at in 0..bytes.len() - needle.len() {
        if bytes[at..].starts_with(needle) {
            changed[at + needle.len() - 2] = b'2';
        }
    }
    assert_ne!(bytes, changed);
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&changed).unwrap();
    let error = spooled.replayer().replay_once().await.unwrap_err();
    assert!(matches!(error, StorageError::Damaged(_)), "{error:?}");
    // It does not go on with a file that it cannot trust.
    let refused: SpoolError<_> = spooled.enqueue(&event("r-3", "a")).await.unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
}

#[tokio::test]
async fn a_file_that_is_whole_again_is_used_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool");
    let queue = FlakyQueue::new(Mode::Down);
    let spooled =
        Spool::open(&path, SpoolOptions { cache_bytes: 0, ..options() }).unwrap().wrap(queue.clone());
    spooled.enqueue(&event("r-1", "a")).await.unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Its length stays, so nothing but what is read tells.
    std::fs::write(&path, vec![0xff; whole.len()]).unwrap();
    let error = spooled.replayer().replay_once().await.unwrap_err();
    assert!(matches!(error, StorageError::Damaged(_)), "{error:?}");
    std::fs::write(&path, &whole).unwrap();
    assert!(matches!(spooled.enqueue(&event("r-2", "a")).await.unwrap(), Delivery::Spooled { .. }));
    assert!(matches!(spooled.enqueue(&event("r-1", "a")).await.unwrap(), Delivery::Duplicate));
    queue.set(Mode::Up);
    assert_eq!(spooled.replayer().replay_once().await.unwrap().accepted, 2);
    assert_eq!(queue.payloads().len(), 2);
}
