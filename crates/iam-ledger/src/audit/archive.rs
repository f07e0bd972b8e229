//! Months whose events were archived: what was recorded of them, and whether the roll-up still says the same.

use chrono::NaiveDate;
use spend_queue::Usd;
use sqlx::PgConnection;

use crate::LedgerError;
use crate::money::from_numeric;

/// The most archived months that are read: a century of them.
const MOST: i64 = 1_200;

/// A month whose events were detached from `usage_events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedMonth {
    /// Its first day, UTC.
    pub month: NaiveDate,
    /// Events that were archived. They were not read.
    pub events: u64,
    /// What they cost.
    pub cost: Usd,
    /// Events of the month that were settled later and are stored, and what they cost.
    pub stored: (u64, Usd),
    /// Events of the month in the roll-up, and what they cost.
    pub rolled_up: (u64, Usd),
}

impl ArchivedMonth {
    /// Whether the roll-up is what was archived and what came later.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let cost = self.cost.checked_add(self.stored.1);
        self.events.checked_add(self.stored.0) == Some(self.rolled_up.0) && cost == Some(self.rolled_up.1)
    }
}

pub(super) async fn read(connection: &mut PgConnection) -> Result<Vec<ArchivedMonth>, LedgerError> {
    let rows = sqlx::query_file!("queries/audit_archived_months.sql", MOST)
        .fetch_all(connection)
        .await
        .map_err(LedgerError::query("comparing archived months"))?;
    let count = |count: i64| u64::try_from(count).unwrap_or_default();
    rows.into_iter()
        .map(|row| {
            Ok(ArchivedMonth {
                month: row.month,
                events: count(row.archived_events),
                cost: from_numeric("cost_usd", &row.archived_cost)?,
                stored: (count(row.stored_events), from_numeric("cost_usd", &row.stored_cost)?),
                rolled_up: (count(row.rolled_up), from_numeric("cost_usd", &row.rolled_up_cost)?),
            })
        })
        .collect()
}
