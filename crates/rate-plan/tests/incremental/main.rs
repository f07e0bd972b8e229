//! The incremental algorithm decides as the reference does, and costs the path alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "../common/mod.rs"]
mod common;
mod edges;
mod exhaustive;
mod random;
mod size;
mod volume;
