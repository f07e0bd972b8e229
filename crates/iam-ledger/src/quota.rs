//! What a subject may still spend, level by level: settled, hot and held money against the budgets of its path.

mod rows;
mod shape;

use chrono::{DateTime, Utc};
use spend_queue::{PendingQuery, PendingSpend, QueueError, ScopeRef, Usd};
use thiserror::Error;

use self::rows::LevelRow;
pub(crate) use self::rows::{StoredLevel, scope};
use self::shape::query;
pub(crate) use self::shape::{Shapes, shapes};
use crate::budget::{add, unused, used};
use crate::{InFlight, Ledger, LedgerError, QuotaLevel};

/// For so many budgets beside the path the hot money is read, so that what they reserve is exact. Beyond it their hot money is left
/// out, and they reserve more than they would. The query collects one more.
pub const MAX_SIBLING_READS: usize = 64;
/// How often a path is read again whose budgets changed while it was read.
const ATTEMPTS: u32 = 3;

/// What is read of the budgets beside a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Settled, held and hot money.
    Hot,
    /// Settled and held money.
    Settled,
}

/// What a subject may still spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaPath {
    /// The levels, the subject's own first.
    pub levels: Vec<QuotaLevel>,
    /// Whether every amount is exact. `false`: somewhere more than [`MAX_SIBLING_READS`] budgets beside the path reserve money, or
    /// their hot money was not asked for ([`Ledger::quota_lower_bound`]), and was not subtracted: `reserved` may be too high by it
    /// and `remaining` too low.
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
    #[error("pending spend on the path of {subject}: {error}")]
    Hot {
        /// Whose quota was asked for.
        subject: ScopeRef,
        /// What the queue said.
        error: E,
    },
    /// The queue answered another number of amounts than it was asked for, which breaks its contract. A retry cannot help.
    #[error("the queue was asked for {asked} amounts and answered {answered}")]
    Incomplete {
        /// How many were asked for.
        asked: usize,
        /// How many came.
        answered: usize,
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
            Self::UnknownSubject(_) | Self::Incomplete { .. } => false,
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
    /// Which levels and budgets there are is remembered for up to a minute, and confirmed by the statement that reads the amounts:
    /// it says in the same moment whether the configuration is still the one that was remembered. Amounts are never remembered.
    ///
    /// Hot money of the path is read before settled money, so that an event which a flusher carries over meanwhile is counted twice for a
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
        self.read_quota(subject, hot, rule, Beside::Hot, now).await
    }

    /// [`Ledger::quota_path_with`] without the hot money of the budgets beside the path, which is a call to the queue less: they
    /// reserve as if nothing of theirs were under way. So `remaining` is never more than the whole answer has, and a demand that
    /// it lets pass, passes. Where it refuses and is not [`QuotaPath::exact`], only the whole answer knows.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn quota_lower_bound<P: PendingSpend>(
        &self,
        subject: &ScopeRef,
        hot: &P,
        rule: InFlight,
        now: DateTime<Utc>,
    ) -> Result<QuotaPath, QuotaError<P::Error>> {
        self.read_quota(subject, hot, rule, Beside::Settled, now).await
    }

    async fn read_quota<P: PendingSpend>(
        &self,
        subject: &ScopeRef,
        hot: &P,
        rule: InFlight,
        beside: Beside,
        now: DateTime<Utc>,
    ) -> Result<QuotaPath, QuotaError<P::Error>> {
        for _ in 0..ATTEMPTS {
            let Some(shape) = self.shape(subject, now).await? else {
                return Err(QuotaError::UnknownSubject(subject.clone()));
            };
            let amounts = pending(hot, subject, &shape.queries()).await?;
            if let Some(rows) = self.rows(subject, &shape, now).await? {
                return finish(subject, rows, amounts, hot, (rule, beside)).await;
            }
            self.shapes.remove(subject);
        }
        Err(QuotaError::Changing(subject.clone()))
    }
}

/// Puts hot money in its place: in what a level used, and in what budgets beside the path still reserve.
async fn finish<P: PendingSpend>(
    subject: &ScopeRef,
    rows: Vec<LevelRow>,
    amounts: Vec<Usd>,
    hot: &P,
    (rule, beside): (InFlight, Beside),
) -> Result<QuotaPath, QuotaError<P::Error>> {
    let is_asked_for = |row: &&LevelRow| match beside {
        Beside::Hot => row.level.budget.is_some() && row.siblings.len() <= MAX_SIBLING_READS,
        Beside::Settled => false,
    };
    let beside = rows.iter().filter(is_asked_for).flat_map(|row| &row.siblings);
    // After their settled money: what a flusher carries over meanwhile is missed here, so that they reserve too much and not
    // too little.
    let beside: Vec<_> = beside.map(|sibling| query(&sibling.scope, None)).collect();
    let mut beside = pending(hot, subject, &beside).await?.into_iter();
    let (mut levels, mut amounts, mut exact) = (Vec::with_capacity(rows.len()), amounts.into_iter(), true);
    for row in rows {
        let asked_for = is_asked_for(&&row);
        let LevelRow { mut level, siblings } = row;
        if let Some(budget) = level.budget {
            level.hot = amounts.next();
            level.used = used(rule, level.settled, level.hot.unwrap_or_default(), level.held);
            if asked_for {
                let reserved = siblings.iter().zip(beside.by_ref());
                let reserved = reserved.map(|(sibling, hot)| sibling.reserved(rule, hot));
                level.reserved = reserved.fold(Usd::ZERO, add);
            } else if !siblings.is_empty() {
                exact = false;
            }
            level.remaining = Some(unused(budget, add(level.used, level.reserved)));
        }
        levels.push(level);
    }
    Ok(QuotaPath { levels, exact })
}

/// Hot money that a subject's quota depends on. The queue is not asked for nothing.
async fn pending<P: PendingSpend>(
    hot: &P,
    subject: &ScopeRef,
    queries: &[PendingQuery],
) -> Result<Vec<Usd>, QuotaError<P::Error>> {
    if queries.is_empty() {
        return Ok(Vec::new());
    }
    let amounts = hot.pending_all(queries).await;
    let amounts = amounts.map_err(|error| QuotaError::Hot { subject: subject.clone(), error })?;
    if amounts.len() != queries.len() {
        return Err(QuotaError::Incomplete { asked: queries.len(), answered: amounts.len() });
    }
    Ok(amounts)
}
