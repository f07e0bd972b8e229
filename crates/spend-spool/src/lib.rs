#![doc = include_str!("../README.md")]

mod circuit;
mod error;
mod open;
mod options;
mod queue;
mod record;
mod replay;
mod spool;
mod state;
mod store;
mod turns;
mod writer;

pub use error::{KeepError, SpoolError, SpoolOpenError, StorageError};
pub use options::SpoolOptions;
pub use queue::{Because, Delivery, SpooledQueue};
pub use replay::{Replayed, Replayer};
pub use spool::Spool;
pub use state::SpoolStatus;
