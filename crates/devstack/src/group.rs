//! What Cluster and Sentinel groups have in common: waiting until all members agree.

use std::time::{Duration, Instant};

use crate::error::{DevstackError, Result};
use crate::redis::RedisServer;

/// No server signals a change of its state; it is asked this often.
const POLL: Duration = Duration::from_millis(20);

/// Repeats `check` until it succeeds.
///
/// # Errors
///
/// [`DevstackError::NotSettled`] with what the last check found.
pub(crate) fn settle<'a, T>(
    what: &'static str,
    within: Duration,
    servers: impl Iterator<Item = &'a RedisServer>,
    mut check: impl FnMut() -> Result<T, String>,
) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        let last = match check() {
            Ok(value) => return Ok(value),
            Err(last) => last,
        };
        if Instant::now() >= deadline {
            let logs: Vec<String> =
                servers.map(|server| format!("port {}:\n{}", server.port(), server.log_end())).collect();
            return Err(DevstackError::NotSettled { what, within, last, logs: logs.join("\n") });
        }
        std::thread::sleep(POLL);
    }
}

/// Whether a replica follows the primary at this port and holds its data.
pub(crate) fn in_sync(replica: &RedisServer, primary_port: u16) -> Result<(), String> {
    let mut connection = replica.connect()?;
    for (field, wanted) in [
        ("role", "slave".to_owned()),
        ("master_port", primary_port.to_string()),
        ("master_link_status", "up".to_owned()),
        ("master_sync_in_progress", "0".to_owned()),
    ] {
        let value = connection.info("replication", field)?.unwrap_or_default();
        if value != wanted {
            return Err(format!("replica {}: {field} is {value:?}, not {wanted:?}", replica.port()));
        }
    }
    Ok(())
}

/// Checks a number that a caller gave.
///
/// # Errors
///
/// [`DevstackError::OutOfRange`].
pub(crate) fn in_range(what: &'static str, value: usize, first: usize, last: usize) -> Result<usize> {
    if (first..=last).contains(&value) {
        return Ok(value);
    }
    Err(DevstackError::OutOfRange { what, value, first, last })
}
