#![doc = include_str!("../README.md")]

mod board;
mod flush_error;
mod flusher;
mod http;
mod ledger;
mod meters;
mod observed;
mod ownership;
mod pace;
mod retention;
mod sampler;
mod service;
mod spans;
mod worker;

pub use board::{Board, Contact, Notices, ShardNotice};
pub use flush_error::FlushError;
pub use flusher::{Flushed, Flusher, Step};
pub use http::{Endpoints, HttpError};
pub use ledger::{Settlement, SpendLedger, Uncancelled, UncancelledError};
pub use meters::announce;
pub use observed::Observed;
pub use ownership::{Alone, Ownership};
pub use pace::{Pace, PaceError, PaceLimits};
pub use sampler::sample;
pub use service::Service;
pub use spans::MESSAGE_COUNT;
pub use worker::{Turn, Worker};
