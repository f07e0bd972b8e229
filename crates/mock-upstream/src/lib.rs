#![doc = include_str!("../README.md")]

mod answer;
mod behaviour;
mod chat;
mod embedding;
mod journal;
mod message;
mod refusal;
mod server;
mod stream;
mod tokens;

pub use behaviour::{Behaviour, BehaviourError, Failure};
pub use journal::{JournalLine, Kind, Moment};
pub use server::{MockError, MockOptions, MockUpstream};
pub use tokens::{MAX_ANSWER_TOKENS, count_chat, count_text};
