//! What a gateway means to charge: plain data, so that the checker needs none of the code under test to read it.

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::tenants::Tenant;

/// How far back a call may have started: several days and their sums are touched.
const OLDEST_START_MICROS: i64 = 4 * 86_400 * 1_000_000;

/// One finished call and its cost, as it was first meant under its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bill {
    /// The request id.
    pub(crate) id: String,
    pub(crate) organization: String,
    pub(crate) team: String,
    pub(crate) key: String,
    pub(crate) model: String,
    /// Picodollars; `None` is unpriced, 0 is free.
    pub(crate) cost: Option<i64>,
    pub(crate) prompt_tokens: u32,
    pub(crate) completion_tokens: u32,
    /// Microseconds since 1970.
    pub(crate) started_at: i64,
    /// Kind and id of each scope that is charged.
    pub(crate) scopes: Vec<(String, String)>,
}

impl Bill {
    /// A random bill of one leaf of a tenant.
    pub(crate) fn random(rng: &mut impl Rng, id: String, tenant: &Tenant, leaf: usize, now: i64) -> Self {
        let path = tenant.path(leaf);
        let named = |kind: &str| {
            path.iter().find(|node| node.kind == kind).map_or_else(String::new, |n| n.id.clone())
        };
        let cost = match rng.random_range(0..20) {
            0 => None,
            1 => Some(0),
            2 => Some(rng.random_range(1..10)),
            3 => Some(rng.random_range(1_000_000_000_000..9_000_000_000_000)),
            _ => Some(rng.random_range(1..50_000_000_000)),
        };
        let mut scopes: Vec<_> = path.iter().map(|node| (node.kind.clone(), node.id.clone())).collect();
        // Any word is a kind, and a call charges exactly what it names.
        scopes.truncate(rng.random_range(1..=scopes.len()));
        if rng.random_bool(0.3) {
            scopes.push(("cost centre".to_owned(), format!("{{{}}}", rng.random_range(0..5))));
        }
        Self {
            id,
            organization: named("organization"),
            team: named("team"),
            key: named("key"),
            model: ["small", "large", "vision"][rng.random_range(0..3)].to_owned(),
            cost,
            prompt_tokens: rng.random_range(0..4_000),
            completion_tokens: rng.random_range(0..1_000),
            started_at: now - rng.random_range(0..OLDEST_START_MICROS),
            scopes,
        }
    }

    /// The same id with another payload: what a queue must call a conflict.
    pub(crate) fn altered(&self) -> Self {
        Self { cost: Some(self.cost.unwrap_or(0) + 1), ..self.clone() }
    }

    /// Picodollars that it moves.
    pub(crate) fn picos(&self) -> i128 {
        self.cost.unwrap_or(0).into()
    }

    /// Days since 1970 in UTC.
    pub(crate) fn day(&self) -> i64 {
        self.started_at.div_euclid(86_400 * 1_000_000)
    }
}
