//! The ledger on a real PostgreSQL: one server for the binary, one database a test.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod bisection;
mod cancellation;
mod commit;
mod concurrency;
mod conflicts;
mod connection;
mod dead_letters;
mod doctor;
mod identities;
mod invariants;
mod least_privilege;
mod million;
mod partitions;
mod periods;
mod report;
mod reversal;
mod schema;
mod support;
