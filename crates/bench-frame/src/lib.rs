#![doc = include_str!("../README.md")]

pub mod machine;
pub mod plot;
pub mod process;
pub mod program;
pub mod report;
pub mod table;
pub mod traffic;
