//! Runs private servers for as long as this program runs.
//!
//! `devstack [redis] [postgres] [cluster] [sentinel]` (default: the first two) prints one line a server, `NAME URL
//! FOLDER`, and ends, with the servers, at the end of its standard input, at Ctrl-C, or however else it is stopped.

use std::any::Any;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use devstack::{RedisCluster, RedisSentinel, RedisServer, Result};

/// What keeps servers running that are not in a `static`.
type Running = Box<dyn Any>;

fn main() -> ExitCode {
    let mut services: Vec<String> = std::env::args().skip(1).collect();
    if services.is_empty() {
        services = vec!["redis".into(), "postgres".into()];
    }
    let mut running: Vec<Running> = Vec::new();
    for service in &services {
        match start(service, &mut running) {
            Ok(Some(lines)) => lines.iter().for_each(|line| println!("{line}")),
            Ok(None) => {
                eprintln!("usage: devstack [redis] [postgres] [cluster] [sentinel]");
                return ExitCode::from(2);
            }
            Err(error) => {
                eprintln!("devstack: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    // The end of the input, or whatever is wrong with it, is the end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
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
        _ => return Ok(None),
    }))
}

fn redis_line(name: &str, server: &RedisServer) -> String {
    line(name, server.url(), server.folder())
}

fn line(name: &str, url: &str, folder: Option<&Path>) -> String {
    format!("{name} {url} {}", folder.unwrap_or(Path::new("-")).display())
}
