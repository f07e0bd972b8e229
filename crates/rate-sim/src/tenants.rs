//! Invented tenants: organizations with teams, projects, users and keys, and limits that real traffic runs into.

use iam_ledger::ScopeKind;
use rate_plan::{Limits, Node, RateTree, Scope, ScopeError, TreeError};
use thiserror::Error;

use crate::random::Random;

/// What the limits are made for: requests and tokens a minute over all organizations.
const EXPECTED_RPM: f64 = 320.0;
const EXPECTED_TPM: f64 = 430_000.0;
/// Room for one request of usual size, so that no limit refuses everything.
const SMALLEST_RPM: f64 = 3.0;
const SMALLEST_TPM: f64 = 6_000.0;

const ORGANIZATIONS: u64 = 6;

/// One scope of an organization.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// What it is.
    pub kind: ScopeKind,
    /// Its stable id.
    pub id: String,
    /// Its parent's place in [`Organization::tenants`], always a lower one; none for the organization itself.
    pub parent: Option<usize>,
    /// What it may use in a minute.
    pub limits: Limits,
    /// Its share of all requests, over all organizations.
    pub share: f64,
}

/// One organization with everything below it.
#[derive(Clone, Debug)]
pub struct Organization {
    /// Every scope, parents first; the first is the organization.
    pub tenants: Vec<Tenant>,
}

/// A key that sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Place in [`Tenants::organizations`].
    pub organization: usize,
    /// Place of the key in [`Organization::tenants`].
    pub key: usize,
}

/// All tenants of a run.
#[derive(Clone, Debug)]
pub struct Tenants {
    /// The organizations, the busiest first.
    pub organizations: Vec<Organization>,
    callers: Vec<Caller>,
    /// For each caller, the share of all requests that it and those before it send.
    cumulative: Vec<f64>,
}

