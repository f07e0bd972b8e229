//! The incremental algorithm: the path alone, whatever the size of the tree, with the answers of the reference.
//!
//! For one dimension, let `u` be what a node has used and `L` its limit.
//!
//! - R(v), what v still holds at its ancestors: `max(0, L - u)` for a fixed node, S(v) for a shared one.
//! - S(v), what the children of v hold together: the sum of their R. With nothing used that is S0(v), which the tree
//!   knows ([`RateTree::promised`]); later it is `S0(v) - released(v)`, which [`NodeWindow`] keeps beside `u`.
//! - When `u` moves, in either direction, R moves by `max(0, L - u') - max(0, L - u)` at a fixed node and by what came
//!   from below at a shared one, and the parent's `released` moves by minus that. The walk ends at the root.
//!
//! So a decision reads the windows of its path and writes no others. What a fixed node of the path holds for others is
//! `S(v) - R(child) + max(0, R(child) - credit)`, where `child` is the path's node below v and `credit` is R of the
//! nearest fixed node below v on the path.
//!
//! **Consecutive admissions of one path do not change what is held against it.** An admission lowers S(v) and
//! R(child) by the same amount at every step, and R(child) and `credit` too, so that each term of `held` stays. The
//! headrooms of a path therefore say by themselves how many equal requests fit in a row, which lets a batch of them
//! be decided at once. The same holds for settling and giving back on that path.
//!
//! A flat path has no child and no credit: nothing is held, and `released` stays 0.

use crate::decision::Verdict;
use crate::path_windows::{Aligned, PathWindows, PathWindowsMut};
use crate::{
    Adjustment, Admitted, Decision, Dimension, Headroom, MAX_LIMIT, NodeWindow, RatePlan, RateTree,
    Rejection, UsageError,
};

/// Decides one request and, if it is admitted, counts it, in O(path): the same answer as [`admit`](crate::admit).
///
/// `windows` has one entry for each node of the path, leaf to root; they are those of one minute and were kept or
/// [rebuilt](crate::rebuild) for this very configuration. `estimate` is in tokens, a negative one read as 0. All or
/// nothing: without an admission no window changes.
///
/// # Errors
///
/// [`UsageError`] when the request cannot be decided upon; no window has changed. Other than the reference, this
/// cannot notice a bad counter outside the path.
pub fn admit_on_path(
    plan: &RatePlan,
    windows: &mut [NodeWindow],
    estimate: i64,
) -> Result<Decision, UsageError> {
    require_alignment(plan, windows)?;
    admit_in(plan, &mut Aligned(windows), estimate)
}

/// Answers what [`admit_on_path`] would answer, without counting.
///
/// # Errors
///
/// As [`admit_on_path`].
pub fn check_on_path(plan: &RatePlan, windows: &[NodeWindow], estimate: i64) -> Result<Decision, UsageError> {
    require_alignment(plan, windows)?;
    check_in(plan, &Aligned(windows), estimate)
}

/// Corrects what was counted on a path, in O(path), and what its nodes hold with it.
///
/// `windows` as for [`admit_on_path`]. It is no decision: usage may rise above a limit, and then nothing more is
/// admitted there. It never falls below 0 at any node.
///
/// # Errors
///
/// [`UsageError`], with [`UsageError::CounterFull`] when a counter would rise above [`MAX_LIMIT`]; no window has
/// changed.
pub fn adjust_on_path(
    plan: &RatePlan,
    windows: &mut [NodeWindow],
    change: Adjustment,
) -> Result<(), UsageError> {
    require_alignment(plan, windows)?;
    adjust_in(plan, &mut Aligned(windows), change)
}

pub(crate) fn admit_in(
    plan: &RatePlan,
    windows: &mut impl PathWindowsMut,
    estimate: i64,
) -> Result<Decision, UsageError> {
    let decision = check_in(plan, windows, estimate)?;
    if decision.is_admitted() {
        let [rpm, tpm] = Dimension::ALL.map(|dimension| dimension.demand(estimate).cast_signed());
        // It cannot fail half-way: `check_in` has found room in every counter, and every node's R within the S of its
        // parent, which shrinks by no more than that.
        apply(plan, windows, Adjustment { rpm, tpm })?;
    }
    Ok(decision)
}

pub(crate) fn check_in(
    plan: &RatePlan,
    windows: &impl PathWindows,
    estimate: i64,
) -> Result<Decision, UsageError> {
    if Dimension::Tpm.demand(estimate) > MAX_LIMIT {
        return Err(UsageError::EstimateTooLarge { estimate });
    }
    require_bounds(plan, windows)?;
    let mut headrooms = [None; 2];
    for (dimension, headroom) in Dimension::ALL.into_iter().zip(&mut headrooms) {
        match ask_limits(plan, windows, dimension, dimension.demand(estimate))? {
            Verdict::Passes(tightest) => *headroom = tightest,
            Verdict::Refuses(rejection) => return Ok(Decision::Rejected(rejection)),
        }
    }
    require_room(plan, windows, estimate)?;
    let [rpm, tpm] = headrooms;
    let usage =
        steps(plan).map(|(position, node)| windows.at(position, node).used.counted(estimate)).collect();
    Ok(Decision::Admitted(Admitted { usage, rpm, tpm }))
}

