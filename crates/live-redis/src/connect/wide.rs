//! Connections for large answers, apart from the hot ones.

use std::sync::Arc;

use deadpool_redis::{Manager, Pool, PoolError, Runtime};
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisError, ScriptInvocation};

use super::{Dialer, Link};
use crate::error::{CallError, LiveRedisError, OpenError, Step, one_line};
use crate::options::Options;

/// Where wide reads go: never before an admission in the same connection (docs/decisions/0007).
#[derive(Clone)]
pub(crate) enum Wide {
    /// A pool to one server.
    Pool(Pool),
    /// A second multiplexed connection, for targets whose primaries move: it knows how to follow them.
    Apart(Arc<Link>),
}

impl Wide {
    pub(crate) async fn open(dialer: &Arc<Dialer>, options: &Options) -> Result<Self, OpenError> {
        let failed = |reason: String| OpenError::new(Step::Connect, reason);
        let Some(client) = dialer.standalone() else {
            let link = Link::dial(Arc::clone(dialer)).await;
            return link.map(Self::Apart).map_err(|error| failed(one_line(&error)));
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.deadline))
            .set_response_timeout(Some(options.deadline));
        // The connection's description carries its certificates.
        let info = client.get_connection_info().clone();
        let manager = Manager::new_with_config(info, config).map_err(|error| failed(one_line(&error)))?;
        Pool::builder(manager)
            .max_size(options.wide_connections.max(1))
            .runtime(Runtime::Tokio1)
            .build()
            .map(Self::Pool)
            .map_err(|error| failed(error.to_string()))
    }

    pub(crate) fn close(&self) {
        if let Self::Pool(pool) = self {
            pool.close();
        }
    }

    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LiveRedisError> {
        match self {
            Self::Pool(pool) => Ok(script.invoke_async(&mut pool.get().await.map_err(pool_error)?).await?),
            Self::Apart(link) => {
                let (number, mut connection) = link.current();
                doubting(link, number, script.invoke_async(&mut connection).await)
            }
        }
    }

    pub(crate) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LiveRedisError> {
        match self {
            Self::Pool(pool) => Ok(command.query_async(&mut pool.get().await.map_err(pool_error)?).await?),
            Self::Apart(link) => {
                let (number, mut connection) = link.current();
                doubting(link, number, command.query_async(&mut connection).await)
            }
        }
    }
}

fn doubting<T>(link: &Arc<Link>, number: u64, answer: Result<T, RedisError>) -> Result<T, LiveRedisError> {
    answer.map_err(|error| {
        link.doubt(number, &error);
        error.into()
    })
}

fn pool_error(error: PoolError) -> LiveRedisError {
    match error {
        PoolError::Backend(error) => error.into(),
        PoolError::Closed => CallError::Closed.into(),
        other => CallError::Connection(other.to_string()).into(),
    }
}
