//! Flags and environment variables.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use live_redis::KeyPrefix;
use rate_sim::run::RunId;
use secrecy::SecretString;
use spend_queue::ShardCount;

/// Checks admission cases and replays request traces through the whole stack, then proves the books.
///
/// Exit codes: 0 all is well; 1 an answer differs, or the books do not agree; 2 bad usage or a failure.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Decide recorded cases and compare the answers with those that are wanted
    ///
    /// Writes one JSON line for each case to standard output, {"name","got"}; differences and a summary go to
    /// standard error.
    Check(CheckOptions),
    /// Replay a trace against Redis and PostgreSQL, wait for the flusher, and compare every sum
    ///
    /// A flusher must run meanwhile for the same Redis, prefix and database. The ledger's tables must be there.
    Replay(ReplayOptions),
    /// Write an invented trace to standard output, in the CSV format that replay reads
    Generate(GenerateOptions),
}

#[derive(Debug, Args)]
pub(crate) struct RedisOptions {
    /// Redis URL: redis://[user:password@]host[:port][/db]
    #[arg(long, env = "TALLYWEIR_REDIS_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) redis_url: Option<SecretString>,
    /// What every key in Redis starts with: 1 to 64 characters of a-z A-Z 0-9 . _ : -
    #[arg(long, env = "TALLYWEIR_PREFIX", default_value_t = KeyPrefix::default())]
    pub(crate) prefix: KeyPrefix,
    /// Over how many shards the queue is spread (1 to 16384); all hosts of a deployment use the same
    #[arg(long, env = "TALLYWEIR_SHARDS", default_value = "1")]
    pub(crate) shards: ShardCount,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// Cases, one JSON object a line: name, nodes, steps and want
    pub(crate) file: PathBuf,
    /// What decides
    #[arg(long, value_enum, default_value_t = BackendName::Reference)]
    pub(crate) backend: BackendName,
    #[command(flatten)]
    pub(crate) redis: RedisOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    /// The algorithm in memory, over the whole tree
    Reference,
    /// The algorithm in memory, over the path alone
    Incremental,
    /// The script in Redis; without a URL a private server is started for the check
    Redis,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// Trace to replay, CSV with the columns TIMESTAMP, ContextTokens and GeneratedTokens. Without it a built-in
    /// sample is replayed if --events asks for 200 requests or fewer, else invented ones
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// The most requests to replay, 1 or more [default: all of the trace; 5000 without one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) events: Option<u64>,
    /// Decides tenants, limits, who sends what, and the invented trace
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the result as one JSON object to standard output; the report for people goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether progress is drawn on standard error
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    pub(crate) progress: Progress,
    /// PostgreSQL URL: postgres://user:password@host:port/database
    #[arg(long, env = "TALLYWEIR_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) database_url: Option<SecretString>,
    #[command(flatten)]
    pub(crate) redis: RedisOptions,
    /// Producers wait while a shard of the queue holds more entries than this
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_backlog: u64,
    /// Longest wait for a shorter queue, and at the end for an empty one, in seconds (1 to 86400)
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) drain_timeout: Duration,
    /// The most events on their way to the queue at once (1 to 10000)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) concurrency: u16,
    /// Attempts for one call to Redis when its errors pass (1 to 100), with pauses from 20 ms to 2 s
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,
    /// Begins the ids of the run's tenants and requests: 1 to 24 characters of a-z 0-9, new for each run
    /// [default: made of time and process id]
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<RunId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// If standard error is a terminal
    Auto,
    /// Never
    Never,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateOptions {
    /// How many requests, 1 or more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) events: u64,
    /// The same seed gives the same trace
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => Err("a whole number of seconds from 1 to 86400 is accepted".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn secrets_are_not_shown_when_options_are_printed() {
        let args = [
            "rate-sim",
            "replay",
            "--redis-url",
            "redis://:canary@h",
            "--database-url",
            "postgres://u:canary@h/d",
        ];
        let cli = Cli::try_parse_from(args).unwrap();
        assert!(!format!("{cli:?}").contains("canary"));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for args in [
            ["replay", "--events", "0"],
            ["replay", "--drain-timeout", "0"],
            ["replay", "--concurrency", "10001"],
            ["replay", "--attempts", "0"],
            ["replay", "--shards", "0"],
            ["replay", "--run-id", "a-b"],
            ["generate", "--events", "-1"],
        ] {
            assert!(Cli::try_parse_from(["rate-sim"].iter().chain(&args)).is_err(), "{args:?}");
        }
    }
}
