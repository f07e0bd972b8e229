//! Which flusher works on which shard.
//!
//! The locks spare flushers from doing the same work; nothing depends on them for its correctness, since a batch that two of
//! them commit is settled once and acknowledged once.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use spend_queue::Shard;
use sqlx::{Connection, PgConnection};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Ledger, LedgerError};

/// Advisory locks on shards, held by one session of its own.
#[derive(Debug)]
pub struct ShardLocks {
    ledger: Ledger,
    namespace: i32,
    silence: Duration,
    session: Option<PgConnection>,
    held: BTreeSet<Shard>,
}

impl Ledger {
    /// Locks on the shards of the deployment with this key prefix in Redis. None is taken yet.
    ///
    /// A session that is silent for longer than `silence` (at least 1 s, in whole milliseconds) is ended by the server, so
    /// that a suspended process does not keep its shards: call [`ShardLocks::hold`] several times in that time.
    #[must_use]
    pub fn shard_locks(&self, prefix: &str, silence: Duration) -> ShardLocks {
        let [.., a, b, c, d] = xxh3_64(prefix.as_bytes()).to_be_bytes();
        ShardLocks {
            ledger: self.clone(),
            namespace: i32::from_be_bytes([a, b, c, d]),
            silence: silence.max(Duration::from_secs(1)),
            session: None,
            held: BTreeSet::new(),
        }
    }
}

impl ShardLocks {
    /// Takes those of the wanted shards that nobody holds, and answers which of them are held now. One statement; one that
    /// fails, or whose future is dropped before its answer, gives all of them up, and the next call starts anew with a new
    /// session. So bound the wait: a session whose other end vanished without closing it never answers.
    ///
    /// # Errors
    ///
    /// When the session cannot be made or has ended.
    pub async fn hold(&mut self, wanted: &[Shard]) -> Result<&BTreeSet<Shard>, LedgerError> {
        // Taken out: what is not put back is closed, and the server gives its locks up then, or when it has been silent for
        // long enough.
        let (session, mut held) = (self.session.take(), mem::take(&mut self.held));
        let mut session = match session {
            Some(session) => session,
            None => self.open_session().await?,
        };
        held.extend(self.take_free(&mut session, &held, wanted).await?);
        self.session = Some(session);
        self.held = held;
        Ok(&self.held)
    }

    /// Gives all of them up.
    pub async fn release(mut self) {
        if let Some(session) = self.session.take() {
            // The server gives them up at the latest when it sees that the connection is closed.
            let _ = session.close().await;
        }
    }

    async fn open_session(&self) -> Result<PgConnection, LedgerError> {
        let mut session = self.ledger.own_connection().await?;
        sqlx::query_file!("queries/limit_idle_session.sql", self.silence.as_millis().to_string())
            .fetch_one(&mut session)
            .await
            .map_err(LedgerError::query("limiting an idle session"))?;
        Ok(session)
    }

    async fn take_free(
        &self,
        session: &mut PgConnection,
        held: &BTreeSet<Shard>,
        wanted: &[Shard],
    ) -> Result<Vec<Shard>, LedgerError> {
        let free: Vec<Shard> = wanted.iter().filter(|shard| !held.contains(shard)).copied().collect();
        if free.is_empty() {
            let query = sqlx::query_file!("queries/keep_session.sql");
            query.fetch_one(session).await.map_err(LedgerError::query("keeping shard locks"))?;
            return Ok(Vec::new());
        }
        let numbers: Vec<i32> = free.iter().map(|shard| i32::from(shard.index())).collect();
        let rows = sqlx::query_file!("queries/take_shard_locks.sql", self.namespace, &numbers)
            .fetch_all(session)
            .await
            .map_err(LedgerError::query("taking shard locks"))?;
        let taken: BTreeSet<i32> = rows.into_iter().map(|row| row.shard).collect();
        Ok(free.into_iter().filter(|shard| taken.contains(&i32::from(shard.index()))).collect())
    }
}
