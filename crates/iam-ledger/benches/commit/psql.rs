//! The same rows into the same tables without any of our code: a script of plain SQL, run by `psql`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, SecondsFormat, Utc};
use spend_queue::Entry;
use tokio::process::Command;
use url::Url;

use crate::staging::{SETTLE, TABLE};
use crate::work::{Work, link};

/// The server's clock in seconds, before the first batch and after the last: starting `psql` is not measured.
const CLOCK: &str = "select extract(epoch from clock_timestamp());\n";

pub(crate) struct Psql {
    url: Url,
    password: String,
    script: PathBuf,
}

impl Psql {
    pub(crate) fn new(url: &str, folder: &std::path::Path) -> Result<Self> {
        let mut url = Url::parse(url)?;
        let password = url.password().unwrap_or_default().to_owned();
        ensure!(url.set_password(None).is_ok(), "the URL has no host");
        Ok(Self { url, password, script: folder.join("bare.sql") })
    }

    pub(crate) async fn commit(&self, work: &mut Work, batches: usize, size: usize) -> Result<Duration> {
        let mut script = format!("{TABLE};\n{CLOCK}");
        for _ in 0..batches {
            script.push_str("begin;\ncopy staging from stdin;\n");
            for entry in work.entries(size)? {
                line(&mut script, &entry, work.now())?;
            }
            let _ = write!(script, "\\.\n{SETTLE}\ncommit;\n");
        }
        script.push_str(CLOCK);
        std::fs::write(&self.script, script)?;
        let output = Command::new("psql")
            .args([
                "--no-psqlrc",
                "--quiet",
                "--no-align",
                "--tuples-only",
                "--set=ON_ERROR_STOP=1",
                "--file",
            ])
            .arg(&self.script)
            .arg(self.url.as_str())
            .env("PGPASSWORD", &self.password)
            .env("PGTZ", "UTC")
            .kill_on_drop(true)
            .output()
            .await
            .context("the bench needs psql (Debian: postgresql-client)")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        let clock = |line: Option<&str>| line.and_then(|line| line.parse::<f64>().ok());
        let (first, last) = (clock(said.lines().next()), clock(said.lines().last()));
        let seconds = last.zip(first).map(|(last, first)| last - first);
        Ok(Duration::from_secs_f64(seconds.with_context(|| format!("psql says no time: {said}"))?))
    }
}

/// One row in the text format of COPY.
fn line(script: &mut String, entry: &Entry, now: DateTime<Utc>) -> Result<()> {
    let event = &entry.event;
    let time =
        |time: Option<DateTime<Utc>>| time.map(|time| time.to_rfc3339_opts(SecondsFormat::Micros, true));
    let text = |text: &str| Some(text.replace('\\', "\\\\"));
    let hex: String = entry.payload_check().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    // No id of the bench needs quotes in an array.
    let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
    let fields = [
        Some(link(entry)?.seq.to_string()),
        text(&event.request_id),
        Some(format!("\\\\x{hex}")),
        time(event.started_at),
        time(event.ended_at),
        time(Some(now)),
        event.organization_id.clone(),
        event.team_id.clone(),
        event.project_id.clone(),
        event.user_id.clone(),
        event.key_id.clone(),
        Some(format!("{{{}}}", scopes.join(","))),
        text(&event.provider),
        text(&event.model),
        text(&event.call_type),
        text(&event.status),
        Some(event.prompt_tokens.to_string()),
        Some(event.completion_tokens.to_string()),
        Some(event.cached_tokens.to_string()),
        event.cost.map(|cost| cost.to_string()),
        event.time_to_first_token_ms.map(|ms| ms.to_string()),
        event.session_id.clone(),
        Some(if event.cache_hit { "t" } else { "f" }.to_owned()),
        text(&serde_json::to_string(&event.metadata)?),
        text(&serde_json::to_string(&event.extra)?),
    ];
    let fields: Vec<String> =
        fields.into_iter().map(|field| field.unwrap_or_else(|| "\\N".to_owned())).collect();
    let _ = writeln!(script, "{}", fields.join("\t"));
    Ok(())
}
