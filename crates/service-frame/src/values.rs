//! Readers of flags' values. Each refusal says what is accepted.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

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
