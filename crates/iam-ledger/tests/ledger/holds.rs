//! Holds: all levels or none, once a request, never above a budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use iam_ledger::{
    Hold, HoldAnswer, HoldError, HoldState, IdentityPatch, Ledger, LedgerOptions, NewIdentity, Released,
    ScopeKind,
};
use spend_queue::{ScopeRef, Usd};

use crate::hot::Hot;
use crate::quota::{budget, company};
use crate::support::{Fixture, commit_time, connect, entries, event, scope, usd};

const TTL: Duration = Duration::from_secs(600);
const PATH: [&str; 4] = ["organization/o", "team/red", "user/ada", "key/ada-key"];

async fn hold(fixture: &Fixture, id: &str, subject: &str, amount: &str) -> Result<HoldAnswer, HoldError> {
    fixture.ledger.hold(id, &scope(subject), usd(amount), TTL, commit_time()).await
}

fn held(answer: HoldAnswer) -> Hold {
    match answer {
        HoldAnswer::Held(hold) => hold,
        other => panic!("not held: {other:?}"),
    }
}

async fn held_of(ledger: &Ledger, subject: &ScopeRef, later: TimeDelta) -> Vec<Usd> {
    let quota = ledger.quota_path(subject, &Hot::default(), commit_time() + later).await.unwrap();
    quota.levels.into_iter().map(|level| level.held).collect()
}

#[tokio::test]
async fn a_hold_reserves_at_every_level_and_a_refused_one_at_none() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let ada = scope("key/ada-key");
    let made = held(hold(&fixture, "r-1", "key/ada-key", "6").await.unwrap());
    assert_eq!(
        (made.state, made.amount, made.expires_at - made.held_at),
        (HoldState::Held, usd("6"), TimeDelta::seconds(600))
    );
    assert_eq!(held_of(&fixture.ledger, &ada, TimeDelta::zero()).await, [usd("6"); 4]);
    let HoldAnswer::Exhausted(level) = hold(&fixture, "r-2", "key/ada-key", "4.000000000001").await.unwrap()
    else {
        panic!("more than ada has")
    };
    assert_eq!((&level.scope, level.held, level.remaining), (&scope("user/ada"), usd("6"), Some(usd("4"))));
    assert_eq!(held_of(&fixture.ledger, &ada, TimeDelta::zero()).await, [usd("6"); 4]);
    held(hold(&fixture, "r-2", "key/ada-key", "4").await.unwrap());
    assert_eq!(fixture.number("select count(*) from hold_reservations").await, 8);
}

#[tokio::test]
async fn the_same_hold_again_is_the_same_answer_and_another_under_its_id_is_a_conflict() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let first = held(hold(&fixture, "r", "key/ada-key", "6").await.unwrap());
    // Again, later and longer: the first expiry stays, and 6 fit although only 4 are left.
    let later = commit_time() + TimeDelta::seconds(60);
    let again = fixture.ledger.hold("r", &scope("key/ada-key"), usd("6"), TTL * 2, later).await.unwrap();
    assert_eq!(held(again), first);
    for (subject, amount) in [("key/ada-key", "5"), ("key/bob-key", "6"), ("user/ada", "6")] {
        let error = hold(&fixture, "r", subject, amount).await.unwrap_err();
        assert!(matches!(&error, HoldError::Conflict { held, .. } if *held == usd("6")), "{error}");
        assert!(!error.is_transient());
    }
    let after = first.expires_at;
    let answer = fixture.ledger.hold("r", &scope("key/ada-key"), usd("6"), TTL, after).await.unwrap();
    assert!(matches!(answer, HoldAnswer::Ended(hold) if hold == first), "its time is over");
    assert_eq!(held_of(&fixture.ledger, &scope("key/ada-key"), TimeDelta::zero()).await, [usd("6"); 4]);
}

