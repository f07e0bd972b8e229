#![doc = include_str!("../README.md")]

mod admission;
mod client;
mod error;
mod keys;
mod options;
mod queue;
mod script;

pub use admission::{Admission, SettleRefusal, Ticket};
pub use client::LiveRedis;
pub use error::{CallError, LiveRedisError, OpenError, Step};
pub use keys::{FLAT_PARTITION, KeyPrefix, KeyPrefixError};
pub use options::{Options, RedisUrl, WindowClock};
