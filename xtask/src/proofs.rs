//! The proofs of `proofs/`: the arithmetic of incremental admission, for all integers.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, python};

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Prove with this mistake planted into a formula: must fail, with a counterexample
    #[arg(long, value_name = "NAME")]
    planted: Option<String>,
    /// Write the table of vectors anew (proofs/vectors.jsonl), which a test of rate-plan checks
    #[arg(long)]
    write_vectors: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let place = process::root().join("target/proofs");
    fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    let sources = process::root().join("proofs");
    let python = python::environment(&place.join("venv"), &sources.join("requirements.txt"))?;
    let mut prove = Command::new(python);
    prove.arg(sources.join("prove.py"));
    // Nothing is written into the sources.
    prove.env("PYTHONPYCACHEPREFIX", place.join("pycache"));
    if let Some(name) = &options.planted {
        prove.args(["--planted", name]);
    }
    if options.write_vectors {
        prove.arg("--write-vectors");
    }
    process::run(&mut prove)
}