#[tokio::test]
async fn a_release_frees_every_level_and_a_second_one_says_so() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    held(hold(&fixture, "r", "key/ada-key", "10").await.unwrap());
    assert_eq!(fixture.ledger.release("r", commit_time()).await.unwrap(), Released::Now);
    assert_eq!(held_of(&fixture.ledger, &scope("key/ada-key"), TimeDelta::zero()).await, [Usd::ZERO; 4]);
    for _ in 0..2 {
        let again = fixture.ledger.release("r", commit_time()).await.unwrap();
        assert!(matches!(again, Released::AlreadyReleased(hold) if hold.state == HoldState::Released));
    }
    assert_eq!(fixture.ledger.release("never", commit_time()).await.unwrap(), Released::NeverHeld);
    assert!(matches!(hold(&fixture, "r", "key/ada-key", "10").await.unwrap(), HoldAnswer::Ended(_)));
    held(hold(&fixture, "r-2", "key/ada-key", "10").await.unwrap());
}

#[tokio::test]
async fn an_expired_hold_counts_no_more_swept_or_not() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let ada = scope("key/ada-key");
    for n in 0..5 {
        held(hold(&fixture, &format!("r-{n}"), "key/ada-key", "2").await.unwrap());
    }
    let end = TimeDelta::seconds(600);
    let before = end - TimeDelta::microseconds(1);
    assert_eq!(held_of(&fixture.ledger, &ada, before).await, [usd("10"); 4]);
    assert_eq!(held_of(&fixture.ledger, &ada, end).await, [Usd::ZERO; 4]);
    held(fixture.ledger.hold("new", &ada, usd("10"), TTL, commit_time() + end).await.unwrap());
    assert_eq!(fixture.ledger.expire_holds(commit_time() + before, 100).await.unwrap(), 0);
    let (two, sweepers) = tokio::join!(
        fixture.ledger.expire_holds(commit_time() + end, 2),
        fixture.ledger.expire_holds(commit_time() + end, 2)
    );
    let swept = two.unwrap() + sweepers.unwrap();
    let rest = fixture.ledger.expire_holds(commit_time() + end, 100).await.unwrap();
    assert_eq!(swept + rest, 5);
    assert_eq!(fixture.number("select count(*) from hold_reservations").await, 4, "the new one is left");
    let swept = fixture.ledger.hold_of("r-0").await.unwrap().unwrap();
    assert_eq!((swept.state, swept.ended_at), (HoldState::Expired, Some(swept.expires_at)));
    let late = fixture.ledger.release("r-0", commit_time() + end).await.unwrap();
    assert!(matches!(late, Released::AlreadyExpired(_)));
    let unswept = fixture.ledger.release("new", commit_time() + end * 3).await.unwrap();
    assert!(matches!(unswept, Released::AlreadyExpired(hold) if hold.ended_at == Some(hold.expires_at)));
}

