//! Finding server programs that are already on the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{DevstackError, Result};
use crate::service::{Service, Version};

/// A server program that can be run: `redis-server`, `valkey-server` or `postgres`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
}

impl Program {
    /// Another program of the same installation.
    pub(crate) fn sibling(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Usable(Program),
    TooOld(Program),
    Missing,
}

/// Where to search.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The folders of `PATH`, in order.
    pub(crate) path: Vec<PathBuf>,
    /// The root of the file system, below which the usual installation folders lie.
    pub(crate) root: PathBuf,
}

impl Places {
    pub(crate) fn of_this_machine() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { path: std::env::split_paths(&path).collect(), root: PathBuf::from("/") }
    }

    /// The first executable of that name on `PATH`.
    pub(crate) fn on_path(&self, name: &str) -> Option<PathBuf> {
        self.path.iter().map(|folder| folder.join(name)).find(|file| is_executable(file))
    }
}

/// Searches `places`, asking `version_of` about each candidate.
///
/// Redis: the first one that is new enough, `PATH` first. PostgreSQL: the newest installation, because several
/// often stand side by side and `PATH` may lead to none of them, or to a lone link into one of them.
pub(crate) fn find(
    service: Service,
    places: &Places,
    version_of: impl Fn(Service, &Path) -> Option<Version>,
) -> Found {
    let candidates = match service {
        Service::Redis => redis_candidates(places),
        Service::Postgres => postgres_candidates(places),
    };
    let programs = candidates
        .into_iter()
        .filter_map(|path| version_of(service, &path).map(|version| Program { path, version }));

    let mut best: Option<Program> = None;
    for program in programs {
        if service == Service::Redis && program.version >= service.minimum() {
            return Found::Usable(program);
        }
        if best.as_ref().is_none_or(|b| program.version > b.version) {
            best = Some(program);
        }
    }
    match best {
        None => Found::Missing,
        Some(program) if program.version >= service.minimum() => Found::Usable(program),
        Some(program) => Found::TooOld(program),
    }
}

/// The program that the service's environment variable names.
///
/// A variable that is set is a decision: when it is wrong the search does not go on behind its back.
///
/// # Errors
///
/// [`DevstackError::BadVariable`] or [`DevstackError::TooOld`].
pub(crate) fn named(
    service: Service,
    value: &Path,
    version_of: impl Fn(Service, &Path) -> Option<Version>,
) -> Result<Program> {
    let bad = |reason: String| DevstackError::BadVariable { variable: service.variable(), reason };
    let path = match service {
        Service::Redis if is_executable(value) => value.to_path_buf(),
        Service::Redis => return Err(bad(format!("{} is not an executable file", value.display()))),
        Service::Postgres => postgres_in(value)
            .ok_or_else(|| bad(format!("{} does not hold initdb and postgres", value.display())))?,
    };
    let found = version_of(service, &path)
        .ok_or_else(|| bad(format!("{} --version does not tell a {service} version", path.display())))?;
    if found < service.minimum() {
        return Err(DevstackError::TooOld { service, path, found });
    }
    Ok(Program { path, version: found })
}

/// Runs `PROGRAM --version`.
pub(crate) fn ask_version(service: Service, program: &Path) -> Option<Version> {
    let output =
        Command::new(program).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    service.version_in(&String::from_utf8_lossy(&output.stdout))
}

fn redis_candidates(places: &Places) -> Vec<PathBuf> {
    let usual = ["usr/bin", "usr/sbin", "usr/local/bin", "opt/homebrew/bin", "opt/local/bin"];
    let usual = usual.iter().map(|folder| places.root.join(folder));
    let folders: Vec<PathBuf> = places.path.iter().cloned().chain(usual).collect();
    let mut files = Vec::new();
    for name in Service::Redis.programs() {
        files.extend(folders.iter().map(|folder| folder.join(name)).filter(|file| is_executable(file)));
    }
    files
}

fn postgres_candidates(places: &Places) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for file in places.path.iter().map(|folder| folder.join("postgres")).filter(|file| is_executable(file)) {
        // A lone link in PATH says where the installation is; `initdb` must come from the same one.
        if let Ok(target) = fs::canonicalize(&file) {
            folders.extend(target.parent().map(Path::to_path_buf));
        }
    }
    // Debian and Ubuntu; Fedora and the PostgreSQL project's RPMs; built from source; Homebrew on both kinds of Mac.
    folders.extend(versioned(&places.root.join("usr/lib/postgresql"), "", "bin"));
    folders.extend(versioned(&places.root.join("usr"), "pgsql-", "bin"));
    folders.push(places.root.join("usr/local/pgsql/bin"));
    for prefix in ["opt/homebrew/opt", "usr/local/opt"] {
        folders.extend(versioned(&places.root.join(prefix), "postgresql", "bin"));
    }
    folders.iter().filter_map(|folder| postgres_in(folder)).collect()
}

