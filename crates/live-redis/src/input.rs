//! What a caller may pass, checked before anything is sent.

use std::time::Duration;

use rate_plan::MAX_LIMIT;
use spend_queue::{BatchLimit, MAX_BATCH, MAX_ID_BYTES, TextProblem};
use thiserror::Error;

/// The longest key of a string or an affinity, in bytes: such keys are put together from several ids.
pub const MAX_KEY_BYTES: usize = 512;

/// The largest value of a string or an affinity, in bytes: 1 MiB.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// The longest time to live, cooldowns included: 400 days. The shortest is 1 ms.
pub const MAX_TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// An argument that is out of bounds. Nothing was sent; the same call is always refused. The text names the argument,
/// what is wrong with it and the bound, and repeats no id, key or value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputError {
    /// An id or a key.
    #[error("{field} {problem}")]
    Text {
        /// The argument.
        field: &'static str,
        /// What is wrong with it, and the bound.
        problem: TextProblem,
    },
    /// A value above [`MAX_VALUE_BYTES`].
    #[error("{field} has {bytes} bytes, at most {MAX_VALUE_BYTES} are allowed")]
    Value {
        /// The argument.
        field: &'static str,
        /// Bytes given.
        bytes: usize,
    },
    /// A time to live below 1 ms or above [`MAX_TTL`].
    #[error("{field} is {given:?}; 1 ms to 400 days are possible")]
    Ttl {
        /// The argument.
        field: &'static str,
        /// What was given.
        given: Duration,
    },
    /// A count that is negative or above 2^53-1.
    #[error("{field} is {given}; 0 to {MAX_LIMIT} are possible")]
    Count {
        /// The argument.
        field: &'static str,
        /// What was given.
        given: i64,
    },
    /// A number of entries outside 1 to [`MAX_BATCH`].
    #[error("{field} is {given}; 1 to {MAX_BATCH} are possible")]
    Batch {
        /// The argument.
        field: &'static str,
        /// What was given.
        given: u32,
    },
    /// A measurement that is negative, infinite or no number.
    #[error("{field} is {class}; a finite number that is not negative is needed")]
    Sample {
        /// The argument.
        field: &'static str,
        /// `negative`, `infinite` or `not a number`.
        class: &'static str,
    },
    /// Plans that one call cannot decide together: of several trees, of several versions of one, or flat with unlike limits for a
    /// scope.
    #[error(
        "{field}: the plan at place {place} is of another tree than the first, or limits a scope differently; one call decides requests of one tree"
    )]
    SeveralTrees {
        /// The argument.
        field: &'static str,
        /// The first plan that does not fit those before it, from 0.
        place: usize,
    },
}

/// 1 to 128 bytes, no control character.
pub(crate) fn id(field: &'static str, text: &str) -> Result<(), InputError> {
    name(field, text, MAX_ID_BYTES)
}

/// 1 to [`MAX_KEY_BYTES`] bytes, no control character.
pub(crate) fn key(field: &'static str, text: &str) -> Result<(), InputError> {
    name(field, text, MAX_KEY_BYTES)
}

fn name(field: &'static str, text: &str, max: usize) -> Result<(), InputError> {
    let problem = if text.is_empty() {
        Some(TextProblem::Empty)
    } else if text.len() > max {
        Some(TextProblem::TooLong { bytes: text.len(), max })
    } else {
        let control = text.char_indices().find(|(_, c)| c.is_control());
        control.map(|(at, _)| TextProblem::ControlCharacter { at })
    };
    problem.map_or(Ok(()), |problem| Err(InputError::Text { field, problem }))
}

/// Any text up to [`MAX_VALUE_BYTES`], the empty one included.
pub(crate) fn value(field: &'static str, text: &str) -> Result<(), InputError> {
    let bytes = text.len();
    if bytes <= MAX_VALUE_BYTES { Ok(()) } else { Err(InputError::Value { field, bytes }) }
}

/// The milliseconds of a time to live, rounded down.
pub(crate) fn ttl(field: &'static str, given: Duration) -> Result<u64, InputError> {
    let refused = InputError::Ttl { field, given };
    if given > MAX_TTL {
        return Err(refused);
    }
    u64::try_from(given.as_millis()).ok().filter(|&millis| millis > 0).ok_or(refused)
}

