//! Where Redis is and how it is used.

use std::fmt;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use spend_queue::ShardCount;

use crate::connect::Target;
use crate::error::OpenError;
use crate::{KeyPrefix, OlderQueue};

/// A Redis URL, kept so that its password reaches no log, error or `Debug`.
///
/// - `redis://[user:password@]host[:port][/db]`, or `redis+unix:///path`: one server
/// - `redis+sentinel://[user:password@]host:port,host:port/primary[/db]`: the Sentinels that watch `primary`; user and
///   password are the servers'
/// - `redis+cluster://[user:password@]host:port,host:port`: some nodes of a Redis Cluster
///
/// `rediss` in place of `redis` is the same over TLS; the server's certificate is always checked.
#[derive(Clone)]
pub struct RedisUrl(SecretString);

impl RedisUrl {
    /// Wraps a URL without looking at it; [`crate::LiveRedis::open`] parses it.
    pub fn new(url: impl Into<String>) -> Self {
        Self(SecretString::from(url.into()))
    }

    pub(crate) fn target(&self) -> Result<Target, OpenError> {
        Target::parse(self.0.expose_secret())
    }
}

/// Certificates for `rediss` URLs, PEM texts. Without any, the server is checked against the system's authorities.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The authority that signed the servers' certificates, in place of the system's.
    pub authority: Option<Vec<u8>>,
    /// The client's certificate, for servers that ask for one; together with its key.
    pub client_certificate: Option<Vec<u8>>,
    /// The key of the client's certificate.
    pub client_key: Option<ClientKey>,
}

/// A private key that is not shown.
#[derive(Clone)]
pub struct ClientKey(SecretString);

impl ClientKey {
    /// Wraps a PEM text.
    pub fn new(pem: impl Into<String>) -> Self {
        Self(SecretString::from(pem.into()))
    }

    pub(crate) fn expose(&self) -> Vec<u8> {
        self.0.expose_secret().as_bytes().to_vec()
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKey(secret)")
    }
}

impl Tls {
    pub(crate) const fn check(&self) -> Result<(), &'static str> {
        match (&self.client_certificate, &self.client_key) {
            (Some(_), Some(_)) | (None, None) => Ok(()),
            (Some(_), None) => Err("a client certificate needs its key"),
            (None, Some(_)) => Err("a client key needs its certificate"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl(secret)")
    }
}

impl From<&str> for RedisUrl {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for RedisUrl {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

/// How a [`crate::LiveRedis`] uses its server. All hosts of one deployment must agree on prefix and shards.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What every key starts with. Default `tallyweir`. Two deployments on one server need two prefixes.
    pub prefix: KeyPrefix,
    /// Over how many shards the partitions are spread. Default 1; more only helps a Redis Cluster. A queue
    /// remembers its count and refuses another.
    pub shards: ShardCount,
    /// The longest that one call may take, connecting included. Default 2 s. A call that ran out of time may
    /// have run: every script here is safe to repeat, or admits less.
    pub deadline: Duration,
    /// Multiplexed connections for admissions, enqueues and small reads, taken in turn. Default 2: calls pipeline on
    /// each, so more only helps where one connection's bandwidth does not suffice.
    pub hot_connections: usize,
    /// Connections for wide reads (peeks), apart from the multiplexed one that admissions and enqueues share,
    /// so that a large reply never stands before an admission. Default 4.
    pub wide_connections: usize,
    /// Whose clock says which minute it is. Default [`WindowClock::Local`].
    pub window_clock: WindowClock,
    /// The most admissions of one partition that go together in one call while others wait (docs/decisions/0005). Default 64;
    /// 1 sends each by itself. Nobody ever waits for a batch to fill.
    pub micro_batch: usize,
    /// Certificates for a `rediss` URL. Default none: the system's authorities, no client certificate.
    pub tls: Option<Tls>,
    /// How long the queue remembers the request ids that it accepted. Default for ever. All hosts of a deployment must
    /// agree: one that remembers otherwise does not see the others' ids, and only the ledger then keeps a retry from
    /// counting twice.
    pub dedup_retention: DedupRetention,
    /// The queue of an older deployment that is to be drained and counted too. Default none. Not with a Cluster.
    pub older_queue: Option<OlderQueue>,
    /// The most entries that one step goes through when the index of pending spend is in doubt, or in an older queue, whose
    /// entries are its only index. Default 20,000: the server does nothing else meanwhile, about 25 us an entry.
    pub scan_bound: u32,
    /// The most starts (milliseconds in which paid events of an organization began) before an instant that `pending_since` reads
    /// of one shard. Default 512: the server does nothing else meanwhile, about 1.3 us a start. With more, the answer is
    /// [`crate::LiveRedisError::Unproven`] until the flusher has settled what is older, as after an outage of it over the turn
    /// of a budget's period.
    pub since_bound: u32,
}

/// How long request ids are remembered in Redis. The ledger remembers them for ever in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DedupRetention {
    /// For ever: a retry is recognised whenever it comes. Memory grows with each id.
    #[default]
    Permanent,
    /// At least so long, at most twice as long, by the clocks of the hosts that encode the events: ids are kept in
    /// generations of this length, of which an id's own and its neighbours are looked up, and old ones expire whole. A retry that comes later is
    /// queued again: the ledger settles it as a duplicate, and pending spend counts it until it is acknowledged.
    AtLeast(Duration),
}

impl DedupRetention {
    /// The shortest duration: hosts' clocks differ by more than less would bear.
    pub const SHORTEST: Duration = Duration::from_secs(60);

