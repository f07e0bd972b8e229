//! Every test, with one Redis and one PostgreSQL for all of them.

use anyhow::{Context, Result};
use clap::Args;

use crate::process;

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// A crate (`live_redis` or `live-redis`), or a part of tests' names
    filter: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut command = process::cargo(&["test", "--locked", "--all-features"]);
    match &options.filter {
        Some(filter) => {
            let package = filter.replace('_', "-");
            if is_package(&package) {
                command.args(["--package", &package]);
            } else {
                command.args(["--workspace", "--", filter]);
            }
        }
        None => {
            command.arg("--workspace");
        }
    }
    // Held until the tests are done. Servers that the environment names are used as they are.
    let redis = devstack::redis().context("tests need Redis")?;
    let postgres = devstack::postgres().context("tests need PostgreSQL")?;
    command.env("TOLLGATE_REDIS_URL", redis.url()).env("TOLLGATE_DATABASE_URL", postgres.url());
    process::run(&mut command)
}

fn is_package(name: &str) -> bool {
    name == "xtask" || process::root().join("crates").join(name).join("Cargo.toml").is_file()
}
