//! What is known of the server's clock.

use std::sync::atomic::{AtomicI64, Ordering};

/// How far the server's clock is ahead of this host's, in seconds: learnt from every answer that tells the server's
/// second, so that the next call names the right minutes at once.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(AtomicI64);

impl ServerClock {
    /// The server's second when this host's is `now`.
    pub(crate) fn guess(&self, now: i64) -> i64 {
        now.saturating_add(self.0.load(Ordering::Relaxed))
    }

    /// The server said `second` when this host's was `now`.
    pub(crate) fn learn(&self, now: i64, second: Option<i64>) {
        if let Some(second) = second {
            self.0.store(second.saturating_sub(now), Ordering::Relaxed);
        }
    }
}
