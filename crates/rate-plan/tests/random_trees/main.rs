//! Random small trees: the reference against a differently shaped statement of the rules, the incremental algorithm
//! against the reference, and what must hold in every tree with either.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod agreement;
#[path = "../common/mod.rs"]
mod common;
mod generator;
mod incremental;
mod invariants;
mod oracle;
mod shapes;
