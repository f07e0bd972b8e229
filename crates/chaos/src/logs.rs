//! What the processes' logs tell: that the interesting moments were met, that nobody panicked, and that no secret is shown.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::checker::{Breach, Verdict};

/// Moments that a run should meet, or its faults have missed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    /// Batches that were committed.
    pub(crate) batches: u64,
    /// Entries of committed batches that the ledger knew already: committed before, not acknowledged.
    pub(crate) settled_again: u64,
    /// Entries with another payload under a settled id.
    pub(crate) conflicts: u64,
    /// Acknowledgements that met another head of the queue.
    pub(crate) stale_acks: u64,
    /// Steps that failed.
    pub(crate) failed_steps: u64,
    /// Failed steps that were said to need an operator.
    pub(crate) stuck_steps: u64,
    /// Calls of gateways that failed.
    pub(crate) failed_calls: u64,
}

impl Moments {
    /// Reads all logs of a folder.
    pub(crate) fn of(folder: &Path, secrets: &[&str], verdict: &mut Verdict) -> Result<Self> {
        let mut moments = Self::default();
        for entry in fs::read_dir(folder).context("reading the logs")? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let text = fs::read(&path).with_context(|| format!("reading {name}"))?;
            for line in String::from_utf8_lossy(&text).lines() {
                if line.contains("panicked at") {
                    verdict.add(Breach::Process, format!("{name}: {line}"));
                }
                if secrets.iter().any(|secret| line.contains(secret)) {
                    // Not the line: this goes to a log, too.
                    verdict.add(Breach::Secret, name.clone());
                }
                if name.starts_with("gateway") {
                    moments.failed_calls += 1;
                } else {
                    moments.take(line);
                }
            }
        }
        Ok(moments)
    }

    fn take(&mut self, line: &str) {
        let Ok(fields) = serde_json::from_str::<Value>(line) else { return };
        let number = |name: &str| fields[name].as_u64().unwrap_or_default();
        match fields["message"].as_str().unwrap_or_default() {
            "batch committed" => {
                self.batches += 1;
                self.settled_again += number("duplicates");
                self.conflicts += number("conflicts");
            }
            "the queue's head changed; nothing was taken off" => self.stale_acks += 1,
            "step failed; it is tried again" => self.failed_steps += 1,
            "step failed and needs an operator" => self.stuck_steps += 1,
            _ => {}
        }
    }

    /// Names and numbers, for reports.
    pub(crate) fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("batches", self.batches),
            ("settled_again", self.settled_again),
            ("conflicting_entries", self.conflicts),
            ("stale_acks", self.stale_acks),
            ("failed_steps", self.failed_steps),
            ("stuck_steps", self.stuck_steps),
            ("failed_calls", self.failed_calls),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_and_panics_and_secrets_are_breaches() {
        let folder = tempfile::tempdir().unwrap();
        let lines = [
            r#"{"message":"batch committed","duplicates":3,"conflicts":1}"#,
            r#"{"message":"the queue's head changed; nothing was taken off"}"#,
            r#"{"message":"step failed; it is tried again"}"#,
            "thread 'main' panicked at src/x.rs",
            "redis://:hush@h",
        ];
        fs::write(folder.path().join("flusher-0.log"), lines.join("\n")).unwrap();
        fs::write(folder.path().join("gateway-0.log"), "one\ntwo\n").unwrap();
        let mut verdict = Verdict::default();
        let moments = Moments::of(folder.path(), &["hush"], &mut verdict).unwrap();
        assert_eq!((moments.batches, moments.settled_again, moments.stale_acks), (1, 3, 1));
        assert_eq!((moments.failed_steps, moments.conflicts, moments.failed_calls), (1, 1, 2));
        assert_eq!((verdict.count(Breach::Process), verdict.count(Breach::Secret)), (1, 1));
        assert!(!verdict.to_string().contains("hush"));
    }
}
