#![doc = include_str!("../README.md")]

mod database;
mod docker;
mod error;
mod guard;
mod install;
mod instance;
mod kept;
mod port;
mod postgres;
mod process;
mod program;
mod redis;
mod resp;
mod service;
mod shared;
mod sql;
mod unique;
mod user;

pub use database::Database;
pub use error::{DevstackError, Result};
pub use kept::Kept;
pub use postgres::{Durability, PostgresBuilder, PostgresServer};
pub use redis::{AppendFsync, RedisBuilder, RedisServer};
pub use service::{Service, Version};
pub use shared::{PostgresHandle, RedisHandle, TestDatabase, TestRedis, postgres, redis};
