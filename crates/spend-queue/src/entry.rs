//! What a queue holds, read back.

use serde::Deserialize;

use crate::encode::PayloadCheck;
use crate::{Chain, ENTRY_FORMAT, EntryError, Millis, ScopeRef, SpendEvent, Usd, older, salvage};

/// One entry of the queue: an event in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its place of the chain; `None` in the list of an older deployment, which has no chain.
    pub link: Option<Link>,
    /// What is to be charged. Of an entry that cannot be settled ([`Entry::problem`]) no more need be there than what it
    /// charges, and its request id if it has one.
    pub event: SpendEvent,
    problem: Option<EntryError>,
    raw: Vec<u8>,
    body_at: usize,
    /// The counters of an older deployment, where they are not the event's scopes.
    older_counters: Option<Vec<ScopeRef>>,
}

/// The place of an entry in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its number, 1 to 999,999,999,999,999; consecutive in a queue that only its own scripts touched.
    pub seq: u64,
    /// Its link, which proves every entry before it.
    pub chain: Chain,
    /// When the event was made ready for the queue, by its host's clock.
    pub queued: Millis,
}

/// The largest number of an entry: what the queue's scripts count exactly, with room to go on.
const MAX_SEQ: u64 = 999_999_999_999_999;

/// More than the longest link has.
const MAX_LINK_BYTES: usize = 128;

impl Entry {
    /// Reads the bytes of an entry of format 2. An event that breaks a rule, but says what it charges, is an entry with a
    /// [`Entry::problem`].
    ///
    /// # Errors
    ///
    /// [`EntryError`] when this is no such entry, or what it charges cannot be told; a retry cannot help.
    pub fn decode(raw: Vec<u8>) -> Result<Self, EntryError> {
        let text = core::str::from_utf8(&raw).map_err(|_| EntryError::Foreign)?;
        let (link, body) = split(text).ok_or(EntryError::Foreign)?;
        let body_at = text.len() - body.len();
        let (event, problem) = decode_event(body)?;
        Ok(Self { link: Some(link), event, problem, raw, body_at, older_counters: None })
    }

    /// An entry that cannot be decoded, and whose link proves that these are the bytes which were enqueued: no damage, but what its
    /// producer wrote. What it charges is not known, so its acknowledgement takes nothing off the counters; they are too high
    /// by it until the index is made anew or the shard is empty.
    pub(crate) fn proven(before: Option<&Self>, raw: &[u8], problem: &EntryError) -> Option<Self> {
        if matches!(problem, EntryError::NewerFormat(_)) {
            return None;
        }
        let (link, body_at) = link_at(raw)?;
        let (seq, chain) = match before {
            Some(before) => before.link.map(|link| (link.seq, link.chain))?,
            None => (0, Chain::GENESIS),
        };
        let follows = seq + 1 == link.seq && link.chain == chain.next(link.seq, link.queued, &raw[body_at..]);
        follows.then(|| Self {
            link: Some(link),
            event: SpendEvent::new("", "", Vec::new()),
            problem: Some(problem.clone()),
            raw: raw.to_vec(),
            body_at,
            older_counters: None,
        })
    }

    /// Reads the bytes of an entry of format 1, as older deployments wrote them. As for [`Entry::decode`], an event that breaks
    /// a rule is an entry with a problem.
    ///
    /// # Errors
    ///
    /// [`EntryError`] when this is no such entry, or what it charges cannot be told; a retry cannot help.
    pub fn decode_older(raw: Vec<u8>) -> Result<Self, EntryError> {
        let text = core::str::from_utf8(&raw).map_err(|_| EntryError::Foreign)?;
        let older::Charged { event, counters, problem } = older::decode(text)?;
        Ok(Self { link: None, event, problem, raw, body_at: 0, older_counters: Some(counters) })
    }

    /// The number that bytes start with as a link, whether or not an event follows.
    pub(crate) fn link_of(raw: &[u8]) -> Option<Link> {
        link_at(raw).map(|(link, _)| link)
    }

    /// Whether the link that bytes start with is made from that of the bytes before them, whatever else they say.
    pub(crate) fn are_linked(before: &[u8], after: &[u8]) -> bool {
        let (Some(before), Some((link, body_at))) = (Self::link_of(before), link_at(after)) else {
            return false;
        };
        link.chain == before.chain.next(link.seq, link.queued, &after[body_at..])
    }

    /// Why the entry can not be settled, although what it charges is known or its link proves that it is whole: a text with a NUL,
    /// a number or a date out of range, an id too long. A ledger keeps it aside, with this reason, and goes on.
    #[must_use]
    pub const fn problem(&self) -> Option<&EntryError> {
        self.problem.as_ref()
    }

