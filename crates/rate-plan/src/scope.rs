//! Scopes: the subjects that limits apply to.

use alloc::boxed::Box;
use core::fmt;

use crate::{ScopeError, ScopePart};

/// The longest kind or id of a scope, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 128;

/// A limited subject: a kind (`organization`, `team`, `key`, any word) and a stable id within that kind.
///
/// Each part has 1 to [`MAX_ID_BYTES`] bytes and no control character. Parts are compared byte for byte: nothing
/// is trimmed, case-folded or normalised, so that two systems can never disagree on whether two ids are one.
///
/// `Display` writes the scope reference, `kind/id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Unchecked"))]
pub struct Scope {
    kind: Box<str>,
    id: Box<str>,
}

impl Scope {
    /// Makes a scope of a kind and an id.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] when a part is empty, longer than [`MAX_ID_BYTES`] or holds a control character (Unicode
    /// category Cc, which is U+0000 to U+001F and U+007F to U+009F). The same input is refused for ever.
    pub fn new(kind: impl Into<Box<str>>, id: impl Into<Box<str>>) -> Result<Self, ScopeError> {
        Ok(Self { kind: checked(ScopePart::Kind, kind.into())?, id: checked(ScopePart::Id, id.into())? })
    }

    /// The kind, as it was given.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The id, as it was given.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

fn checked(part: ScopePart, value: Box<str>) -> Result<Box<str>, ScopeError> {
    if value.is_empty() {
        return Err(ScopeError::Empty { part });
    }
    if value.len() > MAX_ID_BYTES {
        return Err(ScopeError::TooLong { part, bytes: value.len() });
    }
    match value.char_indices().find(|(_, c)| c.is_control()) {
        Some((offset, _)) => Err(ScopeError::ControlCharacter { part, offset }),
        None => Ok(value),
    }
}

/// What a serialised scope looks like before [`Scope::new`] has judged it.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    kind: Box<str>,
    id: Box<str>,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Scope {
    type Error = ScopeError;

    fn try_from(unchecked: Unchecked) -> Result<Self, ScopeError> {
        Self::new(unchecked.kind, unchecked.id)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn parts_are_kept_byte_for_byte() {
        let scope = Scope::new(" Team ", "é/a b").unwrap();
        assert_eq!((scope.kind(), scope.id()), (" Team ", "é/a b"));
        assert_eq!(scope.to_string(), " Team /é/a b");
        assert_ne!(scope, Scope::new(" Team ", "e\u{301}/a b").unwrap(), "no Unicode normalisation");
    }

    #[test]
    fn a_part_has_at_least_one_and_at_most_128_bytes() {
        assert_eq!(Scope::new("", "a"), Err(ScopeError::Empty { part: ScopePart::Kind }));
        assert_eq!(Scope::new("team", ""), Err(ScopeError::Empty { part: ScopePart::Id }));
        assert!(Scope::new("k".repeat(128), "é".repeat(64)).is_ok());
        assert_eq!(
            Scope::new("team", "é".repeat(64) + "a"),
            Err(ScopeError::TooLong { part: ScopePart::Id, bytes: 129 }),
            "bytes are counted, not characters"
        );
    }

    #[test]
    fn a_control_character_is_refused_where_it_stands() {
        for (id, offset) in [("\0", 0), ("a\nb", 1), ("ab\u{7f}", 2), ("é\u{85}", 2)] {
            let expected = ScopeError::ControlCharacter { part: ScopePart::Id, offset };
            assert_eq!(Scope::new("team", id), Err(expected));
        }
    }
}
