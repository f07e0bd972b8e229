//! Who may spend: organizations, teams, projects, users and keys, with limits and budgets.

mod allocation;
mod check;
mod create;
mod patch;
mod record;
mod roots;
mod update;
mod write;

use core::fmt;

use rate_plan::Limits;
use spend_queue::Usd;

pub use allocation::{AllocationDimension, OverAllocation, Quantity};
pub use check::MAX_NAME_BYTES;
pub(crate) use check::{check_id, refused};
pub use patch::{Change, IdentityPatch};
pub use record::IdentityRecord;
pub(crate) use record::read_limit;

/// The largest limit per minute that the ledger stores: 2^31 - 1.
pub const MAX_RATE_LIMIT: u64 = (1 << 31) - 1;
/// The largest budget: what `NUMERIC(30, 12)` holds, just below 10^18 USD.
pub const MAX_BUDGET: Usd = Usd::from_picos(10_i128.pow(30) - 1);

/// The kinds of scope that the ledger knows. Usage may be charged to scopes of any other kind too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeKind {
    /// A billing root.
    Organization,
    /// Below an organization.
    Team,
    /// Below a team or an organization.
    Project,
    /// Below a team or an organization, or a billing root.
    User,
    /// Below its user, else its project, else its team, else its organization.
    Key,
}

/// How often a scope's spend starts again at zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BudgetPeriod {
    /// Never: spend is counted from the Unix epoch on.
    #[default]
    None,
    /// At midnight.
    Daily,
    /// At midnight before Monday.
    Weekly,
    /// At midnight before the first of a month.
    Monthly,
}

/// What a scope may spend in a period. Spend is counted by the period also when there is no bound.
///
/// A change counts from the next commit on: what was settled before stays in the periods it was counted in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The bound, 0 to [`MAX_BUDGET`]; `None` for no bound.
    pub amount: Option<Usd>,
    /// When spend starts again at zero.
    pub period: BudgetPeriod,
    /// Whose midnight it is: a time zone that PostgreSQL knows, such as `Europe/Berlin`. Default: `UTC`.
    pub time_zone: String,
}

impl Default for Budget {
    fn default() -> Self {
        Self { amount: None, period: BudgetPeriod::None, time_zone: "UTC".to_owned() }
    }
}

/// Whom an identity belongs to. The organization is named even where the team implies it; the database refuses
/// a pair that does not belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owners {
    /// The organization.
    pub organization_id: Option<String>,
    /// The team; only together with its organization.
    pub team_id: Option<String>,
    /// The project; only together with its organization, and only of a key.
    pub project_id: Option<String>,
    /// The user; only of a key.
    pub user_id: Option<String>,
}

/// An identity to be created.
///
/// ```
/// use iam_ledger::NewIdentity;
/// use rate_plan::Limits;
///
/// let key = NewIdentity::key("key-1", "laptop")
///     .of_organization("acme")
///     .of_user("ada")
///     .with_limits(Limits { rpm: Some(60), tpm: None });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIdentity {
    /// What it is.
    pub kind: ScopeKind,
    /// Its stable id: 1 to 128 bytes, no control character.
    pub id: String,
    /// What people call it, 0 to [`MAX_NAME_BYTES`] without control characters.
    pub name: String,
    /// Whom it belongs to.
    pub owners: Owners,
    /// Per minute, each at most [`MAX_RATE_LIMIT`]. `None`: shared. `Some(0)`: blocked.
    pub limits: Limits,
    /// What it may spend.
    pub budget: Budget,
}

impl ScopeKind {
    /// The word that a scope reference uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Organization => "organization",
            Self::Team => "team",
            Self::Project => "project",
            Self::User => "user",
            Self::Key => "key",
        }
    }

    /// The kind that a word of the `scopes` view names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Organization, Self::Team, Self::Project, Self::User, Self::Key]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for ScopeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl BudgetPeriod {
    /// The word that the database uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::None, Self::Daily, Self::Weekly, Self::Monthly]
            .into_iter()
            .find(|period| period.as_str() == word)
    }
}

impl NewIdentity {
    fn new(kind: ScopeKind, id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            id: id.into(),
            name: name.into(),
            owners: Owners::default(),
            limits: Limits::SHARED,
            budget: Budget::default(),
        }
    }

    /// An organization.
    #[must_use]
    pub fn organization(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(ScopeKind::Organization, id, name)
    }

    /// A team, which needs an organization.
    #[must_use]
    pub fn team(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(ScopeKind::Team, id, name)
    }

    /// A project, which needs an organization and may have a team.
    #[must_use]
    pub fn project(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(ScopeKind::Project, id, name)
    }

    /// A user, who may have an organization and then a team.
    #[must_use]
    pub fn user(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(ScopeKind::User, id, name)
    }

    /// A key, which needs an organization or a user.
    #[must_use]
    pub fn key(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(ScopeKind::Key, id, name)
    }

    /// Below this organization.
    #[must_use]
    pub fn of_organization(mut self, id: impl Into<String>) -> Self {
        self.owners.organization_id = Some(id.into());
        self
    }

    /// Below this team.
    #[must_use]
    pub fn of_team(mut self, id: impl Into<String>) -> Self {
        self.owners.team_id = Some(id.into());
        self
    }

    /// Below this project.
    #[must_use]
    pub fn of_project(mut self, id: impl Into<String>) -> Self {
        self.owners.project_id = Some(id.into());
        self
    }

    /// Below this user.
    #[must_use]
    pub fn of_user(mut self, id: impl Into<String>) -> Self {
        self.owners.user_id = Some(id.into());
        self
    }

    /// With these limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With this budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }
}
