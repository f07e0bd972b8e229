#![doc = include_str!("../README.md")]

mod bug;
mod model;
mod state;
mod step;

pub use bug::Bug;
pub use model::{Bounds, HandOff};
pub use state::{Batch, Flusher, Late, Producer, State};
pub use step::{Foreign, Step};
