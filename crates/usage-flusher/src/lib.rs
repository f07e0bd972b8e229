#![doc = include_str!("../README.md")]

mod flusher;
mod ledger;
mod pace;
mod service;
mod worker;

pub use flusher::{FlushError, Flushed, Flusher};
pub use ledger::{Settlement, SpendLedger, Uncancelled, UncancelledError};
pub use pace::{Pace, PaceError, PaceLimits};
pub use service::Service;
pub use worker::{Turn, Worker};
