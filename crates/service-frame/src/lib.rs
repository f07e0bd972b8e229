#![doc = include_str!("../README.md")]

pub mod command_line;
pub mod connection;
pub mod environment;
pub mod logging;
pub mod secret;
pub mod start;
pub mod stop_signal;
pub mod values;
