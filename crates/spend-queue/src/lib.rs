#![doc = include_str!("../README.md")]

mod chain;
mod encode;
mod entry;
mod epoch;
mod error;
mod event;
mod finding;
mod memory;
mod millis;
mod older;
mod pending;
mod prefix;
mod queue;
mod receipt;
mod salvage;
mod scope;
mod shard;
mod start;
mod text;
mod usd;

pub use chain::Chain;
pub use encode::{Charge, EncodedEvent, PayloadCheck, RequestDigest};
pub use entry::{Entry, Link};
pub use epoch::Epoch;
pub use error::{EntryError, EventError, FieldProblem};
pub use event::{
    CLOCK_TOLERANCE, ENTRY_FORMAT, MAX_DEPTH, MAX_EVENT_BYTES, MAX_SCOPES, MAX_TEXT_BYTES, MAX_TOKENS,
    SpendEvent,
};
pub use finding::{Finding, Severity};
pub use memory::{MemoryLoss, MemoryQueue, MemoryQueueError, MemorySnapshot};
pub use millis::Millis;
pub use older::{OLDER_KEY, UNATTRIBUTED, older_start};
pub use pending::{PendingQuery, PendingSpend};
pub use prefix::PrefixDigest;
pub use queue::{Acked, Enqueued, QueueError, Reindexed, SpendQueue};
pub use receipt::{
    BatchLimit, BatchLimitError, Index, MAX_BATCH, MAX_PEEK_BYTES, ParseBatchLimitError, Peeked, Receipt,
    Stop,
};
pub use scope::{ScopeRef, ScopeRefError};
pub use shard::{MAX_SHARDS, ParseShardCountError, Shard, ShardCount, ShardCountError};
pub use start::{ORGANIZATION, Start};
pub use text::{MAX_ID_BYTES, TextProblem};
pub use usd::{Usd, UsdError};
