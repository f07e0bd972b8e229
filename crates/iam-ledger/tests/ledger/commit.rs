//! What a commit counts, and what it leaves alone.

use std::collections::BTreeMap;

use iam_ledger::{Committed, KindSpend};
use serde_json::json;
use spend_queue::{SpendEvent, Usd};

use crate::support::{Fixture, at, batch, entries, event, scope, usd};

#[tokio::test]
async fn a_batch_committed_again_changes_nothing() {
    let fixture = Fixture::new().await;
    let entries = entries(&[
        event("r-2", &["team/a", "key/k"], Some("0.5")),
        event("r-1", &["team/a"], Some("0.25")),
        event("r-3", &["team/a"], None),
    ]);
    let first = fixture.commit(&entries).await;
    assert_eq!(first, Committed { new: 3, cost: usd("0.75"), ..Committed::default() });
    let totals = fixture.ledger.totals().await.unwrap();
    for part in [&entries[..], &entries[1..], &entries[..1]] {
        let again = fixture.commit(part).await;
        assert_eq!(again, Committed { duplicates: part.len() as u64, ..Committed::default() });
    }
    assert_eq!(fixture.ledger.totals().await.unwrap(), totals);
    assert!(totals.agree(), "{totals:?}");
    assert_eq!((totals.events, totals.unpriced_events, totals.cost_by_events), (3, 1, usd("0.75")));
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("0.75"));
    assert_eq!(fixture.spent(&scope("key/k")).await, usd("0.5"));
}

#[tokio::test]
async fn the_flush_log_keeps_one_row_a_batch_with_its_first_time() {
    let fixture = Fixture::new().await;
    let entries = entries(&[event("r-1", &["team/a"], None), event("r-2", &["team/a"], None)]);
    fixture.commit(&entries).await;
    let mut again = batch(&entries);
    again.committed_at = at("2026-03-06T00:00:00Z");
    fixture.ledger.commit(&again).await.unwrap();
    let row = "select concat_ws(' ', shard, first_seq, last_seq, encode(chain, 'hex'), events, \
               committed_at at time zone 'UTC') from flush_log";
    let expected = format!("0 1 2 {} 2 2026-03-05 12:00:00", entries[1].link.unwrap().chain);
    assert_eq!(fixture.text(row).await, expected);
}

#[tokio::test]
async fn an_id_twice_in_one_batch_counts_once() {
    let fixture = Fixture::new().await;
    let event = event("r", &["team/a"], Some("1"));
    let committed = fixture.commit(&entries(&[event.clone(), event.clone(), event])).await;
    assert_eq!(committed, Committed { new: 1, duplicates: 2, cost: usd("1"), ..Committed::default() });
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

#[tokio::test]
async fn another_payload_under_a_taken_id_is_reported_and_the_first_stays() {
    let fixture = Fixture::new().await;
    let first = event("r", &["team/a"], Some("1"));
    let other = event("r", &["team/a", "team/b"], Some("2"));
    let within = fixture.commit(&entries(&[first.clone(), other.clone(), first.clone()])).await;
    assert_eq!((within.new, within.duplicates, within.conflicts), (1, 1, vec!["r".to_owned()]));
    // Even when the other payload comes first in its batch, or twice.
    let later = fixture.commit(&entries(&[other.clone(), first, other])).await;
    assert_eq!((later.new, later.duplicates, later.conflicts.len(), later.cost), (0, 1, 2, Usd::ZERO));
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
    assert_eq!(fixture.spent(&scope("team/b")).await, Usd::ZERO);
    assert_eq!(fixture.text("select cost_usd::text from usage_events").await, "1.000000000000");
}

#[tokio::test]
async fn ten_thousand_tiny_charges_are_exact_in_events_days_and_spend() {
    let fixture = Fixture::new().await;
    let events: Vec<SpendEvent> =
        (0..10_000).map(|n| event(&format!("r-{n}"), &["team/a", "key/k"], Some("0.0000027"))).collect();
    let committed = fixture.commit(&entries(&events)).await;
    assert_eq!((committed.new, committed.cost), (10_000, usd("0.027")));
    let totals = fixture.ledger.totals().await.unwrap();
    assert_eq!((totals.cost_by_events, totals.cost_by_days), (usd("0.027"), usd("0.027")));
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("0.027"));
    let by_kind = fixture.ledger.spend_by_kind().await.unwrap();
    let expected =
        |kind: &str| KindSpend { kind: kind.to_owned(), scopes: 1, spend: usd("0.027"), paid_events: 10_000 };
    assert_eq!(by_kind, [expected("key"), expected("team")]);
}