/// `PARENT/PREFIX*/TAIL` for every such folder. Which version a folder holds is asked of the program, not its name.
fn versioned(parent: &Path, prefix: &str, tail: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(tail))
        .collect();
    folders.sort();
    folders
}

fn postgres_in(folder: &Path) -> Option<PathBuf> {
    let server = folder.join("postgres");
    (is_executable(&server) && is_executable(&folder.join("initdb"))).then_some(server)
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A root with empty files in place of programs. Their "version" is their content, so that nothing is executed.
    struct Machine(TempDir);

    impl Machine {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }
        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }
        fn program(self, path: &str, version: &str) -> Self {
            let file = self.at(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, version).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            self
        }
        fn link(self, path: &str, target: &str) -> Self {
            fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            symlink(self.at(target), self.at(path)).unwrap();
            self
        }
        fn find(&self, service: Service, path: &[&str]) -> Found {
            let places = Places { path: path.iter().map(|p| self.at(p)).collect(), root: self.at("") };
            find(service, &places, content)
        }
    }

    fn content(_: Service, file: &Path) -> Option<Version> {
        Version::parse(&fs::read_to_string(file).ok()?)
    }

    fn path_of(found: Found) -> PathBuf {
        match found {
            Found::Usable(program) => program.path,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lone_link_to_postgres_leads_to_its_whole_installation() {
        let machine = Machine::new()
            .program("pg/15/bin/postgres", "15.1")
            .program("pg/15/bin/initdb", "15.1")
            .link("links/postgres", "pg/15/bin/postgres");
        assert_eq!(path_of(machine.find(Service::Postgres, &["links"])), machine.at("pg/15/bin/postgres"));
    }

    #[test]
    fn a_postgres_without_its_initdb_is_not_used_even_if_another_initdb_is_on_path() {
        let machine = Machine::new().program("a/postgres", "17.0").program("b/initdb", "17.0");
        assert_eq!(machine.find(Service::Postgres, &["a", "b"]), Found::Missing);
    }

    #[test]
    fn the_newest_postgres_wins_wherever_it_is() {
        let mut machine = Machine::new();
        for (folder, version) in [
            ("usr/lib/postgresql/9.6/bin", "9.6"),
            ("usr/lib/postgresql/15/bin", "15.4"),
            ("usr/pgsql-16/bin", "16.2"),
            ("usr/local/opt/postgresql@17/bin", "17.1"),
        ] {
            for name in ["postgres", "initdb"] {
                machine = machine.program(&format!("{folder}/{name}"), version);
            }
        }
        let newest = machine.at("usr/local/opt/postgresql@17/bin/postgres");
        assert_eq!(path_of(machine.find(Service::Postgres, &["usr/lib/postgresql/15/bin"])), newest);
    }

    #[test]
    fn an_old_redis_gives_way_to_a_new_valkey() {
        let machine = Machine::new().program("bin/redis-server", "6.2").program("bin/valkey-server", "8.0");
        assert_eq!(path_of(machine.find(Service::Redis, &["bin"])), machine.at("bin/valkey-server"));
    }

    #[test]
    fn redis_is_preferred_and_path_comes_before_the_usual_folders() {
        let machine = Machine::new()
            .program("mine/redis-server", "7.2")
            .program("usr/bin/redis-server", "8.0")
            .program("usr/bin/valkey-server", "9.0");
        assert_eq!(path_of(machine.find(Service::Redis, &["mine"])), machine.at("mine/redis-server"));
        assert_eq!(path_of(machine.find(Service::Redis, &[])), machine.at("usr/bin/redis-server"));
    }

    #[test]
    fn only_old_programs_are_reported_as_too_old_with_the_newest_of_them() {
        let machine = Machine::new().program("a/redis-server", "5.0").program("b/redis-server", "6.2");
        let version = Version { major: 6, minor: 2 };
        let expected = Found::TooOld(Program { path: machine.at("b/redis-server"), version });
        assert_eq!(machine.find(Service::Redis, &["a", "b"]), expected);
    }

    #[test]
    fn a_wrong_variable_is_an_error_and_names_itself() {
        let machine = Machine::new().program("old/redis-server", "6.0").program("pg/postgres", "16.0");
        let redis = named(Service::Redis, &machine.at("nowhere"), content).unwrap_err().to_string();
        assert!(redis.starts_with("TALLYWEIR_REDIS_SERVER is set but cannot be used"), "{redis}");
        let postgres = named(Service::Postgres, &machine.at("pg"), content).unwrap_err().to_string();
        assert!(postgres.contains("does not hold initdb and postgres"), "{postgres}");
        let old = named(Service::Redis, &machine.at("old/redis-server"), content).unwrap_err();
        assert!(matches!(old, DevstackError::TooOld { .. }));
    }

    #[test]
    fn a_program_without_a_version_is_passed_over() {
        let machine = Machine::new().program("a/redis-server", "broken").program("b/redis-server", "7.0");
        assert_eq!(path_of(machine.find(Service::Redis, &["a", "b"])), machine.at("b/redis-server"));
    }
}
