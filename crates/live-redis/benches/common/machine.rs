//! On what it was measured.

use std::process::Command;

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

/// Gives this process a core and the servers another, where the machine lets us. Left to the scheduler, the two share
/// a core in some runs and not in others, and the figures differ by half.
pub(crate) fn pin(servers: &[u32]) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Neighbouring numbers are often two threads of one core.
    let apart = match cores {
        0 | 1 => return false,
        2 | 3 => "1",
        _ => "2",
    };
    let pin = |pid: u32, core: &str| {
        let arguments = ["--all-tasks", "--cpu-list", "--pid", core, &pid.to_string()];
        Command::new("taskset").args(arguments).output().is_ok_and(|output| output.status.success())
    };
    // In a container a server has another number here, which is somebody else's.
    let ours = |pid: u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.contains("redis") || name.contains("valkey")
    };
    servers.iter().all(|&server| ours(server) && pin(server, apart)) && pin(std::process::id(), "0")
}

/// Versions, processor and date.
pub(crate) fn describe(server: &str) -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find(|line| line.starts_with("model name"));
    let cpu = cpu.and_then(|line| line.split(':').nth(1)).map_or("unknown", str::trim);
    json!({
        "date": Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
        "cpu": cpu,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "system": said_by("uname", &["-sr"]),
        "server": server,
        "live_redis": env!("CARGO_PKG_VERSION"),
        "commit": said_by("git", &["describe", "--always", "--dirty"]),
        "rustc": said_by("rustc", &["--version"]),
    })
}

/// The first line of what a program says, or `unknown`.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.as_deref().and_then(|text| text.lines().next()).unwrap_or("unknown").to_owned()
}
