//! Entries and durations, for people and for programs.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;
use sha1::{Digest, Sha1};
use spend_queue::{Entry, EntryError, ScopeRef, Stop, Usd};

/// The most characters of raw bytes that a line for people shows.
const EXCERPT: usize = 160;

/// An entry in the output for programs.
#[derive(Debug, Serialize)]
pub(super) struct ShownEntry<'a> {
    position: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<chrono::DateTime<chrono::Utc>>,
    request_id: &'a str,
    model: &'a str,
    cost_usd: Option<Usd>,
    started_at: Option<chrono::DateTime<chrono::Utc>>,
    scopes: &'a [ScopeRef],
    sha1: String,
}

/// Where a batch ends, in the output for programs.
#[derive(Debug, Serialize)]
pub(super) struct ShownStop {
    position: usize,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// The bytes, when they are no entry: as text where they are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha1: Option<String>,
}

impl<'a> ShownEntry<'a> {
    pub(super) fn new(position: usize, entry: &'a Entry) -> Self {
        let Entry { link, event, .. } = entry;
        Self {
            position,
            seq: link.map(|link| link.seq),
            queued: link.map(|link| link.queued.instant()),
            request_id: &event.request_id,
            model: &event.model,
            cost_usd: event.cost,
            started_at: event.started_at,
            scopes: &event.scopes,
            sha1: sha1(entry.raw()),
        }
    }

    /// A row of the table for people.
    pub(super) fn row(&self) -> Vec<String> {
        let scopes: Vec<_> = self.scopes.iter().map(ToString::to_string).collect();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            self.position.to_string(),
            or_dash(self.seq.map(|seq| seq.to_string())),
            or_dash(self.queued.map(|at| at.format("%F %T").to_string())),
            self.request_id.to_owned(),
            self.model.to_owned(),
            or_dash(self.cost_usd.map(|cost| cost.to_string())),
            scopes.join(" "),
        ]
    }

    pub(super) const HEADER: [&'static str; 7] =
        ["#", "seq", "queued", "request id", "model", "cost USD", "charges"];
}

impl ShownStop {
    pub(super) fn new(stop: &Stop) -> Self {
        let plain =
            |position, reason| Self { position, reason, problem: None, raw: None, raw_hex: None, sha1: None };
        match stop {
            Stop::Corrupt { position, raw, error } => {
                let text = std::str::from_utf8(raw).ok().map(str::to_owned);
                Self {
                    problem: Some(error.to_string()),
                    raw_hex: text.is_none().then(|| hex::encode(raw)),
                    raw: text,
                    sha1: Some(sha1(raw)),
                    ..plain(*position, "corrupt")
                }
            }
            Stop::ChainBreak { position } => plain(*position, "chain_break"),
            Stop::AmountBound { position } => plain(*position, "amount_bound"),
            // The enumeration may grow.
            _ => plain(0, "other"),
        }
    }
}

/// What stops a batch, for people.
pub(super) fn stop_line(stop: &Stop) -> String {
    match stop {
        Stop::Corrupt { position, raw, error } => {
            format!("item {position} is no entry: {error}\n  {}\n  sha1 {}", excerpt(raw), sha1(raw))
        }
        Stop::ChainBreak { position } => {
            format!("the chain breaks before item {position}: another hand took or put something there")
        }
        other => format!("the batch ends early: {other:?}"),
    }
}

/// What is wrong with a head, if anything.
pub(super) fn corrupt_head(stop: Option<&Stop>) -> Option<(&[u8], &EntryError)> {
    match stop {
        Some(Stop::Corrupt { position: 0, raw, error }) => Some((raw, error)),
        _ => None,
    }
}

/// The digest by which an operator names an item: short enough to paste.
pub(super) fn sha1(raw: &[u8]) -> String {
    hex::encode(Sha1::digest(raw))
}

/// The start of bytes as printable text.
pub(super) fn excerpt(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let shown: String = text.chars().take(EXCERPT).flat_map(char::escape_debug).collect();
    let more = raw.len().saturating_sub(text.chars().take(EXCERPT).map(char::len_utf8).sum());
    if more > 0 { format!("{shown}... ({more} more bytes)") } else { shown }
}

/// A table as wide as the terminal, numbers to the right.
pub(super) fn table(header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// `3 s`, `12 min`, `5 h`, `2 d`: what people want to know of an age.
pub(super) fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{} ms", age.as_millis()),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Bytes in the unit that keeps them short.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bytes_are_shown_on_one_line_and_cut() {
        assert_eq!(excerpt(b"a\nb\x1b[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(excerpt(b"\xff"), "\u{fffd}");
        assert!(excerpt(&[b'x'; 1000]).ends_with("... (840 more bytes)"));
    }

    #[test]
    fn ages_and_sizes_are_short() {
        let shown = [0, 5, 150, 10_000, 200_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 ms", "5 s", "2 min", "2 h", "2 d"]);
        assert_eq!([512, 20_480, 50_000_000].map(bytes), ["512 B", "20 kB", "50 MB"]);
    }
}
