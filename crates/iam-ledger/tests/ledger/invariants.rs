//! The queries of `docs/ledger.md` that anybody may run: each finds nothing wrong on a busy ledger, and finds what is.

use chrono::NaiveDate;
use iam_ledger::{Budget, BudgetPeriod, DeadLetterPage, NewIdentity};
use spend_queue::SpendEvent;

use crate::support::{Fixture, at, batch, commit_time, entries, event, usd};

const PAGE: &str = include_str!("../../../../docs/ledger.md");

/// The statements of the section, each with the sentence above it. Other sections have other blocks.
fn invariants() -> Vec<(&'static str, &'static str)> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with("Invariants as SQL")).unwrap();
    let blocks: Vec<_> = section
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .map(|block| (block.lines().next().unwrap().trim_start_matches("-- "), block))
        .collect();
    assert!(blocks.len() >= 8, "{}", blocks.len());
    blocks
}

/// The names of the invariants that do not hold: those that return a row.
async fn violated(fixture: &Fixture) -> Vec<&'static str> {
    let mut violated = Vec::new();
    for (name, statement) in invariants() {
        assert!(name.ends_with('.'), "{statement} begins with a sentence");
        if !sqlx::query(statement).fetch_all(&fixture.sql).await.unwrap().is_empty() {
            violated.push(name);
        }
    }
    violated
}

/// Everything that can happen to an event: several periods, replays, conflicts, refusals, free and unpriced ones.
async fn busy(fixture: &Fixture) {
    let budget = Budget { amount: None, period: BudgetPeriod::Monthly, time_zone: "Europe/Berlin".into() };
    fixture.ledger.create(&NewIdentity::organization("o", "").with_budget(budget)).await.unwrap();
    fixture.ledger.ensure_partitions(NaiveDate::from_ymd_opt(2026, 2, 1), 2).await.unwrap();
    let events: Vec<SpendEvent> = (0..300)
        .map(|n| {
            let cost = [Some("0.0000027"), Some("1.5"), Some("0"), None][n % 4];
            let scopes: &[&str] =
                [&["organization/o", "team/a"][..], &["team/b"], &["key/k", "user/u"]][n % 3];
            let mut event = event(&format!("r-{}", n % 280), scopes, cost);
            event.organization_id = (n % 2 == 0).then(|| "o".to_owned());
            event.started_at =
                (n % 7 > 0).then(|| at(&format!("2026-0{}-{:02}T23:59:59.999999Z", 1 + n % 3, 1 + n % 4)));
            event
        })
        .collect();
    let mut all = entries(&events);
    for n in (0..300).step_by(41) {
        all[n].event.status = "\0".into();
    }
    for part in all.chunks(70) {
        fixture.commit(part).await;
        fixture.commit(part).await;
    }
    let mut other = batch(&all[100..200]);
    other.committed_at = at("2026-03-06T00:00:00Z");
    fixture.ledger.commit(&other).await.unwrap();
    // One letter is replayed. Its bytes never held the NUL that the entry had.
    let letters = fixture.ledger.dead_letters(DeadLetterPage::default()).await.unwrap();
    let refused = letters.iter().find(|letter| letter.reason.contains("22021")).unwrap();
    fixture.ledger.replay(refused.id, commit_time()).await.unwrap();
}

#[tokio::test]
async fn every_invariant_of_the_page_holds_on_a_busy_ledger() {
    let fixture = Fixture::new().await;
    assert_eq!(violated(&fixture).await, Vec::<&str>::new(), "on an empty one");
    busy(&fixture).await;
    let totals = fixture.ledger.totals().await.unwrap();
    assert!(totals.events > 200 && totals.cost_by_events > usd("50"), "{totals:?}");
    assert!(fixture.number("select count(*) from dead_letters where kind = 'conflict'").await > 0);
    assert_eq!(violated(&fixture).await, Vec::<&str>::new());
}

#[tokio::test]
async fn every_invariant_of_the_page_notices_what_it_is_for() {
    let fixture = Fixture::new().await;
    busy(&fixture).await;
    let harm = [
        "delete from usage_events where request_id = 'r-1'",
        "delete from settled_requests where request_id = 'r-2'",
        "insert into usage_events select request_id, started_at + interval '1 day', reported_start, ended_at, settled_at, \
             organization_id, team_id, project_id, user_id, key_id, scopes, provider, model, call_type, status, prompt_tokens, \
             completion_tokens, cached_tokens, cost_usd, time_to_first_token_ms, session_id, cache_hit, metadata, extra \
         from usage_events where request_id = 'r-3'",
        "update usage_daily set cost_usd = cost_usd + 0.000000000001 where ctid = (select min(ctid) from usage_daily)",
        "update usage_daily set prompt_tokens = prompt_tokens + 1 where ctid = (select min(ctid) from usage_daily)",
        "update scope_spend set spend_usd = spend_usd + 0.000000000001 where (kind, id) = ('team', 'b')",
        "update scope_spend set paid_events = paid_events + 1 where (kind, id) = ('team', 'b')",
        "update scope_spend set period_start = period_start + interval '1 hour' where kind = 'organization'",
        "update dead_letters set replay_outcome = 'settled', replayed_at = now(), request_id = 'nobody' \
             where id = (select min(id) from dead_letters)",
        "insert into dead_letters (shard, request_id, kind, reason, raw, recorded_at) \
             values (0, 'never settled', 'conflict', '', 'x', now())",
        "update flush_log set first_seq = last_seq + 1 where ctid = (select min(ctid) from flush_log)",
    ];
    let mut noticed = std::collections::BTreeSet::new();
    for statement in harm {
        let mut transaction = fixture.sql.begin().await.unwrap();
        sqlx::raw_sql(statement).execute(&mut *transaction).await.unwrap();
        let mut by = Vec::new();
        for (name, invariant) in invariants() {
            if !sqlx::query(invariant).fetch_all(&mut *transaction).await.unwrap().is_empty() {
                by.push(name);
            }
        }
        assert!(!by.is_empty(), "nothing notices: {statement}");
        noticed.extend(by);
        transaction.rollback().await.unwrap();
    }
    let idle: Vec<_> = invariants().into_iter().filter(|(name, _)| !noticed.contains(name)).collect();
    assert!(idle.is_empty(), "no harm is noticed by {idle:#?}");
}
