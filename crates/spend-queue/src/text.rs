//! The rule for identifiers and names: bounded, printable, compared byte for byte.

use core::fmt;

/// The longest identifier, in bytes.
pub const MAX_ID_BYTES: usize = 128;

/// What is wrong with a text, without its value (which may be hostile or secret).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextProblem {
    /// No bytes at all where at least one is needed.
    Empty,
    /// More bytes than the bound.
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A control character (U+0000 to U+001F, U+007F to U+009F).
    ControlCharacter {
        /// Its byte offset.
        at: usize,
    },
}

impl fmt::Display for TextProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::TooLong { bytes, max } => write!(f, "has {bytes} bytes, at most {max} are allowed"),
            Self::ControlCharacter { at } => write!(f, "has a control character at byte {at}"),
        }
    }
}

/// Checks a text that may be empty. Nothing is trimmed or normalised: two ids that look alike stay two ids.
pub(crate) fn check_text(text: &str, max: usize) -> Result<(), TextProblem> {
    if text.len() > max {
        return Err(TextProblem::TooLong { bytes: text.len(), max });
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(TextProblem::ControlCharacter { at }),
        None => Ok(()),
    }
}

/// Checks an identifier: 1 to 128 bytes, no control characters.
pub(crate) fn check_id(id: &str) -> Result<(), TextProblem> {
    if id.is_empty() { Err(TextProblem::Empty) } else { check_text(id, MAX_ID_BYTES) }
}
