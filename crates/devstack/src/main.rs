//! Runs private servers for as long as this program runs. `devstack --help` says how it is used.

mod control;

use std::any::Any;
use std::io::{Read, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use devstack::{RedisCluster, RedisSentinel, RedisServer, Result};

use crate::control::{Controlled, Kind};

const HELP: &str = "\
Runs private servers for as long as this program runs.

usage: devstack [--control] [SERVER]...

SERVER (default: redis postgres)
  redis               Redis; data do not survive its end
  redis:always        Redis with an append-only file that is flushed at every write
  redis:everysec      the same, flushed once a second
  redis:no            the same, flushed when the kernel likes
  postgres            PostgreSQL without fsync: only a crash of the machine costs anything
  postgres:durable    PostgreSQL with its own defaults
  cluster, sentinel   groups of Redis servers

One line is printed for each server, when it answers: NAME URL FOLDER. The program ends, and the servers with it, at the
end of its standard input, at Ctrl-C, or however else it is stopped. Without --control, `redis` and `postgres` are the
servers that TALLYWEIR_REDIS_URL and TALLYWEIR_DATABASE_URL name, if they are set.

--control: commands are read from the standard input, one a line, and one line answers each: `ok` or `error: REASON`.
  kill NAME           SIGKILL, as in a crash
  stop NAME           an orderly stop
  start NAME          starts it again after either, with the same port, URL and data
  keep NAME           leaves it running at the end of this program; answers `ok SHELL COMMANDS THAT END IT`
NAME is redis or postgres. Servers that are controlled are always private, and not groups.
";

/// What keeps servers running that are not in a `static`.
type Running = Box<dyn Any>;

fn main() -> ExitCode {
    let mut services: Vec<String> = std::env::args().skip(1).collect();
    if services.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let arguments = services.len();
    services.retain(|argument| argument != "--control");
    let control = services.len() < arguments;
    if services.is_empty() {
        services = vec!["redis".into(), "postgres".into()];
    }
    let done = if control { serve(&services) } else { hold(&services) };
    match done {
        Ok(Some(())) => ExitCode::SUCCESS,
        Ok(None) => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("devstack: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts servers and holds them until the end of the input; `None` for a name that is not one.
fn hold(services: &[String]) -> Result<Option<()>> {
    let mut running: Vec<Running> = Vec::new();
    for service in services {
        let Some(lines) = start(service, &mut running)? else { return Ok(None) };
        lines.iter().for_each(|line| println!("{line}"));
    }
    // The end of the input, or whatever is wrong with it, is the end.
    let _ = stdin().read_to_end(&mut Vec::new());
    Ok(Some(()))
}

/// The same, and obeys what the input says.
fn serve(services: &[String]) -> Result<Option<()>> {
    let mut controlled = Controlled::default();
    for service in services {
        let Some(kind) = Kind::named(service) else { return Ok(None) };
        let (name, url, folder) = controlled.add(kind)?;
        println!("{}", line(name, &url, folder.as_deref()));
    }
    // Whoever no longer listens or speaks has ended it.
    let _ = controlled.obey(stdin().lock(), stdout().lock());
    Ok(Some(()))
}

fn start(service: &str, running: &mut Vec<Running>) -> Result<Option<Vec<String>>> {
    Ok(Some(match service {
        "redis" => {
            let redis = devstack::redis()?;
            vec![line(service, redis.url(), redis.server().and_then(|server| server.folder()))]
        }
        "postgres" => {
            let postgres = devstack::postgres()?;
            vec![line(service, postgres.url(), postgres.server().and_then(|server| server.folder()))]
        }
        "cluster" => {
            let cluster = RedisCluster::builder().replicas(1).start()?;
            let lines = cluster.servers().map(|server| redis_line("cluster", server)).collect();
            running.push(Box::new(cluster));
            lines
        }
        "sentinel" => {
            let group = RedisSentinel::builder().start()?;
            let servers = group.servers().iter().map(|server| redis_line("redis", server));
            let sentinels = group.sentinels().iter().map(|server| redis_line("sentinel", server));
            let lines = servers.chain(sentinels).collect();
            running.push(Box::new(group));
            lines
        }
        _ => {
            let Some(kind) = Kind::named(service) else { return Ok(None) };
            let mut own = Controlled::default();
            let (name, url, folder) = own.add(kind)?;
            running.push(Box::new(own));
            vec![line(name, &url, folder.as_deref())]
        }
    }))
}

fn redis_line(name: &str, server: &RedisServer) -> String {
    line(name, server.url(), server.folder())
}

fn line(name: &str, url: &str, folder: Option<&Path>) -> String {
    format!("{name} {url} {}", folder.unwrap_or(Path::new("-")).display())
}
