//! Entries of format 1, as older deployments wrote them.

use chrono::{DateTime, Utc};
use spend_queue::{Entry, FieldProblem};

/// An entry is refused, or its counters are those of the kinds that older deployments had, and it is an event that this
/// release would take itself or names the problem for which it would not.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(entry) = Entry::decode_older(bytes.to_vec()) else { return };
    assert_eq!(entry.raw(), bytes, "the bytes are kept as they were");
    assert_eq!(entry.link, None, "older entries have no chain");
    assert!(!entry.event.scopes.is_empty(), "somebody is charged");
    assert!(entry.event.cost.is_none_or(|cost| !cost.is_negative() && cost.counter().is_ok()));
    for counter in entry.counters() {
        assert!(["organization", "team", "user", "key"].contains(&counter.kind()), "{counter}");
    }
    if entry.problem().is_some() {
        return;
    }
    match entry.event.encode(DateTime::<Utc>::MAX_UTC) {
        Ok(encoded) => assert_eq!(encoded.request_id(), entry.event.request_id),
        // Only what an entry may have and an event may not: its size.
        Err(error) => assert!(matches!(error.problem, FieldProblem::TooLarge(_)), "{error}"),
    }
}
