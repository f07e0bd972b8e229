//! The index of pending spend by the time at which events started.

use core::fmt;

use crate::{Millis, ScopeRef};

/// The kind of the scopes whose pending spend can be asked for since an instant.
pub const ORGANIZATION: &str = "organization";

/// An organization and a millisecond in which events that charge it started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Start {
    organization_id: Box<str>,
    at: Millis,
}

impl Start {
    /// The place in the index of what an event that started then charges to a scope: only organizations have one.
    #[must_use]
    pub fn of(scope: &ScopeRef, at: Millis) -> Option<Self> {
        (scope.kind() == ORGANIZATION).then(|| Self::new(scope.id(), at))
    }

    /// The place of an organization at an instant.
    #[must_use]
    pub fn new(organization_id: impl Into<Box<str>>, at: Millis) -> Self {
        Self { organization_id: organization_id.into(), at }
    }

    /// The organization.
    #[must_use]
    pub fn organization_id(&self) -> &str {
        &self.organization_id
    }

    /// When the events started.
    #[must_use]
    pub const fn at(&self) -> Millis {
        self.at
    }
}

/// As a text that sorts by organization, then by time. The separator is a control character, which no id contains, so
/// no id can reach into another's range.
impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\u{1f}{:015}", self.organization_id, self.at.get())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn start(id: &str, at: u64) -> Start {
        Start::new(id, Millis::new(at).unwrap())
    }

    #[test]
    fn only_organizations_are_indexed() {
        let at = Millis::new(5).unwrap();
        assert_eq!(Start::of(&ScopeRef::new("organization", "o").unwrap(), at), Some(start("o", 5)));
        assert_eq!(Start::of(&ScopeRef::new("team", "o").unwrap(), at), None);
    }

    proptest! {
        #[test]
        fn texts_sort_by_time_and_keep_organizations_apart(
            one in "[ a0-9~]{1,4}", other in "[ a0-9~]{1,4}", at in 0..3_000_000_000_000_u64, later in 0..3_000_000_000_000_u64,
        ) {
            let text = |id: &str, at| start(id, at).to_string();
            prop_assert_eq!(text(&one, at).cmp(&text(&one, later)), at.cmp(&later));
            let range = text(&one, 0)..=text(&one, Millis::LATEST.get());
            prop_assert_eq!(range.contains(&text(&other, at)), one == other);
        }
    }
}
