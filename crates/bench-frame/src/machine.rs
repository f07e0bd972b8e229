//! On what it was measured.

use std::process::Command;

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

/// Versions, processor, load and date; `server` names the servers with their versions and settings. `pinned` is false
/// until the bench says otherwise.
///
/// Call it before pinning: afterwards the process sees one core only.
#[must_use]
pub fn describe(server: &str) -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find(|line| line.starts_with("model name"));
    let cpu = cpu.and_then(|line| line.split(':').nth(1)).map_or("unknown", str::trim);
    json!({
        "date": Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
        "cpu": cpu,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load": load(),
        "system": said_by("uname", &["-sr"]),
        "server": server,
        "pinned": false,
        "version": env!("CARGO_PKG_VERSION"),
        "commit": said_by("git", &["describe", "--always", "--dirty"]),
        "rustc": said_by("rustc", &["--version"]),
    })
}

/// The load averages of the last 1, 5 and 15 minutes; empty where the system tells none.
#[must_use]
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The first line of what a program says, or `unknown`.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.as_deref().and_then(|text| text.lines().next()).unwrap_or("unknown").to_owned()
}
