//! Random small trees: the reference against a differently shaped statement of the rules, and what must hold in
//! every tree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod agreement;
mod generator;
mod invariants;
mod oracle;
mod shapes;