#[tokio::test]
async fn sums_beyond_64_bits_of_picodollars_stay_exact() {
    let fixture = Fixture::new().await;
    let largest = "9223372.036854775807";
    let events: Vec<_> = (0..3).map(|n| event(&format!("r-{n}"), &["team/a"], Some(largest))).collect();
    let committed = fixture.commit(&entries(&events)).await;
    assert_eq!(committed.cost, usd("27670116.110564327421"));
    assert_eq!(fixture.spent(&scope("team/a")).await, committed.cost);
    assert_eq!(fixture.ledger.totals().await.unwrap().cost_by_days, committed.cost);
}

#[tokio::test]
async fn free_and_unpriced_events_are_counted_and_move_no_money() {
    let fixture = Fixture::new().await;
    let events = [event("free", &["team/a"], Some("0")), event("unpriced", &["team/a"], None)];
    let committed = fixture.commit(&entries(&events)).await;
    assert_eq!((committed.new, committed.cost), (2, Usd::ZERO));
    assert_eq!(fixture.number("select count(*) from scope_spend").await, 0);
    assert_eq!(fixture.number("select count(*) from usage_events where cost_usd is null").await, 1);
    let day = "select concat_ws(' ', events, unpriced_events, prompt_tokens, cost_usd) from usage_daily";
    assert_eq!(fixture.text(day).await, "2 1 2 0.000000000000");
}

#[tokio::test]
async fn exactly_the_listed_scopes_are_charged() {
    let fixture = Fixture::new().await;
    let mut event = event("r", &["team/a", "trial/x/y"], Some("1"));
    event.user_id = Some("u".into());
    event.key_id = Some("k".into());
    event.organization_id = Some("o".into());
    fixture.commit(&entries(&[event])).await;
    let charged = "select string_agg(kind || '/' || id, ' ' order by kind) from scope_spend";
    assert_eq!(fixture.text(charged).await, "team/a trial/x/y");
}

#[tokio::test]
async fn every_field_is_stored_as_it_came() {
    let fixture = Fixture::new().await;
    let mut event = event("r\u{e9}\"'\\,{}", &["te%2Fam/a,b {}\"", "key/k"], Some("0.000000000001"));
    event.organization_id = Some("NULL".into());
    event.team_id = Some("{t}".into());
    event.project_id = Some("p,q".into());
    event.user_id = Some("\"u\"".into());
    event.key_id = Some("k\\".into());
    event.provider = "acme".into();
    event.call_type = "chat".into();
    event.status = "ok".into();
    event.cached_tokens = 1 << 40;
    event.ended_at = Some(at("2026-03-05T11:00:01.000001Z"));
    event.time_to_first_token_ms = Some(12);
    event.session_id = Some(String::new());
    event.cache_hit = true;
    event.metadata = BTreeMap::from([("tag".to_owned(), json!({"a": [1, "\u{1f600}", null]}))]);
    event.extra = BTreeMap::from([("later".to_owned(), json!(7))]);
    fixture.commit(&entries(&[event])).await;
    let row = "select jsonb_build_array(request_id, scopes, organization_id, team_id, project_id, user_id, key_id, \
               provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd::text, \
               reported_start = started_at, ended_at at time zone 'UTC', settled_at at time zone 'UTC', \
               time_to_first_token_ms, session_id, cache_hit, metadata, extra)::text from usage_events";
    let stored: serde_json::Value = serde_json::from_str(&fixture.text(row).await).unwrap();
    let expected = json!([
        "r\u{e9}\"'\\,{}", ["te%2Fam/a,b {}\"", "key/k"], "NULL", "{t}", "p,q", "\"u\"", "k\\",
        "acme", "small", "chat", "ok", 1, 1, 1_u64 << 40, "0.000000000001",
        true, "2026-03-05T11:00:01.000001", "2026-03-05T12:00:00",
        12, "", true, {"tag": {"a": [1, "\u{1f600}", null]}}, {"later": 7}
    ]);
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn an_empty_batch_is_nothing() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.commit(&[]).await, Committed::default());
    assert_eq!(fixture.number("select count(*) from flush_log").await, 0);
}
