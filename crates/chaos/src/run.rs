//! One run: set up, disturb, heal, drain, judge.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use url::Url;

use crate::checker::{Breach, Settled, Truth, Verdict};
use crate::checker::{check_keys, check_ledger, check_limits, queue_length};
use crate::fault::Kind;
use crate::inject::{RedisStop, Target, Wound, begin};
use crate::journal::read_journals;
use crate::logs::Moments;
use crate::report::Report;
use crate::sabotage::{Planted, Sabotage, lose_entry};
use crate::schedule::Schedule;
use crate::stage::{CANARY, PREFIX, Stage};
use crate::tenants::tenants;

/// The queue must be empty so long after the last fault.
const DRAIN_WITHIN: Duration = Duration::from_secs(60);
/// A run of this length meets every kind.
const ALL_KINDS_FROM: Duration = Duration::from_secs(60);
/// How often wounds and the queue are looked after.
const TICK: Duration = Duration::from_millis(20);

/// What Redis keeps when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Durability {
    /// An append-only file, flushed before each reply: everything that was acknowledged.
    #[default]
    Always,
    /// An append-only file, flushed every second: what was acknowledged two seconds before.
    #[value(name = "everysec")]
    EverySecond,
    /// No file: nothing but what is in the ledger.
    None,
}

impl Durability {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::None => "none",
        }
    }
}

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long faults are made. The drain comes on top, and from 60 s on the rest of the first round, if need be.
    pub duration: Duration,
    /// Decides the faults and what is sent.
    pub seed: u64,
    /// What Redis keeps.
    pub durability: Durability,
    /// The `usage-flusher` program.
    pub flusher: PathBuf,
    /// The program whose subcommand `gateway` calls [`crate::gateway`].
    pub gateway: PathBuf,
    /// How many flushers.
    pub flushers: u32,
    /// How many gateways.
    pub gateways: u32,
    /// How many requests each gateway has under way.
    pub tasks: u32,
    /// Falsehoods to plant.
    pub sabotage: Vec<Sabotage>,
    /// Keep journals and logs even when all is well.
    pub keep: bool,
}

/// Makes a run.
///
/// # Errors
///
/// When it could not be made or judged. What the run found is in the report.
pub fn run(options: &Options) -> Result<Report> {
    let name = format!("tallyweir-chaos-{}-{}", options.seed, std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let ended = run_in(options, &folder);
    match ended {
        Ok(mut report) => {
            let planted_only = options.sabotage.iter().any(|sabotage| sabotage.is_live());
            if options.keep || (!report.passed() && !planted_only) {
                report.kept = Some(folder);
            } else {
                fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
            }
            Ok(report)
        }
        Err(error) => Err(error.context(format!("journals and logs: {}", folder.display()))),
    }
}

fn run_in(options: &Options, folder: &Path) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut stage = Stage::set(options, folder, &runtime)?;
    let started = Instant::now();
    let disturbed = disturb(options, &mut stage)?;
    let healed = Instant::now();
    let mut verdict = Verdict::default();
    if options.sabotage.contains(&Sabotage::LoseEntry) {
        sabotage_queue(&stage)?;
    }
    let healed = if options.sabotage.is_empty() { healed } else { Instant::now() };

    eprintln!("faults are over; draining ...");
    let gateways_restarted = stage.gateways.restarts();
    let slow = stage.gateways.retire(DRAIN_WITHIN)?;
    if slow > 0 {
        verdict.add(
            Breach::Process,
            format!("{slow} gateways had no answer {DRAIN_WITHIN:?} after the last fault"),
        );
    }
    let drained = drain(&stage, healed + DRAIN_WITHIN)?;
    if drained > 0 {
        let detail = format!("{drained} entries wait {DRAIN_WITHIN:?} after the last fault");
        verdict.add(Breach::NotDrained, detail);
    }
    let drain_seconds = healed.elapsed().as_secs_f64();
    let flushers_restarted = stage.flushers.restarts();
    let slow = stage.flushers.retire(Duration::from_secs(15))?;
    if slow > 0 {
        verdict.add(Breach::Process, format!("{slow} flushers did not end within 15 s of SIGTERM"));
    }

    eprintln!("judging ...");
    let truth = Truth::read(folder, options.durability, disturbed.redis_stops)?;
    let settled = judge(options, &stage, &truth, &mut verdict)?;
    if options.duration >= ALL_KINDS_FROM {
        for kind in Kind::ALL.iter().filter(|kind| !disturbed.faults.contains_key(kind)) {
            verdict.add(Breach::KindMissing, kind.name());
        }
    }
    let secrets = [CANARY, &password_of(stage.postgres.url())?].map(str::to_owned);
    let secrets: Vec<_> = secrets.iter().map(String::as_str).collect();
    let moments = Moments::of(folder, &secrets, &mut verdict)?;
    let planted = plant(options, &stage, folder, &truth, &mut verdict)?;
    Ok(Report {
        seed: options.seed,
        durability: options.durability,
        seconds: started.elapsed().as_secs_f64(),
        faults: disturbed.faults,
        events: truth.events(),
        answers: truth.answers,
        unknown: truth.unknown(),
        duplicates: truth.duplicates,
        conflicts: truth.conflicts,
        admitted: truth.admissions,
        refused: truth.refused,
        settled: settled.events,
        settled_picos: settled.picos,
        drain_seconds,
        restarts: [gateways_restarted, flushers_restarted],
        moments,
        verdict,
        planted,
        kept: None,
    })
}

