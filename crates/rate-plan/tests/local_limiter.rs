//! The limiter of one process: its minutes, its tickets, and changes of configuration in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;
use std::thread;

use rate_plan::{
    Limits, LocalError, LocalLimiter, MAX_LIMIT, Node, RatePlan, RateTree, Scope, SettleError, Ticket, Usage,
    UsageError,
};

/// The first second of a minute.
const NOW: i64 = 60 * 28_333_000;

fn node(kind: &str, id: &str, parent: Option<usize>, rpm: Option<u64>, tpm: Option<u64>) -> Node {
    Node { scope: Scope::new(kind, id).unwrap(), parent, limits: Limits { rpm, tpm } }
}

/// An organization and a key below it.
fn tree(rpm: Option<u64>, tpm: Option<u64>) -> Arc<RateTree> {
    let nodes =
        vec![node("organization", "o", None, rpm, tpm), node("key", "k", Some(0), None, Some(MAX_LIMIT))];
    Arc::new(RateTree::new(nodes).unwrap())
}

fn plan(limiter: &LocalLimiter) -> RatePlan {
    limiter.tree().plan(1).unwrap()
}

fn ticket(limiter: &LocalLimiter, estimate: i64, now: i64) -> Ticket {
    limiter.admit(&plan(limiter), estimate, now).unwrap().into_ticket().unwrap()
}

fn used(limiter: &LocalLimiter, now: i64) -> Usage {
    let usage = limiter.usage(now).unwrap();
    assert_eq!(usage[0], usage[1]);
    usage[0]
}

#[test]
fn every_minute_has_the_whole_limit() {
    let limiter = LocalLimiter::new(tree(Some(1), None));
    for minute in 0..3 {
        let now = NOW + 60 * minute;
        assert!(limiter.admit(&plan(&limiter), 1, now + 59).unwrap().is_admitted());
        let refused = limiter.admit(&plan(&limiter), 1, now + 42).unwrap();
        assert_eq!(refused.decision().rejection().unwrap().to_string(), "organization rpm_limit");
        assert_eq!(refused.retry_after(now + 42), Some(18));
        assert!(refused.ticket().is_none());
    }
}

#[test]
fn a_hundred_threads_that_race_for_seven_requests_get_exactly_seven() {
    let limiter = LocalLimiter::new(tree(Some(7), None));
    let admitted = thread::scope(|scope| {
        let race = || limiter.admit(&plan(&limiter), 1, NOW).unwrap().is_admitted();
        let racers: Vec<_> = (0..100).map(|_| scope.spawn(race)).collect();
        racers.into_iter().map(|racer| usize::from(racer.join().unwrap())).sum::<usize>()
    });
    assert_eq!(admitted, 7);
    assert_eq!(used(&limiter, NOW).rpm, 7);
}

#[test]
fn what_was_used_may_be_as_much_as_a_limit_can_be_and_no_more() {
    let limiter = LocalLimiter::new(tree(None, None));
    let ticket = ticket(&limiter, 40, NOW);
    let most = i64::try_from(MAX_LIMIT).unwrap();
    assert_eq!(
        limiter.settle(&ticket, most + 1),
        Err(SettleError::ActualTooLarge { actual_tokens: most + 1 })
    );
    limiter.settle(&ticket, most).unwrap();
    assert_eq!(used(&limiter, NOW), Usage { rpm: 1, tpm: MAX_LIMIT });
}

#[test]
fn an_admission_lends_its_ticket_and_a_limiter_shows_its_minutes() {
    let limiter = LocalLimiter::new(tree(None, None));
    let admission = limiter.admit(&plan(&limiter), 1, NOW).unwrap();
    assert_eq!(admission.ticket().unwrap().minute(), NOW / 60);
    let shown = format!("{limiter:?}");
    assert!(shown.contains("LocalLimiter") && shown.contains(&(NOW / 60).to_string()), "{shown}");
}

