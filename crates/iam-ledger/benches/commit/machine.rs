//! On what it was measured.

use anyhow::{Result, ensure};
use bench_frame::machine;
use serde_json::Value;
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
    Ok(machine::describe(&format!("PostgreSQL {version}, fsync on, synchronous_commit on")))
}
