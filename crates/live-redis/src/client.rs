//! The handle: its connections, its deadline, its end.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use deadpool_redis::{Manager, Pool, PoolError, Runtime};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisError, ScriptInvocation};
use spend_queue::{ScopeRef, ShardCount, Usd};
use tokio::time::timeout;

use crate::admission::{Lanes, ServerClock};
use crate::error::{CallError, LiveRedisError, OpenError, Step, one_line};
use crate::options::{Options, RedisUrl};

/// Hot state in Redis, shared by all replicas of a gateway.
///
/// Cheap to clone; all clones share the connections and are closed together. Admissions, enqueues and small
/// reads go through one multiplexed connection that reconnects by itself, so concurrent calls pipeline; wide
/// reads have a pool of their own (design D11). Every call ends within [`Options::deadline`].
#[derive(Clone)]
pub struct LiveRedis {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    hot: RwLock<Option<ConnectionManager>>,
    wide: Pool,
    degradations: AtomicU64,
    pub(crate) clock: ServerClock,
    pub(crate) lanes: Lanes,
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
        let client = url.into().client()?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(options.deadline))
            .set_response_timeout(Some(options.deadline));
        let connect = ConnectionManager::new_with_config(client.clone(), config);
        let mut hot = step(Step::Connect, &options, connect).await?;
        let ping = redis::cmd("PING");
        step::<String>(Step::Ping, &options, ping.query_async(&mut hot)).await?;

        let wide_config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.deadline))
            .set_response_timeout(Some(options.deadline));
        let failed = |reason: String| OpenError::new(Step::Connect, reason);
        let info = client.get_connection_info().clone();
        let manager =
            Manager::new_with_config(info, wide_config).map_err(|error| failed(one_line(&error)))?;
        let wide = Pool::builder(manager)
            .max_size(options.wide_connections.max(1))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let shared = Shared {
            options,
            hot: RwLock::new(Some(hot)),
            wide,
            degradations: AtomicU64::new(0),
            clock: ServerClock::default(),
            lanes: Lanes::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Closes all connections of this handle and of its clones. Later calls fail with [`CallError::Closed`];
    /// closing again is harmless.
    pub fn close(&self) {
        self.shared.wide.close();
        *self.shared.hot.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The options that it was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// What is enqueued for a scope and not yet acknowledged, as telemetry.
    ///
    /// Permissive: when Redis cannot be read, or holds nonsense, the answer is zero and counted in
    /// [`LiveRedis::degradations`]. Never refuse or allow spending by it.
    pub async fn hot_spend(&self, scope: &ScopeRef) -> Usd {
        match self.read_hot_spend(scope).await {
            Ok(amount) => amount,
            Err(error) => {
                self.shared.degradations.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, "hot spend cannot be read; answered zero");
                Usd::ZERO
            }
        }
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
            let picos: Option<String> =
                self.hot(async move |mut conn| read.query_async(&mut conn).await).await?;
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

    /// Runs a script on the hot path.
    pub(crate) async fn hot_script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LiveRedisError> {
        self.hot(async |mut conn| script.invoke_async(&mut conn).await).await
    }

    /// One call on the multiplexed connection.
    pub(crate) async fn hot<T>(
        &self,
        call: impl AsyncFnOnce(ConnectionManager) -> Result<T, RedisError>,
    ) -> Result<T, LiveRedisError> {
        let conn = self.shared.hot.read().unwrap_or_else(PoisonError::into_inner).clone();
        let conn = conn.ok_or(CallError::Closed)?;
        self.within_deadline(async { Ok(call(conn).await?) }).await
    }

    /// Runs a script on a connection that nobody else uses meanwhile.
    pub(crate) async fn wide_script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LiveRedisError> {
        // Boxed: the pool's future is large, and this path is not the hot one.
        self.within_deadline(Box::pin(async {
            let mut conn = self.shared.wide.get().await.map_err(pool_error)?;
            Ok(script.invoke_async(&mut conn).await?)
        }))
        .await
    }

    /// Runs a command whose answer may be large on a connection that nobody else uses meanwhile.
    pub(crate) async fn wide<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LiveRedisError> {
        self.within_deadline(Box::pin(async {
            let mut conn = self.shared.wide.get().await.map_err(pool_error)?;
            Ok(command.query_async(&mut conn).await?)
        }))
        .await
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

fn pool_error(error: PoolError) -> LiveRedisError {
    match error {
        PoolError::Backend(error) => error.into(),
        PoolError::Closed => CallError::Closed.into(),
        other => CallError::Connection(other.to_string()).into(),
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
