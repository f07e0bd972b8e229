//! Installing packages of Debian and Ubuntu, where that asks nobody for anything.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::program::Places;
use crate::user;

/// Set to any value, this variable forbids apt: nothing is ever installed.
const NO_INSTALL: &str = "TALLYWEIR_NO_INSTALL";

/// How to become root for apt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Already,
    Sudo,
}

/// Installs a package with apt unless `present` finds it: for whoever needs another program of the machine beside the
/// servers. `TALLYWEIR_NO_INSTALL` forbids it, and so does a password that `sudo` would ask for.
///
/// # Errors
///
/// Why it was not installed, in words for the person who then has to do it.
pub fn apt_install(package: &str, present: impl Fn() -> bool) -> Result<(), String> {
    if present() {
        return Ok(());
    }
    if !allowed() {
        return Err(format!("{NO_INSTALL} is set"));
    }
    if !self::present(&Places::of_this_machine()) {
        return Err("apt-get is not there".to_owned());
    }
    if is_root() {
        install(package, Root::Already, present)
    } else if sudo() {
        install(package, Root::Sudo, present)
    } else {
        Err("apt-get needs root, and sudo asks for a password".to_owned())
    }
}

pub(crate) fn allowed() -> bool {
    std::env::var_os(NO_INSTALL).is_none()
}

pub(crate) fn present(places: &Places) -> bool {
    places.on_path("apt-get").is_some()
}

pub(crate) fn is_root() -> bool {
    user::effective_uid() == Ok(0)
}

/// Whether `sudo` works without a password.
pub(crate) fn sudo() -> bool {
    let mut command = Command::new("sudo");
    command.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs under a lock that all our processes of this user share. Whoever waited for the lock looks again first.
pub(crate) fn install(package: &str, root: Root, present: impl Fn() -> bool) -> Result<(), String> {
    let lock = std::env::temp_dir().join(format!("devstack-install-{}.lock", user::effective_uid()?));
    let lock = File::options()
        .create(true)
        .append(true)
        .open(&lock)
        .map_err(|e| format!("{}: {e}", lock.display()))?;
    lock.lock().map_err(|e| format!("cannot lock the installation: {e}"))?;
    if present() {
        return Ok(());
    }
    eprintln!("devstack: installing {package} with apt-get");
    let [update, install] = commands(package, root);
    // One broken third-party source makes `update` fail although everything needed was refreshed.
    let updated = run(&update);
    run(&install).map_err(|reason| match updated {
        Ok(()) => reason,
        Err(update) => format!("{update}; {reason}"),
    })
}

/// `apt-get update` and `apt-get install`, as argument vectors.
fn commands(package: &str, root: Root) -> [Vec<&str>; 2] {
    // `env` behind sudo, because sudo drops the caller's environment.
    let mut start = match root {
        Root::Already => Vec::new(),
        Root::Sudo => vec!["sudo", "-n"],
    };
    start.extend([
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-qq",
        "-o",
        "DPkg::Lock::Timeout=300",
    ]);
    let with = |rest: &[&'static str]| start.iter().chain(rest).copied().collect::<Vec<_>>();
    let mut install: Vec<&str> = with(&["install", "--yes", "--no-install-recommends"]);
    install.push(package);
    [with(&["update"]), install]
}

fn run(command: &[&str]) -> Result<(), String> {
    let (program, args) = command.split_first().ok_or("empty command")?;
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let end: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    Err(format!("{} failed: {}", command.join(" "), end.join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_present_is_not_installed() {
        assert_eq!(apt_install("no-such-package", || true), Ok(()));
    }

    #[test]
    fn apt_asks_nothing_and_brings_nothing_superfluous() {
        let [update, install] = commands("redis-server", Root::Sudo);
        assert_eq!(
            update.join(" "),
            "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 update"
        );
        assert!(install.join(" ").ends_with("install --yes --no-install-recommends redis-server"));
        let [_, install] = commands("postgresql", Root::Already);
        assert_eq!(install.first(), Some(&"env"));
        assert_eq!(install.last(), Some(&"postgresql"));
    }

    #[test]
    fn a_failed_command_is_reported_with_the_end_of_its_output() {
        let error = run(&["sh", "-c", "echo first >&2; echo; echo why >&2; exit 3"]).unwrap_err();
        assert!(error.ends_with("failed: first | why"), "{error}");
        assert!(run(&["/no/such/program"]).unwrap_err().contains("/no/such/program"));
    }
}
