//! The trees that are measured: organization, teams, users, keys.

use std::sync::Arc;

use anyhow::Result;
use rand::seq::IndexedRandom;
use rate_plan::{Limits, Node, RatePlan, RateTree, Scope};

const USERS_A_TEAM: usize = 8;
const KEYS_A_USER: usize = 3;

/// A tree whose every key is four levels deep, and a plan for each of its keys.
///
/// A full team has 8 users with 3 keys each, 33 nodes in all; the last team of a tree takes what is left. Fixed and
/// shared nodes alternate on every level, so that there are reservations to honour; limits are so high that nothing
/// is ever refused, because a refusal writes nothing and would flatter the figures.
pub(crate) struct Shape {
    pub(crate) tree: Arc<RateTree>,
    pub(crate) keys: Vec<RatePlan>,
}

impl Shape {
    /// The tree of so many nodes.
    pub(crate) fn of(size: usize) -> Result<Self> {
        let mut nodes =
            vec![node("organization", 0, None, limits(100_000_000_000_000, 4_000_000_000_000_000))];
        let mut leaves = Vec::new();
        let mut team = 0;
        while nodes.len() < size {
            let fixed =
                if team % 2 == 0 { limits(10_000_000_000, 1_000_000_000_000) } else { Limits::SHARED };
            nodes.push(node("team", team, Some(0), fixed));
            let team_at = nodes.len() - 1;
            for user in 0..USERS_A_TEAM {
                if nodes.len() >= size {
                    break;
                }
                let fixed =
                    if user % 2 == 1 { limits(1_000_000_000, 100_000_000_000) } else { Limits::SHARED };
                nodes.push(node("user", team * USERS_A_TEAM + user, Some(team_at), fixed));
                let user_at = nodes.len() - 1;
                for key in 0..KEYS_A_USER.min(size - nodes.len()) {
                    let fixed = match key {
                        0 => limits(100_000_000, 10_000_000_000),
                        1 => Limits { rpm: Some(100_000_000), tpm: None },
                        _ => Limits::SHARED,
                    };
                    let id = (team * USERS_A_TEAM + user) * KEYS_A_USER + key;
                    leaves.push(nodes.len());
                    nodes.push(node("key", id, Some(user_at), fixed));
                }
            }
            team += 1;
        }
        let nodes = nodes.into_iter().collect::<Result<Vec<_>>>()?;
        let tree = Arc::new(RateTree::new(nodes)?);
        let keys = leaves.into_iter().map(|leaf| tree.plan(leaf)).collect::<Result<_, _>>()?;
        Ok(Self { tree, keys })
    }

    /// Any of its keys. A tree has at least one.
    pub(crate) fn any_key(&self) -> &RatePlan {
        self.keys.choose(&mut rand::rng()).unwrap_or(&self.keys[0])
    }

    /// So many requests of one key.
    pub(crate) fn same(&self, count: usize) -> Vec<(RatePlan, i64)> {
        (0..count).map(|nth| (self.keys[0].clone(), tokens(nth))).collect()
    }

    /// Requests of so many different keys that lie close together.
    pub(crate) fn neighbours(&self, count: usize) -> Vec<(RatePlan, i64)> {
        self.keys.iter().take(count).enumerate().map(|(nth, key)| (key.clone(), tokens(nth))).collect()
    }

    /// Requests of so many different keys, drawn from the whole tree.
    pub(crate) fn different(&self, count: usize) -> Vec<(RatePlan, i64)> {
        let drawn = self.keys.choose_multiple(&mut rand::rng(), count);
        drawn.enumerate().map(|(nth, key)| (key.clone(), tokens(nth))).collect()
    }
}

/// The estimate of the nth request: 100 to 1,099 tokens.
pub(crate) fn tokens(nth: usize) -> i64 {
    100 + i64::try_from(nth * 37 % 1_000).unwrap_or(0)
}

fn limits(rpm: u64, tpm: u64) -> Limits {
    Limits { rpm: Some(rpm), tpm: Some(tpm) }
}

fn node(kind: &str, id: usize, parent: Option<usize>, limits: Limits) -> Result<Node> {
    Ok(Node { scope: Scope::new(kind, format!("{kind}-{id:06}"))?, parent, limits })
}
