//! Instants as a queue keeps them: whole milliseconds, comparable as text.

use core::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z, rounded down: 0 to 253,402,300,799,999 (the end of the year 9999).
///
/// An instant outside that range is taken as the nearest one inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(u64);

impl Millis {
    /// The beginning of 1970.
    pub const EPOCH: Self = Self(0);
    /// The end of 9999. It has 15 digits, as every instant has when it is padded for comparison as text.
    pub const LATEST: Self = Self(253_402_300_799_999);

    /// The millisecond that an instant lies in.
    #[must_use]
    pub fn of(instant: DateTime<Utc>) -> Self {
        Self(u64::try_from(instant.timestamp_millis()).unwrap_or(0)).min(Self::LATEST)
    }

    /// So many milliseconds after the beginning of 1970, or `None` beyond 9999.
    #[must_use]
    pub const fn new(millis: u64) -> Option<Self> {
        if millis <= Self::LATEST.0 { Some(Self(millis)) } else { None }
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The instant at which the millisecond begins.
    #[must_use]
    pub fn instant(self) -> DateTime<Utc> {
        i64::try_from(self.0).ok().and_then(DateTime::from_timestamp_millis).unwrap_or_default()
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_rounded_down_and_kept_in_range() {
        let of = |text: &str| Millis::of(text.parse().unwrap());
        assert_eq!(of("1970-01-01T00:00:00.001999Z").get(), 1);
        assert_eq!(of("1969-12-31T23:59:59Z"), Millis::EPOCH);
        assert_eq!(of("9999-12-31T23:59:59.999Z"), Millis::LATEST);
        assert_eq!(Millis::of(DateTime::<Utc>::MAX_UTC), Millis::LATEST);
        assert_eq!(Millis::new(Millis::LATEST.get() + 1), None);
        assert_eq!(Millis::LATEST.to_string().len(), 15);
        assert_eq!(Millis::LATEST.instant().to_rfc3339(), "9999-12-31T23:59:59.999+00:00");
    }
}
