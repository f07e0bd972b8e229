#![doc = include_str!("../README.md")]

mod address;
mod commit;
mod connect;
mod doctor;
mod error;
mod identity;
mod lease;
mod migrate;
mod money;
mod rate_tree;
mod report;
mod shard_locks;

pub use commit::{Batch, Committed};
pub use connect::{Ledger, LedgerOptions, MIN_SERVER_VERSION};
pub use error::{Cause, LedgerError};
pub use identity::{Budget, BudgetPeriod, MAX_BUDGET, MAX_RATE_LIMIT, NewIdentity, Owners, ScopeKind};
pub use migrate::MigrationStatus;
pub use report::{DailyUsage, KindSpend, PeriodSpend, SettledEvent, SettledScan, Totals, UsageRange};
pub use shard_locks::ShardLocks;
