#![doc = include_str!("../README.md")]
//!
//! # The architecture
//!
//! ```text
//!                       scheduler: one step at a time, chosen by the seed
//!            ┌────────────────────────┬─────────────────────────┐
//!      polls a task            serves a request          moves the clock
//!            │                        │
//!  actor: flusher (the real one),     │      befall: fail-over, foreign hand, forgotten id,
//!         producer, operator          │              a clock jumps, a process dies
//!            │ host: call, sleep, now │                      │
//!            ▼                        ▼                      ▼
//!  port ─► network ───────────────► server: MemoryQueue, LedgerModel, planted bugs
//!          lost, late, twice,         │ after each operation
//!          orphaned, stalled          ▼
//!                                   oracle: lists, books, strict reads ─► violation
//! ```
//!
//! A request is served whole (a script and a transaction are atomic); everything between two requests may be interrupted. A
//! caller that is told of an error, or that dies, leaves its request to the network, where it may still arrive later.

mod actor;
mod batch;
mod bug;
mod host;
mod ledger;
mod oracle;
mod plan;
mod port;
mod request;
mod scheduler;
mod server;
mod tally;
mod violation;
mod world;

pub use batch::run_many;
pub use bug::{Bug, ParseBugError};
pub use scheduler::{Failure, MAX_DRAIN_STEPS, Options, Run, run};
pub use tally::{Call, Fault, Situation, Tally};
pub use violation::{Rule, Violation};
