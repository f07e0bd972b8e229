//! Running other programs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The cargo that runs this, in the root of the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a command to its end; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Builds packages of the workspace and returns the paths of their binaries, in the order asked for.
pub(crate) fn build(packages: &[&str]) -> Result<Vec<PathBuf>> {
    build_with(&[], packages)
}

/// Builds one package as it is deployed and returns the path of its binary.
pub(crate) fn build_release(package: &str) -> Result<PathBuf> {
    build_with(&["--release"], &[package])?
        .pop()
        .with_context(|| format!("building gave no program of {package}"))
}

fn build_with(flags: &[&str], packages: &[&str]) -> Result<Vec<PathBuf>> {
    let mut command = cargo(&["build", "--quiet", "--locked", "--message-format", "json-render-diagnostics"]);
    command.args(flags);
    for package in packages {
        command.args(["--package", package]);
    }
    let shown = show(&command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", output.status);
    }
    let built: HashMap<String, PathBuf> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(binary).collect();
    let found = |package: &&str| {
        built.get(*package).cloned().with_context(|| format!("building gave no program of {package}"))
    };
    packages.iter().map(found).collect()
}

/// The package and the path of a binary that cargo tells of. A package's folder has its name.
fn binary(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message["executable"].as_str()?;
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.file_name()?;
    Some((package.to_string_lossy().into_owned(), path.into()))
}

/// Program and arguments, for messages. Secrets go by environment, so none is shown.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
