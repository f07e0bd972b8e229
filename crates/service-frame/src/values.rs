//! Readers of flags' values. Each refusal says what is accepted.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use live_redis::{DedupRetention, WindowClock};

/// Reads a whole number within bounds.
///
/// # Errors
///
/// What is accepted; so with the others.
pub fn whole<T: TryFrom<i64>>(
    bounds: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<i64>().ok().filter(|number| bounds.contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("a whole number from {} to {} is accepted", bounds.start(), bounds.end()))
    }
}

/// Reads milliseconds, 1 to an hour.
///
/// # Errors
///
/// What is accepted.
pub fn millis(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms @ 1..=3_600_000) => Ok(Duration::from_millis(ms)),
        _ => Err("a whole number of milliseconds from 1 to 3600000 is accepted".into()),
    }
}

/// Reads how long request ids are remembered: `permanent`, or a number and its unit.
///
/// # Errors
///
/// What is accepted.
pub fn retention(text: &str) -> Result<DedupRetention, String> {
    const LONGEST: u64 = 3_650 * 86_400;
    if text == "permanent" {
        return Ok(DedupRetention::Permanent);
    }
    let unit = match text.chars().next_back() {
        Some('s') => Some(1),
        Some('m') => Some(60),
        Some('h') => Some(3_600),
        Some('d') => Some(86_400),
        _ => None,
    };
    let seconds = unit.and_then(|unit| text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit));
    match seconds {
        Some(seconds) if (DedupRetention::SHORTEST.as_secs()..=LONGEST).contains(&seconds) => {
            Ok(DedupRetention::AtLeast(Duration::from_secs(seconds)))
        }
        _ => {
            Err("`permanent` or a time from 60s to 3650d is accepted, with its unit: s, m, h or d".to_owned())
        }
    }
}

/// Reads whose clock says which minute it is.
///
/// # Errors
///
/// What is accepted.
pub fn window_clock(text: &str) -> Result<WindowClock, String> {
    match text {
        "local" => Ok(WindowClock::Local),
        "redis" => Ok(WindowClock::Redis),
        _ => Err("local or redis is accepted".to_owned()),
    }
}

/// Reads where to listen. No host name: it may mean several addresses, or another one tomorrow.
///
/// # Errors
///
/// What is accepted.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an IP address and a port are accepted, such as 127.0.0.1:9464, 0.0.0.0:9464 or [::1]:9464".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_has_a_unit_and_bounds() {
        let after = |seconds| Ok(DedupRetention::AtLeast(Duration::from_secs(seconds)));
        assert_eq!(retention("permanent"), Ok(DedupRetention::Permanent));
        for (text, seconds) in [("60s", 60), ("90m", 5_400), ("48h", 172_800), ("30d", 2_592_000)] {
            assert_eq!(retention(text), after(seconds), "{text}");
        }
        for text in [
            "",
            "0",
            "0d",
            "59s",
            "30",
            "d",
            "-1d",
            "1w",
            "1.5h",
            "3651d",
            "99999999999999999999d",
            "30\u{e4}",
        ] {
            assert!(retention(text).unwrap_err().contains("accepted"), "{text}");
        }
    }

    #[test]
    fn a_clock_is_one_of_two() {
        assert_eq!(window_clock("redis"), Ok(WindowClock::Redis));
        assert_eq!(window_clock("local"), Ok(WindowClock::Local));
        assert!(window_clock("moon").is_err());
    }
}