#[test]
fn settling_corrects_the_tokens_in_both_directions_once() {
    let limiter = LocalLimiter::new(tree(None, Some(100)));
    let (low, high) = (ticket(&limiter, 40, NOW), ticket(&limiter, 60, NOW));
    limiter.settle(&low, 90).unwrap();
    assert_eq!(used(&limiter, NOW), Usage { rpm: 2, tpm: 150 });
    limiter.settle(&high, 5).unwrap();
    assert_eq!(used(&limiter, NOW), Usage { rpm: 2, tpm: 95 });
    for closed in [&low, &high] {
        assert_eq!(limiter.settle(closed, 1), Err(SettleError::Repeated));
        assert_eq!(limiter.refund(closed), Err(SettleError::Repeated));
    }
    assert_eq!(used(&limiter, NOW), Usage { rpm: 2, tpm: 95 });
    assert!(limiter.admit(&plan(&limiter), 5, NOW).unwrap().is_admitted());
}

#[test]
fn a_refund_gives_request_and_tokens_back_once() {
    let limiter = LocalLimiter::new(tree(Some(1), None));
    let unused = ticket(&limiter, 40, NOW);
    limiter.refund(&unused).unwrap();
    assert_eq!(used(&limiter, NOW), Usage::default());
    assert_eq!(limiter.refund(&unused), Err(SettleError::Repeated));
    assert_eq!(limiter.settle(&unused, 3), Err(SettleError::Repeated));
    assert!(limiter.admit(&plan(&limiter), 1, NOW).unwrap().is_admitted());
}

#[test]
fn many_threads_that_settle_one_ticket_settle_it_once() {
    let limiter = LocalLimiter::new(tree(None, None));
    let ticket = ticket(&limiter, 10, NOW);
    let settled = thread::scope(|scope| {
        let race = || limiter.settle(&ticket, 15).is_ok();
        let racers: Vec<_> = (0..16).map(|_| scope.spawn(race)).collect();
        racers.into_iter().map(|racer| usize::from(racer.join().unwrap())).sum::<usize>()
    });
    assert_eq!((settled, used(&limiter, NOW).tpm), (1, 15));
}

#[test]
fn a_ticket_corrects_its_own_minute_and_no_later_one() {
    let limiter = LocalLimiter::new(tree(None, None));
    let early = ticket(&limiter, 10, NOW);
    let _later = ticket(&limiter, 7, NOW + 60);
    limiter.settle(&early, 4).unwrap();
    assert_eq!(used(&limiter, NOW).tpm, 4);
    assert_eq!(used(&limiter, NOW + 60).tpm, 7);
}

#[test]
fn a_ticket_expires_when_its_minute_is_forgotten() {
    let limiter = LocalLimiter::new(tree(None, None));
    let early = ticket(&limiter, 10, NOW);
    let _later = ticket(&limiter, 7, NOW + 120);
    let expired = SettleError::Expired { minute: NOW / 60 };
    assert_eq!(limiter.settle(&early, 4), Err(expired));
    assert_eq!(limiter.refund(&early), Err(expired));
    assert_eq!(limiter.usage(NOW), None);
    assert_eq!(used(&limiter, NOW + 120), Usage { rpm: 1, tpm: 7 });
}

#[test]
fn a_ticket_of_another_limiter_is_refused_by_this_one_and_stays_good_for_its_own() {
    let shared = tree(None, None);
    let (one, other) = (LocalLimiter::new(Arc::clone(&shared)), LocalLimiter::new(shared));
    let ticket = ticket(&one, 10, NOW);
    assert!(other.admit(&plan(&other), 10, NOW).unwrap().is_admitted());
    assert_eq!(other.settle(&ticket, 1), Err(SettleError::Foreign));
    assert_eq!(other.refund(&ticket), Err(SettleError::Foreign));
    assert_eq!(used(&other, NOW).tpm, 10);
    one.settle(&ticket, 1).unwrap();
}

