//! Faults on real servers under load, then the independent check of the books.

use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::process;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long faults are made, in seconds; the drain comes on top. From 60 on, every kind of fault occurs
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Decides the faults, their order and what is sent [default: the time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// What Redis keeps when it is killed: always, everysec or none
    #[arg(long, default_value = "always")]
    pub(crate) durability: String,
    /// Keep journals and logs even when all is well
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print one JSON object as the last line instead of the report for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Plant a falsehood, to see that the check bites; may be repeated
    #[arg(long, hide = true)]
    pub(crate) sabotage: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let durability = "always".to_owned();
        Self { seconds: 60, seed: None, durability, keep: false, json: false, sabotage: Vec::new() }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    eprintln!("building ...");
    let programs = process::build(&["chaos", "usage-flusher"])?;
    let [chaos, flusher] = &programs[..] else { bail!("building gave no programs") };
    let mut command = Command::new(chaos);
    command.current_dir(process::root()).arg("--flusher").arg(flusher);
    command.args(["--seconds", &options.seconds.to_string(), "--durability", &options.durability]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    for sabotage in &options.sabotage {
        command.args(["--sabotage", sabotage]);
    }
    for (flag, given) in [("--keep", options.keep), ("--json", options.json)] {
        if given {
            command.arg(flag);
        }
    }
    process::run(&mut command)
}
