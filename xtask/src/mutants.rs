//! Mutation testing of the pure crates: an expression that can be changed without a failing test is not tested.
//!
//! What may survive is listed, with its reason, in `.cargo/mutants.toml`.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;

/// The crates that are pure: their tests are quick, and no server hides a change.
const CRATES: [&str; 2] = ["rate-plan", "spend-queue"];
/// How long CI mutates a change: what a large one leaves untried is said, and a full run is an occasion of its own.
const CI_MINUTES: u64 = 10;
/// The release that the list of survivors was made with.
const VERSION: &str = "27.1.0";

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Only what differs from this revision (`main`, `HEAD^`); without it, everything, which takes hours
    #[arg(long, value_name = "REVISION")]
    since: Option<String>,
    /// Stop after so many minutes; what was not tried by then is said and is no failure
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Only one of the pure crates
    #[arg(value_name = "CRATE", value_parser = CRATES)]
    package: Option<String>,
    /// Only files that match this glob
    #[arg(long, value_name = "GLOB")]
    file: Option<String>,
}

/// Mutates what the last commit, or the branch since it left `main`, changed. A clone without history has nothing to compare
/// with: that is said, since a change cannot fail for the way in which it was fetched.
pub(crate) fn run_on_change() -> Result<()> {
    match base(process::root()) {
        Ok(since) => run(&Options { since: Some(since), minutes: Some(CI_MINUTES), ..Options::default() }),
        Err(error) => {
            eprintln!("no mutants: {error:#}");
            Ok(())
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let packages: Vec<&str> = match &options.package {
        Some(package) => vec![package],
        None => CRATES.to_vec(),
    };
    let place = process::root().join("target/mutants");
    fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    let diff = place.join("change.diff");
    if let Some(since) = &options.since {
        let change = change(since, &packages)?;
        if change.trim().is_empty() {
            println!("nothing of {} differs from {since}: no mutants", packages.join(", "));
            return Ok(());
        }
        fs::write(&diff, change).with_context(|| format!("writing {}", diff.display()))?;
    }
    install()?;
    // Where nothing is to be mutated, none of it is written anew.
    let report = place.join("mutants.out");
    if report.exists() {
        fs::remove_dir_all(&report).with_context(|| format!("removing {}", report.display()))?;
    }
    let mut mutants = process::cargo(&["mutants", "--all-features", "--jobs", "1", "--timeout", "300"]);
    // In a target folder that is shared, what was built of a mutant would pass for the real crate.
    mutants.env_remove("CARGO_TARGET_DIR");
    mutants.arg("--output").arg(&place);
    for package in &packages {
        mutants.args(["--package", package]);
    }
    if options.since.is_some() {
        mutants.arg("--in-diff").arg(&diff);
    }
    if let Some(file) = &options.file {
        mutants.args(["--file", file]);
    }
    // The million of decisions repeats, at length, what the exhaustive and the random tests show.
    mutants.args(["--", "--lib", "--tests", "--", "--skip", "a_million_decisions"]);
    let limit = options.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let ended = run_within(&mut mutants, limit)?;
    let missed = fs::read_to_string(report.join("missed.txt")).unwrap_or_default();
    if !missed.trim().is_empty() {
        bail!(
            "changes of the code that no test notices: add a test, or list them with their reason:\n{missed}"
        );
    }
    match ended {
        Some(status) if !status.success() => bail!("cargo mutants: {status}"),
        Some(_) => Ok(()),
        None => {
            println!(
                "stopped after {} minutes: what was not tried by then is untried",
                limit.unwrap_or_default().as_secs() / 60
            );
            Ok(())
        }
    }
}

/// Runs a command for `limit` at most, then interrupts it; its status when it ended by itself.
fn run_within(command: &mut Command, limit: Option<Duration>) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut child = command.spawn().context("cannot start cargo mutants")?;
    loop {
        if let Some(status) = child.try_wait().context("waiting for cargo mutants")? {
            return Ok(Some(status));
        }
        if limit.is_some_and(|limit| started.elapsed() >= limit) {
            // It ends the tests under way by itself.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            child.wait().context("waiting for cargo mutants")?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Where the change began: the merge base with the main branch, or the commit before, when it is the main branch itself.
/// An error without either, as in a clone of a single commit.
fn base(folder: &Path) -> Result<String> {
    let head = git(folder, &["rev-parse", "HEAD"])?;
    let of = |reference| git(folder, &["merge-base", "HEAD", reference]).ok();
    let on_main = git(folder, &["branch", "--show-current"])? == "main";
    let left = ["origin/main", "main"].into_iter().find_map(of).filter(|base| *base != head && !on_main);
    left.map_or_else(|| git(folder, &["rev-parse", "--verify", "HEAD^"]), Ok).context(
        "there is no commit to compare with: fetch the history (`git fetch --unshallow`, `fetch-depth: 0`), or name \
         one: `cargo xtask mutants --since REVISION`",
    )
}

/// The sources of these crates that differ, as a diff.
fn change(since: &str, packages: &[&str]) -> Result<String> {
    let folders: Vec<String> = packages.iter().map(|package| format!("crates/{package}/src")).collect();
    let mut args = vec!["diff", since, "--"];
    args.extend(folders.iter().map(String::as_str));
    git(process::root(), &args).with_context(|| format!("asking what differs from {since}"))
}

fn git(folder: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(folder).args(args).output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    // A diff ends with its newline; a name does without.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(if args.first() == Some(&"diff") { text } else { text.trim().to_owned() })
}

/// Installs cargo-mutants unless it is there.
fn install() -> Result<()> {
    let there =
        process::cargo(&["mutants", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    eprintln!("installing cargo-mutants {VERSION}, which takes some minutes ...");
    process::run(&mut process::cargo(&["install", "--locked", "cargo-mutants", "--version", VERSION]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_differ_makes_no_diff_and_an_unknown_revision_is_an_error() {
        assert_eq!(change("HEAD", &["no-such-crate"]).unwrap(), "");
        let error = change("no-such-revision", &CRATES).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-revision"), "{error:#}");
    }

    /// A repository with one commit on `main`.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "--quiet", "--initial-branch", "main"]).unwrap();
        commit(folder.path());
        folder
    }

    /// Makes an empty commit and returns its name.
    fn commit(folder: &Path) -> String {
        let who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid"];
        let what = ["commit", "--quiet", "--allow-empty", "--message", "a change"];
        git(folder, &[&who[..], &what].concat()).unwrap();
        git(folder, &["rev-parse", "HEAD"]).unwrap()
    }

    #[test]
    fn what_takes_too_long_is_interrupted() {
        let long = run_within(Command::new("sleep").arg("600"), Some(Duration::from_millis(10))).unwrap();
        assert_eq!(long, None);
        assert!(run_within(&mut Command::new("true"), None).unwrap().unwrap().success());
    }

    #[test]
    fn a_change_is_compared_with_where_its_branch_began_or_with_the_commit_before_and_never_with_nothing() {
        let folder = repository();
        let folder = folder.path();
        let error = format!("{:#}", base(folder).unwrap_err());
        assert!(error.contains("git fetch --unshallow"), "{error}");

        let first = git(folder, &["rev-parse", "HEAD"]).unwrap();
        let second = commit(folder);
        assert_eq!(base(folder).unwrap(), first, "main itself");
        git(folder, &["switch", "--quiet", "--create", "branch"]).unwrap();
        commit(folder);
        commit(folder);
        assert_eq!(base(folder).unwrap(), second, "a branch");
        git(folder, &["update-ref", "refs/remotes/origin/main", &first]).unwrap();
        assert_eq!(base(folder).unwrap(), first, "what others have is what counts");
    }
}