/// Tenants that make no rate tree. Reports a fault of this module or an unusable run id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TenantError {
    /// An id that no scope can have.
    #[error("tenant: {0}")]
    Scope(#[from] ScopeError),
    /// Nodes that make no tree.
    #[error("tenants: {0}")]
    Tree(#[from] TreeError),
}

impl Tenants {
    /// The tenants of a seed. Every id begins with the run id, so that several runs can share a database.
    #[must_use]
    pub fn new(seed: u64, run_id: &str) -> Self {
        let mut random = Random::new(seed, "tenants");
        let shares = zipf(ORGANIZATIONS);
        let organizations: Vec<Organization> = (1..)
            .zip(shares)
            .map(|(n, share)| Organization::new(&mut random, &format!("{run_id}-o{n}"), share))
            .collect();
        let mut callers = Vec::new();
        let mut cumulative = Vec::new();
        let mut sum = 0.0;
        for (organization, place) in organizations.iter().zip(0..) {
            for (key, tenant) in organization.tenants.iter().enumerate() {
                if tenant.kind == ScopeKind::Key {
                    sum += tenant.share;
                    callers.push(Caller { organization: place, key });
                    cumulative.push(sum);
                }
            }
        }
        Self { organizations, callers, cumulative }
    }

    /// The key that sends the next request: each as often as its share.
    pub fn caller(&self, random: &mut Random) -> Caller {
        let total = self.cumulative.last().copied().unwrap_or_default();
        let drawn = random.unit() * total;
        let place = self.cumulative.partition_point(|sum| *sum < drawn);
        self.callers[place.min(self.callers.len() - 1)]
    }
}

impl Organization {
    fn new(random: &mut Random, id: &str, share: f64) -> Self {
        let mut tenants = vec![Tenant {
            kind: ScopeKind::Organization,
            id: id.to_owned(),
            parent: None,
            limits: Limits::SHARED,
            share,
        }];
        let below = |tenants: &mut Vec<Tenant>, kind, parent: usize, id, part: f64| {
            let share = tenants[parent].share * part;
            tenants.push(Tenant { kind, id, parent: Some(parent), limits: Limits::SHARED, share });
            tenants.len() - 1
        };
        for (t, part) in (1..).zip(zipf(random.between(2, 4))) {
            let team_id = format!("{id}-t{t}");
            let team = below(&mut tenants, ScopeKind::Team, 0, team_id.clone(), part);
            // A project of services beside the people, in about half of the teams.
            let users = random.between(2, 5);
            let owners = users + u64::from(random.permille(500));
            for (n, part) in (1..).zip(zipf(owners)) {
                let (kind, letter) =
                    if n > users { (ScopeKind::Project, 'p') } else { (ScopeKind::User, 'u') };
                let owner_id = format!("{team_id}-{letter}{n}");
                let owner = below(&mut tenants, kind, team, owner_id.clone(), part);
                for (k, part) in (1..).zip(zipf(random.between(1, 3))) {
                    below(&mut tenants, ScopeKind::Key, owner, format!("{owner_id}-k{k}"), part);
                }
            }
        }
        let mut organization = Self { tenants };
        organization.set_limits(random);
        organization
    }

    /// Gives some scopes limits somewhat above or below what they will want, then raises every limit that would
    /// promise the children more than their parent has.
    fn set_limits(&mut self, random: &mut Random) {
        for tenant in &mut self.tenants {
            // In so many of a thousand cases, requests and tokens are limited.
            let (requests, tokens) = match tenant.kind {
                ScopeKind::Organization => (500, 700),
                ScopeKind::Team => (300, 500),
                ScopeKind::Project => (500, 300),
                ScopeKind::User => (350, 250),
                ScopeKind::Key => (300, 150),
            };
            // Limits are set with more care the more depends on them.
            let generosities = match tenant.kind {
                ScopeKind::Organization => [1.1, 1.25, 1.4, 1.6],
                ScopeKind::Team => [1.2, 1.4, 1.6, 1.8],
                ScopeKind::Project | ScopeKind::User | ScopeKind::Key => [0.9, 1.1, 1.3, 1.6],
            };
            let rpm = tenant.share * EXPECTED_RPM;
            let tpm = tenant.share * EXPECTED_TPM;
            // Small numbers vary more: room for one standard deviation of a Poisson process.
            let spread = 1.0 + 1.0 / rpm.max(1.0).sqrt();
            let mut limit = |chance, wanted: f64, smallest: f64| {
                let generosity = generosities[random.index(4)];
                random.permille(chance).then(|| ceiling((wanted * spread * generosity).max(smallest)))
            };
            tenant.limits = Limits {
                rpm: limit(requests, rpm, SMALLEST_RPM),
                tpm: limit(tokens, tpm, SMALLEST_TPM).map(|tpm| tpm.next_multiple_of(500)),
            };
        }
        self.raise(|limits| &mut limits.rpm);
        self.raise(|limits| &mut limits.tpm);
    }

    fn raise(&mut self, dimension: impl Fn(&mut Limits) -> &mut Option<u64>) {
        let mut promised = vec![0; self.tenants.len()];
        for (place, tenant) in self.tenants.iter_mut().enumerate().rev() {
            let limit = dimension(&mut tenant.limits);
            *limit = limit.map(|limit| limit.max(promised[place]));
            let passed_up = limit.unwrap_or(promised[place]);
            if let Some(parent) = tenant.parent {
                promised[parent] += passed_up;
            }
        }
    }

    /// The organization's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.tenants[0].id
    }

    /// A scope and everything above it, leaf to root.
    pub fn path(&self, leaf: usize) -> impl Iterator<Item = &Tenant> {
        std::iter::successors(self.tenants.get(leaf), |tenant| self.tenants.get(tenant.parent?))
    }

    /// The rate tree, its nodes in the order of [`Organization::tenants`].
    ///
    /// # Errors
    ///
    /// [`TenantError`] when an id is too long.
    pub fn rate_tree(&self) -> Result<RateTree, TenantError> {
        let node = |tenant: &Tenant| {
            let scope = Scope::new(tenant.kind.as_str(), tenant.id.as_str())?;
            Ok(Node { scope, parent: tenant.parent, limits: tenant.limits })
        };
        let nodes: Result<Vec<Node>, ScopeError> = self.tenants.iter().map(node).collect();
        Ok(RateTree::new(nodes?)?)
    }
}

/// Shares of a whole that fall with the rank, as popularity does: 1, 1/2, 1/3, ... of the first.
#[allow(clippy::cast_precision_loss, reason = "a rank is small")]
fn zipf(count: u64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count).map(|rank| 1.0 / rank as f64).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates"
)]
fn ceiling(number: f64) -> u64 {
    number.ceil() as u64
}

#[cfg(test)]
mod tests;
