#![doc = include_str!("../README.md")]

mod address;
mod audit;
mod bounded;
mod budget;
mod commit;
mod config;
mod connect;
mod dead_letter;
mod doctor;
mod error;
mod flush_log_retention;
mod hold;
mod identity;
mod key;
mod lease;
mod migrate;
mod money;
mod quota;
mod rate_tree;
mod report;
mod shard_locks;
mod spend_retention;
mod spool_announcement;
mod usage_report;
mod usage_sums;

pub use audit::{
    ArchivedMonth, DayDifference, FlushBreak, FlushEnd, KnownEpoch, LedgerAudit, OpenLetters, ScopeDifference,
};
pub use budget::{InFlight, QuotaLevel};
pub use commit::{Batch, Committed};
pub use config::{
    ConfigWatch, IdentityCache, IdentityCacheOptions, RateTreeCache, WatchOptions, WatchStatus,
};
pub use connect::{Ledger, LedgerOptions, MIN_SERVER_VERSION, PoolStatus};
pub use dead_letter::{
    DeadLetter, DeadLetterContent, DeadLetterKind, DeadLetterPage, Replay, ReplayOutcome, Replayed,
};
pub use error::{Cause, LedgerError};
pub use hold::{Hold, HoldAnswer, HoldError, HoldState, MAX_HOLD, MAX_HOLD_TTL, MIN_HOLD_TTL, Released};
pub use identity::{
    AllocationDimension, Budget, BudgetPeriod, Change, IdentityPatch, IdentityRecord, MAX_BUDGET,
    MAX_NAME_BYTES, MAX_RATE_LIMIT, NewIdentity, OverAllocation, Owners, Quantity, ScopeKind,
};
pub use key::{
    Identity, IdentityScope, KEY_SECRET_PREFIX, KeySecret, Keyring, MIN_PEPPER_BYTES, Pepper, PepperTooShort,
};
pub use migrate::MigrationStatus;
pub use quota::{MAX_SIBLING_READS, QuotaError, QuotaPath};
pub use report::{
    DailyUsage, KindSpend, PeriodSpend, SettledEvent, SettledIds, SettledScan, Totals, UsageRange,
};
pub use shard_locks::ShardLocks;
pub use spool_announcement::SpoolAnnouncement;
pub use usage_report::{
    MAX_REPORT_ROWS, ModelUsage, OpenHold, Overrun, ReportFilter, ReportFilterError, ScopePeriod, ScopeUsage,
    UsageDay,
};
pub use usage_sums::UsageSums;
