//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;

use spend_queue::QueueError;
use thiserror::Error;

/// Why a spool cannot be opened. The file is as it was found, or as redb's repair left it: nothing is ever emptied or
/// replaced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpoolOpenError {
    /// An option is out of its range.
    #[error("spool option {option} must be {rule}")]
    Option {
        /// Its name in [`crate::SpoolOptions`].
        option: &'static str,
        /// The range.
        rule: &'static str,
    },
    /// Another process, or another handle of this one, has the file open. Give each process a file of its own.
    #[error("the spool {path} is open elsewhere; stop that process, or give this one a file of its own", path = .0.display())]
    InUse(PathBuf),
    /// The file is not whole: cut, changed, or of another program.
    #[error(
        "the spool {path} is damaged: {what}; it may hold bills, so keep the file: move it aside and open an empty spool, \
         then recover from the copy or from the gateway's own records",
        path = .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// A newer release wrote the file.
    #[error(
        "the spool {path} has format {found}, this release knows {known}; drain it with the release that wrote it",
        path = .path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that this release reads.
        known: u64,
    },
    /// The operating system refused.
    #[error("the spool {path} cannot be opened: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a spool that is open could not do something.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The disk refused or is full. The spool opens its file anew before the next call; a retry can help.
    #[error("the spool's file cannot be used: {0}")]
    Disk(String),
    /// What was read is not what was written. Nothing was skipped; see [`SpoolOpenError::Damaged`] for what to do.
    #[error("the spool's file is damaged: {0}; keep it, it may hold bills")]
    Damaged(String),
    /// The spool was closed.
    #[error("the spool is closed")]
    Closed,
}

/// Why a spool did not keep an event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeepError {
    /// It would grow beyond its bound. Replaying makes room, and so does taking conflicts out; a retry can help.
    #[error("the spool is full: {held} of {bound} bytes are taken and {wanted} more are needed")]
    Full {
        /// The bodies' bytes that it holds, of conflicting events too.
        held: u64,
        /// The bytes of this event's body.
        wanted: u64,
        /// [`crate::SpoolOptions::max_bytes`].
        bound: u64,
    },
    /// The event's JSON does not read back as the same event, so it could not be replayed. A retry cannot help.
    #[error("the event does not survive being written and read back: {0}")]
    NotRebuildable(String),
    /// The file could not be written. The event may be in it all the same, and repeating the call is safe.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Neither the queue nor the spool took the event: the bill is still the caller's. Repeating the call is always safe.
#[derive(Debug, Error)]
#[error("neither the queue nor the spool took the event: {queue}; {spool}")]
pub struct SpoolError<E> {
    /// What the queue said.
    pub queue: E,
    /// What the spool said.
    pub spool: KeepError,
}

impl<E: QueueError> QueueError for SpoolError<E> {
    /// A retry can help when it can help with either.
    fn is_transient(&self) -> bool {
        let spool = match self.spool {
            KeepError::Full { .. } | KeepError::Storage(StorageError::Disk(_)) => true,
            KeepError::NotRebuildable(_) | KeepError::Storage(_) => false,
        };
        spool || self.queue.is_transient()
    }
}
