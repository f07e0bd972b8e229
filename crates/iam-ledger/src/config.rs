//! What a gateway keeps of the configuration, so that its hot path asks nobody, and how it learns that something changed.
//!
//! ```text
//!  identities written ──► triggers ──► config_versions + 1, NOTIFY iam_ledger_config
//!                                             │ poll: every interval    │ LISTEN: at once
//!                                             ▼                         ▼
//!  gateway: IdentityCache, RateTreeCache ◄── ConfigWatch, one task
//! ```

mod change;
mod identity_cache;
mod rate_tree_cache;
mod watch;

pub use identity_cache::{IdentityCache, IdentityCacheOptions};
pub use rate_tree_cache::RateTreeCache;
pub use watch::{ConfigWatch, WatchOptions, WatchStatus};
