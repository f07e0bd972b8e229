//! Flags and environment variables.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use live_redis::Role;
use serde::Serialize;
use service_frame::connection::{DatabaseOptions, RedisAddress, RedisArgs, RedisConnection};
use service_frame::logging::LogFormat;
use service_frame::start::StartOptions;
use service_frame::values::{address, millis, whole};
use spend_queue::BatchLimit;

use crate::audit::AuditOptions;
use crate::dead_letters::DeadLettersOptions;
use crate::operator::{LossesOptions, PeekOptions, QuarantineOptions, RepairOptions, StatusOptions};
use crate::report::ReportOptions;
use crate::trace_export::TraceOptions;

/// Carries finished calls from Redis into PostgreSQL, each exactly once: peek, commit, acknowledge.
///
/// Any number may run at the same time. Every flag can be given as an environment variable instead.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
pub(crate) struct Cli {
    /// How to log on standard error: `auto` is text on a terminal and JSON elsewhere. RUST_LOG filters.
    #[arg(long, global = true, env = "TALLYWEIR_LOG_FORMAT", default_value = "auto")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Flush until SIGTERM or SIGINT; the batch at hand is finished or left for the next run
    Run(RunOptions),
    /// Bring the database's tables up to this release
    Migrate(MigrateOptions),
    /// Look at both servers and say what is wrong, why it matters and how to mend it; exit code 1 if it is fatal
    Doctor(DoctorOptions),
    /// Show what waits in each shard, since when, and whether its index of pending spend is proven
    Status(StatusOptions),
    /// Show the head of a shard; takes nothing
    Peek(PeekOptions),
    /// Move the head of a shard aside because it cannot be settled, list what was moved aside, put it back, or mark it as
    /// dealt with
    Quarantine(QuarantineOptions),
    /// List what left the queue without being acknowledged, or mark it as dealt with
    Losses(LossesOptions),
    /// Compare Redis, the record of flushed batches and the ledger's books. Exit code: 0 exact; 1 something differs, or it could
    /// not be compared; 3 the ledger has nothing of this prefix and number of shards
    Audit(AuditOptions),
    /// Make the index of pending spend anew from the entries, where it is in doubt
    Repair(RepairOptions),
    /// Print usage, spend, open holds or overruns
    Report(ReportOptions),
    /// Look at what the ledger refused, and try it again when its cause is mended
    DeadLetters(DeadLettersOptions),
}

/// For whom the doctor asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AskedRole {
    Flusher,
    Gateway,
    Operator,
    Repairer,
}

impl From<AskedRole> for Role {
    fn from(asked: AskedRole) -> Self {
        match asked {
            AskedRole::Flusher => Self::Flusher,
            AskedRole::Gateway => Self::Gateway,
            AskedRole::Operator => Self::Operator,
            AskedRole::Repairer => Self::Repairer,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
    #[command(flatten)]
    pub(crate) redis_url: RedisAddress,
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    /// Whose rights in Redis are asked about
    #[arg(long, default_value = "flusher")]
    pub(crate) role: AskedRole,
    /// Print one JSON object: role, healthy, findings (check, severity, what, why, mend)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
    #[command(flatten)]
    pub(crate) redis: RedisConnection,
    /// Address for /metrics, /livez, /readyz and /status, such as 127.0.0.1:9464 [default: none]
    #[arg(long, env = "TALLYWEIR_LISTEN", value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Most shards that are worked on at once (1 to 64). Each takes a connection to PostgreSQL, beside two for the whole
    /// process, and memory for a batch
    #[arg(long, env = "TALLYWEIR_IN_FLIGHT", default_value = "4", value_parser = whole::<u8>(1..=64))]
    pub(crate) in_flight: u8,
    /// Smallest batch, in entries (1 to 10000)
    #[arg(long, env = "TALLYWEIR_BATCH_MIN", default_value = "100")]
    pub(crate) batch_min: BatchLimit,
    /// Largest batch, in entries (1 to 10000; best up to 2500: four are peeked at once, 10000 entries at most)
    #[arg(long, env = "TALLYWEIR_BATCH_MAX", default_value = "2000")]
    pub(crate) batch_max: BatchLimit,
    /// Wait when less than --batch-min is left, in milliseconds, so that the next batch gathers
    #[arg(long, env = "TALLYWEIR_LINGER_MS", default_value = "100", value_parser = millis)]
    pub(crate) linger_ms: Duration,
    /// Longest wait while nothing comes, in milliseconds
    #[arg(long, env = "TALLYWEIR_IDLE_MS", default_value = "500", value_parser = millis)]
    pub(crate) idle_ms: Duration,
    /// Longest wait for the batch at hand when told to stop, in milliseconds
    #[arg(long, env = "TALLYWEIR_STOP_DEADLINE_MS", default_value = "4000", value_parser = millis)]
    pub(crate) stop_deadline_ms: Duration,
    /// How long the record of flushed batches is kept, in days (0 to 36500; 0 keeps it for ever). The last batch of a shard
    /// always stays
    #[arg(long, env = "TALLYWEIR_FLUSH_LOG_DAYS", default_value = "90", value_parser = whole::<u32>(0..=36_500))]
    pub(crate) flush_log_days: u32,
    #[command(flatten)]
    pub(crate) start: StartOptions,
    /// Print one JSON object a line: event (`started`, `stopped`), version and address, or signal, seconds and totals; logs stay
    /// on standard error
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateOptions {
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
    /// Print one JSON object: applied (the migrations that this run found missing), version (the newest that is there)
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests;
