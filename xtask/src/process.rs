//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

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

/// Builds binaries of the workspace and returns their paths, in the order asked for.
pub(crate) fn build(packages: &[&str]) -> Result<Vec<PathBuf>> {
    let mut command = cargo(&["build", "--quiet", "--locked"]);
    for package in packages {
        command.args(["--package", package]);
    }
    run(&mut command)?;
    // This very program is one of the workspace's binaries, so the others lie beside it.
    let this = std::env::current_exe().context("finding the built programs")?;
    Ok(packages.iter().map(|package| this.with_file_name(package)).collect())
}

/// Program and arguments, for messages. Secrets go by environment, so none is shown.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
