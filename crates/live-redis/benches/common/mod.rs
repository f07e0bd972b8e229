//! What the benches share.

// Each bench is a program of its own and uses a part.
#![allow(dead_code, reason = "each bench uses its own part")]

pub(crate) mod floor;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod server;
pub(crate) mod shape;
mod table;
pub(crate) mod witness;
