//! The wall clock as the journals keep it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970. All processes of a run share one machine, so their instants compare.
pub(crate) fn now_micros() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX)
}
