//! The task that keeps both caches current.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use spend_queue::ScopeRef;
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use sqlx::{Acquire, Connection};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::change::{CHANNEL, ConfigChange};
use super::{IdentityCache, RateTreeCache};
use crate::{Ledger, LedgerError};

/// The wait after the first failed attempt to listen; doubled after each further one, up to the interval.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// How the configuration is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    /// How often versions are compared, whatever was heard: the bound on staleness while the database answers. Shorter
    /// costs one small query more often. At least 10 ms. Default: 5 s.
    pub interval: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5) }
    }
}

/// How well a watch is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchStatus {
    /// Whether notifications are being received.
    pub listening: bool,
    /// Everything in the caches was current at this instant: when the last comparison of versions that succeeded, with
    /// all reading that it made necessary, began.
    pub last_confirmed: Instant,
    /// Notifications that were applied to the caches.
    pub notifications: u64,
    /// How often listening began, the first time included.
    pub listens: u64,
    /// Comparisons or reads that failed.
    pub failures: u64,
}

/// Keeps a [`RateTreeCache`] and an [`IdentityCache`] current until it is dropped.
///
/// A change is heard of by a notification, within milliseconds of its commit, on a connection of its own. Notifications can
/// be lost: when that connection breaks it is opened anew, with growing pauses up to the interval, and versions are
/// compared at once. They are compared every interval too, over the ledger's pool, so that staleness is bounded even while
/// nothing is heard. While the database does not answer, the caches go on with what they have, and
/// [`ConfigWatch::staleness`] grows: what is too old to decide with is the host's to say.
#[derive(Debug)]
pub struct ConfigWatch {
    task: JoinHandle<()>,
    status: watch::Receiver<WatchStatus>,
}

impl ConfigWatch {
    /// Starts watching. Must be called within a tokio runtime. The caches may be used before.
    #[must_use]
    pub fn start(
        ledger: Ledger,
        options: WatchOptions,
        trees: RateTreeCache,
        identities: IdentityCache,
    ) -> Self {
        let (sender, status) = watch::channel(WatchStatus {
            listening: false,
            last_confirmed: Instant::now(),
            notifications: 0,
            listens: 0,
            failures: 0,
        });
        let interval = options.interval.max(Duration::from_millis(10));
        let watcher = Watcher { ledger, interval, trees, identities, status: sender };
        Self { task: tokio::spawn(watcher.run()), status }
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> WatchStatus {
        *self.status.borrow()
    }

    /// How it is doing, to be waited for.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<WatchStatus> {
        self.status.clone()
    }

    /// How old the last proof is that the caches are current. Below twice the interval, while all is well; no
    /// change that was committed longer ago is missing.
    #[must_use]
    pub fn staleness(&self) -> Duration {
        self.status().last_confirmed.elapsed()
    }
}

impl Drop for ConfigWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Watcher {
    ledger: Ledger,
    interval: Duration,
    trees: RateTreeCache,
    identities: IdentityCache,
    status: watch::Sender<WatchStatus>,
}

/// What woke the watcher.
enum Event {
    Heard(PgNotification),
    Deaf,
    Tick,
    Retry,
}

