//! Finding out which entries count.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use spend_queue::{Entry, PayloadCheck};
use sqlx::PgConnection;

use crate::LedgerError;

/// The request ids of a batch in byte order, which is the order in which every committer claims them.
pub(super) struct Claims<'a, 'b> {
    entries: &'b [&'a Entry],
    /// The place of the first entry with each id: the only one that may count.
    first: BTreeMap<&'a str, (usize, PayloadCheck)>,
}

/// What counts and what does not.
pub(super) struct Verdict<'a> {
    /// Entries to be counted, in the order of their request ids.
    pub(super) fresh: Vec<&'a Entry>,
    pub(super) duplicates: u64,
    pub(super) conflicts: Vec<&'a Entry>,
}

impl<'a, 'b> Claims<'a, 'b> {
    pub(super) fn of(entries: &'b [&'a Entry]) -> Self {
        let mut first = BTreeMap::new();
        for (place, entry) in entries.iter().enumerate() {
            first.entry(&*entry.event.request_id).or_insert_with(|| (place, entry.payload_check()));
        }
        Self { entries, first }
    }

    /// Claims the ids and judges every entry by what is stored now.
    pub(super) async fn settle(
        &self,
        connection: &mut PgConnection,
        committed_at: DateTime<Utc>,
    ) -> Result<Verdict<'a>, LedgerError> {
        let claimed = self.claim(connection, committed_at).await?;
        let taken: Vec<&str> = self.first.keys().copied().filter(|id| !claimed.contains(*id)).collect();
        let stored = stored_checks(connection, &taken).await?;
        self.judge(&claimed, &stored)
    }

    async fn claim(
        &self,
        connection: &mut PgConnection,
        committed_at: DateTime<Utc>,
    ) -> Result<HashSet<String>, LedgerError> {
        let ids: Vec<&str> = self.first.keys().copied().collect();
        let checks: Vec<&[u8]> = self.first.values().map(|(_, check)| check.as_bytes().as_slice()).collect();
        let rows = sqlx::query_file!(
            "queries/claim_requests.sql",
            &ids as &[&str],
            &checks as &[&[u8]],
            committed_at
        )
        .fetch_all(connection)
        .await
        .map_err(LedgerError::query("claiming request ids"))?;
        Ok(rows.into_iter().map(|row| row.request_id).collect())
    }

    fn judge(
        &self,
        claimed: &HashSet<String>,
        stored: &HashMap<String, Vec<u8>>,
    ) -> Result<Verdict<'a>, LedgerError> {
        let (mut duplicates, mut conflicts) = (0, Vec::new());
        for (place, entry) in self.entries.iter().enumerate() {
            let id = &*entry.event.request_id;
            let kept: &[u8] = match (self.first.get(id), stored.get(id)) {
                (Some((first, _)), _) if claimed.contains(id) && *first == place => continue,
                (Some((_, check)), _) if claimed.contains(id) => check.as_bytes(),
                (_, Some(check)) => check,
                _ => return Err(LedgerError::Vanished { request_id: id.to_owned() }),
            };
            if kept == entry.payload_check().as_bytes() {
                duplicates += 1;
            } else {
                conflicts.push(*entry);
            }
        }
        let fresh = self
            .first
            .iter()
            .filter(|(id, _)| claimed.contains(**id))
            .filter_map(|(_, (place, _))| self.entries.get(*place).copied())
            .collect();
        Ok(Verdict { fresh, duplicates, conflicts })
    }
}

async fn stored_checks(
    connection: &mut PgConnection,
    ids: &[&str],
) -> Result<HashMap<String, Vec<u8>>, LedgerError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query_file!("queries/settled_checks.sql", ids as &[&str])
        .fetch_all(connection)
        .await
        .map_err(LedgerError::query("comparing payloads"))?;
    Ok(rows.into_iter().map(|row| (row.request_id, row.payload_check)).collect())
}
