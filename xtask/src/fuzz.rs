//! Bytes from outside that should break a reader: by cargo-fuzz where a nightly compiler is there, else by random changes of the
//! committed seeds. What is checked is the same, in `crates/fuzz-bodies`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;

/// The longest input that libFuzzer makes, in bytes.
const MAX_BYTES: u32 = 4_096;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The target: a name in fuzz/fuzz_targets [default: each of them]
    target: Option<String>,
    /// How long each target is tried, in seconds; building comes on top
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let targets = chosen(options.target.as_deref(), targets()?)?;
    if !has_cargo_fuzz() {
        eprintln!("no nightly compiler with cargo-fuzz is here: changing the seeds at random instead");
        return process::run(&mut without(options));
    }
    targets.iter().try_for_each(|target| {
        // What libFuzzer learns goes here, and not among the committed seeds.
        let learned = process::root().join("target/fuzz/corpus").join(target);
        fs::create_dir_all(&learned).with_context(|| format!("creating {}", learned.display()))?;
        process::run(&mut with(target, &learned, options.seconds))
    })
}

/// The names of all targets, sorted.
fn targets() -> Result<Vec<String>> {
    let folder = process::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for file in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let name = file.context("reading a folder")?.file_name();
        names.extend(name.to_string_lossy().strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn chosen(asked: Option<&str>, all: Vec<String>) -> Result<Vec<String>> {
    match asked {
        None => Ok(all),
        Some(name) if all.iter().any(|known| known == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!("no target {name:?}; there are {}", all.join(", ")),
    }
}

fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz"]).current_dir(process::root());
    command
}

fn has_cargo_fuzz() -> bool {
    let asked = nightly().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// No sanitizer: the project has no unsafe code, and the same time tries more without.
fn with(target: &str, learned: &Path, seconds: u64) -> Command {
    let mut command = nightly();
    command.args(["run", "--fuzz-dir", "fuzz", "--target-dir", "target/fuzz", "--sanitizer", "none", target]);
    command.arg(learned).arg(format!("fuzz/corpus/{target}"));
    command.args(["--", &format!("-max_total_time={seconds}"), &format!("-max_len={MAX_BYTES}")]);
    command
}

fn without(options: &Options) -> Command {
    let mut command =
        process::cargo(&["run", "--quiet", "--locked", "--release", "--package", "fuzz-bodies", "--"]);
    command.args(["--seconds", &options.seconds.to_string()]).args(&options.target);
    command
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let all = targets().unwrap();
        assert!(all.len() >= 10, "{all:?}");
        assert_eq!(chosen(None, all.clone()).unwrap(), all);
        assert_eq!(chosen(Some("usd"), all.clone()).unwrap(), ["usd"]);
        let error = chosen(Some("no-such"), all).unwrap_err().to_string();
        assert!(error.contains("\"no-such\"") && error.contains("request_body"), "{error}");
    }

    #[test]
    fn what_is_asked_for_reaches_both_ways() {
        let words = |command: &Command| -> Vec<String> {
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let fuzz = words(&with("usd", Path::new("learned"), 7));
        let learned = fuzz.iter().position(|word| word == "learned").unwrap();
        assert_eq!(fuzz[learned - 1..learned + 2], ["usd", "learned", "fuzz/corpus/usd"]);
        assert!(fuzz.contains(&"-max_total_time=7".to_owned()));
        let other = words(&without(&Options { target: Some("usd".into()), seconds: 7 }));
        assert_eq!(other[other.len() - 3..], ["--seconds", "7", "usd"]);
    }
}
