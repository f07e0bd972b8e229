//! What a random program does: gateways, flushers, operators, and hands that know nothing of the queue.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use spend_queue::{EncodedEvent, PendingQuery, ScopeRef, SpendEvent, Usd};

use crate::common::now;
use crate::foreign::{Foreign, foreign};

/// The texts of the scopes that programs charge.
pub(crate) const SCOPES: [&str; 5] = ["organization/o", "organization/p", "team/t", "key/k", "s%2Ft/x"];

/// The beginning of a budget period.
const PERIOD: &str = "2026-03-01T00:00:00Z";

/// Microseconds around it at which calls start; what is below a millisecond must not matter.
const STARTS: [i64; 8] = [-86_400_000_000, -1_000, -1, 0, 1, 999, 1_000, 3_600_000_000];

/// One call to be charged. Few ids and payloads, so that programs repeat and contradict themselves.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    id: u8,
    payload: u8,
    picos: Option<i64>,
    scopes: u8,
    start: Option<usize>,
}

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Enqueue(Call),
    /// From two gateways at once.
    Burst(Vec<Call>),
    Peek {
        entries: u32,
    },
    /// The receipt of an earlier peek, the latest first.
    Ack {
        back: usize,
    },
    /// A receipt with the number of entries of one and the digest of another.
    AckMixed {
        back: usize,
        other: usize,
    },
    /// A receipt that owes more than was charged.
    AckTooMuch,
    Pending {
        scope: usize,
    },
    PendingKey,
    PendingSince {
        organization: usize,
        millis: i64,
    },
    /// Several amounts at once.
    PendingAll(Vec<PendingQuery>),
    Foreign(Foreign),
    Reindex,
    Quarantine {
        right: bool,
    },
    Restore {
        item: usize,
    },
    /// The server dies and comes back (on servers that belong to the program).
    Crash,
}

impl Call {
    /// One that no program makes.
    pub(crate) const fn last() -> Self {
        Self { id: u8::MAX, payload: 0, picos: Some(3), scopes: 31, start: Some(3) }
    }

    /// The event, made ready at a time of its own.
    pub(crate) fn event(&self, millis: i64) -> EncodedEvent {
        let scopes = SCOPES.iter().enumerate().filter(|(bit, _)| self.scopes & (1 << bit) != 0);
        let scopes = scopes.map(|(_, text)| text.parse::<ScopeRef>().unwrap()).collect();
        let mut event = SpendEvent::new(format!("r{}", self.id), format!("m{}", self.payload), scopes);
        event.cost = self.picos.map(|picos| Usd::from_picos(picos.into()));
        event.organization_id = Some("o".into());
        event.started_at = self.start.map(|at| period() + TimeDelta::microseconds(STARTS[at]));
        // What looks like an amount, where none is.
        event.metadata.insert("spend_pusd".into(), 7.into());
        event.encode(now() + TimeDelta::milliseconds(millis)).unwrap()
    }
}

pub(crate) fn period() -> DateTime<Utc> {
    PERIOD.parse().unwrap()
}

/// So many milliseconds after the beginning of the period, or either end of time.
pub(crate) fn since(millis: i64) -> DateTime<Utc> {
    match millis {
        i64::MIN => DateTime::<Utc>::MIN_UTC,
        i64::MAX => DateTime::<Utc>::MAX_UTC,
        millis => period() + TimeDelta::milliseconds(millis),
    }
}

/// Milliseconds after the beginning of the period.
fn instant() -> impl Strategy<Value = i64> {
    prop_oneof![-2..3_i64, Just(i64::MIN), Just(i64::MAX), Just(3_600_000)]
}

fn query() -> impl Strategy<Value = PendingQuery> {
    prop_oneof![
        2 => prop::sample::select(&SCOPES[..]).prop_map(|text| PendingQuery::Scope(text.parse().unwrap())),
        2 => (prop::sample::select(vec!["o", "p", "nobody"]), instant())
            .prop_map(|(id, millis)| PendingQuery::Organization { id: id.to_owned(), since: since(millis) }),
        1 => Just(PendingQuery::Key("k".to_owned())),
    ]
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    let amount = prop_oneof![
        2 => Just(None),
        2 => Just(Some(0)),
        8 => (1..5_i64).prop_map(Some),
        4 => prop_oneof![
            Just(999_999_999), Just(1_000_000_000), Just(1_000_000_001), Just((1 << 53) - 1), Just((1 << 53) + 1),
            1..i64::MAX / 64
        ].prop_map(Some),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MAX - 1), Just(i64::MAX / 2), Just(i64::MAX / 2 + 1)].prop_map(Some),
    ];
    (0..60_u8, 0..4_u8, amount, 1..32_u8, proptest::option::weighted(0.8, 0..STARTS.len())).prop_map(
        |(id, payload, picos, scopes, start)| Call {
            // Most retries carry what they carried before.
            payload: payload / 3,
            picos: if payload == 0 { Some(i64::from(id)) } else { picos },
            scopes: if payload == 0 { id % 31 + 1 } else { scopes },
            start: if payload == 0 { Some(usize::from(id) % STARTS.len()) } else { start },
            id,
        },
    )
}

/// A program. A crash is a step of it where `crashes` says so.
pub(crate) fn program(crashes: bool) -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        30 => call().prop_map(Act::Enqueue),
        2 => proptest::collection::vec(call(), 2..12).prop_map(Act::Burst),
        8 => (1..9_u32).prop_map(|entries| Act::Peek { entries }),
        8 => Just(Act::Ack { back: 0 }),
        3 => (0..4_usize).prop_map(|back| Act::Ack { back }),
        1 => (0..4_usize, 0..4_usize).prop_map(|(back, other)| Act::AckMixed { back, other }),
        1 => Just(Act::AckTooMuch),
        12 => (0..SCOPES.len()).prop_map(|scope| Act::Pending { scope }),
        4 => Just(Act::PendingKey),
        12 => (0..3_usize, instant())
            .prop_map(|(organization, millis)| Act::PendingSince { organization, millis }),
        4 => proptest::collection::vec(query(), 1..10).prop_map(Act::PendingAll),
        3 => foreign().prop_map(Act::Foreign),
        3 => Just(Act::Reindex),
        2 => prop::bool::weighted(0.7).prop_map(|right| Act::Quarantine { right }),
        1 => (0..3_usize).prop_map(|item| Act::Restore { item }),
        2 => Just(if crashes { Act::Crash } else { Act::PendingKey }),
    ];
    proptest::collection::vec(act, 150..250)
}