#[tokio::test]
async fn a_commit_settles_its_hold_below_and_above_what_was_held() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    for (id, amount) in [("below", "3"), ("above", "2"), ("equal", "1"), ("unpriced", "1"), ("open", "1")] {
        held(hold(&fixture, id, "key/ada-key", amount).await.unwrap());
    }
    let batch = entries(&[
        event("below", &PATH, Some("1.5")),
        event("above", &PATH, Some("2.25")),
        event("equal", &PATH, Some("1")),
        event("unpriced", &PATH, None),
        event("unheld", &PATH, Some("0.25")),
    ]);
    fixture.commit(&batch).await;
    assert_eq!(held_of(&fixture.ledger, &scope("key/ada-key"), TimeDelta::zero()).await, [usd("1"); 4]);
    let quota =
        fixture.ledger.quota_path(&scope("key/ada-key"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!((quota.levels[1].settled, quota.levels[1].used), (usd("5"), usd("6")));
    let read = async |id| fixture.ledger.hold_of(id).await.unwrap().unwrap();
    let (below, above, unpriced) = (read("below").await, read("above").await, read("unpriced").await);
    assert_eq!((below.state, below.cost, below.overrun()), (HoldState::Settled, Some(usd("1.5")), None));
    assert_eq!((above.amount, above.cost, above.overrun()), (usd("2"), Some(usd("2.25")), Some(usd("0.25"))));
    assert_eq!((unpriced.cost, unpriced.settled_at), (None, Some(commit_time())));
    assert!(matches!(
        fixture.ledger.release("above", commit_time()).await.unwrap(),
        Released::AlreadySettled(_)
    ));
    // The same batch again, and an event that comes after its hold was given back.
    assert_eq!(fixture.commit(&batch).await.duplicates, 5);
    fixture.ledger.release("open", commit_time()).await.unwrap();
    fixture.commit(&entries(&[event("open", &PATH, Some("9"))])).await;
    let open = read("open").await;
    assert_eq!((open.state, open.overrun()), (HoldState::Settled, Some(usd("8"))));
    let overruns = "select string_agg(concat_ws(' ', request_id, amount_usd::float8, cost_usd::float8, covered), ', ' \
                    order by request_id) from hold_overruns";
    assert_eq!(fixture.text(overruns).await, "above 2 2.25 t, open 1 9 f");
}

#[tokio::test]
async fn an_event_that_settles_after_its_hold_expired_is_recorded() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let early = commit_time() - TimeDelta::seconds(3600);
    for id in ["swept", "unswept"] {
        held(fixture.ledger.hold(id, &scope("key/ada-key"), usd("1"), TTL, early).await.unwrap());
    }
    fixture
        .run(
            "update holds set state = 'expired', ended_at = expires_at where request_id = 'swept'; \
                 delete from hold_reservations where request_id = 'swept'",
        )
        .await;
    fixture.commit(&entries(&[event("swept", &PATH, Some("2")), event("unswept", &PATH, Some("2"))])).await;
    for id in ["swept", "unswept"] {
        let hold = fixture.ledger.hold_of(id).await.unwrap().unwrap();
        assert_eq!(
            (hold.state, hold.cost, hold.ended_at),
            (HoldState::Settled, Some(usd("2")), Some(hold.expires_at))
        );
    }
    assert_eq!(fixture.number("select count(*) from hold_overruns where not covered").await, 2);
    assert_eq!(fixture.number("select count(*) from hold_reservations").await, 0);
}

#[tokio::test]
async fn a_batch_that_fails_settles_no_hold() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    held(hold(&fixture, "r", "key/ada-key", "1").await.unwrap());
    fixture.run("alter table flush_log add constraint refuse check (events < 0) not valid").await;
    fixture.try_commit(&entries(&[event("r", &PATH, Some("2"))])).await.unwrap_err();
    assert_eq!(fixture.ledger.hold_of("r").await.unwrap().unwrap().state, HoldState::Held);
    assert_eq!(held_of(&fixture.ledger, &scope("key/ada-key"), TimeDelta::zero()).await, [usd("1"); 4]);
}

