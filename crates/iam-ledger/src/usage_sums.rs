//! What every report of usage sums up.

use spend_queue::Usd;

use crate::LedgerError;

/// Sums over events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageSums {
    /// Events, free and unpriced ones included.
    pub events: u64,
    /// Events without a cost.
    pub unpriced_events: u64,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Cached input tokens.
    pub cached_tokens: u64,
    /// What they cost.
    pub cost: Usd,
}

/// The sums of a row, whatever its type.
macro_rules! usage_sums {
    ($row:expr) => {
        UsageSums {
            events: counted("events", $row.events)?,
            unpriced_events: counted("unpriced_events", $row.unpriced_events)?,
            prompt_tokens: counted("prompt_tokens", $row.prompt_tokens)?,
            completion_tokens: counted("completion_tokens", $row.completion_tokens)?,
            cached_tokens: counted("cached_tokens", $row.cached_tokens)?,
            cost: from_numeric("cost_usd", &$row.cost_usd)?,
        }
    };
}
pub(crate) use usage_sums;

/// A count as the database keeps it.
pub(crate) fn counted(column: &'static str, count: i64) -> Result<u64, LedgerError> {
    u64::try_from(count).map_err(|_| LedgerError::Unreadable { column, value: count.to_string() })
}
