#![doc = include_str!("../README.md")]

mod backlog;
mod bill;
mod checker;
mod clock;
mod crew;
mod fault;
mod gateway;
mod inject;
mod journal;
mod leash;
mod logs;
mod pressure;
mod report;
mod run;
mod sabotage;
mod schedule;
mod stage;
mod tenants;

pub use fault::Kind;
pub use gateway::{GatewayOptions, gateway};
pub use report::Report;
pub use run::{Durability, Options, run};
pub use sabotage::Sabotage;
pub use schedule::{Schedule, Step};
