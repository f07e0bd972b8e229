//! Every order of steps within bounds keeps the promises, and each planted bug breaks one.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Instant;

use hand_off_model::{Bounds, Bug, HandOff};
use stateright::{Checker, HasDiscoveries, Model};

const THREE: Bounds = Bounds { events: 3, ..Bounds::SMALL };

/// Enough for each planted bug.
const FEW: Bounds = Bounds { flushers: 1, foreign: false, late: false, ..THREE };

fn check(name: &str, bounds: Bounds) {
    let started = Instant::now();
    let checked = HandOff::new(bounds, None).checker().spawn_dfs().join();
    println!("{name}: {} states in {:.1?}", checked.unique_state_count(), started.elapsed());
    checked.assert_properties();
}

fn is_found(bug: Bug, property: &'static str) {
    let found = HasDiscoveries::AnyOf([property].into());
    let checked = HandOff::new(FEW, Some(bug)).checker().finish_when(found).spawn_bfs().join();
    let path = checked.assert_any_discovery(property);
    println!("{bug:?} after {} steps: {property}", path.into_actions().len());
}

#[test]
fn two_events_with_everything_that_may_go_wrong() {
    check("two events, one flusher, all faults", Bounds { flushers: 1, ..Bounds::SMALL });
}

#[test]
fn two_events_and_two_flushers_with_a_fail_over() {
    check("two events, fail-over", Bounds { foreign: false, late: false, ..Bounds::SMALL });
}

#[test]
fn three_events_with_crashes_and_a_fail_over() {
    check("three events, one flusher, fail-over", FEW);
}

#[test]
fn three_events_with_another_hand() {
    check("three events, another hand", Bounds { fail_over: false, late: false, ..THREE });
}

#[test]
fn three_events_with_late_requests() {
    check("three events, late requests", Bounds { fail_over: false, foreign: false, ..THREE });
}

#[test]
fn an_acknowledgement_before_the_commit_is_found() {
    is_found(Bug::AckBeforeCommit, "nothing is taken off that is not committed");
}

#[test]
fn an_acknowledgement_that_compares_the_head_alone_is_found() {
    is_found(Bug::HeadOnlyAck, "nothing is taken off that is not committed");
}

#[test]
fn a_ledger_without_a_permanent_guard_is_found() {
    is_found(Bug::NoGuard, "nothing is charged twice");
}

#[test]
fn a_mark_before_its_event_is_found() {
    is_found(Bug::MarkBeforeEvent, "what was answered for is queued, charged, or lost by Redis");
}
