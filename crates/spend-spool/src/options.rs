//! How large a spool may grow, and how patient it is.

use std::time::Duration;

use crate::SpoolOpenError;

/// The bounds of a spool and the pace of what works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolOptions {
    /// The most that the bodies of waiting and of conflicting events may take together, in bytes; at least 1. Beyond it the
    /// spool refuses; nothing that it holds makes room.
    ///
    /// The file is larger: it keeps 57 bytes more an event, pages that are partly free, and room to write beside what is
    /// there; README.md has what was measured. Memory is about 50 bytes an event. Default: 256 MiB.
    pub max_bytes: u64,
    /// The page cache of the file, in bytes. Default: 16 MiB.
    pub cache_bytes: usize,
    /// For how long the queue is not asked after a transient error. Short means more callers that wait for a dead queue's
    /// deadline, long means that more goes through the disk after the queue is back. Default: 1 s.
    pub circuit: Duration,
    /// How many events one step of the replay takes, 1 to 10,000. Default: 256.
    pub replay_batch: u32,
    /// How many of them are on their way to the queue at once, 1 to 1,024. Default: 16.
    pub replay_concurrency: u32,
    /// The wait after a first step without success; it doubles with each further one, and up to as much again is added at
    /// random. Default: 100 ms.
    pub shortest_wait: Duration,
    /// The longest such wait, before the random part; not below `shortest_wait`. Default: 15 s.
    pub longest_wait: Duration,
}

impl Default for SpoolOptions {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            cache_bytes: 16 << 20,
            circuit: Duration::from_secs(1),
            replay_batch: 256,
            replay_concurrency: 16,
            shortest_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(15),
        }
    }
}

impl SpoolOptions {
    pub(crate) fn check(&self) -> Result<(), SpoolOpenError> {
        let refuse = |option, rule| Err(SpoolOpenError::Option { option, rule });
        if self.max_bytes == 0 {
            return refuse("max_bytes", "at least 1");
        }
        if !(1..=10_000).contains(&self.replay_batch) {
            return refuse("replay_batch", "1 to 10,000");
        }
        if !(1..=1_024).contains(&self.replay_concurrency) {
            return refuse("replay_concurrency", "1 to 1,024");
        }
        if self.shortest_wait.is_zero() || self.longest_wait < self.shortest_wait {
            return refuse("shortest_wait", "above zero and not above longest_wait");
        }
        Ok(())
    }
}
