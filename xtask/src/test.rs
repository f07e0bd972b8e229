//! Every test, with one Redis and one PostgreSQL for all of them.

use std::io::{IsTerminal, Read, Write, stdout};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// A crate (`live_redis` or `live-redis`), or a part of tests' names
    filter: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut command = process::cargo(&["test", "--locked", "--all-features"]);
    let package = options.filter.as_deref().map(|filter| filter.replace('_', "-"));
    let package = package.filter(|package| is_package(package));
    match &package {
        Some(package) => command.args(["--package", package]),
        None => command.arg("--workspace"),
    };
    command.arg("--");
    if stdout().is_terminal() {
        // The tests themselves see a pipe.
        command.args(["--color", "always"]);
    }
    if package.is_none() {
        command.args(&options.filter);
    }
    // Held until the tests are done. Servers that the environment names are used as they are.
    let redis = devstack::redis().context("tests need Redis")?;
    let postgres = devstack::postgres().context("tests need PostgreSQL")?;
    command.env("TALLYWEIR_REDIS_URL", redis.url()).env("TALLYWEIR_DATABASE_URL", postgres.url());
    let tests = run_and_count(&mut command)?;
    require_some(tests, options.filter.as_deref())
}

fn is_package(name: &str) -> bool {
    name == "xtask" || process::root().join("crates").join(name).join("Cargo.toml").is_file()
}

/// A name that was mistyped must not look like a test that passes.
fn require_some(tests: u64, filter: Option<&str>) -> Result<()> {
    match filter {
        _ if tests > 0 => Ok(()),
        Some(filter) => bail!(
            "nothing was tested: no test's name contains {filter:?}, and no crate with tests has that name; \
             `cargo test --workspace -- --list` names all tests"
        ),
        None => bail!("nothing was tested: the workspace has no tests"),
    }
}

/// Runs a command to its end, shows its output as it comes, and answers how many tests its test programs say they ran; an
/// error unless it succeeds.
fn run_and_count(command: &mut Command) -> Result<u64> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let mut announced = Announced::default();
    if let Some(mut output) = child.stdout.take() {
        let mut piece = [0; 8192];
        loop {
            let length = output.read(&mut piece).context("reading the output of cargo test")?;
            if length == 0 {
                break;
            }
            announced.read(&piece[..length]);
            let mut shown = stdout().lock();
            shown.write_all(&piece[..length]).and_then(|()| shown.flush()).context("showing the output")?;
        }
    }
    let status = child.wait().context("waiting for cargo test")?;
    if !status.success() {
        bail!("cargo test: {status}");
    }
    Ok(announced.tests)
}

/// How many tests an output that comes in pieces has announced: `running 12 tests`, one line a test program.
#[derive(Debug, Default)]
struct Announced {
    line: Vec<u8>,
    tests: u64,
}

impl Announced {
    fn read(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line);
            let number = line.trim_end().strip_prefix("running ").and_then(|rest| {
                rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?.parse::<u64>().ok()
            });
            self.tests += number.unwrap_or_default();
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_added_up_wherever_the_output_is_cut() {
        let output =
            "\nrunning 2 tests\ntest a ... ok\nrunning 10 tests of mine\nrunning 1 test\n\nrunning 0 tests\n";
        for cut in 0..output.len() {
            let mut announced = Announced::default();
            announced.read(&output.as_bytes()[..cut]);
            announced.read(&output.as_bytes()[cut..]);
            assert_eq!(announced.tests, 3, "{cut}");
        }
    }

    #[test]
    fn a_run_that_tests_nothing_fails_and_says_what_was_looked_for() {
        let printing = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("printf '{text}'")]);
            command
        };
        let none = run_and_count(&mut printing("running 0 tests\\nrunning 0 tests\\n")).unwrap();
        let error = require_some(none, Some("no_such_test")).unwrap_err().to_string();
        assert!(error.contains("\"no_such_test\""), "{error}");
        let some = run_and_count(&mut printing("running 0 tests\\nrunning 1 test\\n")).unwrap();
        require_some(some, Some("such_a_test")).unwrap();
    }

    #[test]
    fn a_run_that_fails_is_an_error_however_many_tests_it_had() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo running 3 tests; exit 101"]);
        assert!(run_and_count(&mut failing).unwrap_err().to_string().contains("101"));
    }
}
