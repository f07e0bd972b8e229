//! Writing to standard output, where a closed pipe is an error and not a panic.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// Prints one JSON object, or a text whose lines end.
pub(crate) fn print(json: Option<&Value>, text: impl FnOnce() -> String) -> Result<()> {
    let text = json.map_or_else(text, |value| format!("{value}\n"));
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot write to standard output")
}
