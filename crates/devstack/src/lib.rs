#![doc = include_str!("../README.md")]

mod apt;
mod cluster;
mod cluster_view;
mod commands;
mod database;
mod deployed;
mod docker;
mod error;
mod group;
mod guard;
mod guarded;
mod install;
mod instance;
mod kept;
mod port;
mod postgres;
mod process;
mod program;
#[cfg(feature = "proxy")]
mod proxy;
mod redis;
mod redis_builder;
mod redis_config;
mod resp;
mod rules;
mod sentinel;
mod sentinel_builder;
mod sentinel_view;
mod service;
mod shared;
mod slot;
mod sql;
mod standby;
mod tls;
mod unique;
mod user;

pub use apt::apt_install;
pub use cluster::{RedisCluster, RedisClusterBuilder};
pub use commands::commands_of;
pub use database::Database;
pub use deployed::Deployed;
pub use error::{DevstackError, Result};
pub use guarded::GuardedServers;
pub use kept::Kept;
pub use postgres::{Durability, PostgresBuilder, PostgresServer};
#[cfg(feature = "proxy")]
pub use proxy::{Mode, Proxy};
pub use redis::RedisServer;
pub use redis_builder::{AppendFsync, RedisBuilder};
pub use rules::watched_series;
pub use sentinel::RedisSentinel;
pub use sentinel_builder::RedisSentinelBuilder;
pub use service::{Service, Version};
pub use shared::{PostgresHandle, RedisHandle, TestDatabase, TestRedis, postgres, redis};
pub use slot::SlotMove;
pub use tls::{TlsAuthClients, TlsFiles};
