//! The kinds of faults, what each disturbs, and for how long.

use std::fmt;
use std::ops::RangeInclusive;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `SIGKILL` of a flusher.
    FlusherKilled,
    /// `SIGSTOP`, later `SIGCONT` of a flusher.
    FlusherSuspended,
    /// `SIGKILL` of a gateway.
    GatewayKilled,
    /// `SIGSTOP`, later `SIGCONT` of a gateway.
    GatewaySuspended,
    /// `SIGKILL` of Redis, later its start on the same data.
    RedisKilled,
    /// `SIGTERM` of Redis, later its start on the same data.
    RedisRestarted,
    /// `SCRIPT FLUSH`.
    RedisScriptsFlushed,
    /// `maxmemory` below what is in use, for a while.
    RedisFull,
    /// `CLIENT KILL` of all clients.
    RedisClientsKilled,
    /// `DEBUG SLEEP`: the server answers nobody.
    RedisBlocked,
    /// Immediate shutdown of PostgreSQL, later its start and recovery.
    PostgresCrashed,
    /// `pg_terminate_backend` of all sessions.
    PostgresSessionsEnded,
    /// An exclusive lock on `settled_requests`, for a while.
    LedgerLocked,
    /// Locks on all rows of `scope_spend`, for a while.
    RowsLocked,
    /// Transactions that take the rows of `scope_spend` in the opposite order.
    DeadlocksForced,
    /// All connections to Redis through one proxy are cut.
    RedisLinkCut,
    /// New connections to Redis are reset, and the open ones cut.
    RedisLinkRefused,
    /// What passes to and from Redis comes late.
    RedisLinkDelayed,
    /// What is sent to Redis does not arrive.
    RedisRequestsLost,
    /// What Redis answers does not arrive, though it has executed.
    RedisRepliesLost,
    /// Connections to Redis break at the reply.
    RedisLinkCutAtReply,
    /// Connections to Redis are dead and stay open for ever.
    RedisLinkHalfOpen,
    /// All connections to PostgreSQL are cut.
    PostgresLinkCut,
    /// New connections to PostgreSQL are reset, and the open ones cut.
    PostgresLinkRefused,
    /// What passes to and from PostgreSQL comes late.
    PostgresLinkDelayed,
    /// What is sent to PostgreSQL does not arrive.
    PostgresRequestsLost,
    /// What PostgreSQL answers does not arrive, though it has executed.
    PostgresRepliesLost,
    /// Connections to PostgreSQL break at the reply, that to a commit included.
    PostgresLinkCutAtReply,
    /// Connections to PostgreSQL are dead and stay open for ever.
    PostgresLinkHalfOpen,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 29] = [
        Self::FlusherKilled,
        Self::FlusherSuspended,
        Self::GatewayKilled,
        Self::GatewaySuspended,
        Self::RedisKilled,
        Self::RedisRestarted,
        Self::RedisScriptsFlushed,
        Self::RedisFull,
        Self::RedisClientsKilled,
        Self::RedisBlocked,
        Self::PostgresCrashed,
        Self::PostgresSessionsEnded,
        Self::LedgerLocked,
        Self::RowsLocked,
        Self::DeadlocksForced,
        Self::RedisLinkCut,
        Self::RedisLinkRefused,
        Self::RedisLinkDelayed,
        Self::RedisRequestsLost,
        Self::RedisRepliesLost,
        Self::RedisLinkCutAtReply,
        Self::RedisLinkHalfOpen,
        Self::PostgresLinkCut,
        Self::PostgresLinkRefused,
        Self::PostgresLinkDelayed,
        Self::PostgresRequestsLost,
        Self::PostgresRepliesLost,
        Self::PostgresLinkCutAtReply,
        Self::PostgresLinkHalfOpen,
    ];

    /// How long it lasts, in milliseconds; 0 for what is done in a moment.
    #[must_use]
    pub const fn lasts_millis(self) -> RangeInclusive<u64> {
        match self {
            // Past the ten seconds of silence after which another flusher takes over.
            Self::FlusherSuspended => 1_000..=12_000,
            Self::GatewaySuspended => 500..=8_000,
            Self::RedisKilled | Self::RedisRestarted => 50..=1_500,
            Self::RedisFull => 1_000..=4_000,
            // Past the two seconds of a call's deadline.
            Self::RedisBlocked => 300..=4_000,
            Self::PostgresCrashed => 100..=2_000,
            Self::LedgerLocked | Self::RowsLocked => 1_000..=6_000,
            Self::DeadlocksForced => 2_000..=5_000,
            Self::RedisLinkRefused | Self::PostgresLinkRefused => 500..=3_000,
            Self::RedisLinkDelayed | Self::PostgresLinkDelayed => 1_000..=5_000,
            Self::RedisRequestsLost
            | Self::RedisRepliesLost
            | Self::PostgresRequestsLost
            | Self::PostgresRepliesLost => 500..=4_000,
            Self::RedisLinkCutAtReply | Self::PostgresLinkCutAtReply => 200..=1_500,
            Self::RedisLinkHalfOpen | Self::PostgresLinkHalfOpen => 300..=3_000,
            Self::FlusherKilled
            | Self::GatewayKilled
            | Self::RedisScriptsFlushed
            | Self::RedisClientsKilled
            | Self::PostgresSessionsEnded
            | Self::RedisLinkCut
            | Self::PostgresLinkCut => 0..=0,
        }
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlusherKilled => "flusher killed",
            Self::FlusherSuspended => "flusher suspended",
            Self::GatewayKilled => "gateway killed",
            Self::GatewaySuspended => "gateway suspended",
            Self::RedisKilled => "redis killed",
            Self::RedisRestarted => "redis restarted",
            Self::RedisScriptsFlushed => "redis scripts flushed",
            Self::RedisFull => "redis full",
            Self::RedisClientsKilled => "redis clients killed",
            Self::RedisBlocked => "redis blocked",
            Self::PostgresCrashed => "postgres crashed",
            Self::PostgresSessionsEnded => "postgres sessions ended",
            Self::LedgerLocked => "ledger locked",
            Self::RowsLocked => "rows locked",
            Self::DeadlocksForced => "deadlocks forced",
            Self::RedisLinkCut => "redis link cut",
            Self::RedisLinkRefused => "redis link refused",
            Self::RedisLinkDelayed => "redis link delayed",
            Self::RedisRequestsLost => "redis requests lost",
            Self::RedisRepliesLost => "redis replies lost",
            Self::RedisLinkCutAtReply => "redis link cut at reply",
            Self::RedisLinkHalfOpen => "redis link half-open",
            Self::PostgresLinkCut => "postgres link cut",
            Self::PostgresLinkRefused => "postgres link refused",
            Self::PostgresLinkDelayed => "postgres link delayed",
            Self::PostgresRequestsLost => "postgres requests lost",
            Self::PostgresRepliesLost => "postgres replies lost",
            Self::PostgresLinkCutAtReply => "postgres link cut at reply",
            Self::PostgresLinkHalfOpen => "postgres link half-open",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
