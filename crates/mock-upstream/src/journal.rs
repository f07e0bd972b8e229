//! What was asked and what was sent, one JSON line for the beginning and one for the end of a request.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

/// Lines that are kept in memory; the file has all.
const KEPT_LINES: usize = 200_000;

/// Which end of a request a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// It was understood; its answer has not begun.
    Begin,
    /// Nothing more is sent.
    End,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A chat completion.
    Chat,
    /// Embeddings.
    Embedding,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalLine {
    /// Beginning or end.
    pub event: Moment,
    /// The header `x-request-id`.
    pub request_id: Option<String>,
    /// The model that was named.
    pub model: String,
    /// What was asked for.
    pub kind: Kind,
    /// Whether as a stream.
    pub stream: bool,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that were said to have been cached.
    pub cached_tokens: u64,
    /// Tokens of the answer that were handed to the connection.
    pub completion_tokens: u64,
    /// `complete`, `client_gone`, or `error:` and why; absent at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// When the request had been read.
    #[serde(serialize_with = "microseconds")]
    pub received_at: DateTime<Utc>,
    /// When the last of it was sent; absent at the beginning.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_microseconds")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// All lines of one mock.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    kept: Mutex<Kept>,
    /// From now on nothing ends because its client left.
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<JournalLine>,
    file: Option<File>,
}

/// One request on its way. Dropped before its end was told, it was given up: by its client, or by the mock that stops.
#[derive(Debug)]
pub(crate) struct Record {
    journal: Arc<Journal>,
    line: JournalLine,
}

impl Journal {
    /// A journal that is also appended to a file.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        Ok(Self { kept: Mutex::new(Kept { lines: VecDeque::new(), file }), stopping: AtomicBool::new(false) })
    }

    /// The lines in memory, oldest first.
    pub(crate) fn lines(&self) -> Vec<JournalLine> {
        self.kept().lines.iter().cloned().collect()
    }

    /// The lines in memory as text.
    pub(crate) fn text(&self) -> String {
        self.lines().iter().map(encoded).collect()
    }

    /// What ends from now on is ended by the mock.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn write(&self, line: JournalLine) {
        let mut kept = self.kept();
        if let Some(file) = &mut kept.file
            && let Err(error) = file.write_all(encoded(&line).as_bytes())
        {
            eprintln!("warning: the journal's file cannot be written any more: {error}");
            kept.file = None;
        }
        if kept.lines.len() == KEPT_LINES {
            kept.lines.pop_front();
        }
        kept.lines.push_back(line);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Lines are whole whatever panicked elsewhere.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// Writes the line of the beginning.
    pub(crate) fn begin(journal: &Arc<Journal>, line: JournalLine) -> Self {
        journal.write(line.clone());
        Self { journal: Arc::clone(journal), line }
    }

    /// Tokens that go to the connection now.
    pub(crate) fn sent(&mut self, tokens: u64) {
        self.line.completion_tokens += tokens;
    }

    /// All of the answer was sent.
    pub(crate) fn complete(&mut self) {
        self.end("complete".to_owned());
    }

    /// Something went wrong, on demand.
    pub(crate) fn failed(&mut self, why: &str) {
        self.end(format!("error:{why}"));
    }

    fn end(&mut self, outcome: String) {
        if self.line.event == Moment::End {
            return;
        }
        self.line.event = Moment::End;
        self.line.outcome = Some(outcome);
        self.line.ended_at = Some(Utc::now());
        self.journal.write(self.line.clone());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let stopping = self.journal.stopping.load(Ordering::Relaxed);
        self.end(if stopping { "error:stopped" } else { "client_gone" }.to_owned());
    }
}

fn encoded(line: &JournalLine) -> String {
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

fn microseconds<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn optional_microseconds<S: Serializer>(
    time: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => microseconds(time, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> JournalLine {
        JournalLine {
            event: Moment::Begin,
            request_id: Some("r1".to_owned()),
            model: "small".to_owned(),
            kind: Kind::Chat,
            stream: true,
            prompt_tokens: 8,
            cached_tokens: 0,
            completion_tokens: 0,
            outcome: None,
            received_at: DateTime::from_timestamp_micros(1_700_000_000_000_001).unwrap(),
            ended_at: None,
        }
    }

    #[test]
    fn a_request_that_nobody_ended_was_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Arc::new(Journal::open(Some(&path)).unwrap());
        let mut left = Record::begin(&journal, line());
        left.sent(3);
        drop(left);
        let mut done = Record::begin(&journal, line());
        done.complete();
        drop(done);
        let cut = Record::begin(&journal, line());
        journal.stop();
        drop(cut);
        let outcomes: Vec<_> = journal.lines().into_iter().filter_map(|line| line.outcome).collect();
        assert_eq!(outcomes, ["client_gone", "complete", "error:stopped"]);
        assert_eq!(journal.lines()[1].completion_tokens, 3);
        assert_eq!(std::fs::read_to_string(path).unwrap(), journal.text());
    }

    #[test]
    fn a_line_is_one_object_with_microseconds() {
        assert_eq!(
            encoded(&line()),
            "{\"event\":\"begin\",\"request_id\":\"r1\",\"model\":\"small\",\"kind\":\"chat\",\"stream\":true,\
             \"prompt_tokens\":8,\"cached_tokens\":0,\"completion_tokens\":0,\
             \"received_at\":\"2023-11-14T22:13:20.000001Z\"}\n"
        );
    }

    #[test]
    fn memory_keeps_the_last_lines_only() {
        let journal = Journal::default();
        for tokens in 0..=KEPT_LINES as u64 {
            journal.write(JournalLine { prompt_tokens: tokens, ..line() });
        }
        let lines = journal.lines();
        assert_eq!((lines.len(), lines[0].prompt_tokens), (KEPT_LINES, 1));
    }
}
