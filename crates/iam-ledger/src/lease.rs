//! A pooled connection that goes back only when it is known to be sound.

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};

/// How each transaction that writes begins. Not `read write`: that would write to a primary which an operator fenced with
/// `default_transaction_read_only`.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// A connection of the pool for one transaction.
///
/// When the future that uses it is dropped half-way, sqlx 0.9.0 may put a connection with an open transaction back into the
/// pool: cancelling `BEGIN` before its answer leaves a transaction that the driver does not count and so does not roll
/// back (sqlx issue 4385). Hence the reverse rule here: a lease that is dropped closes its connection, and the server
/// then rolls back whatever was open. Only [`Lease::keep`] returns it.
pub(crate) struct Lease {
    connection: PoolConnection<Postgres>,
    sound: bool,
}

impl Lease {
    pub(crate) const fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, sound: false }
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Returns the connection to the pool: no transaction is open and no answer is missing.
    pub(crate) fn keep(mut self) {
        self.sound = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.sound {
            self.connection.close_on_drop();
        }
    }
}
