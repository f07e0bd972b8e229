#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

mod decision;
mod error;
mod index;
mod limits;
mod plan;
mod reference;
mod scope;
mod topology;
mod tree;
mod usage;

pub use decision::{Decision, Rejection};
pub use error::{NodeRef, PathError, ScopeError, ScopePart, TreeError, UsageError};
pub use limits::{Dimension, Limits, MAX_LIMIT};
pub use plan::{Path, RatePlan};
pub use reference::{admit, check};
pub use scope::{MAX_ID_BYTES, Scope};
pub use topology::MAX_DEPTH;
pub use tree::{MAX_NODES, Node, RateTree};
pub use usage::Usage;
