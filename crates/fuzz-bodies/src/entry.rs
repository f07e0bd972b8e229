//! Entries of format 2, as anybody may have put them into a list.

use chrono::{DateTime, Timelike, Utc};
use spend_queue::{Chain, Entry, SpendEvent};

/// An entry is refused, or written anew it reads back as the same event, in one writing from then on.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(entry) = Entry::decode(bytes.to_vec()) else { return };
    assert_eq!(entry.raw(), bytes, "the bytes are kept as they were");
    let link = entry.link.expect("an entry of format 2 has its place in a chain");
    assert!((1..=999_999_999_999_999).contains(&link.seq));
    assert_eq!(entry.counters(), entry.event.scopes);
    assert!(entry.event.cost.is_none_or(|cost| !cost.is_negative() && cost.counter().is_ok()));
    assert!(!entry.continues(u64::MAX, link.chain), "nothing follows the last number");

    let Some(again) = rewritten(&entry.event, link.seq) else { return };
    assert_eq!(again.event, kept(entry.event), "what was read is what is written");
    let once_more = rewritten(&again.event, link.seq).expect("what was taken once is taken again");
    assert_eq!(once_more.raw(), again.raw(), "an event has one writing");
    assert_eq!(once_more.payload_check(), again.payload_check());
}

/// The event as the queue would hold it; `None` when it is too large or too late to be taken.
fn rewritten(event: &SpendEvent, seq: u64) -> Option<Entry> {
    let encoded = event.encode(DateTime::<Utc>::MAX_UTC).ok()?;
    let chain = encoded.chain_after(Chain::GENESIS, seq);
    let entry = Entry::decode(encoded.entry(seq, chain).into_bytes()).expect("what is written can be read");
    assert!(entry.continues(seq - 1, Chain::GENESIS), "a link proves its body");
    Some(entry)
}

/// The event as an entry keeps it: times to the microsecond.
pub(crate) fn kept(mut event: SpendEvent) -> SpendEvent {
    for time in [&mut event.started_at, &mut event.ended_at].into_iter().flatten() {
        *time = time.with_nanosecond(time.nanosecond() / 1_000 * 1_000).expect("a part of a second is left");
    }
    event
}
