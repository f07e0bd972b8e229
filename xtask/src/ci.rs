//! What a change must pass, in the order of what fails fastest.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::{chaos, e2e, mutants, process, proofs, queries, test};

/// The same faults at each change: a new seed would make a change fail for another's fault.
const CHAOS_SEED: u64 = 7;

pub(crate) fn run() -> Result<()> {
    step("formatting", || process::run(&mut process::cargo(&["fmt", "--all", "--check"])))?;
    step("lints", || {
        let args =
            ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
        process::run(&mut process::cargo(&args))
    })?;
    step("documentation", || {
        let args = ["doc", "--workspace", "--no-deps", "--all-features", "--locked"];
        process::run(process::cargo(&args).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("rate-plan without std", || {
        process::run(&mut process::cargo(&[
            "test",
            "--locked",
            "--package",
            "rate-plan",
            "--no-default-features",
        ]))
    })?;
    step("proofs", || proofs::run(&proofs::Options::default()))?;
    step("query cache", || queries::run(&queries::Options { write: false }))?;
    step("tests", || test::run(&test::Options::default()))?;
    step("mutants of what changed", mutants::run_on_change)?;
    step("end to end", || e2e::run(&e2e::Options::default()))?;
    step("a minute of chaos", || chaos::run(&chaos::Options { seed: Some(CHAOS_SEED), ..Default::default() }))
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("==> {name}");
    let started = Instant::now();
    work().with_context(|| name.to_owned())?;
    eprintln!("==> {name}: passed in {:.0?}", started.elapsed());
    Ok(())
}
