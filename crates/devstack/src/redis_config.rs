//! What follows from the options of a Redis server: its configuration, how it is run, and how it is reached.

use std::path::Path;

use crate::docker::ContainerLaunch;
use crate::install::Source;
use crate::instance::Plan;
use crate::process::Launch;
use crate::program::Program;
use crate::redis_builder::{AppendFsync, RedisBuilder};
use crate::resp::Connection;
use crate::service::Service;

/// The Unix socket, in the server's private folder, by which this crate talks to a server under TLS.
pub(crate) const SOCKET: &str = "admin.sock";

const CONFIG_FILE: &str = "redis.conf";

/// How the configuration reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigBy {
    /// By its standard input: no file, and no password in `ps`.
    Stdin,
    /// By a file that `CONFIG REWRITE` changes, so that a server under Sentinel remembers whose replica it became.
    File,
    /// The same, for a server that is a Sentinel and keeps all that it learns there.
    SentinelFile,
}

impl RedisBuilder {
    pub(crate) fn plan(&self, source: &Source, folder: Option<&Path>, port: u16) -> Plan {
        match source {
            Source::Program(Program { path, .. }) => {
                let folder = folder.unwrap_or(Path::new(".")).to_string_lossy();
                let config = self.config("127.0.0.1", port, &folder);
                let mut launch = Launch { program: path.clone(), ..Launch::default() };
                match self.config_by {
                    ConfigBy::Stdin => {
                        launch.args = vec!["-".into()];
                        launch.stdin = config;
                    }
                    ConfigBy::File | ConfigBy::SentinelFile => {
                        launch.args = vec![CONFIG_FILE.into()];
                        launch.files = vec![(CONFIG_FILE, config)];
                    }
                }
                if self.config_by == ConfigBy::SentinelFile {
                    launch.args.push("--sentinel".into());
                }
                Plan::Process(launch)
            }
            Source::Docker => {
                // Reachable from outside the container, which Docker publishes on loopback only.
                let config = format!("protected-mode no\n{}", self.config("0.0.0.0", 6379, "/data"));
                // `exec`, so that the server, not a shell, gets Docker's signals.
                let script = "exec redis-server - <<END\n$DEVSTACK_REDIS_CONF\nEND\n";
                Plan::Container(ContainerLaunch {
                    image: Service::Redis.image(),
                    inner_port: 6379,
                    port,
                    env: vec![("DEVSTACK_REDIS_CONF", config)],
                    command: vec!["sh".into(), "-c".into(), script.into()],
                })
            }
        }
    }

    fn config(&self, bind: &str, port: u16, folder: &str) -> String {
        let appendonly = if self.appendonly { "yes" } else { "no" };
        let appendfsync = match self.appendfsync {
            AppendFsync::Always => "always",
            AppendFsync::EverySecond => "everysec",
            AppendFsync::No => "no",
        };
        let mut lines = vec![
            format!("bind {bind}"),
            format!("port {}", if self.tls.is_some() { 0 } else { port }),
            format!("dir {}", quoted(folder)),
            "save \"\"".to_owned(),
            format!("appendonly {appendonly}"),
            format!("appendfsync {appendfsync}"),
            "maxmemory-policy noeviction".to_owned(),
        ];
        if let Some(tls) = &self.tls {
            lines.push(format!("tls-port {port}"));
            lines.push(format!("tls-auth-clients {}", self.tls_auth_clients.name()));
            for (name, path) in [
                ("tls-cert-file", tls.server_cert_path()),
                ("tls-key-file", tls.server_key_path()),
                ("tls-ca-cert-file", tls.ca_path()),
                ("unixsocket", &Path::new(folder).join(SOCKET)),
            ] {
                lines.push(format!("{name} {}", quoted(&path.to_string_lossy())));
            }
        }
        lines.extend(self.password.iter().map(|password| format!("requirepass {}", quoted(password))));
        lines.extend(self.users.iter().map(|user| format!("user {user}")));
        for (name, value) in &self.args {
            let value = if value.is_empty() { "\"\"" } else { value };
            lines.push(format!("{name} {value}"));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Where clients find the server.
    pub(crate) fn url(&self, port: u16) -> String {
        let user = self
            .password
            .as_ref()
            .map_or_else(String::new, |password| format!(":{}@", percent_encoded(password)));
        self.url_with(&user, port)
    }

    pub(crate) fn url_as(&self, user: &str, password: &str, port: u16) -> String {
        self.url_with(&format!("{}:{}@", percent_encoded(user), percent_encoded(password)), port)
    }

    fn url_with(&self, user: &str, port: u16) -> String {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{user}127.0.0.1:{port}/")
    }

    /// Our own connection.
    pub(crate) fn connect(&self, folder: Option<&Path>, port: u16) -> Result<Connection, String> {
        match folder.filter(|_| self.tls.is_some()) {
            Some(folder) => Connection::open_socket(&folder.join(SOCKET), self.password.as_deref()),
            None => Connection::open(&self.url(port)),
        }
    }
}

/// Whether the server answers and, when its process id is known, is that process and not a stranger that took the
/// port.
pub(crate) fn probe(connection: Result<Connection, String>, pid: Option<u32>) -> Result<(), String> {
    let mut connection = connection?;
    connection.call(&[b"PING"])?;
    let Some(pid) = pid else { return Ok(()) };
    match connection.info("server", "process_id")? {
        Some(other) if other != pid.to_string() => {
            Err(format!("the port belongs to process {other}, not {pid}"))
        }
        _ => Ok(()),
    }
}

/// For a URL. Everything but letters and digits is escaped, since clients disagree about the rest.
fn percent_encoded(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A value in the syntax of `redis.conf`.
pub(crate) fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisServer;

    #[test]
    fn values_are_quoted_for_the_configuration() {
        assert_eq!(quoted("a \"b\" \\ é\n"), r#""a \"b\" \\ \xc3\xa9\x0a""#);
    }

    #[test]
    fn the_url_escapes_the_password() {
        let url = RedisServer::builder().password("a/b:c@d e%").url(20_000);
        assert_eq!(url, "redis://:a%2Fb%3Ac%40d%20e%25@127.0.0.1:20000/");
        assert_eq!(RedisServer::builder().url(20_000), "redis://127.0.0.1:20000/");
        assert_eq!(
            RedisServer::builder().url_as("a@b", "c d", 20_000),
            "redis://a%40b:c%20d@127.0.0.1:20000/"
        );
    }

    #[test]
    fn a_container_gets_the_same_configuration_by_the_environment() {
        let builder = RedisServer::builder().password("secret").appendonly(true);
        let Plan::Container(launch) = builder.plan(&Source::Docker, None, 20_000) else {
            panic!("not a container")
        };
        assert!(!launch.command.join(" ").contains("secret"));
        let (_, config) = &launch.env[0];
        for line in ["bind 0.0.0.0", "port 6379", "dir \"/data\"", "appendonly yes", "requirepass \"secret\""]
        {
            assert!(config.lines().any(|l| l == line), "{line} is not in {config}");
        }
    }

    #[test]
    fn a_groups_lines_come_before_the_callers() {
        let builder = RedisServer::builder().arg("n", "caller's").preset(&[("n", "group's".to_owned())]);
        let config = builder.config("127.0.0.1", 20_000, "/");
        assert!(config.ends_with("n group's\nn caller's\n"), "{config}");
    }
}