#[test]
fn time_may_run_back_into_the_minute_before_and_no_further() {
    let limiter = LocalLimiter::new(tree(Some(1), None));
    assert!(limiter.admit(&plan(&limiter), 1, NOW + 60).unwrap().is_admitted());
    assert!(limiter.admit(&plan(&limiter), 1, NOW + 59).unwrap().is_admitted());
    assert!(!limiter.admit(&plan(&limiter), 1, NOW + 60).unwrap().is_admitted());
    let (minute, oldest) = (NOW / 60 - 1, NOW / 60);
    let passed = limiter.admit(&plan(&limiter), 1, NOW - 1).unwrap_err();
    assert_eq!(passed, LocalError::MinutePassed { minute, oldest });
    for edge in [i64::MAX, i64::MAX - 60] {
        assert!(limiter.admit(&plan(&limiter), 1, edge).unwrap().is_admitted());
    }
    assert!(limiter.admit(&plan(&limiter), 1, i64::MIN).is_err());
}

#[test]
fn new_limits_hold_at_once_and_find_what_was_used() {
    let limiter = LocalLimiter::new(tree(Some(5), None));
    let tickets: Vec<Ticket> = (0..3).map(|_| ticket(&limiter, 10, NOW)).collect();
    let old_plan = plan(&limiter);
    limiter.replace_tree(tree(Some(3), None));
    let refused = limiter.admit(&plan(&limiter), 1, NOW).unwrap();
    assert_eq!(refused.decision().rejection().unwrap().used, 3);
    let foreign = limiter.admit(&old_plan, 1, NOW).unwrap_err();
    assert_eq!(foreign, LocalError::Usage(UsageError::ForeignPlan));
    // Tickets of the old configuration stay good.
    limiter.refund(&tickets[0]).unwrap();
    limiter.settle(&tickets[1], 1).unwrap();
    assert_eq!(used(&limiter, NOW), Usage { rpm: 2, tpm: 11 });
    assert!(limiter.admit(&plan(&limiter), 1, NOW).unwrap().is_admitted());
}

#[test]
fn a_key_that_moves_is_settled_where_it_was_counted() {
    let limiter = LocalLimiter::new(tree(None, Some(100)));
    let before = ticket(&limiter, 80, NOW);
    let nodes = vec![
        node("organization", "o", None, None, Some(100)),
        node("organization", "p", None, None, Some(100)),
        node("key", "k", Some(1), None, None),
    ];
    limiter.replace_tree(Arc::new(RateTree::new(nodes).unwrap()));
    limiter.settle(&before, 30).unwrap();
    let tokens: Vec<u64> = limiter.usage(NOW).unwrap().iter().map(|usage| usage.tpm).collect();
    assert_eq!(tokens, [30, 0, 30]);
}

#[test]
fn a_refused_settlement_leaves_the_ticket_open() {
    let limiter = LocalLimiter::new(tree(None, None));
    let most = i64::try_from(MAX_LIMIT).unwrap();
    let (small, _large) = (ticket(&limiter, 1, NOW), ticket(&limiter, most - 1, NOW));
    let too_large = SettleError::ActualTooLarge { actual_tokens: most + 1 };
    assert_eq!(limiter.settle(&small, most + 1), Err(too_large));
    assert!(matches!(limiter.settle(&small, 2), Err(SettleError::Usage(UsageError::CounterFull { .. }))));
    assert_eq!(used(&limiter, NOW).tpm, MAX_LIMIT);
    limiter.settle(&small, -5).unwrap();
    assert_eq!(used(&limiter, NOW).tpm, MAX_LIMIT - 1, "a negative number is read as 0");
}

#[test]
fn an_undecidable_request_counts_nothing() {
    let limiter = LocalLimiter::new(tree(None, None));
    assert!(matches!(
        limiter.admit(&plan(&limiter), i64::MAX, NOW),
        Err(LocalError::Usage(UsageError::EstimateTooLarge { .. }))
    ));
    assert_eq!(used(&limiter, NOW), Usage::default());
}
