//! The ledger on a real PostgreSQL: one server for the binary, one database a test.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod allocations;
mod authentication;
mod bad_input;
mod bisection;
mod budget_periods;
mod cancellation;
mod commit;
mod concurrency;
mod config_watch;
mod conflicts;
mod connection;
mod dead_letters;
mod doctor;
mod flush_log_retention;
mod handshake;
mod hold_input;
mod holds;
mod hot;
mod identities;
mod identity_cache;
mod invariants;
mod least_privilege;
mod million;
mod money_oracle;
mod money_plans;
mod partitions;
mod periods;
mod quota;
mod quota_memory;
mod report;
mod reversal;
mod running_spend;
mod schema;
mod server_errors;
mod standby;
mod support;
mod unsettleable;
mod updates;
mod usage_report;
