//! Transactions that take the ledger's rows in the opposite order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};
use postgres::Client;
use postgres::error::SqlState;

/// A thread that forces deadlocks until it is told to end.
pub(crate) struct Pressure {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Pressure {
    pub(crate) fn start(mut session: Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut deadlocks = 0;
            while !told.load(Ordering::Relaxed) {
                match one(&mut session) {
                    Ok(()) => {}
                    Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => deadlocks += 1,
                    // A lock that was not given in time; anything worse ends the thread's use and harms nobody.
                    Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
                    Err(_) => break,
                }
            }
            deadlocks
        });
        Self { stop, thread }
    }

    /// Ends it; how often it was itself the victim.
    pub(crate) fn end(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread that forces deadlocks died"))
    }
}

/// The ledger updates these rows in ascending order, each statement for its whole batch.
fn one(session: &mut Client) -> Result<(), postgres::Error> {
    let mut transaction = session.transaction()?;
    transaction.batch_execute("set local lock_timeout = '2s'")?;
    let rows = transaction.query(
        "select kind, id from scope_spend order by kind collate \"C\" desc, id collate \"C\" desc limit 12",
        &[],
    )?;
    for row in rows {
        let (kind, id): (String, String) = (row.get(0), row.get(1));
        transaction.execute(
            "update scope_spend set spend_usd = spend_usd where kind = $1 and id = $2",
            &[&kind, &id],
        )?;
        transaction.batch_execute("select pg_sleep(0.02)")?;
    }
    transaction.commit()
}