/// What was done to a stage.
#[derive(Default)]
struct Disturbed {
    faults: BTreeMap<Kind, u32>,
    redis_stops: Vec<RedisStop>,
}

/// Makes faults until the time is over, and heals them all.
fn disturb(options: &Options, stage: &mut Stage) -> Result<Disturbed> {
    let longest = (options.duration / 4).max(Duration::from_millis(500));
    let mut schedule = Schedule::new(options.seed, longest);
    let mut disturbed = Disturbed::default();
    let mut wounds: Vec<Wound> = Vec::new();
    let started = Instant::now();
    let must_meet_all = options.duration >= ALL_KINDS_FROM;
    while started.elapsed() < options.duration || (must_meet_all && !schedule.had_all_kinds()) {
        let Some(step) = schedule.next() else { break };
        let due = Instant::now() + step.pause;
        let target = Target::of(&step, stage);
        let wound = loop {
            heal(&mut wounds, stage)?;
            let free = wounds.iter().all(|wound| wound.target != target);
            if free
                && Instant::now() >= due
                && let Some(wound) = begin(&step, stage).with_context(|| step.kind.name())?
            {
                break wound;
            }
            sleep(TICK);
        };
        eprintln!("{:>7.1} s  {} for {:?}", started.elapsed().as_secs_f64(), step.kind, step.lasts);
        *disturbed.faults.entry(step.kind).or_default() += 1;
        disturbed.redis_stops.extend(wound.redis_stop);
        wounds.push(wound);
    }
    while !wounds.is_empty() {
        heal(&mut wounds, stage)?;
        sleep(TICK);
    }
    Ok(disturbed)
}

/// Heals what is due.
fn heal(wounds: &mut Vec<Wound>, stage: &mut Stage) -> Result<()> {
    let now = Instant::now();
    let (due, later): (Vec<_>, Vec<_>) = wounds.drain(..).partition(|wound| wound.heal_at <= now);
    *wounds = later;
    due.into_iter().try_for_each(|wound| wound.heal(stage))
}

/// Waits until the queue is empty; how many entries were left when the time was over.
fn drain(stage: &Stage, until: Instant) -> Result<u64> {
    let mut redis = stage.redis_connection()?;
    loop {
        let left = queue_length(&mut redis, PREFIX)?;
        if left == 0 || Instant::now() > until {
            return Ok(left);
        }
        sleep(TICK);
    }
}

fn judge(options: &Options, stage: &Stage, truth: &Truth, verdict: &mut Verdict) -> Result<Settled> {
    let settled = check_ledger(&mut stage.postgres_session()?, truth, verdict)?;
    check_keys(&mut stage.redis_connection()?, PREFIX, verdict)?;
    check_limits(truth, &tenants(), verdict);
    truth.check_answers(verdict);
    if settled.events == 0 && options.duration > Duration::ZERO {
        verdict.add(Breach::NotDrained, "nothing was settled at all");
    }
    Ok(settled)
}

/// Loses an entry while the gateways send and the flushers stand still.
fn sabotage_queue(stage: &Stage) -> Result<()> {
    let all =
        |name| (0..stage.flushers.len()).try_for_each(|whom| stage.flushers.signal(whom, name).map(drop));
    all("STOP")?;
    // What they have sent is executed by then.
    sleep(Duration::from_millis(500));
    let lost = lose_entry(&mut stage.redis_connection()?);
    all("CONT")?;
    lost
}

/// Plants what was asked for and looks whether it is seen.
fn plant(
    options: &Options,
    stage: &Stage,
    folder: &Path,
    truth: &Truth,
    verdict: &mut Verdict,
) -> Result<Vec<Planted>> {
    let mut planted = Vec::new();
    for sabotage in &options.sabotage {
        planted.push(if sabotage.is_live() {
            // One entry was lost, so one loss is not the product's.
            let taken = std::mem::take(verdict);
            if taken.count(Breach::Lost) != 1 || taken.breaches().count() != 1 {
                verdict.merge(taken.clone());
            }
            sabotage.judged(taken)
        } else {
            let records = read_journals(folder, "g")?;
            let (mut session, mut redis) = (stage.postgres_session()?, stage.redis_connection()?);
            sabotage.plant(&mut session, &mut redis, records, truth)?
        });
    }
    Ok(planted)
}

fn password_of(url: &str) -> Result<String> {
    Ok(Url::parse(url)?.password().context("the server's URL has no password")?.to_owned())
}
