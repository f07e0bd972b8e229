//! The handle: its connections, its deadline, its end.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisError, ScriptInvocation};
use spend_queue::{ScopeRef, ShardCount, Usd};
use tokio::time::timeout;

use crate::admission::{AdmissionLanes, ServerClock};
use crate::connect::{Attempts, Links, Question, Wide};
use crate::contract::Contract;
use crate::error::{CallError, LiveRedisError, OpenError, Step, one_line};
use crate::options::{Options, RedisUrl};
use crate::queue::{Backlogs, EnqueueLanes};

/// Hot state in Redis, shared by all replicas of a gateway.
///
/// Cheap to clone; all clones share the connections and are closed together. Admissions, enqueues and small
/// reads go through a few multiplexed connections that reconnect by themselves, so concurrent calls pipeline; wide
/// reads have connections of their own (docs/decisions/0007). Every call ends within [`Options::deadline`].
#[derive(Clone)]
pub struct LiveRedis {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    /// Prefix and shard count: whose tickets are ours.
    pub(crate) issuer: Arc<str>,
    connections: Configured,
    pub(crate) degradations: AtomicU64,
    pub(crate) clock: ServerClock,
    pub(crate) lanes: AdmissionLanes,
    pub(crate) enqueue_lanes: EnqueueLanes,
    pub(crate) backlogs: Backlogs,
    /// Whether the shard count is known to be the deployment's.
    pub(crate) shards_agreed: AtomicBool,
}

/// Whether there is a Redis to call.
enum Configured {
    /// The host runs without one.
    No,
    /// Open, or closed for good.
    Yes(RwLock<Option<Connections>>),
}

/// The hot path is multiplexed and mends itself; the wide one is apart.
#[derive(Clone)]
struct Connections {
    hot: Links,
    wide: Wide,
}

impl Shared {
    fn new(options: Options, connections: Option<Connections>) -> Self {
        let connections = match connections {
            Some(open) => Configured::Yes(RwLock::new(Some(open))),
            None => Configured::No,
        };
        Self {
            issuer: format!("{}/{}", options.prefix, options.shards).into(),
            options,
            connections,
            degradations: AtomicU64::new(0),
            clock: ServerClock::default(),
            lanes: AdmissionLanes::default(),
            enqueue_lanes: EnqueueLanes::default(),
            backlogs: Backlogs::default(),
            shards_agreed: AtomicBool::new(false),
        }
    }

    fn connections(&self) -> Result<Connections, LiveRedisError> {
        match &self.connections {
            Configured::No => Err(LiveRedisError::NotConfigured),
            Configured::Yes(open) => {
                let open = open.read().unwrap_or_else(PoisonError::into_inner);
                Ok(open.clone().ok_or(CallError::Closed)?)
            }
        }
    }
}

impl LiveRedis {
    /// Opens with default options: parses, connects, logs in and pings.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names the step that failed and never the password; nothing stays open.
    pub async fn open(url: impl Into<RedisUrl>) -> Result<Self, OpenError> {
        Self::open_with(url, Options::default()).await
    }

    /// Opens with these options.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::open`].
    pub async fn open_with(url: impl Into<RedisUrl>, options: Options) -> Result<Self, OpenError> {
        let dialer = Arc::new(url.into().target()?.dialer(options.tls.as_ref(), options.deadline)?);
        if options.older_queue.is_some() && dialer.is_cluster() {
            let reason = "an older queue has no hash tag, so it cannot be in a Cluster";
            return Err(OpenError::new(Step::Options, reason));
        }
        let hot = step(Step::Connect, &options, Links::dial(&dialer, options.hot_connections)).await?;
        let ping = redis::cmd("PING");
        step::<String>(Step::Ping, &options, ping.query_async(&mut hot.pick().current().1)).await?;
        let wide = Wide::open(&dialer, &options).await?;
        let redis = Self { shared: Arc::new(Shared::new(options, Some(Connections { hot, wide }))) };
        match redis.stored_shard_count().await {
            Err(error @ LiveRedisError::ShardCount(_)) => {
                redis.close();
                Err(OpenError::new(Step::Options, error.to_string()))
            }
            // Whoever may not read it, or finds nonsense there, is told by the call that needs it.
            _ => Ok(redis),
        }
    }

    /// Closes all connections of this handle and of its clones. Later calls fail with [`CallError::Closed`];
    /// closing again is harmless.
    pub fn close(&self) {
        if let Configured::Yes(open) = &self.shared.connections
            && let Some(open) = open.write().unwrap_or_else(PoisonError::into_inner).take()
        {
            open.wide.close();
        }
    }

    /// A handle for a host that runs without Redis: telemetry answers its fallbacks, whatever limits, money or
    /// affinity depend on is [`LiveRedisError::NotConfigured`] (docs/decisions/0023).
    #[must_use]
    pub fn disabled() -> Self {
        Self { shared: Arc::new(Shared::new(Options::default(), None)) }
    }

