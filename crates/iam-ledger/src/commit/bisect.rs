//! Finding the entries that PostgreSQL refuses, while all others are settled.
//!
//! A part that is refused is rolled back to its savepoint and tried as two halves; one that is accepted stays. So every
//! entry is judged with all accepted ones before it in place, which matters where no entry alone is wrong: two charges
//! that overflow a sum together are not both refused.

use spend_queue::Entry;
use sqlx::{Executor, PgConnection};

use super::part::{Settled, Times, settle as settle_part};
use crate::LedgerError;

/// Settles what can be settled and lists the rest, in an open transaction.
pub(super) async fn settle<'a>(
    connection: &mut PgConnection,
    entries: &[&'a Entry],
    times: Times,
) -> Result<Settled<'a>, LedgerError> {
    // By request id, so that the parts claim in the order of all committers. Stable, so that of two payloads under one id
    // the first of the queue still comes first.
    let mut ordered = entries.to_vec();
    ordered.sort_by(|one, other| one.event.request_id.cmp(&other.event.request_id));
    let mut settled = Settled::default();
    // The whole was refused a moment ago. A stack: the first part is on top.
    let mut open = halves(&ordered);
    while let Some(part) = open.pop() {
        run(connection, "savepoint part").await?;
        match settle_part(connection, part, times).await {
            Ok(done) => {
                run(connection, "release savepoint part").await?;
                settled.merge(done)?;
            }
            Err(error) if error.blames_data() => {
                // Released as well, or every refusal would nest the next part one level deeper.
                run(connection, "rollback to savepoint part; release savepoint part").await?;
                match part {
                    [entry] => settled.refused.push((entry, error)),
                    several => open.extend(halves(several)),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(settled)
}

/// The second half and, to be taken first, the first; a single entry stays whole.
fn halves<'b, 'a>(part: &'b [&'a Entry]) -> Vec<&'b [&'a Entry]> {
    let (first, second) = part.split_at(part.len() / 2);
    [second, first].into_iter().filter(|half| !half.is_empty()).collect()
}

async fn run(connection: &mut PgConnection, statements: &'static str) -> Result<(), LedgerError> {
    connection.execute(statements).await.map_err(LedgerError::query("bisecting a batch")).map(drop)
}
