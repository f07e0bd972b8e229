//! Minutes of the UTC clock: the windows that counters belong to.

/// Length of a window, in seconds.
pub(crate) const SECONDS_PER_MINUTE: i64 = 60;

/// The minute of an instant: `floor(unix_seconds / 60)`, before 1970 too.
#[must_use]
pub const fn minute_of(unix_seconds: i64) -> i64 {
    unix_seconds.div_euclid(SECONDS_PER_MINUTE)
}

/// Seconds from an instant until the next minute begins, whose counters start at zero: 1 to 60.
///
/// An instant is read as the very beginning of its second, so waiting this long is always enough.
#[must_use]
pub const fn seconds_until_next_minute(unix_seconds: i64) -> u64 {
    (SECONDS_PER_MINUTE - unix_seconds.rem_euclid(SECONDS_PER_MINUTE)).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_1_to_60_seconds_on_both_sides_of_1970() {
        for (now, minute, wait) in
            [(0, 0, 60), (59, 0, 1), (60, 1, 60), (61, 1, 59), (-1, -1, 1), (-60, -1, 60)]
        {
            assert_eq!((minute_of(now), seconds_until_next_minute(now)), (minute, wait), "{now}");
        }
        for edge in [i64::MIN, i64::MAX] {
            assert!((1..=60).contains(&seconds_until_next_minute(edge)));
        }
    }
}
