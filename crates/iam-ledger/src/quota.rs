//! What a subject may still spend, level by level: settled, hot and held money against the budgets of its path.

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use spend_queue::{PendingSpend, QueueError, ScopeRef, Usd};
use thiserror::Error;

use crate::budget::{add, unused, used};
use crate::money::from_numeric;
use crate::{InFlight, Ledger, LedgerError, QuotaLevel};

/// For so many budgets beside the path the hot money is read, so that what they reserve is exact. Beyond it their hot money is left
/// out, and they reserve more than they would. The query collects one more.
pub const MAX_SIBLING_READS: usize = 64;
/// How often a path is read again whose budgets changed while it was read.
const ATTEMPTS: u32 = 3;

/// What a subject may still spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaPath {
    /// The levels, the subject's own first.
    pub levels: Vec<QuotaLevel>,
    /// Whether every amount is exact. `false`: somewhere more than [`MAX_SIBLING_READS`] budgets beside the path reserve money,
    /// and their hot money was not subtracted, so `reserved` may be too high by it and `remaining` too low.
    pub exact: bool,
}

impl QuotaPath {
    /// The first level, from the subject up, that is blocked or has nothing left.
    #[must_use]
    pub fn exhausted(&self) -> Option<&QuotaLevel> {
        self.refusing(Usd::ZERO)
    }

    /// The first level, from the subject up, that is blocked or refuses a demand. It is an answer of one moment and reserves
    /// nothing: two requests that ask at once may both pass. A hold is what reserves.
    #[must_use]
    pub fn refusing(&self, demand: Usd) -> Option<&QuotaLevel> {
        self.levels.iter().find(|level| level.blocked || level.refuses(demand))
    }

    /// The least that any level has left; `None` when no level has a budget.
    #[must_use]
    pub fn remaining(&self) -> Option<Usd> {
        self.levels.iter().filter_map(|level| level.remaining).min()
    }
}

/// Why a quota cannot be told. Refuse what depends on it: a gateway answers 503.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuotaError<E: QueueError> {
    /// No table knows the subject. A retry cannot help.
    #[error("there is no {0}")]
    UnknownSubject(ScopeRef),
    /// Hot money could not be read exactly.
    #[error("pending spend of {scope}: {error}")]
    Hot {
        /// Whose.
        scope: ScopeRef,
        /// What the queue said.
        error: E,
    },
    /// Budgets of the path changed again and again while they were read. Ask again.
    #[error("the budgets of {0} changed while they were read")]
    Changing(ScopeRef),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl<E: QueueError> QuotaError<E> {
    /// Whether the same call may succeed later without anybody mending anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::UnknownSubject(_) => false,
            Self::Hot { error, .. } => error.is_transient(),
            Self::Changing(_) => true,
            Self::Ledger(error) => error.is_transient(),
        }
    }
}

impl Ledger {
    /// What a subject may still spend at each level of its path, where every paid request is held before it runs, or none
    /// is ([`InFlight::Covered`]).
    ///
    /// Hot money is asked for only where a budget depends on it: at levels with a budget, and at the budgets beside the path
    /// that reserve money there. A path without budgets never touches the queue. For an organization it is what started in
    /// its current period; for a key it is read by the key's row; elsewhere everything pending counts.
    ///
    /// Hot money is read before settled money, so that an event which a flusher carries over meanwhile is counted twice for a
    /// moment and never missed. What the queue still holds although it is committed (until its acknowledgement) is
    /// counted twice as well.
    ///
    /// # Errors
    ///
    /// [`QuotaError`]; nothing is ever guessed.
    pub async fn quota_path<P: PendingSpend>(
        &self,
        subject: &ScopeRef,
        hot: &P,
        now: DateTime<Utc>,
    ) -> Result<QuotaPath, QuotaError<P::Error>> {
        self.quota_path_with(subject, hot, InFlight::Covered, now).await
    }

    /// [`Ledger::quota_path`] with another rule for money in flight.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn quota_path_with<P: PendingSpend>(
        &self,
        subject: &ScopeRef,
        hot: &P,
        rule: InFlight,
        now: DateTime<Utc>,
    ) -> Result<QuotaPath, QuotaError<P::Error>> {
        for _ in 0..ATTEMPTS {
            let asked = self.budgeted_scopes(subject, now).await?;
            let amounts =
                try_join_all(asked.iter().map(|(scope, start)| pending(hot, scope, Some(*start)))).await?;
            let rows = self.quota_rows(subject, now).await?;
            if rows.is_empty() {
                return Err(QuotaError::UnknownSubject(subject.clone()));
            }
            let budgeted = rows.iter().filter(|row| row.level.budget.is_some());
            if budgeted
                .map(|row| (&row.level.scope, row.level.period_start))
                .eq(asked.iter().map(|(s, at)| (s, *at)))
            {
                return finish(rows, amounts, hot, rule).await;
            }
        }
        Err(QuotaError::Changing(subject.clone()))
    }

    /// The scopes of a path that have a budget, and when their period began.
    async fn budgeted_scopes(
        &self,
        subject: &ScopeRef,
        now: DateTime<Utc>,
    ) -> Result<Vec<(ScopeRef, DateTime<Utc>)>, LedgerError> {
        let rows = sqlx::query_file!("queries/quota_path.sql", subject.kind(), subject.id(), now)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading a path's budgets", error))?;
        let budgeted = rows.into_iter().filter(|row| row.budgeted);
        budgeted.map(|row| Ok((scope(row.kind, row.id)?, row.period_start))).collect()
    }

    async fn quota_rows(&self, subject: &ScopeRef, now: DateTime<Utc>) -> Result<Vec<LevelRow>, LedgerError> {
        let rows = sqlx::query_file!("queries/quota_levels.sql", subject.kind(), subject.id(), now)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading a path's amounts", error))?;
        rows.into_iter()
            .map(|row| {
                let stored = StoredLevel {
                    kind: row.kind,
                    id: row.id,
                    blocked: row.blocked,
                    budget_usd: row.budget_usd,
                    period_start: row.period_start,
                    period_end: row.period_end,
                    settled_usd: row.settled_usd,
                    held_usd: row.held_usd,
                    reserved_usd: row.reserved_usd,
                };
                let siblings = row.sibling_kinds.into_iter().zip(row.sibling_ids);
                let amounts = row.sibling_left_usd.iter().zip(&row.sibling_held_usd);
                let siblings = siblings.zip(amounts).map(|((kind, id), (left, held))| {
                    Ok(Sibling {
                        scope: scope(kind, id)?,
                        left: from_numeric("sibling_left_usd", left)?,
                        held: from_numeric("sibling_held_usd", held)?,
                    })
                });
                Ok(LevelRow {
                    siblings: siblings.collect::<Result<_, LedgerError>>()?,
                    level: stored.read()?,
                })
            })
            .collect()
    }
}

