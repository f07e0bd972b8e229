#![doc = include_str!("../README.md")]

mod admission;
mod affinity;
mod client;
mod connect;
mod contract;
mod counters;
mod doctor;
mod error;
mod input;
mod keys;
mod lane;
mod options;
mod queue;
mod script;
mod settings;
mod spread;
mod strings;
mod telemetry;

pub use admission::{Admission, SettleRefusal, Ticket};
pub use client::LiveRedis;
pub use doctor::{Role, StrictOpenError};
pub use error::{CallError, LiveRedisError, OpenError, Step};
pub use input::{InputError, MAX_KEY_BYTES, MAX_TTL, MAX_VALUE_BYTES};
pub use keys::{FLAT_PARTITION, KeyPrefix, KeyPrefixError, OlderQueue};
#[doc(hidden)]
pub use keys::{named_keys, queue_keys};
pub use options::{ClientKey, DedupRetention, Options, RedisUrl, Tls, WindowClock};
pub use queue::{
    Backlog, Loss, Mark, Marks, OperatorNote, Pressure, Quarantined, QueueGlance, QueueStatus, Watermarks,
};
pub use telemetry::{FAILURE_WINDOW, LATENCY_SAMPLES};
