//! What a notification says.

use serde::Deserialize;
use spend_queue::ScopeRef;

/// The channel on which the triggers notify; `migrations/0003_identity_changes.up.sql` writes it.
pub(super) const CHANNEL: &str = "iam_ledger_config";

/// Identities below a billing root changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigChange {
    pub(super) root: ScopeRef,
    /// The keys whose identities may be others now; `None` for all below the root.
    pub(super) keys: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Payload {
    kind: String,
    id: String,
    keys: Option<Vec<String>>,
}

impl ConfigChange {
    /// None for what the triggers do not write: whoever may connect may notify, and can cause no more than this.
    pub(super) fn parse(payload: &str) -> Option<Self> {
        let Payload { kind, id, keys } = serde_json::from_str(payload).ok()?;
        Some(Self { root: ScopeRef::new(kind, id).ok()?, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_read_and_noise_is_not() {
        let root: ScopeRef = "organization/o".parse().unwrap();
        for (payload, keys) in [
            (r#"{"kind":"organization","id":"o","keys":["k"]}"#, Some(vec!["k".to_owned()])),
            (r#"{"kind":"organization","id":"o","keys":[]}"#, Some(vec![])),
            (r#"{"kind":"organization","id":"o","keys":null}"#, None),
        ] {
            assert_eq!(ConfigChange::parse(payload), Some(ConfigChange { root: root.clone(), keys }));
        }
        for noise in ["", "{}", "o", r#"{"kind":"organization","id":""}"#, r#"{"kind":1,"id":"o"}"#] {
            assert_eq!(ConfigChange::parse(noise), None, "{noise}");
        }
    }
}
