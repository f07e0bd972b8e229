//! Rate admission: one atomic decision over a whole tree.

use chrono::{DateTime, Utc};
use rate_plan::{Decision, Dimension, Limits, MAX_LIMIT, RatePlan, RateTree, Rejection, Scope, UsageError};
use spend_queue::ScopeRef;

use crate::error::{CallError, LiveRedisError};
use crate::keys::FLAT_PARTITION;
use crate::{LiveRedis, script};

/// How long the counters of a minute live after their last change.
const WINDOW_TTL_SECONDS: u32 = 120;

impl LiveRedis {
    /// Decides one request and, when every limit allows it, counts it on every node of its path: atomically,
    /// across all replicas.
    ///
    /// The same answer as [`rate_plan::admit`] on the counters of the minute of `now` (UTC). `estimate` is in
    /// tokens; a negative one counts as 0. The counters belong to the partition of the path's root. An empty
    /// path is admitted and counts nothing. A refusal is an answer, not an error, and moves no counter.
    ///
    /// # Errors
    ///
    /// When Redis did not decide: the request must not run. After [`CallError::Timeout`] or
    /// [`CallError::Connection`] it may have been counted; trying again can count it twice, never too little.
    pub async fn admit_rate_plan(
        &self,
        plan: &RatePlan<'_>,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Decision, LiveRedisError> {
        match plan.path().as_slice().last() {
            Some(&root) => {
                let partition = field(&plan.tree().nodes()[root].scope)?;
                self.admit_rate_plan_in(&partition, plan, estimate, now).await
            }
            None => Ok(Decision::Admitted),
        }
    }

    /// [`LiveRedis::admit_rate_plan`] with the counters of another partition: whatever is admitted in the same
    /// partition and minute shares them.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::admit_rate_plan`].
    pub async fn admit_rate_plan_in(
        &self,
        partition: &str,
        plan: &RatePlan<'_>,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Decision, LiveRedisError> {
        let demand = u64::try_from(estimate).unwrap_or(0);
        if demand > MAX_LIMIT {
            return Err(UsageError::EstimateTooLarge { estimate }.into());
        }
        if plan.path().is_empty() {
            return Ok(Decision::Admitted);
        }
        let minute = now.timestamp().div_euclid(60);
        let shard = self.shard_count().shard_of(partition);
        let mut call =
            script::ADMIT_TREE.key(self.shared.options.prefix.shard(shard).rate(minute, partition));
        call.arg(WINDOW_TTL_SECONDS).arg(demand);
        let order = ScriptOrder::of(plan.tree());
        call.arg(order.bottom_up.len()).arg(plan.path().len());
        for &node in plan.path().as_slice() {
            call.arg(order.number[node]);
        }
        for &node in &order.bottom_up {
            let node = &plan.tree().nodes()[node];
            call.arg(field(&node.scope)?).arg(node.parent.map_or(0, |parent| order.number[parent]));
            for limit in [node.limits.rpm, node.limits.tpm] {
                match limit {
                    Some(limit) => call.arg(limit),
                    None => call.arg(-1),
                };
            }
        }
        let answer: Vec<i64> = self.hot_script(&call).await?;
        decision(plan, &order, demand, &answer)
            .ok_or_else(|| CallError::Answer(format!("admission answered {answer:?}")).into())
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
    ) -> Result<Decision, LiveRedisError> {
        let tree = RateTree::flat(scopes)?;
        match tree.plan_of((0..tree.len()).collect()) {
            Ok(plan) => self.admit_rate_plan_in(FLAT_PARTITION, &plan, estimate, now).await,
            // Every root once, in order, is a path of a flat tree.
            Err(error) => Err(CallError::Answer(error.to_string()).into()),
        }
    }
}

/// The numbers that the script knows the nodes by: from 1, children before their parents.
struct ScriptOrder {
    bottom_up: Vec<usize>,
    number: Vec<usize>,
}

impl ScriptOrder {
    fn of(tree: &RateTree) -> Self {
        let bottom_up: Vec<usize> = tree.bottom_up().collect();
        let mut number = vec![0; tree.len()];
        for (place, &node) in bottom_up.iter().enumerate() {
            number[node] = place + 1;
        }
        Self { bottom_up, number }
    }
}

fn decision(plan: &RatePlan<'_>, order: &ScriptOrder, demand: u64, answer: &[i64]) -> Option<Decision> {
    let &[0, number, dimension, limit, used, held] = answer else {
        return (answer == [1]).then_some(Decision::Admitted);
    };
    let node = *order.bottom_up.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
    let (dimension, demand) = match dimension {
        1 => (Dimension::Rpm, 1),
        2 => (Dimension::Tpm, demand),
        _ => return None,
    };
    Some(Decision::Rejected(Rejection {
        node,
        scope: plan.tree().nodes()[node].scope.clone(),
        dimension,
        limit: u64::try_from(limit).ok()?,
        used: u64::try_from(used).ok()?,
        held_for_siblings: u64::try_from(held).ok()?,
        demand,
    }))
}

/// A node's field in the hash of its minute: the text of its scope ref, which no other scope has.
fn field(scope: &Scope) -> Result<String, LiveRedisError> {
    match ScopeRef::new(scope.kind(), scope.id()) {
        Ok(scope) => Ok(scope.to_string()),
        Err(error) => Err(CallError::Answer(error.to_string()).into()),
    }
}
