//! What a question for a quota is about, amounts left out: the levels of a path, and the budgets beside it.
//!
//! It changes with the configuration and with the calendar and with nothing else, so it is remembered, with the version that its root's
//! configuration had. Every read of amounts says which version holds at its own moment: what is remembered is believed only
//! when that read confirms it, and needs nobody who would have to be told of changes.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use spend_queue::{ORGANIZATION, PendingQuery, ScopeRef, Usd};

use super::rows::scope;
use crate::bounded::Bounded;
use crate::money::from_numeric;
use crate::{Ledger, LedgerError, MAX_SIBLING_READS};

/// How many shapes a ledger remembers: some 20 MB of usual ones.
const MAX_SHAPES: usize = 10_000;
/// When a shape is read again although its version holds: rules of time zones change without one.
const MAX_AGE: TimeDelta = TimeDelta::seconds(60);

const READING: &str = "reading a path's budgets";

/// Shapes by subject.
pub(crate) type Shapes = Arc<Bounded<ScopeRef, Arc<Shape>>>;

pub(crate) fn shapes() -> Shapes {
    Arc::new(Bounded::new(MAX_SHAPES))
}

/// A subject's path, and the budgets beside it.
pub(crate) struct Shape {
    pub(super) root: ScopeRef,
    /// Of the root's configuration.
    pub(super) version: i64,
    /// The subject's own first.
    pub(super) levels: Vec<LevelShape>,
    read_at: DateTime<Utc>,
}

pub(super) struct LevelShape {
    pub(super) placed: Placed,
    pub(super) blocked: bool,
    pub(super) budget: Option<Usd>,
    /// Budgets beside the path whose unused part is reserved at this level.
    pub(super) siblings: Vec<SiblingShape>,
}

pub(super) struct SiblingShape {
    pub(super) placed: Placed,
    pub(super) budget: Usd,
}

/// A scope in its current period.
pub(super) struct Placed {
    pub(super) scope: ScopeRef,
    pub(super) start: DateTime<Utc>,
    pub(super) end: Option<DateTime<Utc>>,
}

impl Shape {
    /// Whether there are few enough budgets beside the path to read each one's amounts.
    pub(super) fn lists_all_siblings(&self) -> bool {
        self.levels.iter().map(|level| level.siblings.len()).sum::<usize>() <= MAX_SIBLING_READS
    }

    /// All scopes whose amounts are read: the levels, then the budgets beside them.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &Placed> {
        let siblings = self.levels.iter().flat_map(|level| &level.siblings);
        self.levels.iter().map(|level| &level.placed).chain(siblings.map(|sibling| &sibling.placed))
    }

    /// The hot money that the path's budgets depend on, in the order of the levels.
    pub(super) fn queries(&self) -> Vec<PendingQuery> {
        let budgeted = self.levels.iter().filter(|level| level.budget.is_some());
        budgeted.map(|level| query(&level.placed.scope, Some(level.placed.start))).collect()
    }

    fn is_of(&self, now: DateTime<Utc>) -> bool {
        // A clock that went backwards makes nothing older.
        (TimeDelta::zero()..MAX_AGE).contains(&(now - self.read_at))
            && self.scopes().all(|placed| placed.start <= now && placed.end.is_none_or(|end| now < end))
    }
}

/// Hot money of one scope: of an organization what started in its period, of anything else all of it.
pub(super) fn query(scope: &ScopeRef, period_start: Option<DateTime<Utc>>) -> PendingQuery {
    match (scope.kind(), period_start) {
        (ORGANIZATION, Some(since)) => PendingQuery::Organization { id: scope.id().to_owned(), since },
        ("key", _) => PendingQuery::Key(scope.id().to_owned()),
        _ => PendingQuery::Scope(scope.clone()),
    }
}

impl Ledger {
    /// The shape of a subject's path, as it was remembered or as it is; `None` when no table knows the subject.
    pub(super) async fn shape(
        &self,
        subject: &ScopeRef,
        now: DateTime<Utc>,
    ) -> Result<Option<Arc<Shape>>, LedgerError> {
        if let Some(shape) = self.shapes.get(subject).filter(|shape| shape.is_of(now)) {
            return Ok(Some(shape));
        }
        let shape = self.read_shape(subject, now).await?.map(Arc::new);
        match &shape {
            Some(shape) => self.shapes.insert(subject.clone(), Arc::clone(shape)),
            None => self.shapes.remove(subject),
        }
        Ok(shape)
    }

    async fn read_shape(&self, subject: &ScopeRef, now: DateTime<Utc>) -> Result<Option<Shape>, LedgerError> {
        let siblings = i64::try_from(MAX_SIBLING_READS).unwrap_or(i64::MAX);
        let mut connection = self.reader(READING).await?;
        let rows = sqlx::query_file!("queries/quota_shape.sql", subject.kind(), subject.id(), now, siblings)
            .fetch_all(&mut *connection)
            .await
            .map_err(LedgerError::query(READING))?;
        self.believe(connection, rows.iter().any(|row| row.read_only), READING)?;
        let version = rows.first().map_or(0, |row| row.version);
        let mut levels = Vec::with_capacity(rows.len());
        for row in rows {
            let names = row.sibling_kinds.into_iter().zip(row.sibling_ids);
            let periods = row.sibling_starts.into_iter().zip(row.sibling_ends);
            let siblings = names.zip(&row.sibling_budgets_usd).zip(periods);
            let siblings = siblings.map(|(((kind, id), budget), (start, end))| {
                let placed = Placed { scope: scope(kind, id)?, start, end };
                Ok(SiblingShape { placed, budget: from_numeric("budget_usd", budget)? })
            });
            let budget = row.budget_usd.as_deref().map(|budget| from_numeric("budget_usd", budget));
            levels.push(LevelShape {
                siblings: siblings.collect::<Result<_, LedgerError>>()?,
                placed: Placed {
                    scope: scope(row.kind, row.id)?,
                    start: row.period_start,
                    end: row.period_end,
                },
                blocked: row.blocked,
                budget: budget.transpose()?,
            });
        }
        let root = levels.last().map(|level| level.placed.scope.clone());
        Ok(root.map(|root| Shape { root, version, levels, read_at: now }))
    }
}
