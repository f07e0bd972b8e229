//! Connections for large answers, apart from the hot ones.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::{Connection, Manager, Pool, PoolError, Runtime};
use futures_util::future::BoxFuture;
use redis::{AsyncConnectionConfig, FromRedisValue};

use super::resend::is_demoted;
use super::{Attempts, Dialer, Link, Question};
use crate::error::{CallError, LiveRedisError, OpenError, Step, one_line};
use crate::options::Options;

/// Where wide reads go: never before an admission in the same connection (docs/decisions/0007).
#[derive(Clone)]
pub(crate) enum Wide {
    /// A pool to one server, and how long a call may take.
    Pool(Pool, Duration),
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
            .map(|pool| Self::Pool(pool, options.deadline))
            .map_err(|error| failed(error.to_string()))
    }

    pub(crate) fn close(&self) {
        if let Self::Pool(pool, _) = self {
            pool.close();
        }
    }

    /// Asks, and asks again while nothing was run for a reason that passes.
    ///
    /// Boxed: the pool's future is large and nests deeply, and a host's own may be deep too.
    pub(crate) fn ask<'a, T: FromRedisValue + Send + 'a>(
        &'a self,
        question: &'a Question<'_>,
    ) -> BoxFuture<'a, Result<T, LiveRedisError>> {
        Box::pin(self.ask_unboxed(question))
    }

    async fn ask_unboxed<T: FromRedisValue>(&self, question: &Question<'_>) -> Result<T, LiveRedisError> {
        let mut attempts = Attempts::within(self.deadline());
        loop {
            let answer = match self {
                Self::Pool(pool, _) => {
                    let mut connection = pool.get().await.map_err(pool_error)?;
                    let answer = question.ask(&mut connection).await;
                    if answer.as_ref().is_err_and(is_demoted) {
                        // The name may lead to another server by now, and this connection never will.
                        drop(Connection::take(connection));
                    }
                    answer
                }
                Self::Apart(link) => {
                    let (number, mut connection) = link.current();
                    let answer = question.ask(&mut connection).await;
                    answer.inspect_err(|error| link.doubt(number, error))
                }
            };
            match answer {
                Err(error) if attempts.another(&error).await => {}
                answer => return Ok(answer?),
            }
        }
    }

    fn deadline(&self) -> Duration {
        match self {
            Self::Pool(_, deadline) => *deadline,
            Self::Apart(link) => link.deadline(),
        }
    }
}

fn pool_error(error: PoolError) -> LiveRedisError {
    match error {
        PoolError::Backend(error) => error.into(),
        PoolError::Closed => CallError::Closed.into(),
        other => CallError::Connection(other.to_string()).into(),
    }
}
