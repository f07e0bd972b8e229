//! What a seed decides beforehand: who takes part, what is sent, and the weather.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use spend_queue::{BatchLimit, ORGANIZATION, ScopeRef, ShardCount, SpendEvent, Usd};
use usage_flusher::PaceLimits;

/// 2026-03-01T12:00:00Z in milliseconds: when every run begins.
pub(crate) const BEGINNING: i64 = 1_772_366_400_000;

/// Who takes part and what they do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) shards: ShardCount,
    pub(crate) flushers: usize,
    pub(crate) pace: PaceLimits,
    /// What each producer sends, in order.
    pub(crate) calls: Vec<Vec<Sending>>,
    /// Whether producers send everything again at the end, as a spool does that knows only of lost data.
    pub(crate) replays: bool,
    /// All scopes that are charged.
    pub(crate) scopes: Vec<ScopeRef>,
    /// The step after which no fault is injected any more.
    pub(crate) heals_at: u64,
    pub(crate) weather: Weather,
}

/// One finished call.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    pub(crate) event: SpendEvent,
    /// Milliseconds before the next one.
    pub(crate) pause: u64,
    /// How often it is sent again although it was accepted.
    pub(crate) repeats: u32,
}

/// How probable each fault is. A run has only some of them, so that no fault hides what another would show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    // For each call.
    pub(crate) request_lost: f64,
    pub(crate) reply_lost: f64,
    pub(crate) late: f64,
    pub(crate) twice: f64,
    pub(crate) stall: f64,
    pub(crate) serialization: f64,
    pub(crate) crash_in_call: f64,
    // For each step.
    pub(crate) crash: f64,
    pub(crate) clock: f64,
    pub(crate) fail_over: f64,
    pub(crate) foreign: f64,
    pub(crate) forgotten: f64,
    /// For each step: the clock goes on although somebody could act.
    pub(crate) slowness: f64,
    /// For each producer's crash: the call at hand is not tried again.
    pub(crate) abandoned: f64,
}

impl Weather {
    fn of(rng: &mut ChaCha8Rng) -> Self {
        let mut sometimes = |most: f64| if rng.random_bool(0.5) { most * rng.random::<f64>() } else { 0.0 };
        Self {
            request_lost: sometimes(0.15),
            reply_lost: sometimes(0.15),
            late: sometimes(0.15),
            twice: sometimes(0.15),
            stall: sometimes(0.3),
            serialization: sometimes(0.2),
            crash_in_call: sometimes(0.08),
            crash: sometimes(0.03),
            clock: sometimes(0.02),
            fail_over: sometimes(0.04),
            foreign: sometimes(0.02),
            forgotten: sometimes(0.02),
            slowness: sometimes(0.3),
            abandoned: sometimes(0.5),
        }
    }
}

impl Plan {
    pub(crate) fn of(rng: &mut ChaCha8Rng) -> Self {
        let scopes = pool();
        let mut number = 0;
        let mut calls: Vec<Vec<Sending>> = Vec::new();
        for _ in 0..rng.random_range(1..=2) {
            let mut sent = Vec::new();
            for _ in 0..rng.random_range(4..=16) {
                number += 1;
                sent.push(sending(rng, &scopes, number));
            }
            calls.push(sent);
        }
        // The same id for another call: by mistake, from whichever host, perhaps of another organization.
        for _ in 0..rng.random_range(0..=2) {
            let Some(first) = calls.choose(rng).and_then(|sent| sent.choose(rng)).cloned() else { continue };
            let mut other = sending(rng, &scopes, 0);
            other.event.request_id = first.event.request_id;
            if rng.random_bool(0.7) {
                other.event.organization_id = first.event.organization_id;
                other.event.user_id = first.event.user_id;
                other.event.scopes = first.event.scopes;
            }
            let producer = rng.random_range(0..calls.len());
            let place = rng.random_range(0..=calls[producer].len());
            calls[producer].insert(place, other);
        }
        Self {
            shards: ShardCount::new(rng.random_range(1..=3)).unwrap_or_default(),
            flushers: rng.random_range(2..=4),
            pace: pace(rng),
            calls,
            replays: rng.random_bool(0.3),
            scopes,
            heals_at: rng.random_range(100..=500),
            weather: Weather::of(rng),
        }
    }
}

fn pool() -> Vec<ScopeRef> {
    let names = [
        (ORGANIZATION, "red"),
        (ORGANIZATION, "blue"),
        (ORGANIZATION, "green"),
        ("team", "a"),
        ("user", "u"),
        ("key", "k1"),
        ("key", "k2"),
    ];
    names.iter().filter_map(|(kind, id)| ScopeRef::new(*kind, *id).ok()).collect()
}

fn sending(rng: &mut ChaCha8Rng, scopes: &[ScopeRef], number: u32) -> Sending {
    let count = rng.random_range(1..=3);
    let charged: Vec<_> = scopes.choose_multiple(rng, count).cloned().collect();
    let mut event = SpendEvent::new(format!("call-{number}"), "small-model", charged);
    let organization = event.scopes.iter().find(|scope| scope.kind() == ORGANIZATION);
    event.organization_id = organization.map(|scope| scope.id().to_owned());
    event.cost = match rng.random_range(0..10) {
        0 => None,
        1 => Some(Usd::ZERO),
        2 => Some(Usd::from_picos(1)),
        _ => Some(Usd::from_picos(rng.random_range(1..=2_000_000))),
    };
    if rng.random_bool(0.8) {
        event.started_at = beginning().checked_sub_signed(TimeDelta::hours(rng.random_range(1..=72)));
    }
    Sending {
        event,
        pause: if rng.random_bool(0.6) { 0 } else { rng.random_range(1..=400) },
        repeats: if rng.random_bool(0.15) { rng.random_range(1..=2) } else { 0 },
    }
}

fn pace(rng: &mut ChaCha8Rng) -> PaceLimits {
    let limit = |entries| BatchLimit::new(entries).unwrap_or(BatchLimit::MIN);
    let smallest = rng.random_range(1..=4);
    PaceLimits {
        smallest: limit(smallest),
        largest: limit(smallest + rng.random_range(0..=6)),
        linger: Duration::from_millis(100),
        idle: Duration::from_millis(800),
    }
}

pub(crate) fn beginning() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(BEGINNING).unwrap_or_default()
}
