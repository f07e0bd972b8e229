//! A connection that finds its way back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Cmd, Pipeline, RedisError, RedisFuture, Value};

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::resend::is_demoted;
use super::{Cluster, Dialer};

/// A multiplexed connection; a clone shares it.
#[derive(Clone)]
pub(crate) enum HotConnection {
    /// One server. It reconnects to the same address by itself.
    Single(ConnectionManager),
    /// All primaries of a cluster.
    Cluster(Cluster),
}

impl ConnectionLike for HotConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(cmd),
            Self::Cluster(cluster) => Box::pin(cluster.send(cmd)),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(cluster) => Box::pin(cluster.send_all(pipeline, offset, count)),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(connection) => connection.get_db(),
            // A cluster has one database.
            Self::Cluster(_) => 0,
        }
    }
}

/// A few links to one target, taken in turn: one that carries a slow answer holds up the others no longer.
#[derive(Clone)]
pub(crate) struct Links {
    links: Arc<[Arc<Link>]>,
    next: Arc<AtomicUsize>,
}

impl Links {
    pub(crate) async fn dial(dialer: &Arc<Dialer>, count: usize) -> Result<Self, RedisError> {
        let mut links = Vec::new();
        for _ in 0..count.max(1) {
            links.push(Link::dial(Arc::clone(dialer)).await?);
        }
        Ok(Self { links: links.into(), next: Arc::default() })
    }

    pub(crate) fn pick(&self) -> &Arc<Link> {
        &self.links[self.next.fetch_add(1, Ordering::Relaxed) % self.links.len()]
    }
}

/// The current connection to a target, replaced when it turns out to lead to the wrong server.
pub(crate) struct Link {
    dialer: Arc<Dialer>,
    /// How many connections there were before, and the current one.
    current: RwLock<(u64, HotConnection)>,
    mending: AtomicBool,
}

impl Link {
    pub(crate) async fn dial(dialer: Arc<Dialer>) -> Result<Arc<Self>, RedisError> {
        let first = dialer.dial().await?;
        Ok(Arc::new(Self { dialer, current: RwLock::new((0, first)), mending: AtomicBool::new(false) }))
    }

    /// The current connection, and its number for [`Link::doubt`].
    pub(crate) fn current(&self) -> (u64, HotConnection) {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long one call may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.dialer.deadline
    }

    /// Takes in an error of the connection with this number. When it means that the primary is elsewhere, a task
    /// dials anew, one at a time; calls go on with the old connection meanwhile.
    pub(crate) fn doubt(self: &Arc<Self>, number: u64, error: &RedisError) {
        let gone =
            self.dialer.asks_for_the_primary() && (error.is_io_error() || error.is_unrecoverable_error());
        if !(is_demoted(error) || gone)
            || self.current().0 != number
            || self.mending.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let link = Arc::clone(self);
        tokio::spawn(async move {
            link.replace(number).await;
            link.mending.store(false, Ordering::Release);
        });
    }

    /// Dials anew in place of the connection with this number.
    async fn replace(&self, number: u64) {
        match self.dialer.dial().await {
            Ok(connection) => {
                metrics::counter!("tallyweir_redis_reconnects_total").increment(1);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = (number + 1, connection);
            }
            // The next call that fails asks again.
            Err(error) => tracing::warn!(%error, "no way to the primary yet"),
        }
    }

    /// Watches over a call on the connection with this number; `patience` is how long it may stay without an answer.
    pub(crate) fn awaits(self: &Arc<Self>, number: u64, patience: Duration) -> Awaited<'_> {
        Awaited { link: self, number, since: Instant::now(), patience, answered: false }
    }

    /// A call was not answered. A server that is slow answers later; one that has vanished without closing its connections
    /// never does, and the kernel may take a quarter of an hour to notice. So a task asks for one more answer, and dials
    /// anew when that does not come either; calls go on with the old connection meanwhile.
    fn silent(self: &Arc<Self>, number: u64, patience: Duration) {
        let (current, HotConnection::Single(mut connection)) = self.current() else {
            // A ping goes to any node of a cluster, so it would prove nothing about the one that is silent.
            return;
        };
        let Ok(runtime) = Handle::try_current() else { return };
        if current != number || self.mending.swap(true, Ordering::AcqRel) {
            return;
        }
        let link = Arc::clone(self);
        runtime.spawn(async move {
            let ping = redis::cmd("PING");
            let answered = match timeout(patience, ping.query_async::<Value>(&mut connection)).await {
                Ok(answer) => !answer.is_err_and(|error| error.is_timeout()),
                Err(_) => false,
            };
            if !answered {
                link.replace(number).await;
            }
            link.mending.store(false, Ordering::Release);
        });
    }
}

/// A call that is under way. Whoever ends the wait for it, a caller's own deadline included, tells the link if it was long and
/// in vain.
pub(crate) struct Awaited<'a> {
    link: &'a Arc<Link>,
    number: u64,
    since: Instant,
    patience: Duration,
    answered: bool,
}

impl Awaited<'_> {
    /// Takes in what came: an answer, or an error that says something else than silence.
    pub(crate) fn came<T>(mut self, answer: &Result<T, RedisError>) {
        self.answered = !answer.as_ref().is_err_and(RedisError::is_timeout);
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if !self.answered && self.since.elapsed() >= self.patience {
            self.link.silent(self.number, self.patience);
        }
    }
}
