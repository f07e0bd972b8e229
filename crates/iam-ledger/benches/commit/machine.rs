//! On what it was measured.

use std::process::Command;

use anyhow::{Result, ensure};
use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row};

/// Versions, processor, date and the server's settings that decide what a commit costs.
///
/// Nothing is pinned: the server's process for the session does not exist yet, and with fsync the two rarely want a core
/// at once.
pub(crate) async fn describe(url: &str) -> Result<Value> {
    let mut connection = PgConnection::connect(url).await?;
    let row = sqlx::query(
        "select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')",
    )
    .fetch_one(&mut connection)
    .await?;
    let (version, fsync, synchronous): (String, String, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    connection.close().await?;
    ensure!(fsync == "on" && synchronous == "on", "fsync {fsync}, synchronous_commit {synchronous}");
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find(|line| line.starts_with("model name"));
    let cpu = cpu.and_then(|line| line.split(':').nth(1)).map_or("unknown", str::trim);
    Ok(json!({
        "date": Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
        "cpu": cpu,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "system": said_by("uname", &["-sr"]),
        "server": format!("PostgreSQL {version}, fsync on, synchronous_commit on"),
        "pinned": false,
        "iam_ledger": env!("CARGO_PKG_VERSION"),
        "commit": said_by("git", &["describe", "--always", "--dirty"]),
        "rustc": said_by("rustc", &["--version"]),
    }))
}

/// The first line of what a program says, or `unknown`.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.as_deref().and_then(|text| text.lines().next()).unwrap_or("unknown").to_owned()
}
