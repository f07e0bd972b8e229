#![doc = include_str!("../README.md")]

mod address;
mod commit;
mod connect;
mod dead_letter;
mod doctor;
mod error;
mod identity;
mod lease;
mod migrate;
mod money;
mod rate_tree;
mod report;

pub use commit::{Batch, Committed};
pub use connect::{Ledger, LedgerOptions, MIN_SERVER_VERSION};
pub use dead_letter::{
    DeadLetter, DeadLetterContent, DeadLetterKind, DeadLetterPage, Replay, ReplayOutcome, Replayed,
};
pub use error::{Cause, LedgerError};
pub use identity::{Budget, BudgetPeriod, MAX_BUDGET, MAX_RATE_LIMIT, NewIdentity, Owners, ScopeKind};
pub use migrate::MigrationStatus;
pub use report::{DailyUsage, KindSpend, PeriodSpend, SettledEvent, SettledScan, Totals, UsageRange};