    /// The bytes as the queue holds them.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// What tells a retry from another payload under the same request id.
    #[must_use]
    pub fn payload_check(&self) -> PayloadCheck {
        PayloadCheck::of(&self.raw[self.body_at..])
    }

    /// Whether this entry's link follows from the one before it.
    #[must_use]
    pub fn follows(&self, before: &Self) -> bool {
        before.link.is_some_and(|before| self.continues(before.seq, before.chain))
    }

    /// Whether this entry's link follows from that of the entry with this number.
    #[must_use]
    pub fn continues(&self, seq: u64, chain: Chain) -> bool {
        self.link.is_some_and(|this| {
            seq.checked_add(1) == Some(this.seq)
                && this.chain == chain.next(this.seq, this.queued, &self.raw[self.body_at..])
        })
    }

    /// The counters that enqueueing the entry added its cost to, if it has one.
    #[must_use]
    pub fn counters(&self) -> &[ScopeRef] {
        self.older_counters.as_ref().unwrap_or(&self.event.scopes)
    }
}

/// The link that bytes start with, and where their body begins. A link is short and ASCII; what follows it may be anything.
fn link_at(raw: &[u8]) -> Option<(Link, usize)> {
    let start = &raw[..raw.len().min(MAX_LINK_BYTES)];
    let text = core::str::from_utf8(start)
        .unwrap_or_else(|error| core::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default());
    split(text).map(|(link, body)| (link, text.len() - body.len()))
}

/// Link and body of `{"seq":N,"chain":"HEX","queued":MS,BODY`, in exactly this writing: what the enqueue script splices,
/// and nothing that a general JSON reader would also accept.
fn split(text: &str) -> Option<(Link, &str)> {
    let (seq, rest) = text.strip_prefix("{\"seq\":")?.split_once(',')?;
    let (chain, rest) = rest.strip_prefix("\"chain\":\"")?.split_once("\",\"queued\":")?;
    let (queued, body) = rest.split_once(',')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| number.to_string() == text);
    let seq = number(seq).filter(|seq| (1..=MAX_SEQ).contains(seq))?;
    let link = Link { seq, chain: chain.parse().ok()?, queued: Millis::new(number(queued)?)? };
    // One link has one writing.
    (link.chain.to_string() == chain).then_some((link, body))
}

/// The event, and what is wrong with it although it says what it charges.
fn decode_event(body: &str) -> Result<(SpendEvent, Option<EntryError>), EntryError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }

    let json = |error: serde_json::Error| EntryError::Json(error.to_string());
    let object = format!("{{{body}");
    let Format { format } = serde_json::from_str(&object).map_err(json)?;
    if format > ENTRY_FORMAT {
        return Err(EntryError::NewerFormat(format));
    }
    if format < ENTRY_FORMAT {
        return Err(EntryError::Json(format!("entry format {format} has no sequence number of its own")));
    }
    read_event(&object).map(|event| (event, None)).or_else(|problem| {
        salvage::salvage(&object).map(|event| (event, Some(problem.clone()))).ok_or(problem)
    })
}

