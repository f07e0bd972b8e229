//! Traces of requests in the CSV format of the Azure LLM inference traces.
//!
//! One request a line: `TIMESTAMP,ContextTokens,GeneratedTokens`, the timestamp in UTC with up to nine decimals and,
//! if it has one, the offset `+00:00`. The reader keeps one line in memory and knows its number, so a hostile or a
//! huge file costs no more than a small one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use thiserror::Error;

/// The most tokens of one sort in one request: 10^9. A thousand times what any model takes, and its bill still fits
/// one counter at any price.
pub const MAX_TRACE_TOKENS: u64 = 1_000_000_000;
/// The longest line, in bytes.
pub const MAX_LINE_BYTES: usize = 4096;

/// The columns, by their names in the header. Others may stand beside them and are not read.
const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrived.
    pub at: DateTime<Utc>,
    /// Tokens of its prompt, 0 to [`MAX_TRACE_TOKENS`].
    pub context_tokens: u64,
    /// Tokens of its answer, 0 to [`MAX_TRACE_TOKENS`].
    pub generated_tokens: u64,
}

/// Why a trace cannot be used: which file, line (from 1, the header) and column. Mend the file; a retry cannot help.
#[derive(Debug, Error)]
#[error("{file}{}: {problem}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct TraceError {
    /// The file as it was named.
    pub file: String,
    /// The line at fault, if it is about one.
    pub line: Option<u64>,
    /// What is wrong.
    pub problem: TraceProblem,
}

/// What is wrong with a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceProblem {
    /// The operating system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is a pipe or a folder, but a trace is read twice: once to validate it, once to replay it.
    #[error("not a regular file; a trace is read twice")]
    NotAFile,
    /// The file has no line at all.
    #[error("empty; expected the header TIMESTAMP,ContextTokens,GeneratedTokens")]
    Empty,
    /// The file has a header and nothing else.
    #[error("has no request below its header")]
    NoRequest,
    /// A line is too long to be a request.
    #[error("longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    /// The bytes are no UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// The header lacks a column.
    #[error("column {0}: missing from the header")]
    MissingColumn(&'static str),
    /// The header has a column twice.
    #[error("column {0}: twice in the header")]
    RepeatedColumn(&'static str),
    /// A line has more or fewer fields than the header.
    #[error("{found} fields, the header has {expected}")]
    FieldCount {
        /// Fields of the line.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A timestamp that cannot be read, or a local one.
    #[error("column {column}: not a time in UTC such as 2023-11-16 18:15:46.6805900: {text:?}")]
    NotATime {
        /// The column.
        column: &'static str,
        /// The start of the field.
        text: String,
    },
    /// A time before 1970 or in the future, for which no bill can be written.
    #[error("column {column}: {text:?} is before 1970 or after {now}")]
    TimeOutOfRange {
        /// The column.
        column: &'static str,
        /// The start of the field.
        text: String,
        /// The clock that it was compared with.
        now: String,
    },
    /// A count with anything but digits.
    #[error("column {column}: not a whole number: {text:?}")]
    NotANumber {
        /// The column.
        column: &'static str,
        /// The start of the field.
        text: String,
    },
    /// A count above the bound.
    #[error("column {column}: {text} is above {MAX_TRACE_TOKENS}")]
    TooMany {
        /// The column.
        column: &'static str,
        /// The start of the field.
        text: String,
    },
}

/// What a valid trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// Its requests, 1 or more.
    pub requests: u64,
}

/// Reads a trace line by line.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    file: String,
    line: u64,
    fields: usize,
    columns: [usize; 3],
    now: DateTime<Utc>,
    failed: bool,
}

/// Opens a trace file. `now` bounds its times.
///
/// # Errors
///
/// [`TraceError`] for a file that cannot be opened, is not a regular one, or has no proper header.
pub fn open(path: &Path, now: DateTime<Utc>) -> Result<TraceReader<BufReader<File>>, TraceError> {
    let name = path.display().to_string();
    let failed = |problem| TraceError { file: name.clone(), line: None, problem };
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    let kind = file.metadata().map_err(|error| failed(error.into()))?;
    if !kind.is_file() {
        return Err(failed(TraceProblem::NotAFile));
    }
    TraceReader::new(BufReader::new(file), name.clone(), now)
}

/// Reads a trace, or its first `limit` requests, to its end, so that a bad one is found before anything is done with it.
///
/// # Errors
///
/// The first [`TraceError`]; one more for a trace without a request.
pub fn validate<R: BufRead>(reader: TraceReader<R>, limit: u64) -> Result<TraceSummary, TraceError> {
    let file = reader.file.clone();
    let mut requests = 0;
    for request in reader.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        request?;
        requests += 1;
    }
    match requests {
        0 => Err(TraceError { file, line: None, problem: TraceProblem::NoRequest }),
        requests => Ok(TraceSummary { requests }),
    }
}

