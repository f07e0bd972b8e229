//! Who a secret belongs to.

use rate_plan::Limits;
use spend_queue::ScopeRef;

use crate::{LedgerError, ScopeKind};

/// A scope that an authenticated key is, or is below.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityScope {
    /// What it is.
    pub kind: ScopeKind,
    /// Its stable id.
    pub id: String,
    /// Its own limits per minute. What it is allowed depends on those above too: see [`Ledger::rate_tree`].
    ///
    /// [`Ledger::rate_tree`]: crate::Ledger::rate_tree
    pub limits: Limits,
    /// Whether it is blocked itself.
    pub blocked: bool,
}

/// The key that a secret belongs to, with everything above it, as of one instant.
///
/// A person's key: key, user, the user's team if there is one, organization; the project that it names, if any, is among
/// its scopes and not above it. A service key, which has no user: key, project if there is one, team if there
/// is one, organization. So the team of a key with an owner is its owner's.
///
/// Authenticating does not refuse what is blocked, so that a host can say why: call [`Identity::require_unblocked`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Key, user, project, team, organization; those that there are.
    scopes: Box<[IdentityScope]>,
    root: ScopeRef,
    version: i64,
    budgeted: bool,
}

impl Identity {
    pub(super) fn new(scopes: Vec<IdentityScope>, version: i64, budgeted: bool) -> Result<Self, LedgerError> {
        let unreadable = |value: &str| LedgerError::Unreadable { column: "owner", value: value.to_owned() };
        let root = [ScopeKind::Organization, ScopeKind::User]
            .into_iter()
            .find_map(|kind| scopes.iter().find(|scope| scope.kind == kind))
            .ok_or_else(|| unreadable("none"))?;
        let root = ScopeRef::new(root.kind.as_str(), &*root.id).map_err(|_| unreadable(&root.id))?;
        if scopes.first().is_none_or(|scope| scope.kind != ScopeKind::Key) {
            return Err(unreadable("no key"));
        }
        Ok(Self { scopes: scopes.into(), root, version, budgeted })
    }

    /// The key and every scope that it belongs to, in the order key, user, project, team, organization.
    #[must_use]
    pub fn scopes(&self) -> &[IdentityScope] {
        &self.scopes
    }

    /// The key's stable id.
    #[must_use]
    pub fn key_id(&self) -> &str {
        // The first scope is the key: `new` refuses others.
        self.scopes.first().map_or("", |scope| &scope.id)
    }

    /// The user, unless it is a service key.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        self.id_of(ScopeKind::User)
    }

    /// The project that the key is for.
    #[must_use]
    pub fn project_id(&self) -> Option<&str> {
        self.id_of(ScopeKind::Project)
    }

    /// The team: the user's, else the project's, else the key's own.
    #[must_use]
    pub fn team_id(&self) -> Option<&str> {
        self.id_of(ScopeKind::Team)
    }

    /// The organization; none below a user who is a billing root.
    #[must_use]
    pub fn organization_id(&self) -> Option<&str> {
        self.id_of(ScopeKind::Organization)
    }

    /// Whose rate tree the key is in: its organization, or its user without one.
    #[must_use]
    pub const fn root(&self) -> &ScopeRef {
        &self.root
    }

    /// The key's own limits per minute.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.scopes.first().map_or(Limits::SHARED, |scope| scope.limits)
    }

    /// Whether any level of the key's budget path, the key included, has a budget. If none has, neither
    /// [`Ledger::quota_path`] nor [`Ledger::hold`] can refuse it, so a host need not ask.
    ///
    /// [`Ledger::quota_path`]: crate::Ledger::quota_path
    /// [`Ledger::hold`]: crate::Ledger::hold
    #[must_use]
    pub const fn is_budgeted(&self) -> bool {
        self.budgeted
    }

    /// The key as the subject of budgets and charges.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Unreadable`] for an id that no scope can have; the database refuses to store one.
    pub fn key(&self) -> Result<ScopeRef, LedgerError> {
        scope_ref(ScopeKind::Key, self.key_id())
    }

    /// What an event of this key charges: every scope that it has, key first.
    ///
    /// # Errors
    ///
    /// As [`Identity::key`].
    pub fn charged(&self) -> Result<Vec<ScopeRef>, LedgerError> {
        self.scopes.iter().map(|scope| scope_ref(scope.kind, &scope.id)).collect()
    }

    /// The scopes that are blocked, key first.
    pub fn blocked(&self) -> impl Iterator<Item = &IdentityScope> {
        self.scopes.iter().filter(|scope| scope.blocked)
    }

    /// Refuses a key that is blocked or below a blocked scope.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Blocked`] with the first blocked scope, key first. A retry cannot help until somebody lifts the
    /// block.
    pub fn require_unblocked(&self) -> Result<(), LedgerError> {
        match self.blocked().next() {
            None => Ok(()),
            Some(scope) => Err(LedgerError::Blocked { kind: scope.kind, id: scope.id.clone() }),
        }
    }

    /// The version of the configuration that it is of.
    pub(crate) const fn version(&self) -> i64 {
        self.version
    }

    fn id_of(&self, kind: ScopeKind) -> Option<&str> {
        self.scopes.iter().find(|scope| scope.kind == kind).map(|scope| &*scope.id)
    }
}

fn scope_ref(kind: ScopeKind, id: &str) -> Result<ScopeRef, LedgerError> {
    ScopeRef::new(kind.as_str(), id)
        .map_err(|_| LedgerError::Unreadable { column: "id", value: id.to_owned() })
}
