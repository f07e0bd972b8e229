//! Calls, and what of them may be sent again: only what the server says that it has not run.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{
    Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ScriptInvocation, ServerErrorKind,
};
use tokio::time::{Instant, sleep};

/// The wait before a call is made again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// A call that can be made on any connection, and again.
pub(crate) enum Question<'a> {
    Script(&'a ScriptInvocation<'a>),
    Command(&'a Cmd),
    Pipeline(&'a Pipeline),
}

impl Question<'_> {
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<T> {
        match self {
            Self::Script(script) => script.invoke_async(connection).await,
            Self::Command(command) => command.query_async(connection).await,
            Self::Pipeline(pipeline) => pipeline.query_async(connection).await,
        }
    }
}

/// How long a call may be made again.
pub(crate) struct Attempts {
    give_up: Instant,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn within(deadline: Duration) -> Self {
        Self { give_up: Instant::now() + deadline, pause: FIRST_PAUSE }
    }

    /// Waits and answers `true` when the call that met this error is to be made again: it did not run, for a reason that
    /// passes, and the deadline is not over by then. What may have run is never repeated here: whoever knows that repeating is
    /// safe does it.
    pub(crate) async fn another(&mut self, error: &RedisError) -> bool {
        if !did_not_run(error) || Instant::now() + self.pause >= self.give_up {
            return false;
        }
        sleep(self.pause).await;
        self.pause *= 2;
        true
    }
}

/// Whether nothing was run, for a reason that passes by itself: the server says so, or there was no server to send it to.
fn did_not_run(error: &RedisError) -> bool {
    match error.kind() {
        // A cluster's driver learns the slots anew before it sends anything else.
        ErrorKind::Server(ServerErrorKind::Moved) | ErrorKind::ClusterConnectionNotFound => true,
        ErrorKind::Server(
            ServerErrorKind::BusyLoading | ServerErrorKind::ClusterDown | ServerErrorKind::TryAgain,
        ) => true,
        _ => is_demoted(error),
    }
}

/// Whether the server is no primary, or none that may answer.
pub(crate) fn is_demoted(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}
