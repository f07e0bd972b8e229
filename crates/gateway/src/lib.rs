#![doc = include_str!("../README.md")]
//!
//! # The way of a request
//!
//! What an integrator reads is one module a step. `serve` is the list of them:
//!
//! 1. [`authenticate`]: the bearer's secret is an identity, from memory if it was here lately; blocked ones are refused.
//! 2. [`receive`], [`asked`], [`estimate`]: the body within its bounds, the few fields that decisions need, the tokens of the
//!    prompt. Until here nothing is counted, and a client that leaves leaves nothing behind. What follows is a task of its own.
//! 3. [`idempotency`]: a client's own id is claimed, or the request is answered 409.
//! 4. [`budget`]: where a budget is above the key, what is left is read, or money is held.
//! 5. [`admit`]: one atomic decision over the key's whole path, with the most tokens that the request can take.
//! 6. [`route`]: which deployment, by affinity, latency and use; what is [known of them](telemetry) is read beforehand.
//! 7. [`dispatch`]: the call; one other deployment is tried when the first fails before any output.
//! 8. [`relay`]: the answer as it comes, [cut into events](sse) and passed on as it was sent.
//! 9. [`bill`]: one event of the exact [`price`], in the queue or on disk, before the client has the end of its answer.
//!
//! [`reserve`] holds together what steps 3 to 5 took: if the call does not run, all of it is given back; if it did, the
//! estimate is settled to what was used. [`error`] is the contract of refusals, in one place; [`record`] lists the metrics.
//!
//! # Who is charged for what
//!
//! | what happened | client sees | bill | admission |
//! |---|---|---|---|
//! | refused by a limit, a budget, a claim, a block | 4xx | none | none |
//! | no decision possible | 503 | none | none |
//! | no deployment answered, or it refused the request | 502, 504 or its own 4xx | none | given back |
//! | an answer | 200, the end of it after the bill | the upstream's usage, else counted | settled |
//! | the client left in mid-stream | | what was produced until the upstream was let go, `partial` | settled |
//! | the upstream broke in mid-stream | an error event | what was produced, `partial` | settled |
//! | the gateway was told to end, and the grace is over | an error event | what was produced, `partial` | settled |
//! | neither queue nor spool takes the bill | 503, or an error event instead of `[DONE]` | logged whole, to be made by hand | settled |
//!
//! # Stopping
//!
//! On SIGTERM nothing new is accepted. Streams may end within the grace; then they are cut, told so by an event, and billed. Then the
//! process ends, within a second if Redis or the spool answers.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the steps are read in the code, or with `cargo doc --document-private-items`; only what starts a gateway is public"
)]

mod admin;
mod admit;
mod affinity;
mod announce;
mod answer;
mod asked;
mod authenticate;
mod bill;
mod budget;
mod call;
mod check;
mod cli;
mod config;
mod connection;
mod dispatch;
mod error;
mod estimate;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod health;
mod idempotency;
mod key_spend;
mod models;
mod output;
mod price;
mod receive;
mod record;
mod relay;
mod reserve;
mod route;
mod run;
mod serve;
mod server;
mod shared_reads;
mod shutdown;
mod spool;
mod sse;
mod state;
mod telemetry;
mod tokenizer;
mod usage;

pub use cli::main;
pub use config::{Budget, BudgetMode, Config, ConfigError, Deployment, Kind, Limits, Model, Routing};
pub use price::{PriceError, Prices, TokenPrice};
pub use server::{Gateway, StartError};
pub use state::Parts;
pub use tokenizer::Tokenizer;
pub use usage::Usage;

/// Its examples are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/integrating.md")]
mod integrating {}
