//! The handle of a spool.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use spend_queue::{EncodedEvent, Millis, SpendQueue};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::open::open;
use crate::record::Record;
use crate::state::{Known, State};
use crate::store::{Change, Waiting};
use crate::writer::{Job, Kept, Writer};
use crate::{KeepError, SpoolOpenError, SpoolOptions, SpoolStatus, SpooledQueue, StorageError};

/// How many requests may wait for the writer before their callers wait to ask.
const WAITING_JOBS: usize = 1_024;

/// Events on local disk that wait for their queue. Handles are cheap to clone and share one file and one thread.
///
/// The last handle to go (those inside [`SpooledQueue`] and [`crate::Replayer`] included) waits for the transaction under
/// way and closes the file, a few milliseconds. On an asynchronous runtime prefer [`Spool::close`].
#[derive(Debug, Clone)]
pub struct Spool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    options: SpoolOptions,
    state: Arc<State>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Something may have to be replayed.
    work: Notify,
    /// The file failed while it took something in: what it holds is known when it was read again.
    in_doubt: AtomicBool,
}

impl Spool {
    /// Opens the spool's file, or makes an empty one if there is none at `path`; its folder must exist.
    ///
    /// Reads and checks the whole file, so it blocks for as long as that takes. A file that a crash tore is repaired to the
    /// last whole transaction, which holds everything that was acknowledged.
    ///
    /// # Errors
    ///
    /// When an option is out of range, another process has the file, or it is damaged, of a newer release or unreadable. It
    /// is never emptied or replaced.
    pub fn open(path: impl AsRef<Path>, options: SpoolOptions) -> Result<Self, SpoolOpenError> {
        let path = path.as_ref().to_owned();
        let (store, contents, index) = open(&path, &options)?;
        let state = Arc::new(State::new(options.max_bytes, &contents, index));
        let (jobs, receiver) = mpsc::channel(WAITING_JOBS);
        let writer = Writer {
            path: path.clone(),
            options,
            state: Arc::clone(&state),
            store: Some(store),
            failed_at: None,
        };
        let thread = thread::Builder::new()
            .name("spend-spool".into())
            .spawn(move || writer.run(receiver))
            .map_err(|source| SpoolOpenError::Io { path: path.clone(), source })?;
        let shared = Shared {
            path,
            options,
            state,
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            work: Notify::new(),
            in_doubt: AtomicBool::new(false),
        };
        let spool = Self { shared: Arc::new(shared) };
        spool.measure();
        Ok(spool)
    }

    /// Puts the spool behind a queue. Wrap a queue once and clone the result: the circuit, and the turns of calls under one
    /// request id, are shared among clones only.
    #[must_use]
    pub fn wrap<Q: SpendQueue>(&self, queue: Q) -> SpooledQueue<Q> {
        SpooledQueue::new(queue, self.clone())
    }

    /// The spool's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.status().events
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the bodies that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.status().bytes
    }

    /// When the event that has waited longest was encoded.
    #[must_use]
    pub fn oldest(&self) -> Option<Millis> {
        self.status().oldest
    }

    /// All of these, read in one step.
    #[must_use]
    pub fn status(&self) -> SpoolStatus {
        self.shared.state.status()
    }

    /// The oldest events, at most `most`, that the queue called conflicts when they were replayed, oldest first. Under their
    /// request ids the queue has other payloads, which stay: these here are billed nowhere. They are kept, through restarts,
    /// until [`Spool::take_conflict`].
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or one of them is damaged.
    pub async fn conflicts(&self, most: usize) -> Result<Vec<EncodedEvent>, StorageError> {
        let records = self.ask(|answer| Job::Conflicts { most, answer }).await??;
        records.iter().map(|record| record.rebuild().map_err(StorageError::Damaged)).collect()
    }

    /// Takes a conflict out once it is dealt with: billed under another id, or found to be no bill. Every other one stays. Safe to
    /// repeat: taking out what is not there is no error.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; it may be out all the same.
    pub async fn take_conflict(&self, event: &EncodedEvent) -> Result<(), StorageError> {
        // What was rebuilt from a record makes the same record.
        let record = Record::of(event).map_err(StorageError::Damaged)?;
        self.settle(Change { taken: vec![record], ..Change::default() }).await
    }

    /// Finishes the transaction under way and closes the file, for every handle; later calls answer
    /// [`StorageError::Closed`].
    pub async fn close(&self) {
        self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has closed the file too.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    pub(crate) fn options(&self) -> &SpoolOptions {
        &self.shared.options
    }

    pub(crate) fn known(&self, event: &EncodedEvent) -> Option<Known> {
        self.shared.state.known(event.digest().as_bytes(), event.payload_check().as_bytes())
    }

    /// Returns when the event is on disk.
    pub(crate) async fn keep(&self, event: &EncodedEvent) -> Result<Kept, KeepError> {
        let record = Record::of(event).map_err(KeepError::NotRebuildable)?;
        let kept = self.ask(|answer| Job::Keep(record, answer)).await?;
        self.measure();
        match &kept {
            Ok(Kept::Stored) => self.shared.work.notify_one(),
            // It may be in the file all the same.
            Err(KeepError::Storage(_)) => {
                self.shared.in_doubt.store(true, Ordering::SeqCst);
                self.shared.work.notify_one();
            }
            _ => {}
        }
        kept
    }

    /// Forgets what the file holds, as when it failed while it took something in.
    #[cfg(test)]
    pub(crate) fn forget_after_a_failure(
        &self,
        contents: &crate::store::Changed,
        index: crate::store::Index,
    ) {
        self.shared.state.replace(contents, index);
        self.shared.in_doubt.store(true, Ordering::SeqCst);
    }

    /// Whether there is nothing to replay, for certain.
    pub(crate) fn is_surely_empty(&self) -> bool {
        self.is_empty() && !self.shared.in_doubt.load(Ordering::SeqCst)
    }

    pub(crate) async fn waiting(&self, after: u64, most: usize) -> Result<Waiting, StorageError> {
        let in_doubt = self.shared.in_doubt.swap(false, Ordering::SeqCst);
        let waiting = self.ask(|answer| Job::Waiting { after, most, answer }).await?;
        if in_doubt && waiting.is_err() {
            self.shared.in_doubt.store(true, Ordering::SeqCst);
        }
        waiting
    }

    pub(crate) async fn settle(&self, change: Change) -> Result<(), StorageError> {
        let settled = self.ask(|answer| Job::Settle(change, answer)).await?;
        self.measure();
        settled
    }

    /// Waits until something was kept since the last time.
    pub(crate) async fn work(&self) {
        self.shared.work.notified().await;
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StorageError> {
        let jobs = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (answer, answered) = oneshot::channel();
        let jobs = jobs.ok_or(StorageError::Closed)?;
        jobs.send(job(answer)).await.map_err(|_| StorageError::Closed)?;
        drop(jobs);
        answered.await.map_err(|_| StorageError::Closed)
    }

    fn measure(&self) {
        let status = self.status();
        #[expect(clippy::cast_precision_loss, reason = "a gauge is for people")]
        {
            metrics::gauge!("tallyweir_spool_events").set(status.events as f64);
            metrics::gauge!("tallyweir_spool_bytes").set((status.bytes + status.conflict_bytes) as f64);
            metrics::gauge!("tallyweir_spool_conflicts").set(status.conflicts as f64);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}
