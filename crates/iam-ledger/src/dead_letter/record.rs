//! Writing dead letters, in the transaction of the batch that they come from.

use chrono::{DateTime, Utc};
use spend_queue::Entry;
use sqlx::PgConnection;

use super::DeadLetterKind;
use crate::LedgerError;
use crate::commit::{Settled, seq_of};

/// The longest reason, in characters: a server's message names types and constraints and is far shorter.
const MAX_REASON: usize = 1000;

/// Records what was not settled; nothing when all was.
pub(crate) async fn record(
    connection: &mut PgConnection,
    shard: i32,
    settled: &Settled<'_>,
    recorded_at: DateTime<Utc>,
) -> Result<(), LedgerError> {
    let conflicts = settled.conflicts.iter().map(|entry| (*entry, DeadLetterKind::Conflict, conflict()));
    let refused =
        settled.refused.iter().map(|(entry, error)| (*entry, DeadLetterKind::Refused, refusal(error)));
    let letters: Vec<(&Entry, DeadLetterKind, String)> = conflicts.chain(refused).collect();
    if letters.is_empty() {
        return Ok(());
    }
    let seqs: Vec<Option<i64>> = letters.iter().map(|(entry, ..)| seq_of(entry)).collect();
    let ids: Vec<Option<&str>> = letters.iter().map(|(entry, ..)| text(&entry.event.request_id)).collect();
    let kinds: Vec<&str> = letters.iter().map(|(_, kind, _)| kind.as_str()).collect();
    let reasons: Vec<&str> = letters.iter().map(|(.., reason)| &**reason).collect();
    let raw: Vec<&[u8]> = letters.iter().map(|(entry, ..)| entry.raw()).collect();
    sqlx::query_file!(
        "queries/record_dead_letters.sql",
        shard,
        recorded_at,
        &seqs as &[Option<i64>],
        &ids as &[Option<&str>],
        &kinds as &[&str],
        &reasons as &[&str],
        &raw as &[&[u8]],
    )
    .execute(connection)
    .await
    .map_err(LedgerError::query("recording dead letters"))?;
    Ok(())
}

/// What the server said, with the constraint if its message does not name it.
pub(super) fn refusal(error: &LedgerError) -> String {
    let mut reason = error.to_string();
    if let Some(constraint) = error.constraint().filter(|constraint| !reason.contains(*constraint)) {
        reason = format!("{reason} (constraint {constraint})");
    }
    // The letter itself must not be refused, whatever a message quotes.
    reason.chars().filter(|character| *character != '\0').take(MAX_REASON).collect()
}

fn conflict() -> String {
    "the request id was settled with another payload, which stays".to_owned()
}

/// A text that a column can hold; none for an entry that has none.
fn text(text: &str) -> Option<&str> {
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_can_be_stored_whatever_it_quotes() {
        let error = LedgerError::Vanished { request_id: "r".repeat(5000) };
        assert_eq!(refusal(&error).chars().count(), MAX_REASON);
        let error = LedgerError::Unreadable { column: "c", value: String::new() };
        assert_eq!(refusal(&error), error.to_string());
    }
}
