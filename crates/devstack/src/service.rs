//! The two services, and everything that differs between them by name only.

use std::fmt;

/// A service that this crate can provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Redis 7.0 or newer, or any Valkey.
    Redis,
    /// PostgreSQL 14 or newer.
    Postgres,
}

/// The first two numbers of a program's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number; 0 when the version has only one, as in `18devel`.
    pub minor: u32,
}

impl Version {
    /// Reads the leading `major[.minor]` of a text such as `7.0.15` or `17beta1`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = |s: &str| -> String { s.chars().take_while(char::is_ascii_digit).collect() };
        let major = digits(text);
        let minor = text.strip_prefix(&major)?.strip_prefix('.').map(digits).unwrap_or_default();
        Some(Self { major: major.parse().ok()?, minor: minor.parse().unwrap_or(0) })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
        })
    }
}

impl Service {
    /// The oldest usable version: Redis 7.0 brought the `#!lua flags=...` header of scripts, PostgreSQL 14 is the
    /// oldest release that its project has still maintained at the time of writing.
    pub fn minimum(self) -> Version {
        match self {
            Self::Redis => Version { major: 7, minor: 0 },
            Self::Postgres => Version { major: 14, minor: 0 },
        }
    }

    /// The environment variable that names the program (Redis) or its folder (PostgreSQL).
    pub fn variable(self) -> &'static str {
        match self {
            Self::Redis => "TALLYWEIR_REDIS_SERVER",
            Self::Postgres => "TALLYWEIR_POSTGRES_BIN",
        }
    }

    /// File names of the server program, the preferred one first.
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["redis-server", "valkey-server"],
            Self::Postgres => &["postgres"],
        }
    }

    pub(crate) fn apt_package(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Postgres => "postgresql",
        }
    }

    pub(crate) fn image(self) -> &'static str {
        match self {
            Self::Redis => "redis:8-alpine",
            Self::Postgres => "postgres:17-alpine",
        }
    }

    /// Finds the version in what `--version` prints.
    pub(crate) fn version_in(self, output: &str) -> Option<Version> {
        let marker = match self {
            // "Redis server v=7.0.15 sha=..." and "Valkey server v=8.0.1 sha=..."
            Self::Redis => " v=",
            // "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"
            Self::Postgres => "(PostgreSQL) ",
        };
        Version::parse(output.split_once(marker)?.1)
    }

    /// What a person types to get the service, platform by platform.
    pub(crate) fn instructions(self) -> String {
        let (fedora, brew, variable) = match self {
            Self::Redis => ("valkey", "redis", "the path of redis-server or valkey-server"),
            Self::Postgres => {
                ("postgresql-server", "postgresql@17", "the folder that holds initdb and postgres")
            }
        };
        format!(
            "to get it, type one of these and try again:\n  \
             Debian, Ubuntu:  sudo apt-get update && sudo apt-get install --no-install-recommends {}\n  \
             Fedora:          sudo dnf install {fedora}\n  \
             macOS:           brew install {brew}\n  \
             Docker:          docker pull {}   (used when `docker info` answers)\n\
             or set {} to {variable}",
            self.apt_package(),
            self.image(),
            self.variable(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_real_programs_print() {
        let version = |major, minor| Some(Version { major, minor });
        let redis =
            "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0";
        assert_eq!(Service::Redis.version_in(redis), version(7, 0));
        assert_eq!(Service::Redis.version_in("Valkey server v=8.1.3 sha=00000000:0"), version(8, 1));
        let debian = "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)";
        assert_eq!(Service::Postgres.version_in(debian), version(15, 13));
        assert_eq!(Service::Postgres.version_in("postgres (PostgreSQL) 18devel"), version(18, 0));
        assert_eq!(Service::Postgres.version_in("postgres (PostgreSQL) 17beta1"), version(17, 0));
    }

    #[test]
    fn other_output_has_no_version() {
        for text in ["", "v=", "redis", "postgres (PostgreSQL) x", "postgres (PostgreSQL) 99999999999"] {
            assert_eq!(Service::Redis.version_in(text), None);
            assert_eq!(Service::Postgres.version_in(text), None);
        }
    }

    #[test]
    fn versions_compare_by_number_not_by_text() {
        assert!(Version { major: 10, minor: 0 } > Version { major: 9, minor: 9 });
        assert!(Version { major: 7, minor: 10 } > Version { major: 7, minor: 2 });
    }
}
