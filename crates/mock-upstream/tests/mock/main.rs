//! The mock as its clients meet it.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod answers;
mod client;
mod failures;
mod process;
