//! What the command prints.

use std::fmt::Write as _;

use chrono::SecondsFormat;
use iam_ledger::{DeadLetter, DeadLetterContent, Replayed};
use serde_json::{Value, json};

/// The widest reason in a table; `show` has all of it.
const REASON_WIDTH: usize = 100;

/// What became of one letter, or would become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) id: i64,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    WouldReplay,
    Missing,
    Done(Replayed),
}

impl Outcome {
    pub(super) const fn of(replayed: Replayed) -> Self {
        Self::Done(replayed)
    }

    /// Whether the letter is settled, or would be tried.
    pub(super) const fn is_fine(&self) -> bool {
        matches!(
            self,
            Self::WouldReplay
                | Self::Done(Replayed::Settled { .. } | Replayed::Duplicate | Replayed::AlreadyDone(_))
        )
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::WouldReplay => "would replay",
            Self::Missing => "missing",
            Self::Done(Replayed::Settled { .. }) => "settled",
            Self::Done(Replayed::Duplicate) => "duplicate",
            Self::Done(Replayed::Conflict) => "conflict",
            Self::Done(Replayed::Refused { .. }) => "refused",
            Self::Done(Replayed::NotReplayable) => "not replayable",
            Self::Done(Replayed::AlreadyDone(_)) => "already done",
            Self::Done(Replayed::OtherRequest { .. }) => "other request",
            Self::Done(Replayed::Unreadable { .. }) => "unreadable",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::WouldReplay => "it would be decoded and committed again".to_owned(),
            Self::Missing => "there is no such letter".to_owned(),
            Self::Done(Replayed::Settled { cost }) => format!("it counts now: {cost} USD"),
            Self::Done(Replayed::Duplicate) => "it was settled already; no sum changed".to_owned(),
            Self::Done(Replayed::Conflict) => {
                "its request id was settled with another payload meanwhile, which stays".to_owned()
            }
            Self::Done(Replayed::Refused { reason }) => format!("still refused: {}", printable(reason)),
            Self::Done(Replayed::NotReplayable) => {
                "its request id names another call that is settled: it can never \
                                                    count under this id, and nothing was changed"
                    .to_owned()
            }
            Self::Done(Replayed::AlreadyDone(replay)) => {
                format!("{} on {}; nothing was changed", replay.outcome, time(replay.at))
            }
            Self::Done(Replayed::OtherRequest { letter, given }) => {
                format!(
                    "the letter is of request {} and --entry of {}; nothing was changed",
                    printable(letter),
                    printable(given)
                )
            }
            Self::Done(Replayed::Unreadable { problem }) => {
                format!("its bytes are no entry ({}); nothing was changed", printable(problem))
            }
        }
    }
}

/// A line a letter.
pub(super) fn table(letters: &[DeadLetter], next: Option<i64>) -> String {
    let mut text = String::new();
    if letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let width = letters.iter().map(|letter| request(letter).chars().count()).max().unwrap_or_default().max(7);
    let title = ("ID", "KIND", "STATE", "RECORDED", "SHARD", "SEQ", "REQUEST");
    let _ = writeln!(
        text,
        "{:>8}  {:8}  {:9}  {:20}  {:>5}  {:>10}  {:width$}  REASON",
        title.0, title.1, title.2, title.3, title.4, title.5, title.6
    );
    for letter in letters {
        let state = letter.replay.map_or("open", |replay| replay.outcome.as_str());
        let seq = letter.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
        let reason: String = printable(&letter.reason).chars().take(REASON_WIDTH).collect();
        let _ = writeln!(
            text,
            "{:>8}  {:8}  {state:9}  {:20}  {:>5}  {seq:>10}  {:width$}  {reason}",
            letter.id,
            letter.kind,
            time(letter.recorded_at),
            letter.shard,
            request(letter),
        );
    }
    if let Some(next) = next {
        let _ = writeln!(text, "\nmore: --after {next}");
    }
    text
}

/// One letter and its entry.
pub(super) fn content(content: &DeadLetterContent) -> String {
    let letter = &content.letter;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:10}{value}");
    };
    line("id", &letter.id.to_string());
    line("kind", letter.kind.as_str());
    line("request", &request(letter));
    line("shard", &letter.shard.to_string());
    line("seq", &letter.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string()));
    line("recorded", &time(letter.recorded_at));
    if let Some(replay) = letter.replay {
        line("replayed", &format!("{}: {}", time(replay.at), replay.outcome));
    }
    line("reason", &printable(&letter.reason));
    let raw = match std::str::from_utf8(&content.raw) {
        Ok(raw) => printable(raw),
        Err(_) => format!("not UTF-8, in hexadecimal: {}", hex(&content.raw)),
    };
    line("entry", &raw);
    text
}

