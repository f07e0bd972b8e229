//! The reference algorithm: the whole tree, every time, written as the rules read.
//!
//! O(nodes) a decision. Faster algorithms are correct when they decide as this one does.

use alloc::{vec, vec::Vec};

use crate::{Decision, Dimension, Limits, MAX_LIMIT, RatePlan, RateTree, Rejection, Usage, UsageError};

/// Decides whether a request may run, given what every node has used in the minute. Changes nothing.
///
/// `usage` has one entry for each node of the tree; `estimate` is the request's tokens, a negative one read as 0.
/// The rules are those of hierarchical reservation: a fixed node keeps its unused allocation reserved at every
/// ancestor, so a request passes a fixed node of its path when what was used there, what is held there for others,
/// and its own demand stay within the limit. All RPM limits are checked, leaf to root, before any TPM limit. An
/// empty path is admitted.
///
/// # Errors
///
/// [`UsageError`] when the input cannot be decided upon: a usage slice of another length, an estimate or a counter
/// above [`MAX_LIMIT`], or a request that every limit admits but that a path counter has no room for. A request that
/// a limit rejects is rejected, whatever room there is.
pub fn check(plan: &RatePlan<'_>, usage: &[Usage], estimate: i64) -> Result<Decision, UsageError> {
    validate(plan.tree(), usage, estimate)?;
    for dimension in Dimension::ALL {
        if let Some(rejection) = first_refusal(plan, usage, dimension, dimension.demand(estimate)) {
            return Ok(Decision::Rejected(rejection));
        }
    }
    require_room(plan, usage, estimate)?;
    Ok(Decision::Admitted)
}

/// Decides as [`check`] does and, if admitted, counts 1 request and the estimate on every node of the path, shared
/// ones too. All or nothing: without an admission no counter moves.
///
/// # Errors
///
/// As [`check`]; no counter has moved.
pub fn admit(plan: &RatePlan<'_>, usage: &mut [Usage], estimate: i64) -> Result<Decision, UsageError> {
    let decision = check(plan, usage, estimate)?;
    if decision.is_admitted() {
        for &i in plan.path().as_slice() {
            // `check` has found room for both sums below MAX_LIMIT, and a path names no node twice.
            usage[i].rpm += Dimension::Rpm.demand(estimate);
            usage[i].tpm += Dimension::Tpm.demand(estimate);
        }
    }
    Ok(decision)
}

fn validate(tree: &RateTree, usage: &[Usage], estimate: i64) -> Result<(), UsageError> {
    if usage.len() != tree.len() {
        return Err(UsageError::LengthMismatch { entries: usage.len(), nodes: tree.len() });
    }
    if Dimension::Tpm.demand(estimate) > MAX_LIMIT {
        return Err(UsageError::EstimateTooLarge { estimate });
    }
    for (index, counters) in usage.iter().enumerate() {
        for dimension in Dimension::ALL {
            let used = counters.get(dimension);
            if used > MAX_LIMIT {
                return Err(UsageError::CounterTooLarge { index, dimension, used });
            }
        }
    }
    Ok(())
}

fn require_room(plan: &RatePlan<'_>, usage: &[Usage], estimate: i64) -> Result<(), UsageError> {
    for dimension in Dimension::ALL {
        let demand = dimension.demand(estimate);
        for &index in plan.path().as_slice() {
            let used = usage[index].get(dimension);
            if used.saturating_add(demand) > MAX_LIMIT {
                return Err(UsageError::CounterFull { index, dimension, used, demand });
            }
        }
    }
    Ok(())
}

/// The first node of the path, leaf to root, whose limit in this dimension refuses the demand.
fn first_refusal(
    plan: &RatePlan<'_>,
    usage: &[Usage],
    dimension: Dimension,
    demand: u64,
) -> Option<Rejection> {
    let nodes = plan.tree().nodes();
    let reserved = Reservations::new(plan.tree(), usage, dimension);
    let mut below: Option<usize> = None;
    // What the nearest fixed node below on the path has left: this request draws on it. Between the roots of a flat
    // plan it has no effect, for nothing comes from a child there.
    let mut credit: u128 = 0;
    for &v in plan.path().as_slice() {
        let child = below.filter(|&child| nodes[child].parent == Some(v));
        let from_child = child.map_or(0, |child| reserved.at[child]);
        if let Some(limit) = nodes[v].limits.get(dimension) {
            let used = usage[v].get(dimension);
            let held = reserved.below[v] - from_child + from_child.saturating_sub(credit);
            if limit == 0 || u128::from(used) + held + u128::from(demand) > u128::from(limit) {
                return Some(Rejection {
                    node: v,
                    scope: nodes[v].scope.clone(),
                    dimension,
                    limit,
                    used,
                    held_for_siblings: u64::try_from(held).unwrap_or(u64::MAX),
                    demand,
                });
            }
            credit = reserved.at[v];
        }
        below = Some(v);
    }
    None
}

/// Remaining reservations of every node in one dimension.
///
/// Sums of up to [`MAX_NODES`](crate::MAX_NODES) limits need 70 bits, hence `u128`.
struct Reservations {
    /// R(v): a fixed node's unused allocation; what a shared node passes up from its children.
    at: Vec<u128>,
    /// S(v): the sum of R over the children of v.
    below: Vec<u128>,
}

impl Reservations {
    fn new(tree: &RateTree, usage: &[Usage], dimension: Dimension) -> Self {
        let mut at = vec![0; tree.len()];
        let mut below = vec![0; tree.len()];
        for v in tree.bottom_up() {
            below[v] = tree.children(v).map(|child| at[child]).sum();
            at[v] = remaining(tree.nodes()[v].limits, usage[v], dimension).unwrap_or(below[v]);
        }
        Self { at, below }
    }
}

/// What a fixed node may still use; `None` for a shared one. Zero when the limit was lowered below the usage.
fn remaining(limits: Limits, used: Usage, dimension: Dimension) -> Option<u128> {
    limits.get(dimension).map(|limit| limit.saturating_sub(used.get(dimension)).into())
}
