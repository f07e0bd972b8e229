//! What is left in Redis after the drain.

use anyhow::Result;
use redis::Connection;

use super::{Breach, Verdict};

/// A drained queue leaves nothing: no entry, no pending amount, no count, no place in the index by time.
pub(crate) fn check_keys(connection: &mut Connection, prefix: &str, verdict: &mut Verdict) -> Result<()> {
    let pattern = format!("{prefix}:{{*}}:*");
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
        let (next, found): (u64, Vec<String>) = scan.query(connection)?;
        for key in found {
            let what = key.rsplit("}:").next().unwrap_or_default();
            if ["queue", "hot", "count", "since", "since:amount", "quarantine"].contains(&what) {
                verdict.add(Breach::KeysLeft, key);
            }
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

/// How many entries wait.
pub(crate) fn queue_length(connection: &mut Connection, prefix: &str) -> Result<u64> {
    Ok(redis::cmd("LLEN").arg(format!("{prefix}:{{0}}:queue")).query(connection)?)
}