impl<R: BufRead> TraceReader<R> {
    /// Reads the header. `file` is what errors call the input; `now` bounds its times.
    ///
    /// # Errors
    ///
    /// [`TraceError`] for an input without a proper header.
    pub fn new(input: R, file: impl Into<String>, now: DateTime<Utc>) -> Result<Self, TraceError> {
        let mut reader =
            Self { input, file: file.into(), line: 0, fields: 0, columns: [0; 3], now, failed: false };
        let header = match reader.next_line() {
            Ok(Some(header)) => header,
            Ok(None) => {
                return Err(TraceError { file: reader.file, line: None, problem: TraceProblem::Empty });
            }
            Err(problem) => return Err(reader.at_line(problem)),
        };
        match columns(header.trim_start_matches('\u{feff}')) {
            Ok((columns, fields)) => Ok(Self { columns, fields, ..reader }),
            Err(problem) => Err(reader.at_line(problem)),
        }
    }

    fn at_line(&self, problem: TraceProblem) -> TraceError {
        TraceError { file: self.file.clone(), line: Some(self.line), problem }
    }

    /// The next line that is not blank, without its end.
    fn next_line(&mut self) -> Result<Option<String>, TraceProblem> {
        loop {
            let mut bytes = Vec::new();
            self.line += 1;
            let bound = MAX_LINE_BYTES as u64 + 1;
            if (&mut self.input).take(bound).read_until(b'\n', &mut bytes)? == 0 {
                return Ok(None);
            }
            if bytes.len() > MAX_LINE_BYTES {
                return Err(TraceProblem::LineTooLong);
            }
            let text = String::from_utf8(bytes).map_err(|_| TraceProblem::NotText)?;
            let text = text.trim_end_matches(['\n', '\r']);
            if !text.is_empty() {
                return Ok(Some(text.to_owned()));
            }
        }
    }

    fn next_request(&mut self) -> Result<Option<TraceRequest>, TraceProblem> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        let found = line.split(',').count();
        if found != self.fields {
            return Err(TraceProblem::FieldCount { found, expected: self.fields });
        }
        let field = |place: usize| unquoted(line.split(',').nth(self.columns[place]).unwrap_or_default());
        Ok(Some(TraceRequest {
            at: time(COLUMNS[0], field(0), self.now)?,
            context_tokens: tokens(COLUMNS[1], field(1))?,
            generated_tokens: tokens(COLUMNS[2], field(2))?,
        }))
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceRequest, TraceError>;

    /// The next request; nothing after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_request().map_err(|problem| self.at_line(problem)).transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// Where the three columns are, and how many there are in all.
fn columns(header: &str) -> Result<([usize; 3], usize), TraceProblem> {
    let names: Vec<&str> = header.split(',').map(unquoted).collect();
    let mut places = [0; 3];
    for (place, wanted) in places.iter_mut().zip(COLUMNS) {
        let mut found = names.iter().enumerate().filter(|(_, name)| **name == wanted);
        *place = found.next().ok_or(TraceProblem::MissingColumn(wanted))?.0;
        if found.next().is_some() {
            return Err(TraceProblem::RepeatedColumn(wanted));
        }
    }
    Ok((places, names.len()))
}

/// Spreadsheets put quotes around fields; none of ours can contain one.
fn unquoted(field: &str) -> &str {
    let field = field.trim();
    field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(field)
}

fn time(column: &'static str, text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, TraceProblem> {
    let utc = ["+00:00", "Z"].iter().find_map(|offset| text.strip_suffix(offset)).unwrap_or(text);
    let at = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(utc, format).ok())
        .ok_or_else(|| TraceProblem::NotATime { column, text: excerpt(text) })?
        .and_utc();
    if at < DateTime::UNIX_EPOCH || at > now {
        let now = now.to_rfc3339_opts(SecondsFormat::Secs, true);
        return Err(TraceProblem::TimeOutOfRange { column, text: excerpt(text), now });
    }
    Ok(at)
}

fn tokens(column: &'static str, text: &str) -> Result<u64, TraceProblem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TraceProblem::NotANumber { column, text: excerpt(text) });
    }
    match text.parse() {
        Ok(count) if count <= MAX_TRACE_TOKENS => Ok(count),
        _ => Err(TraceProblem::TooMany { column, text: excerpt(text) }),
    }
}

/// The start of a field that may be anything, so that an error stays one line.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Writes requests in the format that [`TraceReader`] reads.
///
/// # Errors
///
/// When the output cannot be written.
pub fn write<W: Write>(mut output: W, requests: impl Iterator<Item = TraceRequest>) -> io::Result<()> {
    writeln!(output, "{}", COLUMNS.join(","))?;
    for TraceRequest { at, context_tokens, generated_tokens } in requests {
        let (seconds, ticks) = (at.format("%Y-%m-%d %H:%M:%S"), at.timestamp_subsec_nanos() / 100);
        writeln!(output, "{seconds}.{ticks:07},{context_tokens},{generated_tokens}")?;
    }
    output.flush()
}

#[cfg(test)]
mod tests;
