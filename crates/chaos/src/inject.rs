//! How each fault is made, and healed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use devstack::{Mode, Proxy};
use postgres::Client;
use postgres::error::SqlState;

use crate::clock::now_micros;
use crate::fault::Kind;
use crate::pressure::Pressure;
use crate::schedule::Step;
use crate::stage::Stage;

/// What a fault strikes. One fault at a time strikes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Flusher(usize),
    Gateway(usize),
    Redis,
    Postgres,
    RedisLink(usize),
    PostgresLink,
}

impl Target {
    pub(crate) fn of(step: &Step, stage: &Stage) -> Self {
        use Kind as K;
        match step.kind {
            K::FlusherKilled | K::FlusherSuspended => Self::Flusher(step.whom % stage.flushers.len()),
            K::GatewayKilled | K::GatewaySuspended => Self::Gateway(step.whom % stage.gateways.len()),
            K::RedisKilled
            | K::RedisRestarted
            | K::RedisScriptsFlushed
            | K::RedisFull
            | K::RedisClientsKilled
            | K::RedisBlocked => Self::Redis,
            K::PostgresCrashed
            | K::PostgresSessionsEnded
            | K::LedgerLocked
            | K::RowsLocked
            | K::DeadlocksForced => Self::Postgres,
            K::RedisLinkCut
            | K::RedisLinkRefused
            | K::RedisLinkDelayed
            | K::RedisRequestsLost
            | K::RedisRepliesLost
            | K::RedisLinkCutAtReply
            | K::RedisLinkHalfOpen => Self::RedisLink(step.whom % stage.redis_links.len()),
            K::PostgresLinkCut
            | K::PostgresLinkRefused
            | K::PostgresLinkDelayed
            | K::PostgresRequestsLost
            | K::PostgresRepliesLost
            | K::PostgresLinkCutAtReply
            | K::PostgresLinkHalfOpen => Self::PostgresLink,
        }
    }

    fn link<'a>(&self, stage: &'a Stage) -> &'a Proxy {
        match self {
            Self::RedisLink(number) => &stage.redis_links[*number],
            _ => &stage.postgres_link,
        }
    }
}

/// A stop of Redis, by which it may have lost what it had acknowledged. Microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedisStop {
    /// Just before it was stopped.
    pub(crate) from: i64,
    /// When it was gone.
    pub(crate) until: i64,
    /// By `SIGKILL`.
    pub(crate) killed: bool,
}

/// A fault that has begun.
pub(crate) struct Wound {
    pub(crate) target: Target,
    pub(crate) heal_at: Instant,
    pub(crate) redis_stop: Option<RedisStop>,
    cure: Cure,
}

/// What ends a fault.
enum Cure {
    None,
    Resume,
    StartRedis,
    StartPostgres,
    Memory,
    /// Dropping a session rolls back, and releases what it locked.
    Session(Box<Client>),
    Pressure(Pressure),
    Pass,
}

/// Begins a fault; `None` when it cannot begin yet.
pub(crate) fn begin(step: &Step, stage: &mut Stage) -> Result<Option<Wound>> {
    let target = Target::of(step, stage);
    let mut redis_stop = None;
    let cure = match step.kind {
        Kind::FlusherKilled | Kind::GatewayKilled | Kind::FlusherSuspended | Kind::GatewaySuspended => {
            let Some(cure) = strike_process(step.kind, target, stage)? else { return Ok(None) };
            cure
        }
        Kind::RedisKilled | Kind::RedisRestarted => {
            let (from, killed) = (now_micros(), step.kind == Kind::RedisKilled);
            if killed {
                stage.redis.kill();
            } else {
                stage.redis.stop()?;
            }
            redis_stop = Some(RedisStop { from, until: now_micros(), killed });
            Cure::StartRedis
        }
        Kind::RedisScriptsFlushed | Kind::RedisFull | Kind::RedisClientsKilled | Kind::RedisBlocked => {
            strike_redis(step, stage)?
        }
        Kind::PostgresCrashed => {
            stage.postgres.stop_immediate()?;
            Cure::StartPostgres
        }
        Kind::PostgresSessionsEnded | Kind::LedgerLocked | Kind::RowsLocked | Kind::DeadlocksForced => {
            let Some(cure) = strike_ledger(step.kind, stage)? else { return Ok(None) };
            cure
        }
        _ => strike_link(step, target.link(stage)),
    };
    Ok(Some(Wound { target, heal_at: Instant::now() + step.lasts, redis_stop, cure }))
}

