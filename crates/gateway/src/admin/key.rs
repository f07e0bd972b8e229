//! `key rotate`, `key block`, `key unblock`.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::{SecondsFormat, Utc};
use iam_ledger::{IdentityPatch, ScopeKind};
use serde_json::json;

use super::{BlockOptions, RotateOptions};
use crate::output;

pub(super) async fn rotate(options: &RotateOptions) -> Result<()> {
    let (keyring, _) = options.keyring.keyring().await?;
    let id = &options.id;
    let grace = Duration::from_secs(options.grace_seconds.into());
    let until = (!grace.is_zero()).then(|| Utc::now() + grace);
    let secret = keyring.rotate_key(id, until).await?;
    let until = until.map(|until| until.to_rfc3339_opts(SecondsFormat::Secs, true));
    let value = options
        .json
        .then(|| json!({ "key": id, "secret": secret.expose_secret(), "old_valid_until": until }));
    let text = || {
        let old = until.as_ref().map_or_else(
            || "is refused, by gateways as soon as they hear of it".to_owned(),
            |until| format!("is accepted until {until}"),
        );
        format!(
            "rotated    key/{id}: the old secret {old}\n\nIts new secret; it cannot be shown again:\n{}\n",
            secret.expose_secret()
        )
    };
    output::print(value.as_ref(), text).context("the new secret is lost; rotate again")
}

pub(super) async fn set_blocked(options: &BlockOptions, blocked: bool) -> Result<()> {
    let ledger = options.ledger.ledger().await?;
    let id = &options.id;
    ledger.update(ScopeKind::Key, id, &IdentityPatch::new().set_blocked(blocked)).await?;
    let value = options.json.then(|| json!({ "key": id, "blocked": blocked }));
    output::print(value.as_ref(), || {
        format!("{}  key/{id}\n", if blocked { "blocked  " } else { "unblocked" })
    })
}
