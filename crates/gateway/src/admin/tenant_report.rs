//! What `tenant` did, and the secrets of new keys.

use std::fmt::Write;

use anyhow::{Context, Result};
use iam_ledger::KeySecret;
use serde_json::{Value, json};

use super::difference::FieldChange;
use super::tenant_file::Wanted;
use crate::output;

/// What was done, in order. Secrets are shown by [`Report::print`] and nowhere else.
#[derive(Default)]
pub(super) struct Report {
    created: Vec<String>,
    updated: Vec<(String, Vec<FieldChange>)>,
    unchanged: Vec<String>,
    secrets: Vec<(String, KeySecret)>,
}

impl Report {
    pub(super) fn created(&mut self, one: &Wanted, secret: Option<KeySecret>) {
        self.created.push(scope(one));
        if let Some(secret) = secret {
            self.secrets.push((one.identity.id.clone(), secret));
        }
    }

    pub(super) fn updated(&mut self, one: &Wanted, changes: Vec<FieldChange>) {
        self.updated.push((scope(one), changes));
    }

    pub(super) fn unchanged(&mut self, one: &Wanted) {
        self.unchanged.push(scope(one));
    }

    /// Writes it all to standard output.
    pub(super) fn print(&self, json: bool) -> Result<()> {
        let value = json.then(|| self.json());
        output::print(value.as_ref(), || self.text()).with_context(|| {
            let ids: Vec<_> = self.secrets.iter().map(|(id, _)| &**id).collect();
            format!("new secrets are lost; rotate these keys: {ids:?}")
        })
    }

    fn json(&self) -> Value {
        let updated =
            self.updated.iter().map(|(scope, changes)| json!({ "scope": scope, "changes": changes }));
        let keys =
            self.secrets.iter().map(|(id, secret)| json!({ "id": id, "secret": secret.expose_secret() }));
        json!({
            "created": self.created,
            "updated": updated.collect::<Vec<_>>(),
            "unchanged": self.unchanged,
            "keys": keys.collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for scope in &self.unchanged {
            let _ = writeln!(text, "unchanged  {scope}");
        }
        for (scope, changes) in &self.updated {
            let changes: Vec<_> = changes
                .iter()
                .map(|FieldChange { field, was, now }| format!("{field} {was} -> {now}"))
                .collect();
            let _ = writeln!(text, "updated    {scope}: {}", changes.join(", "));
        }
        for scope in &self.created {
            let _ = writeln!(text, "created    {scope}");
        }
        if !self.secrets.is_empty() {
            text.push_str("\nSecrets of the new keys; they cannot be shown again:\n");
        }
        for (id, secret) in &self.secrets {
            let _ = writeln!(text, "{}  {id}", secret.expose_secret());
        }
        text
    }
}

fn scope(one: &Wanted) -> String {
    format!("{}/{}", one.identity.kind, one.identity.id)
}
