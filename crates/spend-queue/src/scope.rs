//! The subject of a charge.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::text::{TextProblem, check_id};

/// A billed subject: a kind (`organization`, `team`, `project`, `user`, `key`, or any other) and a stable id.
///
/// For a key the id is the stable id of its row, never the secret or its hash, so that rotating the secret
/// changes nothing. Written as `kind/id`; a `/` or `%` inside the kind is escaped (`%2F`, `%25`), so two
/// different scopes never share a text.
///
/// ```
/// use spend_queue::ScopeRef;
///
/// let scope = ScopeRef::new("team", "red/blue")?;
/// assert_eq!(scope.to_string(), "team/red/blue");
/// assert_eq!("team/red/blue".parse::<ScopeRef>()?, scope);
/// # Ok::<(), spend_queue::ScopeRefError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeRef {
    kind: Box<str>,
    id: Box<str>,
}

/// Why a scope was refused; a retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScopeRefError {
    /// The kind breaks the rule for identifiers.
    #[error("scope kind {0}")]
    Kind(TextProblem),
    /// The id breaks the rule for identifiers.
    #[error("scope id {0}")]
    Id(TextProblem),
    /// The text is not `kind/id`, or its kind has a broken escape.
    #[error("a scope is written as kind/id")]
    Form,
}

impl ScopeRef {
    /// A scope of these two parts.
    ///
    /// # Errors
    ///
    /// When either part is empty, longer than 128 bytes, or has a control character.
    pub fn new(kind: impl Into<Box<str>>, id: impl Into<Box<str>>) -> Result<Self, ScopeRefError> {
        let (kind, id) = (kind.into(), id.into());
        check_id(&kind).map_err(ScopeRefError::Kind)?;
        check_id(&id).map_err(ScopeRefError::Id)?;
        Ok(Self { kind, id })
    }

    /// A scope whose parts were checked elsewhere.
    pub(crate) fn checked(kind: &str, id: &str) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }

    /// What sort of subject it is.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Which one of its kind.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for ScopeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.kind.chars() {
            match c {
                '/' => f.write_str("%2F")?,
                '%' => f.write_str("%25")?,
                other => fmt::Write::write_char(f, other)?,
            }
        }
        write!(f, "/{}", self.id)
    }
}

impl fmt::Debug for ScopeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl FromStr for ScopeRef {
    type Err = ScopeRefError;

    fn from_str(text: &str) -> Result<Self, ScopeRefError> {
        let (kind, id) = text.split_once('/').ok_or(ScopeRefError::Form)?;
        let scope = Self::new(kind.replace("%2F", "/").replace("%25", "%"), id)?;
        // One scope has one text: an escape that was not needed, or a broken one, is refused.
        if scope.to_string() == text { Ok(scope) } else { Err(ScopeRefError::Form) }
    }
}

impl Serialize for ScopeRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ScopeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_breaks_the_rule_for_identifiers_is_refused() {
        let long = "x".repeat(129);
        for (kind, id) in
            [("", "a"), ("team", ""), ("team", "a\nb"), ("te\0am", "a"), (&long, "a"), ("team", &long)]
        {
            assert!(ScopeRef::new(kind, id).is_err(), "{kind:?} {id:?}");
        }
        for (kind, id) in [("team", "{}:*?[]"), ("team", " a "), ("équipe", "ü"), ("a/b", "c/d")] {
            assert!(ScopeRef::new(kind, id).is_ok(), "{kind:?} {id:?}");
        }
    }

    #[test]
    fn a_text_with_another_spelling_of_the_same_scope_is_refused() {
        for text in ["team", "a%2f/b", "a%/b", "a%252F/b/%"] {
            let parsed = text.parse::<ScopeRef>();
            assert!(parsed.as_ref().map_or(true, |scope| scope.to_string() == text), "{text}: {parsed:?}");
        }
        assert_eq!("a%/b".parse::<ScopeRef>(), Err(ScopeRefError::Form));
    }

    proptest! {
        #[test]
        fn no_two_scopes_share_a_text(a in "[a/%25F]{1,6}", b in "[a/%25F]{1,6}", c in "[a/%25F]{1,6}", d in "[a/%25F]{1,6}") {
            let (left, right) = (ScopeRef::new(a, b).unwrap(), ScopeRef::new(c, d).unwrap());
            prop_assert_eq!(left == right, left.to_string() == right.to_string());
            prop_assert_eq!(left.to_string().parse::<ScopeRef>(), Ok(left));
        }
    }
}
