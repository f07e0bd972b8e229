//! The transaction around every change of identities.

use std::future::Future;

use chrono::{DateTime, Utc};
use sqlx::{Connection, PgConnection};

use super::ScopeKind;
use super::allocation::Allocation;
use super::roots::Roots;
use crate::lease::BEGIN;
use crate::{Ledger, LedgerError, NewIdentity};

/// What PostgreSQL says of a time zone that it does not know.
const INVALID_PARAMETER_VALUE: &str = "22023";

/// A change of identities that can be undone and made again in one transaction.
pub(super) trait Write: Sync {
    fn apply(&self, connection: &mut PgConnection) -> impl Future<Output = Result<(), LedgerError>> + Send;
}

/// Whose roots are locked.
pub(super) enum Subject<'a> {
    New(&'a [NewIdentity]),
    Existing(ScopeKind, &'a str),
}

impl Ledger {
    /// Locks the billing roots, writes, and takes everything back if a scope then has less than is allocated of it.
    pub(super) async fn write_identities(
        &self,
        subject: Subject<'_>,
        allocates: bool,
        now: Option<DateTime<Utc>>,
        write: &impl Write,
    ) -> Result<(), LedgerError> {
        let mut lease = self.lease().await?;
        let mut transaction = lease
            .connection()
            .begin_with(BEGIN)
            .await
            .map_err(LedgerError::query("beginning a transaction"))?;
        match Box::pin(locked(&mut transaction, subject, allocates, now, write)).await {
            Ok(()) => {
                transaction.commit().await.map_err(LedgerError::at_commit)?;
                lease.keep();
                Ok(())
            }
            Err(error) => {
                // A refusal leaves a sound connection, if it answers to this.
                if error.is_answer() && transaction.rollback().await.is_ok() {
                    lease.keep();
                }
                Err(error)
            }
        }
    }
}

async fn locked(
    connection: &mut PgConnection,
    subject: Subject<'_>,
    allocates: bool,
    now: Option<DateTime<Utc>>,
    write: &impl Write,
) -> Result<(), LedgerError> {
    let roots = match subject {
        Subject::New(identities) => Roots::of(identities),
        Subject::Existing(kind, id) => Roots::of_existing(connection, kind, id).await?,
    };
    roots.lock(connection).await?;
    if !allocates {
        return write.apply(connection).await.map_err(named);
    }
    let mut attempt = connection.begin().await.map_err(LedgerError::query("setting a savepoint"))?;
    write.apply(&mut attempt).await.map_err(named)?;
    let after = Allocation::excessive(&mut attempt, &roots, now).await?;
    if after.is_empty() {
        return attempt.commit().await.map_err(LedgerError::query("releasing a savepoint"));
    }
    // Rare, so that only here the state before is read too: by going back to it, under the same lock.
    attempt.rollback().await.map_err(LedgerError::query("going back to a savepoint"))?;
    let before = Allocation::same(connection, &roots, now, &after).await?;
    match Allocation::refusal(&before, &after) {
        Some(refusal) => Err(LedgerError::OverAllocated(Box::new(refusal))),
        None => write.apply(connection).await.map_err(named),
    }
}

/// Gives a refusal that callers can do something about its own name.
fn named(error: LedgerError) -> LedgerError {
    match error {
        LedgerError::Query { cause, .. } if cause.sqlstate().as_deref() == Some(INVALID_PARAMETER_VALUE) => {
            LedgerError::TimeZone(cause)
        }
        error => error,
    }
}
