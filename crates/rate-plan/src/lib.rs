#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod adjustment;
mod decision;
mod error;
mod fingerprint;
mod headers;
mod incremental;
mod index;
mod limits;
#[cfg(feature = "std")]
mod local;
mod minute;
mod node_window;
mod path_windows;
mod plan;
mod promises;
mod rebuild;
mod reference;
mod rejection;
mod scope;
mod topology;
mod tree;
mod usage;
mod window;

pub use adjustment::Adjustment;
pub use decision::{Admitted, Decision, Headroom};
pub use error::{NodeRef, PathError, ScopeError, ScopePart, TreeError, UsageError};
pub use fingerprint::Fingerprint;
pub use headers::response_headers;
pub use incremental::{adjust_on_path, admit_on_path, check_on_path};
pub use limits::{Dimension, Limits, MAX_LIMIT};
#[cfg(feature = "std")]
pub use local::{LocalAdmission, LocalError, LocalLimiter, SettleError, Ticket};
pub use minute::{minute_of, seconds_until_next_minute};
pub use node_window::NodeWindow;
pub use plan::{Path, RatePlan};
pub use rebuild::rebuild;
pub use reference::{admit, check};
pub use rejection::Rejection;
pub use scope::{MAX_ID_BYTES, Scope};
pub use topology::MAX_DEPTH;
pub use tree::{MAX_NODES, Node, RateTree};
pub use usage::Usage;
pub use window::Window;