    /// The options that it was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Whether the server answers: for readiness, not for decisions, which learn it from their own call. In a cluster one of its
    /// nodes is asked.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::NotConfigured`] without Redis, or why there was no answer.
    pub async fn ping(&self) -> Result<(), LiveRedisError> {
        let ping = redis::cmd("PING");
        self.strictly("ping", self.hot_command::<String>(&ping)).await.map(drop)
    }

    /// What is enqueued for a scope and not yet acknowledged, as telemetry; the queue of an older deployment is left out.
    ///
    /// Permissive: when Redis cannot be read, or holds nonsense, the answer is zero and counted in
    /// [`LiveRedis::degradations`]. Never refuse or allow spending by it.
    pub async fn hot_spend(&self, scope: &ScopeRef) -> Usd {
        self.under(Contract::Permissive, "hot_spend", self.read_hot_spend(scope)).await.unwrap_or_default()
    }

    /// How often a permissive read has answered its fallback.
    #[must_use]
    pub fn degradations(&self) -> u64 {
        self.shared.degradations.load(Ordering::Relaxed)
    }

    async fn read_hot_spend(&self, scope: &ScopeRef) -> Result<Usd, LiveRedisError> {
        let mut total = Usd::ZERO;
        let field = scope.to_string();
        for shard in self.shared.options.shards.iter() {
            let mut read = redis::cmd("HGET");
            read.arg(self.shared.options.prefix.shard(shard).hot()).arg(&field);
            let picos: Option<String> = self.hot_command(&read).await?;
            let picos = picos.map_or(Ok(0), |text| text.parse::<i64>());
            let picos = picos.map_err(|_| LiveRedisError::Damaged(format!("pending spend of {scope}")))?;
            total = total
                .checked_add(Usd::from_picos(picos.into()))
                .ok_or_else(|| LiveRedisError::Damaged(format!("pending spend of {scope}")))?;
        }
        Ok(total)
    }

    pub(crate) fn shard_count(&self) -> ShardCount {
        self.shared.options.shards
    }

    /// Runs a script on a multiplexed connection.
    pub(crate) async fn hot_script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LiveRedisError> {
        self.hot(&Question::Script(script)).await
    }

    /// Runs a command on a multiplexed connection.
    pub(crate) async fn hot_command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LiveRedisError> {
        self.hot(&Question::Command(command)).await
    }

    /// A call on a multiplexed connection. While the server says that it did not run it and that this passes (it is being
    /// loaded, demoted, or its slots move), it is made again, until the deadline.
    pub(crate) async fn hot<T: FromRedisValue>(&self, question: &Question<'_>) -> Result<T, LiveRedisError> {
        let mut attempts = Attempts::within(self.shared.options.deadline);
        self.within_deadline(async {
            loop {
                let links = self.shared.connections()?.hot;
                let link = links.pick();
                let (number, mut connection) = link.current();
                let awaited = link.awaits(number, self.patience());
                let answer = question.ask(&mut connection).await;
                awaited.came(&answer);
                match answer.inspect_err(|error| link.doubt(number, error)) {
                    Err(error) if attempts.another(&error).await => {}
                    answer => return Ok(answer?),
                }
            }
        })
        .await
    }

    /// After how long without an answer a connection is asked whether it still leads anywhere: before the deadline, so that
    /// the wait is long enough whichever of several deadlines comes first.
    fn patience(&self) -> Duration {
        self.shared.options.deadline / 2
    }

    /// Runs a script whose answer may be large where no admission waits behind it.
    pub(crate) async fn wide_script<T: FromRedisValue + Send>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LiveRedisError> {
        let wide = self.shared.connections()?.wide;
        self.within_deadline(wide.ask(&Question::Script(script))).await
    }

    /// Runs a command whose answer may be large where no admission waits behind it.
    pub(crate) async fn wide<T: FromRedisValue + Send>(&self, command: &Cmd) -> Result<T, LiveRedisError> {
        let wide = self.shared.connections()?.wide;
        self.within_deadline(wide.ask(&Question::Command(command))).await
    }

    pub(crate) async fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, LiveRedisError>>,
    ) -> Result<T, LiveRedisError> {
        let deadline = self.shared.options.deadline;
        timeout(deadline, call).await.unwrap_or(Err(CallError::Timeout(deadline).into()))
    }
}

impl fmt::Debug for LiveRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRedis").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

async fn step<T>(
    step: Step,
    options: &Options,
    call: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, OpenError> {
    match timeout(options.deadline, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(OpenError::new(step, one_line(&error))),
        Err(_) => Err(OpenError::new(step, format!("no answer within {:?}", options.deadline))),
    }
}
