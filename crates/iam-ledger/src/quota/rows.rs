//! The settled and held amounts of a path, each read of one moment with the version of the configuration.

use chrono::{DateTime, Utc};
use spend_queue::{ScopeRef, Usd};

use super::shape::{Placed, Shape};
use crate::budget::{add, unused, used};
use crate::money::from_numeric;
use crate::{InFlight, Ledger, LedgerError, QuotaLevel};

const READING: &str = "reading a path's amounts";

/// A level as the ledger alone knows it, with the budgets beside the path.
pub(super) struct LevelRow {
    pub(super) level: QuotaLevel,
    /// Those that reserve something, hot money left out.
    pub(super) siblings: Vec<Sibling>,
}

/// A budget beside the path that reserves something, hot money left out.
pub(super) struct Sibling {
    pub(super) scope: ScopeRef,
    /// Budget less settled.
    left: Usd,
    held: Usd,
}

impl Sibling {
    /// What it keeps from others, with so much hot money of its own.
    pub(super) fn reserved(&self, rule: InFlight, hot: Usd) -> Usd {
        unused(self.left, used(rule, Usd::ZERO, hot, self.held))
    }
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
        let placed =
            Placed { scope: scope(self.kind, self.id)?, start: self.period_start, end: self.period_end };
        let amounts = Amounts {
            settled: from_numeric("settled_usd", &self.settled_usd)?,
            held: from_numeric("held_usd", &self.held_usd)?,
        };
        Ok(amounts.level(&placed, self.blocked, budget, from_numeric("reserved_usd", &self.reserved_usd)?))
    }
}

/// What a scope has settled in its period, and holds.
struct Amounts {
    settled: Usd,
    held: Usd,
}

impl Amounts {
    /// Those of a level of a path, hot money left out.
    fn level(&self, placed: &Placed, blocked: bool, budget: Option<Usd>, reserved: Usd) -> QuotaLevel {
        let Self { settled, held } = *self;
        let used = used(InFlight::Covered, settled, Usd::ZERO, held);
        QuotaLevel {
            scope: placed.scope.clone(),
            blocked,
            budget,
            period_start: placed.start,
            period_end: placed.end,
            settled,
            hot: None,
            held,
            used,
            reserved,
            remaining: budget.map(|budget| unused(budget, add(used, reserved))),
        }
    }
}

impl Ledger {
    /// The amounts of a path; `None` when the configuration is another than the shape's by now.
    pub(super) async fn rows(
        &self,
        subject: &ScopeRef,
        shape: &Shape,
        now: DateTime<Utc>,
    ) -> Result<Option<Vec<LevelRow>>, LedgerError> {
        if shape.lists_all_siblings() {
            self.listed_rows(shape, now).await
        } else {
            self.summed_rows(subject, shape, now).await
        }
    }

    /// Each scope by its own amounts.
    async fn listed_rows(
        &self,
        shape: &Shape,
        now: DateTime<Utc>,
    ) -> Result<Option<Vec<LevelRow>>, LedgerError> {
        let (mut kinds, mut ids, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for placed in shape.scopes() {
            kinds.push(placed.scope.kind());
            ids.push(placed.scope.id());
            starts.push(placed.start);
            ends.push(placed.end);
        }
        let mut connection = self.reader(READING).await?;
        let stored = sqlx::query_file!(
            "queries/quota_amounts.sql",
            shape.root.kind(),
            shape.root.id(),
            kinds as Vec<&str>,
            ids as Vec<&str>,
            &starts,
            ends as Vec<Option<DateTime<Utc>>>,
            now
        )
        .fetch_all(&mut *connection)
        .await
        .map_err(LedgerError::query(READING))?;
        self.believe(connection, stored.iter().any(|row| row.read_only), READING)?;
        if stored.iter().any(|row| row.version != shape.version) {
            return Ok(None);
        }
        let amounts = stored.iter().map(|row| {
            Ok(Amounts {
                settled: from_numeric("settled_usd", &row.settled_usd)?,
                held: from_numeric("held_usd", &row.held_usd)?,
            })
        });
        let amounts = amounts.collect::<Result<Vec<_>, LedgerError>>()?;
        let (of_levels, of_siblings) = amounts.split_at(shape.levels.len().min(amounts.len()));
        let mut of_siblings = of_siblings.iter();
        let rows = shape.levels.iter().zip(of_levels).map(|(level, amounts)| {
            let siblings =
                level.siblings.iter().zip(of_siblings.by_ref()).map(|(sibling, amounts)| Sibling {
                    scope: sibling.placed.scope.clone(),
                    left: unused(sibling.budget, amounts.settled),
                    held: amounts.held,
                });
            let siblings: Vec<_> = siblings.filter(|sibling| sibling.left > sibling.held).collect();
            let reserved = siblings.iter().map(|sibling| sibling.reserved(InFlight::Covered, Usd::ZERO));
            let reserved = reserved.fold(Usd::ZERO, add);
            LevelRow { level: amounts.level(&level.placed, level.blocked, level.budget, reserved), siblings }
        });
        Ok(Some(rows.collect()))
    }

    /// The budgets beside the path summed up by the database, since they are too many to be listed.
    async fn summed_rows(
        &self,
        subject: &ScopeRef,
        shape: &Shape,
        now: DateTime<Utc>,
    ) -> Result<Option<Vec<LevelRow>>, LedgerError> {
        let mut connection = self.reader(READING).await?;
        let rows = sqlx::query_file!("queries/quota_levels.sql", subject.kind(), subject.id(), now)
            .fetch_all(&mut *connection)
            .await
            .map_err(LedgerError::query(READING))?;
        self.believe(connection, rows.iter().any(|row| row.read_only), READING)?;
        if rows.is_empty() || rows.iter().any(|row| row.version != shape.version) {
            return Ok(None);
        }
        let rows = rows.into_iter().map(|row| {
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
            Ok(LevelRow { siblings: siblings.collect::<Result<_, LedgerError>>()?, level: stored.read()? })
        });
        rows.collect::<Result<_, LedgerError>>().map(Some)
    }
}

/// A stored scope.
pub(crate) fn scope(kind: String, id: String) -> Result<ScopeRef, LedgerError> {
    let text = format!("{kind}/{id}");
    ScopeRef::new(kind, id).map_err(|_| LedgerError::Unreadable { column: "id", value: text })
}
