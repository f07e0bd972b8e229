#![doc = include_str!("../README.md")]

mod address;
mod budget;
mod commit;
mod connect;
mod doctor;
mod error;
mod hold;
mod identity;
mod lease;
mod migrate;
mod money;
mod quota;
mod rate_tree;
mod report;
mod usage_report;

pub use budget::{InFlight, QuotaLevel};
pub use commit::{Batch, Committed};
pub use connect::{Ledger, LedgerOptions, MIN_SERVER_VERSION};
pub use error::{Cause, LedgerError};
pub use hold::{Hold, HoldAnswer, HoldError, HoldState, MAX_HOLD, MAX_HOLD_TTL, MIN_HOLD_TTL, Released};
pub use identity::{Budget, BudgetPeriod, MAX_BUDGET, MAX_RATE_LIMIT, NewIdentity, Owners, ScopeKind};
pub use migrate::MigrationStatus;
pub use quota::{MAX_SIBLING_READS, QuotaError, QuotaPath};
pub use report::{DailyUsage, KindSpend, PeriodSpend, SettledEvent, SettledScan, Totals, UsageRange};
pub use usage_report::{
    MAX_REPORT_ROWS, ModelUsage, OpenHold, Overrun, ReportFilter, ReportFilterError, ScopePeriod, ScopeUsage,
    UsageDay, UsageSums,
};
