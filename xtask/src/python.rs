//! Virtual environments of Python with pinned packages, below target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// The oldest Python that the pinned packages accept.
const PYTHON: (u32, u32) = (3, 10);
/// What Debian and Ubuntu call what `python3 -m venv` needs.
const PACKAGE: &str = "python3-venv";
/// The interpreter of a virtual environment that holds exactly the packages required, made anew when they changed.
pub(crate) fn environment(folder: &Path, requirements: &Path) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let stamp = folder.join("requirements.txt");
    let wanted =
        fs::read_to_string(requirements).with_context(|| format!("reading {}", requirements.display()))?;
    // An interpreter of the machine that was replaced leaves an environment that does not start.
    if fs::read_to_string(&stamp).is_ok_and(|held| held == wanted) && version(&python).is_some() {
        return Ok(python);
    }
    let base = base_python()?;
    eprintln!("installing what {} names into {} ...", requirements.display(), folder.display());
    process::run(Command::new(&base).args(["-m", "venv", "--clear"]).arg(folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    process::run(pip.arg(requirements))
        .with_context(|| format!("the packages of {} are needed", requirements.display()))?;
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))?;
    Ok(python)
}

/// A Python of the machine that can make virtual environments; installed where that asks nobody for anything.
fn base_python() -> Result<PathBuf> {
    let python = PathBuf::from("python3");
    let installed = devstack::apt_install(PACKAGE, || can_make_environments(&python));
    let (major, minor) = PYTHON;
    match version(&python) {
        Some(found) if found < PYTHON => {
            bail!("python3 is {}.{}, and the pinned packages need {major}.{minor} or newer", found.0, found.1)
        }
        Some(_) if can_make_environments(&python) => Ok(python),
        _ => bail!(
            "this needs Python {major}.{minor} or newer with venv{}; to get it, type one of these and try \
             again:\n  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install --no-install-recommends {PACKAGE}\n  \
             Fedora:          sudo dnf install python3\n  macOS:           brew install python3",
            installed.err().map_or_else(String::new, |reason| format!(" ({reason})"))
        ),
    }
}

/// `ensurepip` is what Debian ships apart from the interpreter.
fn can_make_environments(python: &Path) -> bool {
    let mut command = Command::new(python);
    command
        .args(["-c", "import ensurepip, venv"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The first two numbers of an interpreter's version; `None` when it does not run.
fn version(python: &Path) -> Option<(u32, u32)> {
    let mut command = Command::new(python);
    command
        .args(["-c", "import sys; print(*sys.version_info[:2])"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_python_has_no_version_and_makes_no_environment() {
        for program in ["/no/such/python3", "false", "echo"] {
            assert_eq!(version(Path::new(program)), None, "{program}");
        }
        assert!(!can_make_environments(Path::new("false")));
    }

    #[test]
    fn an_environment_whose_requirements_are_unchanged_is_used_as_it_is() {
        let folder = std::env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        let venv = folder.join("venv");
        fs::create_dir_all(venv.join("bin")).unwrap();
        let requirements = folder.join("wanted.txt");
        for file in [&requirements, &venv.join("requirements.txt")] {
            fs::write(file, "openai==0\n").unwrap();
        }
        // An interpreter that makes no environment: it answers for its version only.
        let python = venv.join("bin/python");
        fs::write(&python, "#!/bin/sh\necho 3 12\n").unwrap();
        fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let found = environment(&venv, &requirements);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), python);
    }
}