fn strike_process(kind: Kind, target: Target, stage: &Stage) -> Result<Option<Cure>> {
    let (crew, whom) = match target {
        Target::Gateway(whom) => (&stage.gateways, whom),
        Target::Flusher(whom) => (&stage.flushers, whom),
        _ => return Ok(None),
    };
    let (signal, cure) = match kind {
        Kind::FlusherSuspended | Kind::GatewaySuspended => ("STOP", Cure::Resume),
        _ => ("KILL", Cure::None),
    };
    // One that is being started again is struck when it is there.
    Ok(crew.signal(whom, signal)?.then_some(cure))
}

fn strike_redis(step: &Step, stage: &Stage) -> Result<Cure> {
    let mut connection = stage.redis_connection()?;
    match step.kind {
        Kind::RedisFull => {
            redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).exec(&mut connection)?;
            return Ok(Cure::Memory);
        }
        Kind::RedisClientsKilled => {
            // The default spares the caller.
            redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut connection)?;
        }
        Kind::RedisBlocked => {
            let seconds = format!("{:.3}", step.lasts.as_secs_f64());
            let sleep = redis::cmd("DEBUG").arg("SLEEP").arg(seconds).get_packed_command();
            // Its answer is not waited for: it comes when the fault is over.
            connection.send_packed_command(&sleep)?;
        }
        _ => redis::cmd("SCRIPT").arg("FLUSH").arg("SYNC").exec(&mut connection)?,
    }
    Ok(Cure::None)
}

fn strike_ledger(kind: Kind, stage: &Stage) -> Result<Option<Cure>> {
    let mut session = stage.postgres_session()?;
    let statements = match kind {
        Kind::DeadlocksForced => return Ok(Some(Cure::Pressure(Pressure::start(session)))),
        Kind::LedgerLocked => "lock table settled_requests in access exclusive mode",
        Kind::RowsLocked => "select count(*) from (select 1 from scope_spend for update) as locked",
        _ => {
            let all = "select pg_terminate_backend(pid) from pg_stat_activity \
                       where pid <> pg_backend_pid() and datname = current_database()";
            session.batch_execute(all)?;
            return Ok(Some(Cure::None));
        }
    };
    session.batch_execute("begin; set local lock_timeout = '1s'")?;
    match session.batch_execute(statements) {
        Ok(()) => Ok(Some(Cure::Session(Box::new(session)))),
        // A flusher that is suspended amid a transaction has them.
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(None),
        Err(error) => Err(error).context("locking"),
    }
}

fn strike_link(step: &Step, link: &Proxy) -> Cure {
    match step.kind {
        Kind::RedisLinkRefused | Kind::PostgresLinkRefused => {
            link.set(Mode::Refuse);
            link.cut();
        }
        Kind::RedisLinkDelayed | Kind::PostgresLinkDelayed => {
            // From a busy network to past the deadline of a call.
            let delay = u64::try_from(50 + step.whom % 40 * 60).unwrap_or(50);
            link.set(Mode::Delay(Duration::from_millis(delay)));
        }
        Kind::RedisRequestsLost | Kind::PostgresRequestsLost => link.set(Mode::DropRequests),
        Kind::RedisRepliesLost | Kind::PostgresRepliesLost => link.set(Mode::DropReplies),
        Kind::RedisLinkCutAtReply | Kind::PostgresLinkCutAtReply => link.set(Mode::CutAtReply),
        Kind::RedisLinkHalfOpen | Kind::PostgresLinkHalfOpen => link.set(Mode::HalfOpen),
        _ => {
            link.cut();
            return Cure::None;
        }
    }
    Cure::Pass
}

impl Wound {
    /// Ends the fault.
    pub(crate) fn heal(self, stage: &mut Stage) -> Result<()> {
        match (self.cure, self.target) {
            (Cure::None, _) => {}
            (Cure::Resume, Target::Gateway(whom)) => drop(stage.gateways.signal(whom, "CONT")?),
            (Cure::Resume, Target::Flusher(whom)) => drop(stage.flushers.signal(whom, "CONT")?),
            (Cure::Resume, _) => {}
            (Cure::StartRedis, _) => stage.redis.start_again()?,
            (Cure::StartPostgres, _) => stage.postgres.start_again()?,
            (Cure::Memory, _) => {
                let mut connection = stage.redis_connection()?;
                redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0).exec(&mut connection)?;
            }
            (Cure::Session(session), _) => drop(session),
            (Cure::Pressure(pressure), _) => drop(pressure.end()?),
            (Cure::Pass, target) => target.link(stage).set(Mode::Pass),
        }
        Ok(())
    }
}
