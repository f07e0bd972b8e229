//! The command `spool`: what a spool keeps that was billed nowhere, and taking out what was dealt with.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use spend_queue::{EncodedEvent, SpendEvent};
use spend_spool::{Spool, SpoolOpenError, SpoolOptions, SpoolStatus};
use thiserror::Error;

use crate::output;

#[derive(Debug, Args)]
pub(crate) struct SpoolCommand {
    #[command(subcommand)]
    action: SpoolAction,
}

#[derive(Debug, Subcommand)]
enum SpoolAction {
    /// Print the conflicts of a spool: calls whose request id had another bill in the queue, so that they are billed nowhere.
    /// The gateway must be stopped: its file is one process's
    List(ListOptions),
    /// Print a conflict, one JSON object a line, and with --yes take it out, which makes room. The gateway must be stopped
    Take(TakeOptions),
}

#[derive(Debug, Args)]
struct ListOptions {
    #[command(flatten)]
    file: SpoolFile,
    /// Print one JSON object, with every event whole
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct TakeOptions {
    /// As `spool list` shows it
    request_id: String,
    #[command(flatten)]
    file: SpoolFile,
    /// Take it out, once it was printed: keep what is printed. Without this nothing changes
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct SpoolFile {
    /// The gateway's spool; none is made
    #[arg(id = "spool", long = "spool", env = "TALLYWEIR_SPOOL", value_name = "FILE")]
    path: PathBuf,
}

/// Why a spool was not looked into. Nothing was taken out.
#[derive(Debug, Error)]
enum SpoolCommandError {
    /// A retry cannot help.
    #[error("there is no spool at {path}; none was made", path = .0.display())]
    Missing(PathBuf),
    /// A retry can help once the gateway is stopped.
    #[error("the spool {path} is in use by one process: stop its gateway first", path = .0.display())]
    InUse(PathBuf),
    /// A retry cannot help.
    #[error("the spool {path} has no conflict with request id {request_id:?}; `spool list` shows those it has", path = .path.display())]
    Unknown { path: PathBuf, request_id: String },
    #[error(transparent)]
    Open(SpoolOpenError),
}

pub(crate) async fn run(command: SpoolCommand) -> Result<()> {
    match command.action {
        SpoolAction::List(options) => list(&options).await,
        SpoolAction::Take(options) => take(&options).await,
    }
}

async fn list(options: &ListOptions) -> Result<()> {
    let spool = open(&options.file.path)?;
    let (conflicts, status) = (spool.conflicts(usize::MAX).await?, spool.status());
    spool.close().await;
    let text = if options.json { object(&conflicts, &status) } else { table(&conflicts, &status)? };
    output::print(None, || text)
}

async fn take(options: &TakeOptions) -> Result<()> {
    let path = &options.file.path;
    let spool = open(path)?;
    let mut found = spool.conflicts(usize::MAX).await?;
    found.retain(|event| event.request_id() == options.request_id);
    if found.is_empty() {
        let unknown =
            SpoolCommandError::Unknown { path: path.clone(), request_id: options.request_id.clone() };
        return Err(unknown.into());
    }
    // Out of the file only when it is out of here.
    output::print(None, || found.iter().map(|event| whole(event) + "\n").collect())
        .context("nothing was taken out")?;
    if options.yes {
        for event in &found {
            spool.take_conflict(event).await?;
        }
    } else {
        eprintln!("nothing was taken out; --yes does it");
    }
    spool.close().await;
    Ok(())
}

/// Opens a spool that is there: opening makes one otherwise.
fn open(path: &Path) -> Result<Spool, SpoolCommandError> {
    let there = path.try_exists();
    let there = there
        .map_err(|source| SpoolCommandError::Open(SpoolOpenError::Io { path: path.to_owned(), source }))?;
    if !there {
        return Err(SpoolCommandError::Missing(path.to_owned()));
    }
    Spool::open(path, SpoolOptions::default()).map_err(|error| match error {
        SpoolOpenError::InUse(path) => SpoolCommandError::InUse(path),
        error => SpoolCommandError::Open(error),
    })
}

/// The event as JSON, in the bytes that were to be queued: reading and writing it anew might change a number.
fn whole(event: &EncodedEvent) -> String {
    format!("{{{}", event.body())
}

fn object(conflicts: &[EncodedEvent], status: &SpoolStatus) -> String {
    let SpoolStatus { events, bytes, conflict_bytes, .. } = status;
    let conflicts = conflicts.iter().map(whole).collect::<Vec<_>>().join(",");
    format!(
        "{{\"waiting\":{events},\"waiting_bytes\":{bytes},\"conflict_bytes\":{conflict_bytes},\"conflicts\":[{conflicts}]}}\n"
    )
}

fn table(conflicts: &[EncodedEvent], status: &SpoolStatus) -> Result<String> {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["request id", "spooled", "model", "cost USD", "partition"]);
    for conflict in conflicts {
        let event: SpendEvent =
            serde_json::from_str(&whole(conflict)).context("a conflict cannot be read")?;
        table.add_row([
            event.request_id.escape_debug().to_string(),
            conflict.encoded().instant().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            event.model.escape_debug().to_string(),
            event.cost.map_or_else(|| "unpriced".to_owned(), |cost| cost.to_string()),
            conflict.partition().escape_debug().to_string(),
        ]);
    }
    let SpoolStatus { events, bytes, conflicts, conflict_bytes, .. } = status;
    let sums =
        format!("{conflicts} conflicts of {conflict_bytes} bytes; {events} events of {bytes} bytes wait\n");
    Ok(if *conflicts == 0 { sums } else { format!("{}\n\n{sums}", table.trim_fmt()) })
}
