//! One event as the file keeps it: enough to make the same bytes again, and proof that they are.

use std::time::Duration;

use spend_queue::{EncodedEvent, Millis, SpendEvent};
use xxhash_rust::xxh3::xxh3_64;

/// Layout, numbers little-endian: version (1), sequence number (8), millisecond of encoding (8), digest of the request
/// id (16), payload check (16), the body, xxh3-64 of everything before (8).
const VERSION: u8 = 1;
const HEAD: usize = 1 + 8 + 8 + 16 + 16;
const TAIL: usize = 8;

/// An event in the form that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) encoded: Millis,
    pub(crate) digest: [u8; 16],
    pub(crate) check: [u8; 16],
    pub(crate) body: String,
}

impl Record {
    /// Takes an event in, if it can be made again from what is kept.
    pub(crate) fn of(event: &EncodedEvent) -> Result<Self, String> {
        let record = Self {
            encoded: event.encoded(),
            digest: *event.digest().as_bytes(),
            check: *event.payload_check().as_bytes(),
            body: event.body().to_owned(),
        };
        match record.rebuild()? {
            rebuilt if rebuilt == *event => Ok(record),
            _ => Err("it reads back as another event".into()),
        }
    }

    /// Makes the event again, in the same bytes.
    pub(crate) fn rebuild(&self) -> Result<EncodedEvent, String> {
        let mut event: SpendEvent =
            serde_json::from_str(&format!("{{{}", self.body)).map_err(|error| error.to_string())?;
        // They belong to the writing of the event, which puts them back.
        event.extra.remove("format");
        event.extra.remove("spend");
        // The end of the millisecond: what was at the edge of the tolerated future when it was first encoded still passes.
        let now = self.encoded.instant() + Duration::from_nanos(999_999);
        let event = event.encode(now).map_err(|error| error.to_string())?;
        let same =
            event.payload_check().as_bytes() == &self.check && event.digest().as_bytes() == &self.digest;
        if same { Ok(event) } else { Err("its payload check does not match".into()) }
    }

    /// The bytes that its budget is charged.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.body.len()).unwrap_or(u64::MAX)
    }

    pub(crate) fn write(&self, seq: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.body.len() + TAIL);
        bytes.push(VERSION);
        bytes.extend(seq.to_le_bytes());
        bytes.extend(self.encoded.get().to_le_bytes());
        bytes.extend(self.digest);
        bytes.extend(self.check);
        bytes.extend(self.body.as_bytes());
        let sum = xxh3_64(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads what stands under a sequence number.
    pub(crate) fn read(seq: u64, bytes: &[u8]) -> Result<Self, String> {
        let fail = |what: &str| Err(format!("record {seq} {what}"));
        let Some((rest, sum)) = bytes.split_last_chunk::<TAIL>() else { return fail("is cut") };
        if xxh3_64(rest).to_le_bytes() != *sum {
            return fail("fails its checksum");
        }
        let Some((head, body)) = rest.split_at_checked(HEAD) else { return fail("is cut") };
        if head[0] != VERSION {
            return fail("is of another version");
        }
        let number = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| head[at + index]));
        if number(1) != seq {
            return fail("stands in another's place");
        }
        let Some(encoded) = Millis::new(number(9)) else { return fail("has no time") };
        match core::str::from_utf8(body) {
            Ok(body) => Ok(Self {
                encoded,
                digest: core::array::from_fn(|index| head[17 + index]),
                check: core::array::from_fn(|index| head[33 + index]),
                body: body.to_owned(),
            }),
            Err(_) => fail("is no text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use spend_queue::{ScopeRef, Usd};

    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-03-01T12:00:00.123456789Z".parse().unwrap()
    }

    fn event() -> SpendEvent {
        let mut event = SpendEvent::new("r-1", "m", vec![ScopeRef::new("team", "t").unwrap()]);
        event.cost = Some("0.0000027".parse().unwrap());
        event.started_at = Some("2026-03-01T11:59:59.123456789Z".parse().unwrap());
        event
            .metadata
            .insert("tag".into(), json!({"a": [1, -2, 1.5e300, -0.0, u64::MAX, "b\u{1}\u{1f600}"]}));
        event.extra.insert("later".into(), json!(null));
        event
    }

    #[test]
    fn an_event_comes_back_byte_for_byte() {
        for event in [
            event(),
            SpendEvent { cost: None, ..event() },
            SpendEvent { cost: Some(Usd::ZERO), ..event() },
            SpendEvent { started_at: Some(now() + TimeDelta::days(1)), ..event() },
        ] {
            let encoded = event.encode(now()).unwrap();
            let record = Record::of(&encoded).unwrap();
            let read = Record::read(7, &record.write(7)).unwrap();
            assert_eq!(read, record);
            assert_eq!(read.rebuild().unwrap(), encoded);
        }
    }

    #[test]
    fn an_event_that_cannot_be_read_back_is_refused_before_it_is_kept() {
        let mut twice = event();
        twice.extra.insert("model".into(), json!("another"));
        let mut deep = event();
        let nested = (0..200).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        deep.metadata.insert("deep".into(), nested);
        for event in [twice, deep] {
            // A queue whose `encode` refuses them already leaves nothing to refuse here.
            if let Ok(encoded) = event.encode(now()) {
                assert!(Record::of(&encoded).is_err(), "{}", encoded.body());
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = Record::of(&event().encode(now()).unwrap()).unwrap().write(7);
        for at in 0..bytes.len() {
            assert!(Record::read(7, &bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Record::read(7, &changed).is_err(), "bit {bit} of byte {at}");
            }
        }
        assert!(Record::read(8, &bytes).is_err(), "in another's place");
    }

    proptest! {
        #[test]
        fn any_float_in_the_metadata_survives(bits: u64) {
            let float = f64::from_bits(bits);
            prop_assume!(float.is_finite());
            let mut event = event();
            event.metadata.insert("float".into(), json!(float));
            let encoded = event.encode(now()).unwrap();
            prop_assert_eq!(Record::of(&encoded).unwrap().rebuild().unwrap(), encoded);
        }
    }
}
