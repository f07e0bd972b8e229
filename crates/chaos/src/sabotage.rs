//! Falsehoods that the harness plants to prove that its judge sees them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use postgres::Client;
use redis::Connection;

use crate::checker::{Breach, Truth, Verdict, check_keys, check_ledger, check_limits};
use crate::journal::{Answer, Record};
use crate::stage::PREFIX;
use crate::tenants::tenants;

/// A falsehood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// Take an entry off the queue behind everybody's back.
    LoseEntry,
    /// Leave pending spend behind.
    LeavePending,
    /// Double a row of `scope_spend`.
    DoubleScope,
    /// Add a picodollar to a row of `usage_daily`.
    DriftDay,
    /// Delete a settled event and its guard.
    DropEvent,
    /// Delete the guard of a settled event.
    DropGuard,
    /// Copy a settled event to another day.
    CopyEvent,
    /// Settle a request that nobody meant.
    InventEvent,
    /// Change the cost of a settled event by a picodollar.
    ChangeCost,
    /// Pretend that more was admitted in a minute than a limit allows.
    ExceedLimit,
    /// Pretend that the queue accepted an id twice.
    AcceptTwice,
}

/// Whether a planted falsehood was seen.
#[derive(Debug, Clone)]
pub(crate) struct Planted {
    pub(crate) sabotage: Sabotage,
    pub(crate) caught: bool,
    /// What the judge said.
    pub(crate) verdict: Verdict,
}

impl Sabotage {
    /// What the judge must call it.
    const fn breach(self) -> Breach {
        match self {
            Self::LoseEntry | Self::DropEvent => Breach::Lost,
            Self::LeavePending => Breach::KeysLeft,
            Self::DoubleScope => Breach::ScopeSum,
            Self::DriftDay => Breach::DaySum,
            Self::DropGuard => Breach::HalfSettled,
            Self::CopyEvent => Breach::ChargedTwice,
            Self::InventEvent => Breach::NotIntended,
            Self::ChangeCost => Breach::WrongPayload,
            Self::ExceedLimit => Breach::LimitExceeded,
            Self::AcceptTwice => Breach::AcceptedTwice,
        }
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it is planted while the gateways still send.
    pub(crate) const fn is_live(self) -> bool {
        matches!(self, Self::LoseEntry)
    }

    /// The statement that plants it in the ledger.
    const fn statement(self) -> Option<&'static str> {
        Some(match self {
            Self::DoubleScope => {
                "update scope_spend set spend_usd = 2 * spend_usd \
                 where ctid = (select min(ctid) from scope_spend)"
            }
            Self::DriftDay => {
                "update usage_daily set cost_usd = cost_usd + 0.000000000001 \
                 where ctid = (select min(ctid) from usage_daily)"
            }
            Self::DropEvent => {
                "with gone as (delete from usage_events where request_id = (select min(request_id) from usage_events) \
                 returning request_id) delete from settled_requests using gone \
                 where settled_requests.request_id = gone.request_id"
            }
            Self::DropGuard => {
                "delete from settled_requests where request_id = (select min(request_id) from settled_requests)"
            }
            Self::CopyEvent => {
                "create temp table copied on commit drop as select * from usage_events order by request_id limit 1; \
                 update copied set started_at = started_at - interval '1 day'; \
                 insert into usage_events select * from copied"
            }
            Self::InventEvent => {
                "create temp table copied on commit drop as select * from usage_events order by request_id limit 1; \
                 update copied set request_id = 'nobody''s'; \
                 insert into usage_events select * from copied"
            }
            Self::ChangeCost => {
                "update usage_events set cost_usd = cost_usd + 0.000000000001 where request_id = \
                 (select min(request_id) from usage_events where cost_usd > 0)"
            }
            _ => return None,
        })
    }

    /// Plants it in drained books that were found right, judges again, and takes it away.
    pub(crate) fn plant(
        self,
        session: &mut Client,
        redis: &mut Connection,
        records: Vec<Record>,
        truth: &Truth,
    ) -> Result<Planted> {
        let mut verdict = Verdict::default();
        if let Some(statement) = self.statement() {
            let mut transaction = session.transaction()?;
            transaction.batch_execute(statement).with_context(|| format!("planting {}", self.name()))?;
            check_ledger(&mut transaction, truth, &mut verdict)?;
            transaction.rollback()?;
        } else if self == Self::LeavePending {
            let key = format!("{PREFIX}:{{0}}:hot");
            redis::cmd("HSET").arg(&key).arg("team/planted").arg(1).exec(redis)?;
            check_keys(redis, PREFIX, &mut verdict)?;
            redis::cmd("DEL").arg(&key).exec(redis)?;
        } else {
            let false_truth = Truth::of(self.falsified(records), truth.durability(), Vec::new())?;
            check_limits(&false_truth, &tenants(), &mut verdict);
            false_truth.check_answers(&mut verdict);
        }
        Ok(self.judged(verdict))
    }

    /// Whether this verdict, of books in which it was planted, shows it.
    pub(crate) fn judged(self, verdict: Verdict) -> Planted {
        let caught = verdict.count(self.breach()) > 0;
        Planted { sabotage: self, caught, verdict }
    }

    fn falsified(self, mut records: Vec<Record>) -> Vec<Record> {
        let admitted = records.iter().find(|record| matches!(record, Record::Admitted { .. })).cloned();
        let accepted = |record: &&Record| matches!(record, Record::Answered { answer: Answer::Accepted, .. });
        let accepted = records.iter().find(accepted).cloned();
        match (self, admitted, accepted) {
            (Self::ExceedLimit, Some(Record::Admitted { at, minute, .. }), _) => {
                let subjects = vec!["organization/o0".to_owned()];
                let more = Record::Admitted { at, minute, subjects, tokens: 1 };
                // The tightest organization admits 240 requests a minute.
                records.extend(std::iter::repeat_n(more, 241));
            }
            (Self::AcceptTwice, _, Some(answered)) => records.push(answered),
            _ => {}
        }
        records
    }
}

/// Takes the newest entry off the queue, which nobody can have settled yet: the flushers are suspended, and it came after.
pub(crate) fn lose_entry(redis: &mut Connection) -> Result<()> {
    let queue = format!("{PREFIX}:{{0}}:queue");
    let mut length = || -> Result<u64> { Ok(redis::cmd("LLEN").arg(&queue).query(redis)?) };
    let give_up = Instant::now() + Duration::from_secs(20);
    let before = length()?;
    // What the flushers had sent before they were suspended may still trim the list, and cannot make it longer.
    while length()? < before + 20 {
        if Instant::now() > give_up {
            bail!("no entry came that could be lost");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let taken: Option<Vec<u8>> = redis::cmd("RPOP").arg(&queue).query(redis)?;
    taken.map(drop).context("the queue was empty")
}
