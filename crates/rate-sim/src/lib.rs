#![doc = include_str!("../README.md")]

mod backlog;
pub mod cases;
pub mod chart;
pub mod check;
mod delivery;
pub mod drain;
pub mod enrol;
pub mod generator;
pub mod journal;
mod lane;
pub mod prices;
pub mod random;
pub mod reconcile;
pub mod replay;
pub mod report;
mod retry;
pub mod run;
pub mod source;
pub mod tenants;
pub mod trace;
pub mod workload;
