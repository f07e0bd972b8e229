//! Scopes and their texts.

use spend_queue::ScopeRef;

use crate::lines;

/// The longest part of a scope, in bytes.
const MAX_PART_BYTES: usize = 128;

/// One scope has one text, two never share one, and what is no scope is refused.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let lines = lines(bytes);
    let mut scopes = Vec::new();
    for text in &lines {
        if let Ok(scope) = text.parse::<ScopeRef>() {
            assert_eq!(scope.to_string(), *text, "another spelling was taken");
            scopes.push(scope);
        }
    }
    for pair in lines.windows(2) {
        let made = ScopeRef::new(pair[0].as_str(), pair[1].as_str());
        assert_eq!(made.is_ok(), pair.iter().all(|part| is_legal(part)), "{pair:?}");
        if let Ok(scope) = made {
            assert_eq!((scope.kind(), scope.id()), (pair[0].as_str(), pair[1].as_str()));
            assert_eq!(scope.to_string().parse(), Ok(scope.clone()));
            let json = serde_json::to_string(&scope).expect("a scope is a string");
            assert_eq!(serde_json::from_str::<ScopeRef>(&json).ok().as_ref(), Some(&scope));
            scopes.push(scope);
        }
    }
    for one in &scopes {
        for other in &scopes {
            assert_eq!(one == other, one.to_string() == other.to_string(), "{one:?} {other:?}");
        }
    }
}

fn is_legal(part: &str) -> bool {
    (1..=MAX_PART_BYTES).contains(&part.len()) && !part.chars().any(char::is_control)
}
