//! The thread that owns the file: what waits for it goes into one transaction.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::open::open;
use crate::record::Record;
use crate::state::{Known, State};
use crate::store::{Change, Store, Waiting, guarded};
use crate::{KeepError, SpoolOptions, StorageError};

/// The most that one transaction takes in.
const MAX_JOBS: usize = 1_024;
/// The least time between two attempts to open a file that failed: each reads all of it.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

/// What the thread is asked.
#[derive(Debug)]
pub(crate) enum Job {
    Keep(Record, oneshot::Sender<Result<Kept, KeepError>>),
    Settle(Change, oneshot::Sender<Result<(), StorageError>>),
    Waiting { after: u64, most: usize, answer: oneshot::Sender<Result<Waiting, StorageError>> },
    Conflicts { most: usize, answer: oneshot::Sender<Result<Vec<Record>, StorageError>> },
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Stored,
    Known(Known),
}

pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) options: SpoolOptions,
    pub(crate) state: Arc<State>,
    /// `None` after a failure, which leaves redb's handle of no use.
    pub(crate) store: Option<Store>,
    pub(crate) failed_at: Option<(Instant, StorageError)>,
}

impl Writer {
    /// Works until every handle is gone.
    pub(crate) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut batch = Vec::new();
        while let Some(job) = jobs.blocking_recv() {
            batch.push(job);
            while batch.len() < MAX_JOBS
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
            self.work(std::mem::take(&mut batch));
        }
    }

    fn work(&mut self, jobs: Vec<Job>) {
        let mut writes = Writes::default();
        let mut reads = Vec::new();
        let status = self.state.status();
        let held = status.bytes + status.conflict_bytes;
        for job in jobs {
            match job {
                Job::Keep(record, answer) => {
                    let room = self.options.max_bytes.saturating_sub(held);
                    writes.keep(record, answer, &self.state, room, (held, self.options.max_bytes));
                }
                Job::Settle(change, answer) => writes.settle(change, answer),
                read => reads.push(read),
            }
        }
        if !writes.is_empty() {
            let done = self.with_store(|store| store.apply(&writes.change));
            // Shown before anybody is answered.
            if let Ok(changed) = &done {
                self.state.took_in(changed, &writes.change.insert);
            }
            writes.answer(&done.map(|_| ()));
        }
        for job in reads {
            match job {
                Job::Waiting { after, most, answer } => {
                    let _ = answer.send(self.with_store(|store| store.waiting(after, most)));
                }
                Job::Conflicts { most, answer } => {
                    let _ = answer.send(self.with_store(|store| store.conflicts(most)));
                }
                Job::Keep(..) | Job::Settle(..) => {}
            }
        }
    }

    /// Runs a step on the file, opened anew if it failed before.
    fn with_store<T>(
        &mut self,
        step: impl FnOnce(&Store) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if self.store.is_none() {
            self.reopen()?;
        }
        let Some(store) = &self.store else { return Err(StorageError::Closed) };
        let done = step(store);
        if let Err(error) = &done {
            tracing::error!(path = %self.path.display(), %error, "the spool's file failed; it will be opened anew");
            let broken = self.store.take();
            // redb closes the file in its destructor, which may trip over the same damage.
            let _ = guarded(|| {
                drop(broken);
                Ok(())
            });
            self.failed_at = None;
        }
        done
    }

    fn reopen(&mut self) -> Result<(), StorageError> {
        if let Some((at, error)) = &self.failed_at
            && at.elapsed() < REOPEN_EVERY
        {
            return Err(error.clone());
        }
        match open(&self.path, &self.options) {
            Ok((store, contents, index)) => {
                self.state.replace(&contents, index);
                self.store = Some(store);
                self.failed_at = None;
                tracing::info!(path = %self.path.display(), "the spool's file is open again");
                Ok(())
            }
            Err(error) => {
                let error = match error {
                    crate::SpoolOpenError::Damaged { what, .. } => StorageError::Damaged(what),
                    error => StorageError::Disk(error.to_string()),
                };
                self.failed_at = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

/// One transaction, and who waits for it.
#[derive(Default)]
struct Writes {
    change: Change,
    /// What it brings in, since the shared index shows only what is durable.
    fresh: HashMap<[u8; 16], [u8; 16]>,
    bytes: u64,
    kept: Vec<(Kept, oneshot::Sender<Result<Kept, KeepError>>)>,
    settled: Vec<oneshot::Sender<Result<(), StorageError>>>,
}

impl Writes {
    fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.settled.is_empty()
    }

    fn keep(
        &mut self,
        record: Record,
        answer: oneshot::Sender<Result<Kept, KeepError>>,
        state: &State,
        room: u64,
        (held, bound): (u64, u64),
    ) {
        let known = state.known(&record.digest, &record.check);
        let known =
            known.or_else(|| self.fresh.get(&record.digest).map(|check| Known::of(check, &record.check)));
        if let Some(known) = known {
            self.kept.push((Kept::Known(known), answer));
            return;
        }
        let wanted = record.size();
        if self.bytes.saturating_add(wanted) > room {
            let held = held.saturating_add(self.bytes);
            let _ = answer.send(Err(KeepError::Full { held, wanted, bound }));
            return;
        }
        self.bytes += wanted;
        self.fresh.insert(record.digest, record.check);
        self.change.insert.push(record);
        self.kept.push((Kept::Stored, answer));
    }

    fn settle(&mut self, change: Change, answer: oneshot::Sender<Result<(), StorageError>>) {
        self.change.remove.extend(change.remove);
        self.change.conflicts.extend(change.conflicts);
        self.change.set_aside.extend(change.set_aside);
        self.change.taken.extend(change.taken);
        self.settled.push(answer);
    }

    fn answer(self, done: &Result<(), StorageError>) {
        for (kept, answer) in self.kept {
            // Who has gone does not wait; its event is kept.
            let _ = answer.send(done.clone().map(|()| kept).map_err(KeepError::from));
        }
        for answer in self.settled {
            let _ = answer.send(done.clone());
        }
    }
}
