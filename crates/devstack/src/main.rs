//! Runs private servers for as long as this program runs.
//!
//! `devstack [redis] [postgres]` (default: both) prints one line a server, `NAME URL FOLDER`, and ends, with the
//! servers, at the end of its standard input, at Ctrl-C, or however else it is stopped.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use devstack::Result;

fn main() -> ExitCode {
    let mut services: Vec<String> = std::env::args().skip(1).collect();
    if services.is_empty() {
        services = vec!["redis".into(), "postgres".into()];
    }
    for service in &services {
        match start(service) {
            Ok(Some(line)) => println!("{line}"),
            Ok(None) => {
                eprintln!("usage: devstack [redis] [postgres]");
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

fn start(service: &str) -> Result<Option<String>> {
    let (url, folder) = match service {
        "redis" => {
            let redis = devstack::redis()?;
            (redis.url(), redis.server().and_then(|server| server.folder()))
        }
        "postgres" => {
            let postgres = devstack::postgres()?;
            (postgres.url(), postgres.server().and_then(|server| server.folder()))
        }
        _ => return Ok(None),
    };
    Ok(Some(format!("{service} {url} {}", folder.unwrap_or(Path::new("-")).display())))
}
