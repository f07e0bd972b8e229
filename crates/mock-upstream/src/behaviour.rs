//! What a request, or `/control`, asks the mock to do.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::tokens::MAX_ANSWER_TOKENS;

/// The longest wait that can be asked for.
const MAX_WAIT_MS: u64 = 3_600_000;

/// How to answer, where that differs from the usual. `None` is the usual.
///
/// ```
/// use mock_upstream::{Behaviour, Failure};
///
/// let slow: Behaviour = "latency_ms=250, tokens=8, half".parse()?;
/// assert_eq!((slow.tokens, slow.failure), (Some(8), Some(Failure::Half)));
/// # Ok::<(), mock_upstream::BehaviourError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// From the request to the beginning of its answer.
    pub latency: Option<Duration>,
    /// Between two tokens of a stream.
    pub interval: Option<Duration>,
    /// Length of an answer, 0 to [`MAX_ANSWER_TOKENS`].
    pub tokens: Option<u32>,
    /// Tokens of the prompt that are said to have been cached.
    pub cached: Option<u64>,
    /// Whether `usage` is left out.
    pub no_usage: bool,
    /// What goes wrong.
    pub failure: Option<Failure>,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// An error with this status, 400 to 599.
    Status(u16),
    /// Status 200 and a body that is no JSON.
    Garbage,
    /// The connection breaks in the middle of the answer.
    Half,
    /// The connection closes before any answer.
    Nothing,
    /// No answer until the client leaves.
    Hang,
}

/// A word that is none. A retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BehaviourError {
    /// There is no such word.
    #[error("mock: {0:?} is no word of it")]
    Unknown(String),
    /// The number behind a word is none, or out of its range.
    #[error("mock: {word}={value:?}, from {first} to {last}")]
    Number {
        /// The word.
        word: &'static str,
        /// What stood behind it.
        value: String,
        /// The least that is allowed.
        first: u64,
        /// The most that is allowed.
        last: u64,
    },
}

impl Behaviour {
    /// This, and what it leaves open as `usual` has it.
    #[must_use]
    pub fn or(self, usual: Self) -> Self {
        Self {
            latency: self.latency.or(usual.latency),
            interval: self.interval.or(usual.interval),
            tokens: self.tokens.or(usual.tokens),
            cached: self.cached.or(usual.cached),
            no_usage: self.no_usage || usual.no_usage,
            failure: self.failure.or(usual.failure),
        }
    }
}

impl FromStr for Behaviour {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, BehaviourError> {
        let mut behaviour = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let unknown = || BehaviourError::Unknown(word.chars().take(40).collect());
            match word.split_once('=') {
                Some(("status", value)) => {
                    let status = number::<u16>("status", value, 400, 599)?;
                    behaviour.failure = Some(Failure::Status(status));
                }
                Some(("latency_ms", value)) => behaviour.latency = Some(wait("latency_ms", value)?),
                Some(("interval_ms", value)) => behaviour.interval = Some(wait("interval_ms", value)?),
                Some(("tokens", value)) => {
                    behaviour.tokens = Some(number("tokens", value, 0, MAX_ANSWER_TOKENS.into())?);
                }
                Some(("cached", value)) => {
                    behaviour.cached = Some(number("cached", value, 0, u32::MAX.into())?);
                }
                Some(_) => return Err(unknown()),
                None => match word {
                    "no_usage" => behaviour.no_usage = true,
                    "garbage" => behaviour.failure = Some(Failure::Garbage),
                    "half" => behaviour.failure = Some(Failure::Half),
                    "nothing" => behaviour.failure = Some(Failure::Nothing),
                    "hang" => behaviour.failure = Some(Failure::Hang),
                    _ => return Err(unknown()),
                },
            }
        }
        Ok(behaviour)
    }
}

fn wait(word: &'static str, value: &str) -> Result<Duration, BehaviourError> {
    number(word, value, 0, MAX_WAIT_MS).map(Duration::from_millis)
}

fn number<T: TryFrom<u64>>(
    word: &'static str,
    value: &str,
    first: u64,
    last: u64,
) -> Result<T, BehaviourError> {
    let refused = || BehaviourError::Number { word, value: value.chars().take(40).collect(), first, last };
    let number = value.parse::<u64>().ok().filter(|number| (first..=last).contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_understood_and_blanks_do_not_matter() {
        let text = " status=503,latency_ms=7 , interval_ms=0,tokens=9,cached=4,no_usage,";
        let expected = Behaviour {
            latency: Some(Duration::from_millis(7)),
            interval: Some(Duration::ZERO),
            tokens: Some(9),
            cached: Some(4),
            no_usage: true,
            failure: Some(Failure::Status(503)),
        };
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!("".parse(), Ok(Behaviour::default()));
        for (word, failure) in [
            ("garbage", Failure::Garbage),
            ("half", Failure::Half),
            ("nothing", Failure::Nothing),
            ("hang", Failure::Hang),
        ] {
            assert_eq!(word.parse::<Behaviour>().unwrap().failure, Some(failure));
        }
    }

    #[test]
    fn what_is_no_word_is_refused_by_name() {
        for (text, message) in [
            ("statsu=503", "mock: \"statsu=503\" is no word of it"),
            ("Half", "mock: \"Half\" is no word of it"),
            ("status=200", "mock: status=\"200\", from 400 to 599"),
            ("tokens=-1", "mock: tokens=\"-1\", from 0 to 131072"),
            ("latency_ms=", "mock: latency_ms=\"\", from 0 to 3600000"),
        ] {
            assert_eq!(text.parse::<Behaviour>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_request_goes_before_the_usual() {
        let usual: Behaviour = "latency_ms=5,hang".parse().unwrap();
        let asked: Behaviour = "latency_ms=1,tokens=2".parse().unwrap();
        assert_eq!(asked.or(usual), "latency_ms=1,tokens=2,hang".parse().unwrap());
    }
}
