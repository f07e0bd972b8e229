//! The file: its tables, and the steps that change them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use spend_queue::Millis;

use crate::StorageError;
use crate::record::Record;

/// What waits, by arrival.
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
/// What the queue refused for good at least once and is asked again last; the same numbers.
const SET_ASIDE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("set_aside");
/// What the queue called a conflict; the same numbers.
const CONFLICTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("conflicts");
/// [`Totals`], a row a field, and `sealed`.
const TOTALS: TableDefinition<'_, &str, u64> = TableDefinition::new("totals");

/// The format of the tables that this release writes.
pub(crate) const FORMAT: u64 = 1;

/// What the file holds, counted in the same transactions as it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// The number of the next event.
    pub(crate) next: u64,
    /// Events that wait, those set aside included.
    pub(crate) events: u64,
    /// Their bodies' bytes.
    pub(crate) bytes: u64,
    /// Those of them that are set aside.
    pub(crate) set_aside: u64,
    /// Conflicting events kept until somebody takes them out.
    pub(crate) conflicts: u64,
    /// Their bodies' bytes.
    pub(crate) conflict_bytes: u64,
}

/// What one transaction does, in this order.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Delivered: off the file.
    pub(crate) remove: Vec<u64>,
    /// Refused for good: to the end of all waiting.
    pub(crate) set_aside: Vec<u64>,
    /// Conflicts: off the waiting, kept until they are taken out.
    pub(crate) conflicts: Vec<u64>,
    /// Conflicts that an operator has dealt with.
    pub(crate) taken: Vec<Record>,
    /// New ones.
    pub(crate) insert: Vec<Record>,
}

/// What a transaction did.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) totals: Totals,
    pub(crate) oldest: Option<Millis>,
    /// The digests of what no longer waits.
    pub(crate) gone: Vec<[u8; 16]>,
}

/// Digest of the request id and payload check of everything that waits.
pub(crate) type Index = HashMap<[u8; 16], [u8; 16]>;

/// A redb file of this crate's tables. Its methods report a panic of redb's, which a damaged page can cause, as damage.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
}

impl Store {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Makes the tables of a new file.
    pub(crate) fn lay_out(database: &Database) -> Result<(), StorageError> {
        let transaction = begin(database)?;
        for table in [EVENTS, SET_ASIDE, CONFLICTS] {
            transaction.open_table(table).map_err(disk)?;
        }
        let mut rows = transaction.open_table(TOTALS).map_err(disk)?;
        rows.insert("format", FORMAT).map_err(disk)?;
        rows.insert("sealed", 0).map_err(disk)?;
        write_totals(&mut rows, &Totals { next: 1, ..Totals::default() })?;
        drop(rows);
        transaction.commit().map_err(disk)
    }

    /// The format of the file's tables.
    pub(crate) fn format(&self) -> Result<u64, StorageError> {
        guarded(|| {
            let transaction = self.database.begin_read().map_err(disk)?;
            total(&transaction.open_table(TOTALS).map_err(disk)?, "format")
        })
    }

    /// Reads every record and checks that the totals are theirs.
    pub(crate) fn verify(&self) -> Result<(Changed, Index), StorageError> {
        guarded(|| {
            let transaction = self.database.begin_read().map_err(disk)?;
            let totals = read_totals(&transaction.open_table(TOTALS).map_err(disk)?)?;
            let mut index = Index::new();
            let mut counted = Totals { next: totals.next, ..Totals::default() };
            for (table, aside) in [(EVENTS, 0), (SET_ASIDE, 1)] {
                for row in transaction.open_table(table).map_err(disk)?.iter().map_err(disk)? {
                    let (seq, record) = read(row)?;
                    if seq >= totals.next {
                        return damaged(format!("record {seq} stands beyond the last, {}", totals.next));
                    }
                    counted.events += 1;
                    counted.bytes += record.size();
                    counted.set_aside += aside;
                    if index.insert(record.digest, record.check).is_some() {
                        return damaged(format!("record {seq} repeats a request id"));
                    }
                }
            }
            for row in transaction.open_table(CONFLICTS).map_err(disk)?.iter().map_err(disk)? {
                counted.conflicts += 1;
                counted.conflict_bytes += read(row)?.1.size();
            }
            if counted != totals {
                return damaged(format!("its totals say {totals:?}, its records {counted:?}"));
            }
            let oldest = oldest(
                &transaction.open_table(EVENTS).map_err(disk)?,
                &transaction.open_table(SET_ASIDE).map_err(disk)?,
            )?;
            Ok((Changed { totals, oldest, gone: Vec::new() }, index))
        })
    }