pub(crate) fn adjust_in(
    plan: &RatePlan,
    windows: &mut impl PathWindowsMut,
    change: Adjustment,
) -> Result<(), UsageError> {
    require_bounds(plan, windows)?;
    // Twice the walk instead of a copy of the path: the first finds every error, the second cannot meet one.
    let mut from_child = Adjustment::default();
    for (position, node) in steps(plan) {
        (_, from_child) = moved(plan.tree(), node, windows.at(position, node), change, from_child)?;
    }
    apply(plan, windows, change)
}

/// Writes a change that is known to succeed at every node of the path.
fn apply(plan: &RatePlan, windows: &mut impl PathWindowsMut, change: Adjustment) -> Result<(), UsageError> {
    let mut from_child = Adjustment::default();
    for (position, node) in steps(plan) {
        let (window, up) = moved(plan.tree(), node, windows.at(position, node), change, from_child)?;
        windows.put(position, node, window);
        from_child = up;
    }
    Ok(())
}

/// Positions and node indices of a path, leaf to root.
fn steps(plan: &RatePlan) -> impl Iterator<Item = (usize, usize)> + '_ {
    plan.path().as_slice().iter().copied().enumerate()
}

fn require_alignment(plan: &RatePlan, windows: &[NodeWindow]) -> Result<(), UsageError> {
    if windows.len() == plan.path().len() {
        return Ok(());
    }
    Err(UsageError::LengthMismatch { entries: windows.len(), nodes: plan.path().len() })
}

fn require_bounds(plan: &RatePlan, windows: &impl PathWindows) -> Result<(), UsageError> {
    for (position, index) in steps(plan) {
        let window = windows.at(position, index);
        for dimension in Dimension::ALL {
            let used = window.used.get(dimension);
            if used > MAX_LIMIT {
                return Err(UsageError::CounterTooLarge { index, dimension, used });
            }
            if window.released.get(dimension) > plan.tree().promised(index, dimension) {
                return Err(UsageError::Stale { index, dimension });
            }
        }
    }
    Ok(())
}

fn require_room(plan: &RatePlan, windows: &impl PathWindows, estimate: i64) -> Result<(), UsageError> {
    for dimension in Dimension::ALL {
        let demand = dimension.demand(estimate);
        for (position, index) in steps(plan) {
            let used = windows.at(position, index).used.get(dimension);
            if used.saturating_add(demand) > MAX_LIMIT {
                return Err(UsageError::CounterFull { index, dimension, used, demand });
            }
        }
    }
    Ok(())
}

/// The first node of the path, leaf to root, whose limit in this dimension refuses the demand; or else the tightest.
fn ask_limits(
    plan: &RatePlan,
    windows: &impl PathWindows,
    dimension: Dimension,
    demand: u64,
) -> Result<Verdict, UsageError> {
    let tree = plan.tree();
    let mut tightest = None;
    // R of the path's node below, and of the nearest fixed one.
    let (mut from_child, mut credit) = (0, 0);
    for (position, v) in steps(plan) {
        let (node, window) = (&tree.nodes()[v], windows.at(position, v));
        let used = window.used.get(dimension);
        // S(v), and within it what does not come from the path; both fail only on another configuration's state.
        let stale = UsageError::Stale { index: v, dimension };
        let below = tree.promised(v, dimension).checked_sub(window.released.get(dimension)).ok_or(stale)?;
        let beside = below.checked_sub(from_child).ok_or(stale)?;
        if let Some(limit) = node.limits.get(dimension) {
            let held = beside + from_child.saturating_sub(credit);
            // Three numbers below 2^53 each.
            let needed = used + held + demand;
            if limit == 0 || needed > limit {
                return Ok(Verdict::Refuses(Rejection {
                    node: v,
                    scope: node.scope.clone(),
                    dimension,
                    limit,
                    used,
                    held_for_siblings: held,
                    demand,
                }));
            }
            tightest =
                Some(Headroom::tighter(tightest, Headroom { node: v, limit, remaining: limit - needed }));
        }
        if !tree.is_flat() {
            let unused = node.limits.unused(dimension, used);
            from_child = unused.unwrap_or(below);
            credit = unused.unwrap_or(credit);
        }
    }
    Ok(Verdict::Passes(tightest))
}

/// A node's window after a change of its usage and of its path child's R, and the change of its own R.
fn moved(
    tree: &RateTree,
    index: usize,
    window: NodeWindow,
    change: Adjustment,
    from_child: Adjustment,
) -> Result<(NodeWindow, Adjustment), UsageError> {
    let NodeWindow { used, released } = window;
    let (mut after, mut up) = (window, Adjustment::default());
    for dimension in Dimension::ALL {
        let (before, from_child) = (used.get(dimension), from_child.get(dimension));
        let now = change.applied(used, dimension, index)?;
        *after.used.get_mut(dimension) = now;
        *after.released.get_mut(dimension) = released
            .get(dimension)
            .checked_sub_signed(from_child)
            .filter(|&released| released <= tree.promised(index, dimension))
            .ok_or(UsageError::Stale { index, dimension })?;
        let limits = tree.nodes()[index].limits;
        *up.get_mut(dimension) = match (limits.unused(dimension, now), limits.unused(dimension, before)) {
            // Both are below 2^53, so the difference is exact as a signed integer.
            (Some(now), Some(before)) => now.cast_signed() - before.cast_signed(),
            _ => from_child,
        };
    }
    // The next root of a flat path is nobody's parent.
    Ok((after, if tree.is_flat() { Adjustment::default() } else { up }))
}
