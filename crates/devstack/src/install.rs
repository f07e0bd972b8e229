//! Getting a server: use what is there, else install it, else Docker, else say what to type.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::apt::{self, Root};
use crate::docker;
use crate::error::{DevstackError, Result};
use crate::program::{self, Found, Places, Program};
use crate::service::Service;

/// What a decision needs to know about a machine. Methods, because some answers are slow and most are not needed.
pub(crate) trait Host {
    /// What a search for the service's program finds.
    fn found(&self) -> Found;
    /// Whether the person at the machine lets us install packages.
    fn may_install(&self) -> bool;
    /// Whether `apt-get` is there.
    fn apt_get(&self) -> bool;
    fn is_root(&self) -> bool;
    /// Whether `sudo` works without a password.
    fn sudo(&self) -> bool;
    /// Whether a Docker engine answers.
    fn docker(&self) -> bool;
}

/// What to do to get a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Use(Program),
    Apt(Root),
    Docker,
    TooOld(Program),
    NotFound,
}

/// Decides, once before an installation and, if that was the answer, once more after it (`apt_tried`).
///
/// An old program is not replaced by apt: somebody chose that version, and the distribution's is most likely the
/// same one.
pub(crate) fn decide(host: &impl Host, apt_tried: bool) -> Decision {
    let found = host.found();
    if let Found::Usable(program) = found {
        return Decision::Use(program);
    }
    if found == Found::Missing && !apt_tried && host.may_install() && host.apt_get() {
        if host.is_root() {
            return Decision::Apt(Root::Already);
        }
        if host.sudo() {
            return Decision::Apt(Root::Sudo);
        }
    }
    if host.docker() {
        return Decision::Docker;
    }
    match found {
        Found::TooOld(program) => Decision::TooOld(program),
        _ => Decision::NotFound,
    }
}

/// Where servers of a service come from on this machine.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Program(Program),
    Docker,
}

/// Finds or gets the service. The answer, good or bad, is kept for the life of the process: tests start many
/// servers, and an installation that failed once must not be tried again by each of them.
///
/// # Errors
///
/// [`DevstackError::NotFound`], [`DevstackError::TooOld`] or [`DevstackError::BadVariable`], as
/// [`DevstackError::Shared`].
pub(crate) fn resolve(service: Service) -> Result<Source> {
    static REDIS: OnceLock<Result<Source, Arc<DevstackError>>> = OnceLock::new();
    static POSTGRES: OnceLock<Result<Source, Arc<DevstackError>>> = OnceLock::new();
    let known = match service {
        Service::Redis => &REDIS,
        Service::Postgres => &POSTGRES,
    };
    known.get_or_init(|| look(service).map_err(Arc::new)).clone().map_err(DevstackError::Shared)
}

fn look(service: Service) -> Result<Source> {
    if let Some(value) = std::env::var_os(service.variable()) {
        return program::named(service, &PathBuf::from(value), program::ask_version).map(Source::Program);
    }
    let host = ThisMachine { service, places: Places::of_this_machine() };
    let mut attempted = None;
    loop {
        match decide(&host, attempted.is_some()) {
            Decision::Use(program) => return Ok(Source::Program(program)),
            Decision::Docker => return Ok(Source::Docker),
            Decision::TooOld(Program { path, version }) => {
                return Err(DevstackError::TooOld { service, path, found: version });
            }
            Decision::NotFound => return Err(DevstackError::NotFound { service, attempted }),
            Decision::Apt(root) => {
                let installed = apt::install(service.apt_package(), root, || host.found() != Found::Missing);
                attempted = Some(match installed {
                    Ok(()) => format!("apt-get installed {} without a usable program", service.apt_package()),
                    Err(reason) => reason,
                });
            }
        }
    }
}

struct ThisMachine {
    service: Service,
    places: Places,
}

impl Host for ThisMachine {
    fn found(&self) -> Found {
        program::find(self.service, &self.places, program::ask_version)
    }
    fn may_install(&self) -> bool {
        apt::allowed()
    }
    fn apt_get(&self) -> bool {
        apt::present(&self.places)
    }
    fn is_root(&self) -> bool {
        apt::is_root()
    }
    fn sudo(&self) -> bool {
        apt::sudo()
    }
    fn docker(&self) -> bool {
        docker::answers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Version;

    #[derive(Clone)]
    struct Described {
        found: Found,
        may_install: bool,
        apt_get: bool,
        root: bool,
        sudo: bool,
        docker: bool,
    }

    impl Host for Described {
        fn found(&self) -> Found {
            self.found.clone()
        }
        fn may_install(&self) -> bool {
            self.may_install
        }
        fn apt_get(&self) -> bool {
            self.apt_get
        }
        fn is_root(&self) -> bool {
            self.root
        }
        fn sudo(&self) -> bool {
            self.sudo
        }
        fn docker(&self) -> bool {
            self.docker
        }
    }

    /// A machine on which everything would be possible and nothing is installed.
    fn rich() -> Described {
        Described {
            found: Found::Missing,
            may_install: true,
            apt_get: true,
            root: true,
            sudo: true,
            docker: true,
        }
    }

    fn old() -> Program {
        Program { path: "/usr/bin/redis-server".into(), version: Version { major: 6, minor: 0 } }
    }

    #[test]
    fn what_is_there_is_used_and_nothing_is_installed() {
        let program =
            Program { path: "/usr/bin/redis-server".into(), version: Version { major: 7, minor: 0 } };
        let host = Described { found: Found::Usable(program.clone()), ..rich() };
        assert_eq!(decide(&host, false), Decision::Use(program));
    }

    #[test]
    fn root_installs_directly_and_others_through_sudo() {
        assert_eq!(decide(&rich(), false), Decision::Apt(Root::Already));
        assert_eq!(decide(&Described { root: false, ..rich() }, false), Decision::Apt(Root::Sudo));
    }

    #[test]
    fn docker_serves_whoever_cannot_or_may_not_install() {
        let hosts = [
            Described { root: false, sudo: false, ..rich() },
            Described { apt_get: false, ..rich() },
            Described { may_install: false, ..rich() },
        ];
        for host in hosts {
            assert_eq!(decide(&host, false), Decision::Docker);
        }
    }

    #[test]
    fn apt_is_tried_once() {
        assert_eq!(decide(&rich(), true), Decision::Docker);
        assert_eq!(decide(&Described { docker: false, ..rich() }, true), Decision::NotFound);
    }

    #[test]
    fn nothing_at_all_is_said_to_be_missing() {
        let host = Described { apt_get: false, docker: false, ..rich() };
        assert_eq!(decide(&host, false), Decision::NotFound);
    }

    #[test]
    fn an_old_program_is_left_alone_and_docker_used_instead() {
        let host = Described { found: Found::TooOld(old()), ..rich() };
        assert_eq!(decide(&host, false), Decision::Docker);
        assert_eq!(decide(&Described { docker: false, ..host }, false), Decision::TooOld(old()));
    }
}
