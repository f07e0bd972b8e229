//! What a queue holds, read back.

use serde::Deserialize;

use crate::encode::PayloadCheck;
use crate::{Chain, ENTRY_FORMAT, EntryError, SpendEvent};

/// One entry of the queue: an event in its place of the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number; consecutive in a queue that only its own scripts touched.
    pub seq: u64,
    /// Its link, which proves every entry before it.
    pub chain: Chain,
    /// What is to be charged.
    pub event: SpendEvent,
    raw: Vec<u8>,
    body_at: usize,
}

impl Entry {
    /// Reads the bytes of an entry.
    ///
    /// # Errors
    ///
    /// [`EntryError`] when this is no entry of format 2; a retry cannot help.
    pub fn decode(raw: Vec<u8>) -> Result<Self, EntryError> {
        let text = core::str::from_utf8(&raw).map_err(|_| EntryError::Foreign)?;
        let (seq, chain, body) = split(text).ok_or(EntryError::Foreign)?;
        let body_at = text.len() - body.len();
        let event = decode_event(body)?;
        Ok(Self { seq, chain, event, raw, body_at })
    }

    /// The bytes as the queue holds them.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// What tells a retry from another payload under the same request id.
    #[must_use]
    pub fn payload_check(&self) -> PayloadCheck {
        PayloadCheck::of(self.body())
    }

    /// Whether this entry's link follows from the one before it.
    #[must_use]
    pub fn follows(&self, before: &Self) -> bool {
        before.seq.checked_add(1) == Some(self.seq) && self.chain == before.chain.next(self.seq, self.body())
    }

    fn body(&self) -> &str {
        // The raw bytes were checked to be UTF-8 by `decode`, the only constructor.
        core::str::from_utf8(&self.raw[self.body_at..]).unwrap_or_default()
    }
}

/// Sequence number, link and body of `{"seq":N,"chain":"HEX",BODY`, in exactly this writing: what the enqueue
/// script splices, and nothing that a general JSON reader would also accept.
fn split(text: &str) -> Option<(u64, Chain, &str)> {
    let (seq, rest) = text.strip_prefix("{\"seq\":")?.split_once(',')?;
    let (chain, body) = rest.strip_prefix("\"chain\":\"")?.split_once("\",")?;
    let number: u64 = seq.parse().ok()?;
    (number.to_string() == seq).then_some((number, chain.parse().ok()?, body))
}

fn decode_event(body: &str) -> Result<SpendEvent, EntryError> {
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
    let mut event: SpendEvent = serde_json::from_str(&object).map_err(json)?;
    // `format` and the decimal for people are the entry's, not the event's.
    event.extra.remove("format");
    event.extra.remove("spend");
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
        encoded.entry(7, Chain::GENESIS.next(7, encoded.body())).into_bytes()
    }

    #[test]
    fn an_entry_starts_with_seq_and_chain_and_shows_the_amount_twice() {
        let text = String::from_utf8(raw(&event())).unwrap();
        assert!(text.starts_with("{\"seq\":7,\"chain\":\""), "{text}");
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
            assert_eq!(entry.seq, 7);
            assert_eq!(entry.payload_check(), event.encode(now()).unwrap().payload_check());
        }
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
            (good.replacen("\"chain\":\"", "\"chain\":\"0", 1).as_bytes(), true),
            (cut.as_bytes(), false),
            (good.replacen("2700000", "2700000.5", 1).as_bytes(), false),
            (good.replacen("2700000", "99999999999999999999", 1).as_bytes(), false),
            (good.replacen("2700000", "-1", 1).as_bytes(), false),
            (good.replacen("\"r-1\"", "\"\"", 1).as_bytes(), false),
            (good.replacen("\"r-1\"", "\"\\ud800\"", 1).as_bytes(), false),
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
        let first = Chain::GENESIS.next(1, encoded.body());
        let second = first.next(2, encoded.body());
        let one = Entry::decode(encoded.entry(1, first).into_bytes()).unwrap();
        let two = Entry::decode(encoded.entry(2, second).into_bytes()).unwrap();
        assert!(two.follows(&one));
        let forged = encoded.entry(2, second).replacen("\"m\"", "\"n\"", 1);
        assert!(!Entry::decode(forged.into_bytes()).unwrap().follows(&one));
    }
}