#[tokio::test]
async fn blocked_unknown_and_settled_are_refused_with_nothing_written() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    fixture.commit(&entries(&[event("done", &PATH, Some("1"))])).await;
    let error = hold(&fixture, "done", "key/ada-key", "1").await.unwrap_err();
    assert!(matches!(error, HoldError::Settled(_)), "{error}");
    for subject in ["key/nobody", "team/ada-key", "robot/x"] {
        let error = hold(&fixture, "r", subject, "1").await.unwrap_err();
        assert_eq!(error.to_string(), format!("there is no {subject}"));
    }
    let blocked = IdentityPatch::new().set_blocked(true);
    fixture.ledger.update(ScopeKind::Team, "red", &blocked).await.unwrap();
    let error = hold(&fixture, "r", "key/ada-key", "1").await.unwrap_err();
    assert_eq!(error.to_string(), "key/ada-key may spend nothing: team/red is blocked");
    assert!(!error.is_transient());
    let quota =
        fixture.ledger.quota_path(&scope("key/ada-key"), &Hot::default(), commit_time()).await.unwrap();
    assert_eq!(quota.exhausted().unwrap().scope, scope("team/red"));
    held(hold(&fixture, "r", "key/bob-key", "1").await.unwrap());
    assert_eq!(fixture.number("select count(*) from holds").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_holds_at_once_against_room_for_37_exactly_37_are_made() {
    let fixture = Fixture::new().await;
    fixture
        .ledger
        .create_all(&[
            NewIdentity::organization("o", "").with_budget(budget("37.99")),
            NewIdentity::team("t", "").of_organization("o"),
            NewIdentity::key("a", "").of_organization("o"),
            NewIdentity::key("b", "").of_organization("o").of_team("t"),
        ])
        .await
        .unwrap();
    let options = LedgerOptions { max_connections: 16, ..LedgerOptions::default() };
    let ledger = Arc::new(connect(&fixture.database, options).await);
    let begun = Instant::now();
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let subject = scope(if n % 2 == 0 { "key/a" } else { "key/b" });
                ledger.hold(&format!("r-{n}"), &subject, usd("1"), TTL, commit_time()).await.unwrap()
            })
        })
        .collect();
    let mut made = 0;
    for call in calls {
        match call.await.unwrap() {
            HoldAnswer::Held(_) => made += 1,
            HoldAnswer::Exhausted(level) => assert_eq!(level.scope, scope("organization/o")),
            HoldAnswer::Ended(hold) => panic!("{hold:?}"),
        }
    }
    println!("200 concurrent holds in {:?}", begun.elapsed());
    assert_eq!(made, 37);
    assert_eq!(
        fixture.text("select sum(amount_usd)::text from hold_reservations where kind = 'organization'").await,
        "37.000000000000"
    );
    assert_eq!(
        fixture.number("select deadlocks from pg_stat_database where datname = current_database()").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_request_held_from_many_sides_is_held_once() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    fixture
        .ledger
        .create_all(&[
            NewIdentity::organization("free", ""),
            NewIdentity::key("free-key", "").of_organization("free"),
        ])
        .await
        .unwrap();
    // Below different roots, one of them without a budget and so without a lock.
    let calls: Vec<_> = (0..24)
        .map(|n| {
            let ledger = fixture.ledger.clone();
            let subject = scope(["key/ada-key", "key/free-key"][n % 2]);
            tokio::spawn(async move {
                (subject.clone(), ledger.hold("r", &subject, usd("1"), TTL, commit_time()).await)
            })
        })
        .collect();
    let mut holders = Vec::new();
    for call in calls {
        let (subject, answer) = call.await.unwrap();
        match answer {
            Ok(HoldAnswer::Held(hold)) => holders.push((hold.subject == subject).then_some(subject).unwrap()),
            Err(HoldError::Conflict { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(holders.len(), 12);
    assert!(holders.iter().all(|holder| *holder == holders[0]));
    assert_eq!(fixture.number("select count(*) from holds").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn holds_releases_commits_and_sweeps_at_once_leave_exact_sums_and_no_deadlock() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let ledger = fixture.ledger.clone();
            tokio::spawn(async move {
                let mut settled = 0_u64;
                for n in 0..20 {
                    let id = format!("r-{worker}-{n}");
                    let answer =
                        ledger.hold(&id, &scope("key/ada-key"), usd("1"), TTL, commit_time()).await.unwrap();
                    if !matches!(answer, HoldAnswer::Held(_)) {
                        continue;
                    }
                    if n % 2 == 0 {
                        assert_eq!(ledger.release(&id, commit_time()).await.unwrap(), Released::Now);
                    } else {
                        let batch = entries(&[event(&id, &PATH, Some("0.5"))]);
                        settled += ledger.commit(&crate::support::batch(&batch)).await.unwrap().new;
                    }
                    ledger.expire_holds(commit_time(), 10).await.unwrap();
                }
                settled
            })
        })
        .collect();
    let mut settled = 0;
    for worker in workers {
        settled += worker.await.unwrap();
    }
    let quota =
        fixture.ledger.quota_path(&scope("key/ada-key"), &Hot::default(), commit_time()).await.unwrap();
    let ada = &quota.levels[1];
    assert_eq!((ada.held, ada.settled.picos()), (Usd::ZERO, i128::from(settled) * usd("0.5").picos()));
    assert!(ada.settled <= usd("10") && settled > 0, "{settled}");
    assert_eq!(
        fixture.number("select deadlocks from pg_stat_database where datname = current_database()").await,
        0
    );
}
