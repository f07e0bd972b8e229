//! Servers that another program stops and starts through our standard input and output.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use devstack::{AppendFsync, Durability, Kept, PostgresServer, RedisServer, Result};

/// A server and how careful it is with its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Without an append-only file, or with one that is flushed so.
    Redis(Option<AppendFsync>),
    Postgres(Durability),
}

impl Kind {
    /// Reads `redis`, `redis:always`, `postgres` and so on; `None` for anything else.
    pub(crate) fn named(text: &str) -> Option<Self> {
        Some(match text {
            "redis" => Self::Redis(None),
            "redis:always" => Self::Redis(Some(AppendFsync::Always)),
            "redis:everysec" => Self::Redis(Some(AppendFsync::EverySecond)),
            "redis:no" => Self::Redis(Some(AppendFsync::No)),
            "postgres" => Self::Postgres(Durability::Fast),
            "postgres:durable" => Self::Postgres(Durability::Durable),
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Redis(_) => "redis",
            Self::Postgres(_) => "postgres",
        }
    }

    fn start(self) -> Result<Server> {
        Ok(match self {
            Self::Redis(None) => Server::Redis(Box::new(RedisServer::builder().start()?)),
            Self::Redis(Some(fsync)) => {
                let server = RedisServer::builder().appendonly(true).appendfsync(fsync).start()?;
                Server::Redis(Box::new(server))
            }
            Self::Postgres(durability) => {
                Server::Postgres(Box::new(PostgresServer::builder().durability(durability).start()?))
            }
        })
    }
}

#[derive(Debug)]
enum Server {
    Redis(Box<RedisServer>),
    Postgres(Box<PostgresServer>),
}

impl Server {
    fn url(&self) -> &str {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
        }
    }

    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Redis(server) => server.folder(),
            Self::Postgres(server) => server.folder(),
        }
    }

    fn kill(&mut self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Postgres(server) => server.kill(),
        }
    }

    fn stop(&mut self) -> Result<()> {
        match self {
            Self::Redis(server) => server.stop(),
            Self::Postgres(server) => server.stop(),
        }
    }

    fn start_again(&mut self) -> Result<()> {
        match self {
            Self::Redis(server) => server.start_again(),
            Self::Postgres(server) => server.start_again(),
        }
    }

    fn keep(self) -> Result<Kept> {
        match self {
            Self::Redis(server) => server.keep(),
            Self::Postgres(server) => server.keep(),
        }
    }
}

/// The servers by name. They end when this is dropped, except those that were to be kept.
#[derive(Debug, Default)]
pub(crate) struct Controlled {
    servers: BTreeMap<&'static str, Server>,
}

impl Controlled {
    /// Starts a server, in the place of one of the same name; answers its name, URL and folder.
    pub(crate) fn add(&mut self, kind: Kind) -> Result<(&'static str, String, Option<PathBuf>)> {
        let server = kind.start()?;
        let (url, folder) = (server.url().to_owned(), server.folder().map(Path::to_path_buf));
        self.servers.insert(kind.name(), server);
        Ok((kind.name(), url, folder))
    }

    /// Obeys one command a line until the input ends.
    ///
    /// # Errors
    ///
    /// Those of the two pipes. What a command meets is its answer.
    pub(crate) fn obey(&mut self, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        for command in input.lines() {
            let answer = match self.run(&command?) {
                Ok(answer) => answer,
                Err(reason) => format!("error: {reason}"),
            };
            // A reason may hold the end of a log; the answer is one line all the same.
            let answer: Vec<&str> = answer.lines().map(str::trim).collect();
            writeln!(output, "{}", answer.join(" | "))?;
            output.flush()?;
        }
        Ok(())
    }

    fn run(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let [verb, name] = words[..] else {
            return Err(format!("{command:?} is not of the form VERB NAME"));
        };
        let Some(server) = self.servers.get_mut(name) else {
            return Err(format!("no server is called {name:?}"));
        };
        let done = match verb {
            "kill" => {
                server.kill();
                Ok(())
            }
            "stop" => server.stop(),
            "start" => server.start_again(),
            "keep" => return self.keep(name),
            _ => return Err(format!("{verb:?} is not one of kill, stop, start and keep")),
        };
        done.map(|()| "ok".to_owned()).map_err(|error| error.to_string())
    }

    fn keep(&mut self, name: &str) -> Result<String, String> {
        let server = self.servers.remove(name).ok_or("it is gone")?;
        let kept = server.keep().map_err(|error| error.to_string())?;
        Ok(format!("ok {}", kept.stop_commands().join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_is_answered_with_what_would_be_one() {
        let mut output = Vec::new();
        Controlled::default().obey(&b"kill\n\nkill redis\nkill redis now\n"[..], &mut output).unwrap();
        let answers = String::from_utf8(output).unwrap();
        let answers: Vec<&str> = answers.lines().collect();
        assert_eq!(answers.len(), 4);
        assert!(answers.iter().all(|answer| answer.starts_with("error: ")), "{answers:?}");
        assert_eq!(answers[2], "error: no server is called \"redis\"");
    }

    #[test]
    fn only_exact_names_are_servers() {
        assert_eq!(Kind::named("redis:always"), Some(Kind::Redis(Some(AppendFsync::Always))));
        assert_eq!(Kind::named("postgres:durable"), Some(Kind::Postgres(Durability::Durable)));
        for text in ["", "Redis", "redis:", "redis:sometimes", "postgres:always", "cluster"] {
            assert_eq!(Kind::named(text), None, "{text}");
        }
    }
}
