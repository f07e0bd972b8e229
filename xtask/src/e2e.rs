//! The whole stack, driven by the official OpenAI client.

use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, python};

/// The programs that the scenarios start.
const PROGRAMS: [&str; 4] = ["tallyweir-gateway", "mock-upstream", "usage-flusher", "devstack"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many requests the trial sends through two gateways while every process is killed once
    #[arg(long, value_name = "N", default_value_t = 1500)]
    requests: u32,
    /// Leave Redis and PostgreSQL running, and print their URLs; logs and journals stay in target/e2e/run anyway
    #[arg(long)]
    keep: bool,
    /// Only scenarios whose name matches, in the syntax of pytest's -k
    filter: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { requests: 1500, keep: false, filter: None }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let place = process::root().join("target/e2e");
    fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    let scenarios = process::root().join("e2e");
    let python = python::environment(&place.join("venv"), &scenarios.join("requirements.txt"))?;
    eprintln!("building ...");
    let programs = build()?;

    let mut pytest = Command::new(python);
    pytest.current_dir(process::root()).args(["-m", "pytest"]).arg(&scenarios);
    // Nothing is written into the sources.
    pytest.arg("-o").arg(format!("cache_dir={}", place.join("pytest-cache").display()));
    pytest.env("PYTHONPYCACHEPREFIX", place.join("pycache"));
    pytest.env("E2E_PROGRAMS", programs).env("E2E_RUN", place.join("run"));
    pytest.env("E2E_REQUESTS", options.requests.to_string());
    if options.keep {
        pytest.env("E2E_KEEP", "1");
    }
    if stdout().is_terminal() {
        pytest.arg("--color=yes");
    }
    if let Some(filter) = &options.filter {
        pytest.args(["-k", filter]);
    }
    process::run(&mut pytest)
}

/// Builds the programs and returns the folder that holds them. With the features of the whole workspace, as tests are built, so that
/// `cargo xtask ci` compiles nothing twice.
fn build() -> Result<PathBuf> {
    let mut command = process::cargo(&["build", "--quiet", "--locked", "--workspace", "--all-features"]);
    for program in PROGRAMS {
        command.args(["--bin", program]);
    }
    process::run(&mut command)?;
    // This very program is one of the workspace's, so the others lie beside it.
    let mut folder = std::env::current_exe().context("finding the built programs")?;
    folder.pop();
    Ok(folder)
}