fn read_event(object: &str) -> Result<SpendEvent, EntryError> {
    let json = |error: serde_json::Error| EntryError::Json(error.to_string());
    let mut event: SpendEvent = serde_json::from_str(object).map_err(json)?;
    // `format` and the decimal for people are the entry's, not the event's.
    event.extra.remove("format");
    let shown = event.extra.remove("spend");
    let shown = shown.map(|shown| shown.as_str().and_then(|text| text.parse::<Usd>().ok()));
    if shown != event.cost.map(Some) {
        return Err(EntryError::Amounts);
    }
    event.validate()?;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use serde_json::json;

    use super::*;
    use crate::{ScopeRef, Usd};

    fn now() -> DateTime<Utc> {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn event() -> SpendEvent {
        let mut event = SpendEvent::new("r-1", "m", vec![ScopeRef::new("team", "t").unwrap()]);
        event.cost = Some("0.0000027".parse().unwrap());
        event.started_at = Some("2026-03-01T11:59:59.123456Z".parse().unwrap());
        event.metadata.insert("tag".into(), json!({"a": [1, "b"]}));
        event
    }

    fn raw(event: &SpendEvent) -> Vec<u8> {
        let encoded = event.encode(now()).unwrap();
        encoded.entry(7, encoded.chain_after(Chain::GENESIS, 7)).into_bytes()
    }

    #[test]
    fn an_entry_starts_with_seq_and_chain_and_shows_the_amount_twice() {
        let text = String::from_utf8(raw(&event())).unwrap();
        assert!(text.starts_with("{\"seq\":7,\"chain\":\""), "{text}");
        assert!(text.contains("\",\"queued\":1772366400000,\"format\":2,"), "{text}");
        assert!(text.contains("\"format\":2,\"spend\":\"0.0000027\""), "{text}");
        assert!(text.contains("\"spend_pusd\":2700000"), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn an_event_reads_back_as_it_was() {
        for event in
            [event(), SpendEvent { cost: None, ..event() }, SpendEvent { cost: Some(Usd::ZERO), ..event() }]
        {
            let entry = Entry::decode(raw(&event)).unwrap();
            assert_eq!(entry.event, event);
            assert_eq!(entry.link.map(|link| (link.seq, link.queued)), Some((7, Millis::of(now()))));
            assert_eq!(entry.payload_check(), event.encode(now()).unwrap().payload_check());
        }
    }

    #[test]
    fn a_float_of_any_digits_reads_back_to_the_last_bit() {
        let floats =
            [-2.3630524617963142e154, 1.8446744073709558e34, 0.1, f64::MIN_POSITIVE, 5e-324, f64::MAX];
        let mut event = event();
        event.metadata.insert("floats".into(), json!(floats));
        assert_eq!(Entry::decode(raw(&event)).unwrap().event, event);
    }

    #[test]
    fn unknown_fields_are_kept() {
        let text = String::from_utf8(raw(&event())).unwrap().replacen(
            "\"format\":2",
            "\"format\":2,\"later\":[1]",
            1,
        );
        let entry = Entry::decode(text.into_bytes()).unwrap();
        assert_eq!(entry.event.extra.get("later"), Some(&json!([1])));
    }

    #[test]
    fn a_newer_format_says_what_to_do() {
        let text = String::from_utf8(raw(&event())).unwrap().replacen("\"format\":2", "\"format\":3", 1);
        let error = Entry::decode(text.into_bytes()).unwrap_err();
        assert_eq!(error, EntryError::NewerFormat(3));
        assert!(error.to_string().contains("upgrade"));
    }

    #[test]
    fn bytes_that_no_enqueue_script_wrote_are_foreign_or_unreadable() {
        let good = String::from_utf8(raw(&event())).unwrap();
        let cut = &good[..good.len() - 5];
        for (bytes, foreign) in [
            (&b""[..], true),
            (b"\xff\xfe", true),
            (b"{}", true),
            (br#"{"request_id":"r"}"#, true),
            (good.replacen("\"seq\":7", "\"seq\":07", 1).as_bytes(), true),
            (good.replacen("\"seq\":7", "\"seq\":-7", 1).as_bytes(), true),
            (good.replacen("\"seq\":7", "\"seq\":0", 1).as_bytes(), true),
            (good.replacen("\"seq\":7", "\"seq\":1000000000000000", 1).as_bytes(), true),
            (good.replacen("\"chain\":\"", "\"chain\":\"0", 1).as_bytes(), true),
            (good.replacen("\"queued\":1", "\"queued\":01", 1).as_bytes(), true),
            (good.replacen("\"queued\":1", "\"queued\":999", 1).as_bytes(), true),
            (good.replacen("\"spend\":\"0.0000027\"", "\"spend\":\"0.0000028\"", 1).as_bytes(), false),
            (good.replacen("\"spend\":\"0.0000027\",", "", 1).as_bytes(), false),
            (good.replacen("2700000", "2700001", 1).as_bytes(), false),
            (cut.as_bytes(), false),
            (good.replacen("2700000", "2700000.5", 1).as_bytes(), false),
            (good.replacen("2700000", "99999999999999999999", 1).as_bytes(), false),
            (good.replacen("2700000", "-1", 1).as_bytes(), false),
        ] {
            let error = Entry::decode(bytes.to_vec()).unwrap_err();
            assert_eq!(
                error == EntryError::Foreign,
                foreign,
                "{} -> {error}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn a_changed_body_does_not_follow() {
        let encoded = event().encode(now()).unwrap();
        let first = encoded.chain_after(Chain::GENESIS, 1);
        let second = encoded.chain_after(first, 2);
        let one = Entry::decode(encoded.entry(1, first).into_bytes()).unwrap();
        let two = Entry::decode(encoded.entry(2, second).into_bytes()).unwrap();
        assert!(two.follows(&one));
        let forged = encoded.entry(2, second).replacen("\"m\"", "\"n\"", 1);
        assert!(!Entry::decode(forged.into_bytes()).unwrap().follows(&one));
    }
}
