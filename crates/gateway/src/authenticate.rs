//! Step 1: whose key is it?

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use chrono::{DateTime, Utc};
use iam_ledger::Identity;
use secrecy::SecretString;

use crate::error::ApiError;
use crate::state::State;

/// The identity of the bearer's secret, from memory if it was here lately; refused if it, or a scope above it, is blocked.
pub(crate) async fn authenticate(
    state: &State,
    headers: &HeaderMap,
    now: DateTime<Utc>,
) -> Result<Arc<Identity>, ApiError> {
    let secret = bearer(headers).ok_or_else(ApiError::invalid_api_key)?;
    let identity = state.identities.authenticate(&secret, now).await;
    let identity = identity.map_err(|error| ApiError::authentication(&error))?;
    identity.require_unblocked().map_err(|error| ApiError::authentication(&error))?;
    Ok(identity)
}

/// The secret of `authorization: Bearer SECRET`; the scheme in any case (RFC 9110, section 11.1). Of two such headers neither
/// is believed.
fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, secret) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_matches(' ').into())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn only_one_bearer_is_believed() {
        for (values, expected) in [
            (&["Bearer tw_1"][..], Some("tw_1")),
            (&["bearer  tw_1 "], Some("tw_1")),
            (&["Basic tw_1"], None),
            (&["tw_1"], None),
            (&["Bearer"], None),
            (&[], None),
            (&["Bearer tw_1", "Bearer tw_2"], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            let found = bearer(&headers);
            assert_eq!(found.as_ref().map(|secret| secret.expose_secret()), expected, "{values:?}");
        }
    }
}