    /// The length of a generation in milliseconds; `None` for ever.
    pub(crate) fn generation_millis(self) -> Option<u64> {
        match self {
            Self::Permanent => None,
            Self::AtLeast(length) => {
                Some(u64::try_from(length.max(Self::SHORTEST).as_millis()).unwrap_or(u64::MAX / 4))
            }
        }
    }
}

/// Whose clock says which minute a request is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowClock {
    /// The `now` that the caller gives: tests and simulators own time. Gateways whose clocks differ count one moment in
    /// two minutes.
    #[default]
    Local,
    /// The Redis server's: all gateways share one window, whatever their clocks. `now` then only says which keys to
    /// name, and a gateway whose clock is off by minutes learns by how much.
    Redis,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: KeyPrefix::default(),
            shards: ShardCount::ONE,
            deadline: Duration::from_secs(2),
            hot_connections: 2,
            wide_connections: 4,
            window_clock: WindowClock::Local,
            micro_batch: 64,
            tls: None,
            dedup_retention: DedupRetention::Permanent,
            older_queue: None,
            scan_bound: 20_000,
            since_bound: 512,
        }
    }
}

impl Options {
    /// The same with another key prefix.
    #[must_use]
    pub fn with_prefix(self, prefix: KeyPrefix) -> Self {
        Self { prefix, ..self }
    }

    /// The same with another shard count.
    #[must_use]
    pub fn with_shards(self, shards: ShardCount) -> Self {
        Self { shards, ..self }
    }

    /// The same with another clock for the minutes.
    #[must_use]
    pub fn with_window_clock(self, window_clock: WindowClock) -> Self {
        Self { window_clock, ..self }
    }

    /// The same with another number of connections for small calls.
    #[must_use]
    pub fn with_hot_connections(self, hot_connections: usize) -> Self {
        Self { hot_connections, ..self }
    }

    /// The same with another bound for micro-batches.
    #[must_use]
    pub fn with_micro_batch(self, micro_batch: usize) -> Self {
        Self { micro_batch, ..self }
    }

    /// The same with these certificates.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// The same with another deadline for each call.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The same with another memory of request ids.
    #[must_use]
    pub fn with_dedup_retention(self, dedup_retention: DedupRetention) -> Self {
        Self { dedup_retention, ..self }
    }

    /// The same with the queue of an older deployment.
    #[must_use]
    pub fn with_older_queue(self, older_queue: OlderQueue) -> Self {
        Self { older_queue: Some(older_queue), ..self }
    }

    /// The same with another bound for going through entries.
    #[must_use]
    pub fn with_scan_bound(self, scan_bound: u32) -> Self {
        Self { scan_bound, ..self }
    }

    /// The same with another bound for starts before an instant.
    #[must_use]
    pub fn with_since_bound(self, since_bound: u32) -> Self {
        Self { since_bound, ..self }
    }
}
