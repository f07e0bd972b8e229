//! What the benches share.

// Each bench is a program of its own and uses a part.
#![allow(dead_code, reason = "each bench uses its own part")]

pub(crate) use bench_frame::report;

pub(crate) mod floor;
pub(crate) mod load;
mod pinning;
pub(crate) mod program;
pub(crate) mod server;
pub(crate) mod shape;
pub(crate) mod witness;
