//! Stopping in order: no new requests, then none that stream, then none whose bill is under way.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long what was cut has to be billed, and told to its clients.
const LAST_WORDS: Duration = Duration::from_millis(900);

/// What the parts of a gateway watch to know when to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    stopping: CancellationToken,
    cut: CancellationToken,
    /// Requests, each until its bill is safe and its admission settled.
    pub(crate) calls: TaskTracker,
    /// Connections of clients.
    pub(crate) connections: TaskTracker,
}

impl Shutdown {
    /// Whether new requests are refused.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Ends when new requests are to be refused.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Whether what is under way has been cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_cancelled()
    }

    /// Ends when what is under way is to be cut.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Stops: waits for what is under way, for `grace` at most, then cuts it and waits until every bill is safe: with Redis or
    /// a spool that answers, not longer than a second; without, until they time out, since a bill is worth the wait.
    pub(crate) async fn run(&self, grace: Duration, billing: Duration) {
        self.stopping.cancel();
        self.calls.close();
        self.connections.close();
        let all = async {
            self.calls.wait().await;
            self.connections.wait().await;
        };
        if tokio::time::timeout(grace, all).await.is_ok() {
            return;
        }
        tracing::warn!(
            calls = self.calls.len(),
            connections = self.connections.len(),
            "the grace is over; cutting"
        );
        self.cut.cancel();
        if tokio::time::timeout(LAST_WORDS + billing, self.calls.wait()).await.is_err() {
            tracing::error!(
                calls = self.calls.len(),
                "these calls did not end; what they used may not be billed"
            );
        }
        // Connections that are idle in mid-request end with the process.
        let _ = tokio::time::timeout(LAST_WORDS / 9, self.connections.wait()).await;
    }
}
