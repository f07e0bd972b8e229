//! What each command does.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use chrono::Utc;
use devstack::RedisServer;
use iam_ledger::{Ledger, LedgerOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use live_redis::LiveRedis;
use rate_sim::check::{self, Backend, CheckSummary, Incremental, Redis, Reference};
use rate_sim::drain::drain;
use rate_sim::generator::Generator;
use rate_sim::reconcile::reconcile;
use rate_sim::report::Findings;
use rate_sim::run::RunId;
use rate_sim::source::Source;
use rate_sim::tenants::Tenants;
use rate_sim::{cases, enrol, prices, replay, trace};
use secrecy::{ExposeSecret, SecretString};
use spend_queue::ScopeRef;
use tokio::time::Instant;

use crate::cli::{
    BackendName, CheckOptions, Command, GenerateOptions, Progress, RedisOptions, ReplayOptions,
};

/// Requests of a replay without a trace, unless `--events` says otherwise.
const DEFAULT_EVENTS: u64 = 5_000;

/// Whether what was asked for turned out well; an error is something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Bad,
}

impl From<bool> for Verdict {
    fn from(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

pub(crate) async fn run(command: Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Check(options) => check(options).await,
        Command::Replay(options) => replay(options).await,
        Command::Generate(options) => generate(&options),
    }
}

async fn check(options: CheckOptions) -> anyhow::Result<Verdict> {
    let cases = cases::read_file(&options.file)?;
    let summary = match options.backend {
        BackendName::Reference => decide(&mut Reference::default(), &cases).await?,
        BackendName::Incremental => decide(&mut Incremental::default(), &cases).await?,
        BackendName::Redis => {
            // Kept until the end of the check, which is the end of a server that was started for it.
            let (url, _server) = match given(options.redis.redis_url.as_ref()) {
                Some(url) => (url.clone(), None),
                None => start_redis().await?,
            };
            let redis = open_redis(&url, &options.redis).await?;
            let mut backend = Redis::new(redis, new_run_id()?.to_string());
            decide(&mut backend, &cases).await?
        }
    };
    let CheckSummary { cases, decisions, differing_cases, differences, without_want } = summary;
    let unwanted = match without_want {
        0 => String::new(),
        count => format!(", {count} without wanted answers"),
    };
    eprintln!(
        "{cases} cases, {decisions} decisions: {differences} differ in {differing_cases} cases{unwanted}"
    );
    Ok(Verdict::from(differences == 0))
}

async fn decide(backend: &mut impl Backend, cases: &[cases::Case]) -> anyhow::Result<CheckSummary> {
    let output = BufWriter::new(io::stdout().lock());
    Ok(check::run(backend, cases, output, |difference| eprintln!("{difference}")).await?)
}

async fn start_redis() -> anyhow::Result<(SecretString, Option<RedisServer>)> {
    let start = || RedisServer::builder().start();
    let server = tokio::task::spawn_blocking(start)
        .await?
        .context("no --redis-url given, and no server of its own")?;
    eprintln!("no --redis-url given: started a private Redis server for this check");
    Ok((SecretString::from(server.url()), Some(server)))
}

async fn replay(options: ReplayOptions) -> anyhow::Result<Verdict> {
    let (Some(redis_url), Some(database_url)) =
        (given(options.redis.redis_url.as_ref()), given(options.database_url.as_ref()))
    else {
        bail!(
            "a replay needs --redis-url and --database-url, or TALLYWEIR_REDIS_URL and TALLYWEIR_DATABASE_URL"
        );
    };
    let source = match options.trace {
        Some(path) => Source::Trace { path, limit: options.events.unwrap_or(u64::MAX) },
        None => Source::BuiltIn { requests: options.events.unwrap_or(DEFAULT_EVENTS), seed: options.seed },
    };
    let (count, requests) = source.open(Utc::now())?;
    let redis = open_redis(redis_url, &options.redis).await?;
    let ledger_options =
        LedgerOptions { application_name: "rate-sim".to_owned(), ..LedgerOptions::default() };
    let ledger = Ledger::connect(database_url, ledger_options).await?;
    ledger.require_migrated().await?;

    let start = Instant::now();
    let run_id = options.run_id.map_or_else(new_run_id, Ok)?;
    let tenants = Tenants::new(options.seed, run_id.as_str());
    let scopes = scopes(&tenants)?;
    let enrolled = enrol::enrol(&ledger, &tenants).await?;
    let replay_options = replay::ReplayOptions {
        run_id: run_id.clone(),
        seed: options.seed,
        concurrency: options.concurrency.into(),
        max_backlog: options.max_backlog,
        patience: options.drain_timeout,
        attempts: options.attempts,
    };
    let bar = progress_bar(options.progress, "replaying", count)?;
    let models = prices::models()?;
    let played =
        replay::replay(replay_options, redis.clone(), tenants, enrolled, models, requests, bar.clone())
            .await?;
    bar.finish_and_clear();

    let bar = progress_bar(options.progress, "settling", played.journal.fingerprint.events)?;
    let not_drained = drain(&redis, &ledger, &played.journal, options.drain_timeout, &bar).await?;
    bar.finish_and_clear();
    let reconciliation = reconcile(&redis, &ledger, &run_id, &played.journal, &scopes).await?;
    redis.close();
    ledger.close().await;

    let findings = Findings::new(played, reconciliation, not_drained, start.elapsed())?;
    if options.json {
        eprint!("{findings}");
        writeln!(io::stdout(), "{}", serde_json::to_string(&findings.report())?)?;
    } else {
        write!(io::stdout(), "{findings}")?;
    }
    Ok(Verdict::from(findings.reconciled()))
}

fn generate(options: &GenerateOptions) -> anyhow::Result<Verdict> {
    let requests = Generator::new(options.seed).take(usize::try_from(options.events)?);
    trace::write(BufWriter::new(io::stdout().lock()), requests)?;
    Ok(Verdict::Good)
}

/// An empty environment variable is none.
fn given(url: Option<&SecretString>) -> Option<&SecretString> {
    url.filter(|url| !url.expose_secret().is_empty())
}

async fn open_redis(url: &SecretString, options: &RedisOptions) -> anyhow::Result<LiveRedis> {
    let redis =
        live_redis::Options::default().with_prefix(options.prefix.clone()).with_shards(options.shards);
    Ok(LiveRedis::open_with(url.expose_secret(), redis).await?)
}

fn new_run_id() -> anyhow::Result<RunId> {
    let now: Duration =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(RunId::of_process(now, std::process::id()))
}

fn scopes(tenants: &Tenants) -> anyhow::Result<Vec<ScopeRef>> {
    let all = tenants.organizations.iter().flat_map(|organization| &organization.tenants);
    all.map(|tenant| Ok(ScopeRef::new(tenant.kind.as_str(), tenant.id.as_str())?)).collect()
}

fn progress_bar(progress: Progress, title: &'static str, length: u64) -> anyhow::Result<ProgressBar> {
    let target = match progress {
        // Draws nothing unless standard error is a terminal.
        Progress::Auto => ProgressDrawTarget::stderr(),
        Progress::Never => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}")?;
    Ok(ProgressBar::with_draw_target(Some(length), target).with_style(style).with_message(title))
}
