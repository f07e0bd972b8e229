#![doc = include_str!("../README.md")]

mod address;
mod audit;
mod commit;
mod config;
mod connect;
mod doctor;
mod error;
mod identity;
mod key;
mod lease;
mod migrate;
mod money;
mod rate_tree;
mod report;
mod shard_locks;

pub use commit::{Batch, Committed};
pub use config::{
    ConfigWatch, IdentityCache, IdentityCacheOptions, RateTreeCache, WatchOptions, WatchStatus,
};
pub use connect::{Ledger, LedgerOptions, MIN_SERVER_VERSION};
pub use error::{Cause, LedgerError};
pub use identity::{
    AllocationDimension, Budget, BudgetPeriod, Change, IdentityPatch, IdentityRecord, MAX_BUDGET,
    MAX_NAME_BYTES, MAX_RATE_LIMIT, NewIdentity, OverAllocation, Owners, Quantity, ScopeKind,
};
pub use key::{
    Identity, IdentityScope, KEY_SECRET_PREFIX, KeySecret, Keyring, MIN_PEPPER_BYTES, Pepper, PepperTooShort,
};
pub use migrate::MigrationStatus;
pub use report::{DailyUsage, KindSpend, PeriodSpend, SettledEvent, SettledScan, Totals, UsageRange};
pub use shard_locks::ShardLocks;
pub use audit::{DayDifference, FlushBreak, LedgerAudit, ScopeDifference};
