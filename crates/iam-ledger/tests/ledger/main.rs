//! The ledger on a real PostgreSQL: one server for the binary, one database a test.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod allocations;
mod authentication;
mod bad_input;
mod cancellation;
mod commit;
mod concurrency;
mod config_watch;
mod connection;
mod doctor;
mod identities;
mod identity_cache;
mod least_privilege;
mod periods;
mod report;
mod schema;
mod support;
mod updates;
