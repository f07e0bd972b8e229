//! The operator's commands with the real binary on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod key_and_budget;
mod office;
mod tenant;
mod tenant_refusals;
