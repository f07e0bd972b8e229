//! The identity of a run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// Tells the tenants and requests of one run from those of others in the same database: 1 to 24 characters of
/// `a-z 0-9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

/// A run id with other characters, or of a wrong length.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("1 to 24 characters of a-z and 0-9 are accepted")]
pub struct RunIdError;

impl RunId {
    /// The id of a run that a process begins at a time since the Unix epoch.
    #[must_use]
    pub fn of_process(since_epoch: Duration, process: u32) -> Self {
        Self(format!("r{}p{}", base36(since_epoch.as_millis()), base36(process.into())))
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        match (1..=24).contains(&text.len()) && text.bytes().all(legal) {
            true => Ok(Self(text.to_owned())),
            false => Err(RunIdError),
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn base36(mut number: u128) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[usize::try_from(number % 36).unwrap_or_default()]));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_no_character_that_could_divide_it() {
        for text in ["", "a-b", "A", "a b", "ä", &"x".repeat(25)] {
            assert_eq!(text.parse::<RunId>(), Err(RunIdError), "{text:?}");
        }
        assert!("run7".parse::<RunId>().is_ok());
    }

    #[test]
    fn the_id_of_a_process_is_legal() {
        let id = RunId::of_process(Duration::from_secs(253_402_300_799), u32::MAX);
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}