    /// Changes the file, fsynced. What was inserted is in both of redb's commit slots afterwards, so that losing either
    /// one loses nothing.
    pub(crate) fn apply(&self, change: &Change) -> Result<Changed, StorageError> {
        guarded(|| {
            let transaction = begin(&self.database)?;
            let changed = self.write(&transaction, change)?;
            transaction.commit().map_err(disk)?;
            if !change.insert.is_empty() {
                self.seal(changed.totals.next)?;
            }
            Ok(changed)
        })
    }

    fn write(&self, transaction: &WriteTransaction, change: &Change) -> Result<Changed, StorageError> {
        let mut events = transaction.open_table(EVENTS).map_err(disk)?;
        let mut aside = transaction.open_table(SET_ASIDE).map_err(disk)?;
        let mut conflicts = transaction.open_table(CONFLICTS).map_err(disk)?;
        let mut rows = transaction.open_table(TOTALS).map_err(disk)?;
        let mut totals = read_totals(&rows)?;
        let mut gone = Vec::new();
        for seq in change.remove.iter().chain(&change.conflicts) {
            let waiting = match take(&mut events, *seq)? {
                Some(record) => record,
                None => match take(&mut aside, *seq)? {
                    Some(record) => {
                        totals.set_aside -= 1;
                        record
                    }
                    // Another replay was faster.
                    None => continue,
                },
            };
            totals.events -= 1;
            totals.bytes -= waiting.size();
            gone.push(waiting.digest);
            if change.conflicts.contains(seq) {
                conflicts.insert(seq, waiting.write(*seq).as_slice()).map_err(disk)?;
                totals.conflicts += 1;
                totals.conflict_bytes += waiting.size();
            }
        }
        if !change.taken.is_empty() {
            let all = conflicts.iter().map_err(disk)?.map(read).collect::<Result<Vec<_>, _>>()?;
            for (seq, record) in all.into_iter().filter(|(_, record)| change.taken.contains(record)) {
                conflicts.remove(seq).map_err(disk)?;
                totals.conflicts -= 1;
                totals.conflict_bytes -= record.size();
            }
        }
        for seq in &change.set_aside {
            if let Some(record) = take(&mut events, *seq)? {
                aside.insert(seq, record.write(*seq).as_slice()).map_err(disk)?;
                totals.set_aside += 1;
            }
        }
        for record in &change.insert {
            events.insert(totals.next, record.write(totals.next).as_slice()).map_err(disk)?;
            totals.next += 1;
            totals.events += 1;
            totals.bytes += record.size();
        }
        write_totals(&mut rows, &totals)?;
        Ok(Changed { totals, oldest: oldest(&events, &aside)?, gone })
    }

    /// redb takes a newest commit whose checksum fails for one that a crash tore, and goes back to the one before it. A
    /// bit that flips later looks the same. A second commit makes the one before it complete.
    fn seal(&self, next: u64) -> Result<(), StorageError> {
        let transaction = begin(&self.database)?;
        transaction.open_table(TOTALS).map_err(disk)?.insert("sealed", next).map_err(disk)?;
        transaction.commit().map_err(disk)
    }

    /// The oldest that wait; when none does, those set aside, from the first behind `after` on and around.
    pub(crate) fn waiting(&self, after: u64, most: usize) -> Result<Waiting, StorageError> {
        guarded(|| {
            let transaction = self.database.begin_read().map_err(disk)?;
            let records = first(&transaction, EVENTS, 0, most)?;
            if !records.is_empty() {
                return Ok(Waiting { records, aside: false });
            }
            let mut records = first(&transaction, SET_ASIDE, after.saturating_add(1), most)?;
            if records.is_empty() {
                records = first(&transaction, SET_ASIDE, 0, most)?;
            }
            Ok(Waiting { records, aside: true })
        })
    }