/// 0 to 2^53-1.
pub(crate) fn count(field: &'static str, given: i64) -> Result<u64, InputError> {
    u64::try_from(given).ok().filter(|&count| count <= MAX_LIMIT).ok_or(InputError::Count { field, given })
}

/// 1 to [`MAX_BATCH`].
pub(crate) fn batch(field: &'static str, given: u32) -> Result<BatchLimit, InputError> {
    BatchLimit::new(given).map_err(|_| InputError::Batch { field, given })
}

/// Finite and not negative; minus zero becomes zero.
pub(crate) fn sample(field: &'static str, given: f64) -> Result<f64, InputError> {
    let class = if given.is_nan() {
        "not a number"
    } else if given < 0.0 {
        "negative"
    } else if given.is_infinite() {
        "infinite"
    } else {
        return Ok(given + 0.0);
    };
    Err(InputError::Sample { field, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_bytes_and_free_of_control_characters() {
        for fine in ["a", " ", "{}:*", "ü", &"x".repeat(128)] {
            assert_eq!(id("id", fine), Ok(()), "{fine:?}");
        }
        let long = "ü".repeat(65);
        for (bad, problem) in [
            ("", TextProblem::Empty),
            (long.as_str(), TextProblem::TooLong { bytes: 130, max: 128 }),
            ("a\nb", TextProblem::ControlCharacter { at: 1 }),
            ("\0", TextProblem::ControlCharacter { at: 0 }),
            ("ü\u{85}", TextProblem::ControlCharacter { at: 2 }),
        ] {
            assert_eq!(id("id", bad), Err(InputError::Text { field: "id", problem }), "{bad:?}");
        }
        assert_eq!(key("key", &"x".repeat(512)), Ok(()));
        assert!(key("key", &"x".repeat(513)).is_err());
    }

    #[test]
    fn times_to_live_reach_from_a_millisecond_to_400_days() {
        assert_eq!(ttl("ttl", Duration::from_millis(1)), Ok(1));
        assert_eq!(ttl("ttl", MAX_TTL), Ok(34_560_000_000));
        for given in
            [Duration::ZERO, Duration::from_micros(999), MAX_TTL + Duration::from_nanos(1), Duration::MAX]
        {
            assert_eq!(ttl("ttl", given), Err(InputError::Ttl { field: "ttl", given }));
        }
    }

    #[test]
    fn counts_reach_from_zero_to_what_lua_can_count_exactly() {
        let most = (1 << 53) - 1;
        assert_eq!(count("tokens", 0), Ok(0));
        assert_eq!(count("tokens", most), Ok(MAX_LIMIT));
        for given in [-1, i64::MIN, most + 1, i64::MAX] {
            assert_eq!(count("tokens", given), Err(InputError::Count { field: "tokens", given }));
        }
    }

    #[test]
    fn samples_are_finite_and_not_negative() {
        for fine in [0.0, f64::MIN_POSITIVE, 1.5, f64::MAX] {
            assert_eq!(sample("latency", fine), Ok(fine));
        }
        assert!(sample("latency", -0.0).is_ok_and(f64::is_sign_positive));
        for (bad, class) in [
            (f64::NAN, "not a number"),
            (-0.1, "negative"),
            (f64::NEG_INFINITY, "negative"),
            (f64::INFINITY, "infinite"),
        ] {
            assert_eq!(sample("latency", bad), Err(InputError::Sample { field: "latency", class }));
        }
    }

    #[test]
    fn the_text_names_argument_problem_and_bound_and_not_what_was_given() {
        let error = id("deployment id", &"s3cret".repeat(30)).unwrap_err();
        assert_eq!(error.to_string(), "deployment id has 180 bytes, at most 128 are allowed");
        let error = ttl("cooldown", Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "cooldown is 0ns; 1 ms to 400 days are possible");
        let error = count("tokens", -3).unwrap_err();
        assert_eq!(error.to_string(), "tokens is -3; 0 to 9007199254740991 are possible");
    }
}
