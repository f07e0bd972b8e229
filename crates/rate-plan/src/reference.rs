//! The reference algorithm: the whole tree, every time, written as the rules read.
//!
//! O(nodes) a decision. Faster algorithms are correct when they decide as this one does.

use alloc::{vec, vec::Vec};

use crate::decision::Verdict;
use crate::{
    Admitted, Decision, Dimension, Headroom, MAX_LIMIT, RatePlan, RateTree, Rejection, Usage, UsageError,
};

/// Decides whether a request may run, given what every node has used in the minute. Changes nothing: it answers what
/// [`admit`] would answer.
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
pub fn check(plan: &RatePlan, usage: &[Usage], estimate: i64) -> Result<Decision, UsageError> {
    validate(plan.tree(), usage, estimate)?;
    let mut headrooms = [None; 2];
    for (dimension, headroom) in Dimension::ALL.into_iter().zip(&mut headrooms) {
        match ask_limits(plan, usage, dimension, dimension.demand(estimate)) {
            Verdict::Passes(tightest) => *headroom = tightest,
            Verdict::Refuses(rejection) => return Ok(Decision::Rejected(rejection)),
        }
    }
    require_room(plan, usage, estimate)?;
    let [rpm, tpm] = headrooms;
    let usage = plan.path().as_slice().iter().map(|&i| usage[i].counted(estimate)).collect();
    Ok(Decision::Admitted(Admitted { usage, rpm, tpm }))
}

/// Decides as [`check`] does and, if admitted, counts 1 request and the estimate on every node of the path, shared
/// ones too. All or nothing: without an admission no counter moves.
///
/// # Errors
///
/// As [`check`]; no counter has moved.
pub fn admit(plan: &RatePlan, usage: &mut [Usage], estimate: i64) -> Result<Decision, UsageError> {
    let decision = check(plan, usage, estimate)?;
    if let Decision::Admitted(admitted) = &decision {
        for (&i, &counted) in plan.path().as_slice().iter().zip(&admitted.usage) {
            usage[i] = counted;
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

fn require_room(plan: &RatePlan, usage: &[Usage], estimate: i64) -> Result<(), UsageError> {
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

/// The first node of the path, leaf to root, whose limit in this dimension refuses the demand; or else the tightest.
fn ask_limits(plan: &RatePlan, usage: &[Usage], dimension: Dimension, demand: u64) -> Verdict {
    let nodes = plan.tree().nodes();
    let reserved = Reservations::new(plan.tree(), usage, dimension);
    let mut tightest = None;
    let mut below: Option<usize> = None;
    // What the nearest fixed node below on the path has left: this request draws on it. Between the roots of a flat
    // plan it has no effect, for nothing comes from a child there.
    let mut credit = 0;
    for &v in plan.path().as_slice() {
        let child = below.filter(|&child| nodes[child].parent == Some(v));
        let from_child = child.map_or(0, |child| reserved.at[child]);
        if let Some(limit) = nodes[v].limits.get(dimension) {
            let used = usage[v].get(dimension);
            let held = reserved.below[v] - from_child + from_child.saturating_sub(credit);
            // Three numbers below 2^53 each.
            let needed = used + held + demand;
            if limit == 0 || needed > limit {
                return Verdict::Refuses(Rejection {
                    node: v,
                    scope: nodes[v].scope.clone(),
                    dimension,
                    limit,
                    used,
                    held_for_siblings: held,
                    demand,
                });
            }
            tightest =
                Some(Headroom::tighter(tightest, Headroom { node: v, limit, remaining: limit - needed }));
            credit = reserved.at[v];
        }
        below = Some(v);
    }
    Verdict::Passes(tightest)
}

/// Remaining reservations of every node in one dimension.
///
/// They only shrink from what the tree promises, which [`RateTree::new`] bounds by [`MAX_LIMIT`].
struct Reservations {
    /// R(v): a fixed node's unused allocation; what a shared node passes up from its children.
    at: Vec<u64>,
    /// S(v): the sum of R over the children of v.
    below: Vec<u64>,
}

impl Reservations {
    fn new(tree: &RateTree, usage: &[Usage], dimension: Dimension) -> Self {
        let mut at = vec![0; tree.len()];
        let mut below = vec![0; tree.len()];
        for v in tree.bottom_up() {
            below[v] = tree.children(v).map(|child| at[child]).sum();
            at[v] = tree.nodes()[v].limits.unused(dimension, usage[v].get(dimension)).unwrap_or(below[v]);
        }
        Self { at, below }
    }
}
