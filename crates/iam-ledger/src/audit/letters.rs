//! Dead letters that wait for somebody, and the money in them.

use spend_queue::{Entry, Shard, Usd};

use crate::dead_letter::DeadLetterKind;
use crate::{Ledger, LedgerError};

/// Letters are read with their entries, so in small pages.
const PAGE: i64 = 200;

/// The open letters of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenLetters {
    /// How many.
    pub letters: u64,
    /// What their entries cost.
    pub cost: Usd,
    /// How many of them this release cannot read, so that their cost is not in the sum.
    pub unreadable: u64,
}

impl OpenLetters {
    fn add(&mut self, shard: i32, raw: Vec<u8>) {
        self.letters += 1;
        let decode =
            if shard == i32::from(Shard::OLDER.index()) { Entry::decode_older } else { Entry::decode };
        match decode(raw) {
            Ok(entry) => {
                let cost = self.cost.checked_add(entry.event.paid().unwrap_or_default());
                self.cost = cost.unwrap_or(self.cost);
            }
            Err(_) => self.unreadable += 1,
        }
    }
}

impl Ledger {
    /// Counts open letters and adds up what they cost: those that PostgreSQL refused, which are neither pending nor settled, and
    /// those whose request id was settled with another payload. Reads each of them.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn open_letters(&self) -> Result<(OpenLetters, OpenLetters), LedgerError> {
        let (mut refused, mut conflicts) = (OpenLetters::default(), OpenLetters::default());
        let mut after = 0;
        loop {
            let rows = sqlx::query_file!("queries/open_dead_letters_page.sql", after, PAGE)
                .fetch_all(&self.pool)
                .await
                .map_err(|error| self.failed("reading open dead letters", error))?;
            let Some(last) = rows.last() else { return Ok((refused, conflicts)) };
            after = last.id;
            for row in rows {
                match row.kind == DeadLetterKind::Conflict.as_str() {
                    true => conflicts.add(row.shard, row.raw),
                    false => refused.add(row.shard, row.raw),
                }
            }
        }
    }
}