impl Watcher {
    async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut listener: Option<PgListener> = None;
        let mut backoff = FIRST_BACKOFF;
        let mut retry_at = Instant::now();
        loop {
            let event = tokio::select! {
                event = hear(listener.as_mut()) => event,
                _ = ticks.tick() => Event::Tick,
                () = tokio::time::sleep_until(retry_at), if listener.is_none() => Event::Retry,
            };
            match event {
                Event::Heard(first) => self.apply(first, listener.as_mut()).await,
                Event::Tick => {
                    self.compare().await;
                    // A connection that is gone without a word is found by asking on it.
                    if let Some(deaf) = listener.as_mut()
                        && !self.answers(deaf).await
                    {
                        listener = None;
                        self.note(|status| status.listening = false);
                    }
                }
                Event::Deaf => {
                    listener = None;
                    self.note(|status| status.listening = false);
                }
                Event::Retry => match self.listen().await {
                    Ok(connected) => {
                        listener = Some(connected);
                        backoff = FIRST_BACKOFF;
                        self.note(|status| {
                            status.listening = true;
                            status.listens += 1;
                        });
                        // After listening began, so that nothing falls between the two.
                        self.compare().await;
                    }
                    Err(error) => {
                        self.failed("listening for changes of the configuration", &error);
                        retry_at = Instant::now() + backoff;
                        backoff = (backoff * 2).min(self.interval.max(FIRST_BACKOFF));
                    }
                },
            }
        }
    }

    async fn listen(&self) -> Result<PgListener, LedgerError> {
        let failed = LedgerError::query("listening for changes of the configuration");
        // A pool of its own: a connection that is listening is not free for queries.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(self.patience())
            .connect_lazy_with((*self.ledger.pool.connect_options()).clone());
        let listening = async {
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.ignore_pool_close_event(true);
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok::<_, sqlx::Error>(listener)
        };
        listening.await.map_err(failed)
    }

    /// Applies one notification and those that came with it: a bulk change is many at once.
    async fn apply(&self, first: PgNotification, mut listener: Option<&mut PgListener>) {
        let mut roots = BTreeSet::new();
        let mut applied = 0;
        let mut next = Some(first);
        while let Some(notification) = next {
            if let Some(change) = ConfigChange::parse(notification.payload()) {
                applied += 1;
                self.identities.changed(&change);
                self.trees.changed(&change.root);
                roots.insert(change.root);
            }
            next = listener.as_mut().and_then(|listener| listener.next_buffered());
        }
        for root in roots {
            if let Err(error) = self.trees.reload(&root).await {
                self.failed("reading a rate tree again", &error);
            }
        }
        self.note(|status| status.notifications += applied);
    }

    /// Compares what the caches hold with the versions in the database, and mends what differs.
    async fn compare(&self) {
        let began = Instant::now();
        match self.compared().await {
            Ok(()) => self.note(|status| status.last_confirmed = began),
            Err(error) => self.failed("comparing versions of the configuration", &error),
        }
    }

    async fn compared(&self) -> Result<(), LedgerError> {
        let mut roots = self.trees.roots();
        roots.extend(self.identities.roots());
        roots.sort_unstable();
        roots.dedup();
        if roots.is_empty() {
            return self.ledger.config_versions(&[]).await.map(drop);
        }
        let versions = self.ledger.config_versions(&roots).await?;
        self.identities.drop_outdated(&versions);
        for root in self.trees.outdated(&versions) {
            self.trees.changed(&root);
            self.trees.reload(&root).await?;
        }
        Ok(())
    }

    async fn answers(&self, listener: &mut PgListener) -> bool {
        let asked = tokio::time::timeout(self.patience(), async { listener.acquire().await?.ping().await });
        matches!(asked.await, Ok(Ok(())))
    }

    /// How long an answer may take that nothing but the network delays.
    fn patience(&self) -> Duration {
        self.interval.max(Duration::from_secs(1))
    }

    fn failed(&self, step: &'static str, error: &LedgerError) {
        self.note(|status| status.failures += 1);
        tracing::warn!(%error, step, "the configuration may be stale");
    }

    fn note(&self, change: impl FnOnce(&mut WatchStatus)) {
        self.status.send_modify(change);
    }
}

async fn hear(listener: Option<&mut PgListener>) -> Event {
    match listener {
        None => std::future::pending().await,
        Some(listener) => match listener.try_recv().await {
            Ok(Some(notification)) => Event::Heard(notification),
            Ok(None) | Err(_) => Event::Deaf,
        },
    }
}

impl Ledger {
    async fn config_versions(&self, roots: &[ScopeRef]) -> Result<HashMap<ScopeRef, i64>, LedgerError> {
        let kinds: Vec<&str> = roots.iter().map(ScopeRef::kind).collect();
        let ids: Vec<&str> = roots.iter().map(ScopeRef::id).collect();
        let rows = sqlx::query_file!("queries/config_versions.sql", &kinds as &[&str], &ids as &[&str])
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading versions of the configuration", error))?;
        rows.into_iter()
            .map(|row| {
                let root = ScopeRef::new(row.kind, &*row.id)
                    .map_err(|_| LedgerError::Unreadable { column: "root_id", value: row.id })?;
                Ok((root, row.version))
            })
            .collect()
    }
}