    /// The oldest conflicting events.
    pub(crate) fn conflicts(&self, most: usize) -> Result<Vec<Record>, StorageError> {
        guarded(|| {
            let transaction = self.database.begin_read().map_err(disk)?;
            let oldest = first(&transaction, CONFLICTS, 0, most)?;
            Ok(oldest.into_iter().map(|(_, record)| record).collect())
        })
    }
}

/// A part of what waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) records: Vec<(u64, Record)>,
    /// Whether they were set aside.
    pub(crate) aside: bool,
}

type Row<'a> = Result<(redb::AccessGuard<'a, u64>, redb::AccessGuard<'a, &'static [u8]>), redb::StorageError>;

fn begin(database: &Database) -> Result<WriteTransaction, StorageError> {
    let mut transaction = database.begin_write().map_err(disk)?;
    transaction.set_durability(Durability::Immediate).map_err(disk)?;
    Ok(transaction)
}

fn first(
    transaction: &ReadTransaction,
    table: TableDefinition<'_, u64, &'static [u8]>,
    from: u64,
    most: usize,
) -> Result<Vec<(u64, Record)>, StorageError> {
    let table = transaction.open_table(table).map_err(disk)?;
    table.range(from..).map_err(disk)?.take(most).map(read).collect()
}

fn read(row: Row<'_>) -> Result<(u64, Record), StorageError> {
    let (seq, bytes) = row.map_err(disk)?;
    let seq = seq.value();
    Ok((seq, Record::read(seq, bytes.value()).map_err(StorageError::Damaged)?))
}

fn take(table: &mut redb::Table<'_, u64, &'static [u8]>, seq: u64) -> Result<Option<Record>, StorageError> {
    let bytes = table.remove(seq).map_err(disk)?;
    bytes.map(|bytes| Record::read(seq, bytes.value()).map_err(StorageError::Damaged)).transpose()
}

/// When the event that has waited longest was encoded; numbers follow arrival, so one of the two first ones.
fn oldest(
    events: &impl ReadableTable<u64, &'static [u8]>,
    aside: &impl ReadableTable<u64, &'static [u8]>,
) -> Result<Option<Millis>, StorageError> {
    let event = events.first().map_err(disk)?.map(|row| read(Ok(row))).transpose()?;
    let aside = aside.first().map_err(disk)?.map(|row| read(Ok(row))).transpose()?;
    let first = [event, aside].into_iter().flatten().min_by_key(|(seq, _)| *seq);
    Ok(first.map(|(_, record)| record.encoded))
}

const FIELDS: [&str; 6] = ["next", "events", "bytes", "set_aside", "conflicts", "conflict_bytes"];

fn read_totals(rows: &impl ReadableTable<&'static str, u64>) -> Result<Totals, StorageError> {
    let [next, events, bytes, set_aside, conflicts, conflict_bytes] = FIELDS.map(|name| total(rows, name));
    Ok(Totals {
        next: next?,
        events: events?,
        bytes: bytes?,
        set_aside: set_aside?,
        conflicts: conflicts?,
        conflict_bytes: conflict_bytes?,
    })
}

fn write_totals(rows: &mut redb::Table<'_, &'static str, u64>, totals: &Totals) -> Result<(), StorageError> {
    let Totals { next, events, bytes, set_aside, conflicts, conflict_bytes } = *totals;
    for (name, value) in FIELDS.into_iter().zip([next, events, bytes, set_aside, conflicts, conflict_bytes]) {
        rows.insert(name, value).map_err(disk)?;
    }
    Ok(())
}

fn total(rows: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64, StorageError> {
    match rows.get(name).map_err(disk)? {
        Some(value) => Ok(value.value()),
        None => damaged(format!("it has no total {name:?}")),
    }
}

fn damaged<T>(what: String) -> Result<T, StorageError> {
    Err(StorageError::Damaged(what))
}

/// A missing table is damage too: the file was laid out with all of them.
pub(crate) fn disk(error: impl Into<redb::Error>) -> StorageError {
    match error.into() {
        error @ (redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::Backend(_)) => {
            StorageError::Disk(error.to_string())
        }
        error => StorageError::Damaged(error.to_string()),
    }
}

/// Runs a step; whatever panics in it was not expected of the file.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        damaged(format!("reading it failed: {what}"))
    })
}
