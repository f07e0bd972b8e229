//! Append-only journals: what was intended before each call and answered after it, on disk before anything else happens.
//!
//! The checker believes these files and nothing else about what was sent. A file belongs to one life of one process; a
//! process that is started again reads the files of its earlier lives and begins a new one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::bill::Bill;

/// What a queue said about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Accepted,
    Duplicate,
    Conflict,
}

/// A line of a journal. `at` is in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub(crate) enum Record {
    /// This bill will be sent, perhaps many times.
    Intent { at: i64, bill: Bill },
    /// Another payload will be sent under the id of a bill that was answered.
    Altered { at: i64, bill: Bill },
    /// The queue has answered; `altered` tells for which of the two payloads.
    Answered { at: i64, id: String, altered: bool, answer: Answer },
    /// The sender has given up without an answer.
    Unknown { at: i64, id: String },
    /// A request was admitted: counted in this minute on each of these subjects.
    Admitted { at: i64, minute: i64, subjects: Vec<String>, tokens: u64 },
    /// Such an admission will be given back.
    Refunding { at: i64, minute: i64, subjects: Vec<String>, tokens: u64 },
    /// Requests that a limit refused since the last such line.
    Refused { at: i64, requests: u64 },
}

type Pending = (Vec<u8>, oneshot::Sender<()>);

/// The writing end of a journal. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    writer: Sender<Pending>,
}

impl Journal {
    /// Creates the file and its writing thread, which ends when the last clone is gone or a write fails.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::options().create_new(true).append(true).open(path);
        let file = file.with_context(|| format!("creating {}", path.display()))?;
        let (writer, pending) = channel();
        thread::spawn(move || write_all(file, &pending));
        Ok(Self { writer })
    }

    /// Returns when the records are on disk; those of callers that wait at once share one flush.
    ///
    /// # Errors
    ///
    /// When the disk refused: the records may be there or not, and nothing may be done that they should precede.
    pub(crate) async fn append(&self, records: &[Record]) -> Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record)?;
            lines.push(b'\n');
        }
        let (done, written) = oneshot::channel();
        self.writer.send((lines, done)).map_err(|_| anyhow!("the journal's writer has ended"))?;
        written.await.context("the journal was not written")
    }
}

fn write_all(mut file: File, pending: &Receiver<Pending>) {
    while let Ok(first) = pending.recv() {
        let together: Vec<_> = std::iter::once(first).chain(pending.try_iter()).collect();
        let bytes: Vec<u8> = together.iter().flat_map(|(lines, _)| lines).copied().collect();
        if let Err(error) = file.write_all(&bytes).and_then(|()| file.sync_data()) {
            eprintln!("journal: {error}");
            return;
        }
        for (_, done) in together {
            // Who does not wait any more has its record all the same.
            let _ = done.send(());
        }
    }
}

/// All records of the journals of a folder whose names begin so, each file in its order, files by name.
///
/// A last line without its end was cut by a crash before its flush returned, so nothing has followed from it: it is left out.
pub(crate) fn read_journals(folder: &Path, name: &str) -> Result<Vec<Record>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        if file.starts_with(name) && file.ends_with(".journal") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut records = Vec::new();
    for path in paths {
        let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for line in text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(record) => records.push(record),
                Err(error) => bail!("{}: {error}", path.display()),
            }
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(id: &str) -> Record {
        Record::Unknown { at: 1, id: id.to_owned() }
    }

    #[tokio::test]
    async fn what_was_appended_is_read_in_order_and_a_torn_last_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g0.1.journal");
        let journal = Journal::create(&path).unwrap();
        journal.append(&[unknown("a"), unknown("b")]).await.unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"{\"what\":\"unk").unwrap();
        let second = Journal::create(&folder.path().join("g0.2.journal")).unwrap();
        second.append(&[unknown("c")]).await.unwrap();
        Journal::create(&folder.path().join("g1.1.journal")).unwrap().append(&[unknown("d")]).await.unwrap();
        let read = read_journals(folder.path(), "g0.").unwrap();
        assert_eq!(read, [unknown("a"), unknown("b"), unknown("c")]);
    }

    #[test]
    fn a_line_that_is_no_record_is_an_error_that_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("g0.1.journal"), "nonsense\n").unwrap();
        assert!(read_journals(folder.path(), "g").unwrap_err().to_string().contains("g0.1.journal"));
    }
}