/// A level as the ledger alone knows it, with budgets beside the path.
struct LevelRow {
    level: QuotaLevel,
    siblings: Vec<Sibling>,
}

/// A budget beside the path that reserves something, hot money left out.
struct Sibling {
    scope: ScopeRef,
    /// Budget less settled.
    left: Usd,
    held: Usd,
}

/// A row of `budget_levels` without the siblings: what `quota_levels.sql` and `place_hold.sql` share.
pub(crate) struct StoredLevel {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) blocked: bool,
    pub(crate) budget_usd: Option<String>,
    pub(crate) period_start: DateTime<Utc>,
    pub(crate) period_end: Option<DateTime<Utc>>,
    pub(crate) settled_usd: String,
    pub(crate) held_usd: String,
    pub(crate) reserved_usd: String,
}

impl StoredLevel {
    /// The level without hot money.
    pub(crate) fn read(self) -> Result<QuotaLevel, LedgerError> {
        let budget = self.budget_usd.map(|budget| from_numeric("budget_usd", &budget)).transpose()?;
        let settled = from_numeric("settled_usd", &self.settled_usd)?;
        let held = from_numeric("held_usd", &self.held_usd)?;
        let reserved = from_numeric("reserved_usd", &self.reserved_usd)?;
        let used = used(InFlight::Covered, settled, Usd::ZERO, held);
        Ok(QuotaLevel {
            scope: scope(self.kind, self.id)?,
            blocked: self.blocked,
            budget,
            period_start: self.period_start,
            period_end: self.period_end,
            settled,
            hot: None,
            held,
            used,
            reserved,
            remaining: budget.map(|budget| unused(budget, add(used, reserved))),
        })
    }
}

/// Puts hot money in its place: in what a level used, and in what budgets beside the path still reserve.
async fn finish<P: PendingSpend>(
    rows: Vec<LevelRow>,
    amounts: Vec<Usd>,
    hot: &P,
    rule: InFlight,
) -> Result<QuotaPath, QuotaError<P::Error>> {
    let (mut levels, mut amounts, mut exact) = (Vec::with_capacity(rows.len()), amounts.into_iter(), true);
    for LevelRow { mut level, siblings } in rows {
        if let Some(budget) = level.budget {
            level.hot = amounts.next();
            level.used = used(rule, level.settled, level.hot.unwrap_or_default(), level.held);
            if siblings.len() > MAX_SIBLING_READS {
                exact = false;
            } else {
                let pending = siblings.iter().map(|sibling| pending(hot, &sibling.scope, None));
                let reserved = siblings.iter().zip(try_join_all(pending).await?);
                let reserved = reserved
                    .map(|(sibling, hot)| unused(sibling.left, used(rule, Usd::ZERO, hot, sibling.held)));
                level.reserved = reserved.fold(Usd::ZERO, add);
            }
            level.remaining = Some(unused(budget, add(level.used, level.reserved)));
        }
        levels.push(level);
    }
    Ok(QuotaPath { levels, exact })
}

/// Hot money of one scope: of an organization what started in its period, of anything else all of it.
async fn pending<P: PendingSpend>(
    hot: &P,
    scope: &ScopeRef,
    period_start: Option<DateTime<Utc>>,
) -> Result<Usd, QuotaError<P::Error>> {
    let amount = match (scope.kind(), period_start) {
        ("organization", Some(start)) => hot.pending_since(scope.id(), start).await,
        ("key", _) => hot.pending_key(scope.id()).await,
        _ => hot.pending(scope).await,
    };
    amount.map_err(|error| QuotaError::Hot { scope: scope.clone(), error })
}

/// A stored scope.
pub(crate) fn scope(kind: String, id: String) -> Result<ScopeRef, LedgerError> {
    let text = format!("{kind}/{id}");
    ScopeRef::new(kind, id).map_err(|_| LedgerError::Unreadable { column: "id", value: text })
}
