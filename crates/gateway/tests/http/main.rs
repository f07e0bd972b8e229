//! The gateway over HTTP, on real servers, with an upstream that misbehaves on demand.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod answers;
mod bad_input;
mod bad_upstreams;
mod budgets;
mod departures;
mod limits;
mod outages;
mod refusals;
mod secrecy;
mod world;
