//! Rate admission: one atomic decision over a whole tree, in O(path).

mod answer;
mod call;
mod clock;
mod lane;
mod rebuild;
mod settle;
mod together;

use chrono::{DateTime, Utc};
use rate_plan::{Admitted, Decision, Limits, MAX_LIMIT, RatePlan, RateTree, Scope, UsageError};
use redis::Value;

pub use answer::{Admission, SettleRefusal, Ticket};
pub(crate) use clock::ServerClock;
pub(crate) use lane::AdmissionLanes;

use crate::error::{CallError, LiveRedisError};
use crate::input::InputError;
use crate::keys::FLAT_PARTITION;
use crate::{LiveRedis, WindowClock, script};
use call::{Ask, Call, Reply, field};
use rebuild::Turn;
use std::sync::Arc;
use std::time::Duration;
use together::Together;

/// How long a call waits that has met another version of the tree while somebody else rebuilds, before it asks again; it
/// doubles. Redis tells nobody that a rebuild is done.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

impl LiveRedis {
    /// Decides one request and, when every limit allows it, counts it on every node of its path: atomically,
    /// across all replicas, in time that depends on the path and not on the tree.
    ///
    /// The same answer as [`rate_plan::admit`] on the counters of the minute of `now` (UTC), or of the server's
    /// minute with [`WindowClock::Redis`]. `estimate` is in tokens; a negative one counts as 0. The counters belong
    /// to the partition of the path's root. An empty path is admitted and counts nothing. A refusal is an answer,
    /// not an error, and moves no counter.
    ///
    /// Calls for one partition that wait while another is under way go together in the next one, in the order of
    /// their arrival, as far as they are of one version of one tree, or flat (docs/decisions/0017); each is decided as it
    /// would be alone. Dropping the future before it was sent leaves nothing behind; afterwards the
    /// request may be counted.
    ///
    /// # Errors
    ///
    /// When Redis did not decide: the request must not run. After [`CallError::Timeout`] or
    /// [`CallError::Connection`] (or [`CallError::Panicked`]) it may have been counted; trying again can count it twice, never too little.
    pub async fn admit_rate_plan(
        &self,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Admission, LiveRedisError> {
        let partition = partition_of(plan)?;
        self.admit_rate_plan_in(&partition, plan, estimate, now).await
    }

    /// [`LiveRedis::admit_rate_plan`] with the counters of another partition: whatever is admitted in the same
    /// partition and minute shares them. One partition should serve one tree; two that alternate stay exact and pay
    /// for a rebuild at each turn.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::admit_rate_plan`].
    pub async fn admit_rate_plan_in(
        &self,
        partition: &str,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Admission, LiveRedisError> {
        self.strictly("admit", self.admit_one(partition, plan, estimate, now)).await
    }

    async fn admit_one(
        &self,
        partition: &str,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Admission, LiveRedisError> {
        require_estimate(estimate)?;
        let ask = Ask { plan: plan.clone(), estimate };
        if plan.path().is_empty() {
            return self
                .admission(partition, now.timestamp(), ask, Ok(Decision::Admitted(Admitted::default())))
                .map_err(Into::into);
        }
        if self.shared.options.micro_batch <= 1 {
            let decided = self.decide(partition, std::slice::from_ref(&ask), now.timestamp()).await?;
            let decision = decided.decisions.into_iter().next();
            let decision = decision.ok_or_else(|| CallError::Answer("admission answered nothing".into()))?;
            let second = decided.second.unwrap_or(now.timestamp());
            return Ok(self.admission(partition, second, ask, decision)?);
        }
        self.admit_in_lane(partition, ask, now.timestamp()).await
    }

    /// [`LiveRedis::admit_rate_plan`] for scopes that do not depend on each other, in the order given; their
    /// counters belong to the partition [`FLAT_PARTITION`].
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::admit_rate_plan`], and when a scope occurs twice or a limit is above 2^53-1.
    pub async fn admit_rates(
        &self,
        scopes: Vec<(Scope, Limits)>,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Admission, LiveRedisError> {
        let tree = Arc::new(RateTree::flat(scopes)?);
        match tree.plan_of((0..tree.len()).collect()) {
            Ok(plan) => self.admit_rate_plan_in(FLAT_PARTITION, &plan, estimate, now).await,
            // Every root once, in order, is a path of a flat tree.
            Err(error) => Err(CallError::Answer(error.to_string()).into()),
        }
    }

    /// Decides requests of one tree in the order given, in one call: what happens to calls that wait, by hand. Flat lists of unlike
    /// scopes go together too, as long as none gives a scope other limits than one before it.
    ///
    /// Each has an answer of its own; one that cannot be decided does not touch the others.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::admit_rate_plan`], for all of them together; [`InputError::SeveralTrees`] when the plans are not of
    /// one version of one tree, or two flat ones limit a scope differently.
    pub async fn admit_rate_plans(
        &self,
        partition: &str,
        requests: &[(RatePlan, i64)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Result<Admission, UsageError>>, LiveRedisError> {
        let (mut asks, mut together) = (Vec::with_capacity(requests.len()), Together::default());
        for (place, (plan, estimate)) in requests.iter().enumerate() {
            require_estimate(*estimate)?;
            if !together.takes_plan(plan) {
                return Err(InputError::SeveralTrees { field: "requests", place }.into());
            }
            asks.push(Ask { plan: plan.clone(), estimate: *estimate });
        }
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let decided = self.decide(partition, &asks, now.timestamp()).await?;
        let second = decided.second.unwrap_or(now.timestamp());
        let each = asks.into_iter().zip(decided.decisions);
        Ok(each.map(|(ask, decision)| self.admission(partition, second, ask, decision)).collect())
    }

    /// Decides asks that go together, of one partition and minute, in one call, rebuilding first when the minute's counters belong
    /// to another version of the tree.
    async fn decide(&self, partition: &str, asks: &[Ask], now: i64) -> Result<Decided, LiveRedisError> {
        self.within_deadline(Box::pin(self.decide_unbounded(partition, asks, now))).await
    }

    async fn decide_unbounded(
        &self,
        partition: &str,
        asks: &[Ask],
        now: i64,
    ) -> Result<Decided, LiveRedisError> {
        let call = Call::new(asks)?;
        let shard = self.shard_count().shard_of(partition);
        let keys = self.shared.options.prefix.shard(shard);
        let mut pause = FIRST_PAUSE;
        let mut guess = self.shared.clock.guess(now);
        loop {
            let minute = rate_plan::minute_of(guess);
            let script = if call.is_one() { &script::ADMIT_ONE } else { &script::ADMIT_BATCH };
            let mut invocation = script.prepare_invoke();
            match self.shared.options.window_clock {
                WindowClock::Local => {
                    invocation.key(keys.rate(minute, partition));
                    call.arguments(&mut invocation, None);
                }
                WindowClock::Redis => {
                    for minute in minute - 1..=minute + 1 {
                        invocation.key(keys.rate(minute, partition));
                    }
                    call.arguments(&mut invocation, Some(minute));
                }
            }
            let answer: Vec<Value> = self.hot_script(&invocation).await?;
            match call.reply(answer)? {
                Reply::Decided { decisions, second } => {
                    self.shared.clock.learn(now, second);
                    return Ok(Decided { decisions, second });
                }
                // The server's minute was none of the three: the clocks differ by more, and now it is known by how much.
                Reply::OtherMinute { second } => {
                    self.shared.clock.learn(now, Some(second));
                    guess = second;
                }
                Reply::OtherVersion { second } => {
                    let key = keys.rate(rate_plan::minute_of(second.unwrap_or(now)), partition);
                    match self.turn(&key, &call).await? {
                        Turn::Mine => {
                            let decisions = self.rebuild(&key, &call).await?;
                            return Ok(Decided { decisions, second });
                        }
                        Turn::Done => {}
                        Turn::Anothers => {
                            // Unlike pauses, lest all come back at once.
                            tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
                            pause = LONGEST_PAUSE.min(pause * 2);
                        }
                    }
                }
            }
        }
    }

    /// An answer for the caller: the decision, and the ticket of an admission.
    fn admission(
        &self,
        partition: &str,
        second: i64,
        ask: Ask,
        decision: Result<Decision, UsageError>,
    ) -> Result<Admission, UsageError> {
        let decision = decision?;
        let ticket = decision.is_admitted().then(|| self.ticket(partition, second, ask));
        Ok(Admission { decision, second, ticket })
    }
}

/// What one call has decided.
struct Decided {
    /// One for each ask, in order.
    decisions: Vec<Result<Decision, UsageError>>,
    /// The server's unix second, where its clock chose the minute.
    second: Option<i64>,
}

fn require_estimate(estimate: i64) -> Result<(), UsageError> {
    match u64::try_from(estimate) {
        Ok(tokens) if tokens > MAX_LIMIT => Err(UsageError::EstimateTooLarge { estimate }),
        _ => Ok(()),
    }
}

/// The partition of a plan: the text of its root's scope ref.
fn partition_of(plan: &RatePlan) -> Result<String, LiveRedisError> {
    match plan.path().as_slice().last() {
        Some(&root) => field(&plan.tree().nodes()[root].scope),
        None => Ok(FLAT_PARTITION.to_owned()),
    }
}