pub(super) fn list_json(letters: &[DeadLetter], next: Option<i64>) -> Value {
    json!({ "letters": letters.iter().map(letter_json).collect::<Vec<_>>(), "next": next })
}

pub(super) fn content_json(content: &DeadLetterContent) -> Value {
    let mut value = letter_json(&content.letter);
    match std::str::from_utf8(&content.raw) {
        Ok(raw) => value["raw"] = raw.into(),
        Err(_) => value["raw_hex"] = hex(&content.raw).into(),
    }
    value
}

pub(super) fn attempts(attempts: &[Attempt], done: bool) -> String {
    let mut text = String::new();
    for Attempt { id, outcome } in attempts {
        let _ = writeln!(text, "{id:>8}  {:14}  {}", outcome.word(), outcome.detail());
    }
    if !done {
        text.push_str("\nnothing was changed; add --yes to do it\n");
    }
    text
}

pub(super) fn attempts_json(attempts: &[Attempt], done: bool) -> Value {
    let each = attempts.iter().map(|Attempt { id, outcome }| {
        json!({ "id": id, "outcome": outcome.word().replace(' ', "_"), "detail": outcome.detail() })
    });
    json!({ "attempts": each.collect::<Vec<_>>(), "changed": done })
}

fn letter_json(letter: &DeadLetter) -> Value {
    json!({
        "id": letter.id,
        "shard": letter.shard,
        "seq": letter.seq,
        "request_id": letter.request_id,
        "kind": letter.kind.as_str(),
        "reason": letter.reason,
        "bytes": letter.bytes,
        "recorded_at": letter.recorded_at,
        "replayed_at": letter.replay.map(|replay| replay.at),
        "replay_outcome": letter.replay.map(|replay| replay.outcome.as_str()),
        "open": letter.is_open(),
    })
}

fn request(letter: &DeadLetter) -> String {
    letter.request_id.as_deref().map_or_else(|| "-".to_owned(), printable)
}

fn time(at: chrono::DateTime<chrono::Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Without what a terminal would obey.
fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => safe.extend(character.escape_default()),
            false => safe.push(character),
        }
    }
    safe
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use iam_ledger::{DeadLetterKind, Replay, ReplayOutcome};

    use super::*;

    fn letter() -> DeadLetter {
        DeadLetter {
            id: 7,
            shard: 3,
            seq: Some(42),
            request_id: Some("r-1".into()),
            kind: DeadLetterKind::Refused,
            reason: "storing events: no \u{1b}[31mred".into(),
            bytes: 2,
            recorded_at: "2026-03-05T12:00:00Z".parse().unwrap(),
            replay: None,
        }
    }

    #[test]
    fn a_table_has_a_line_a_letter_and_says_where_the_next_page_begins() {
        let text = table(&[letter(), DeadLetter { seq: None, request_id: None, ..letter() }], Some(7));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[1].contains("refused   open       2026-03-05T12:00:00Z"), "{text}");
        assert!(lines[2].contains(" - "), "{text}");
        assert_eq!(lines[4], "more: --after 7");
        assert_eq!(table(&[], None), "no dead letters\n");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        let raw = DeadLetterContent { letter: letter(), raw: b"\x1b[2J".to_vec() };
        for text in [table(&[letter()], None), content(&raw)] {
            assert!(!text.contains('\u{1b}'), "{text:?}");
            assert!(text.contains("\\u{1b}"), "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
        let raw = DeadLetterContent { letter: letter(), raw: vec![0xff, 0x00] };
        assert!(content(&raw).contains("hexadecimal: ff00"));
        assert_eq!(content_json(&raw)["raw_hex"], "ff00");
        assert!(content_json(&raw)["raw"].is_null());
    }

    #[test]
    fn only_what_is_settled_or_would_be_tried_is_fine() {
        let replay = Replay { at: letter().recorded_at, outcome: ReplayOutcome::Settled };
        let fine = [
            Outcome::WouldReplay,
            Outcome::of(Replayed::AlreadyDone(replay)),
            Outcome::of(Replayed::Duplicate),
        ];
        assert!(fine.iter().all(Outcome::is_fine));
        let bad = [Outcome::Missing, Outcome::of(Replayed::NotReplayable), Outcome::of(Replayed::Conflict)];
        assert!(!bad.iter().any(Outcome::is_fine));
        let attempt = Attempt { id: 1, outcome: Outcome::of(Replayed::NotReplayable) };
        let text = attempts(std::slice::from_ref(&attempt), false);
        assert!(text.contains("can never count under this id") && text.contains("add --yes"), "{text}");
        assert_eq!(attempts_json(&[attempt], true)["attempts"][0]["outcome"], "not_replayable");
    }
}
