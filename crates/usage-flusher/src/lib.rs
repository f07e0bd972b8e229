#![doc = include_str!("../README.md")]

mod flusher;
mod ledger;
mod pace;
mod service;

pub use flusher::{FlushError, Flushed, Flusher};
pub use ledger::SpendLedger;
pub use pace::{Pace, PaceError, PaceLimits};
pub use service::Service;
