//! Two organizations of four teams with four keys each: one with limits only, one with budgets at every level, too.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

const TEAMS: u64 = 4;
const KEYS: u64 = 4;
/// Limits of an organization: far above what the bench reaches, and shared out exactly, so that every check is made and
/// none refuses.
const RPM: u64 = 16_000_000;
const TPM: u64 = 1_600_000_000;
const BUDGET_USD: u64 = 1_600_000;

/// Secrets of keys.
pub(crate) struct Tenant {
    /// Of those whose paths have no budget.
    pub(crate) unbudgeted: Vec<String>,
    /// Of those with budgets of their own, their teams' and their organization's.
    pub(crate) budgeted: Vec<String>,
}

impl Tenant {
    /// Creates all by the gateway's command `tenant`, which finds the database in its environment.
    pub(crate) fn create(gateway: &mut Command, folder: &Path) -> Result<Self> {
        let file = folder.join("tenant.toml");
        fs::write(&file, text())?;
        let output =
            gateway.arg("tenant").arg(&file).arg("--json").output().context("creating the tenant")?;
        ensure!(output.status.success(), "tenant: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let keys = report["keys"].as_array().context("the tenant has no keys")?;
        let of = |organization: &str| {
            let keys =
                keys.iter().filter(|key| key["id"].as_str().is_some_and(|id| id.starts_with(organization)));
            keys.filter_map(|key| key["secret"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let tenant = Self { unbudgeted: of("plain"), budgeted: of("budget") };
        ensure!(tenant.unbudgeted.len() == tenant.budgeted.len() && !tenant.budgeted.is_empty(), "{report}");
        Ok(tenant)
    }
}

fn text() -> String {
    let mut text = String::new();
    let mut add = |section: &str, id: &str, owners: &str, share: u64, budgeted: bool| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[[{section}]]\nid = \"{id}\"\n{owners}rpm = {}\ntpm = {}",
            RPM / share,
            TPM / share
        );
        if budgeted {
            let _ = writeln!(text, "budget_usd = \"{}\"\nbudget_period = \"monthly\"", BUDGET_USD / share);
        }
    };
    for (organization, budgeted) in [("plain", false), ("budget", true)] {
        add("organizations", organization, "", 1, budgeted);
        for team in 1..=TEAMS {
            let owner = format!("organization = \"{organization}\"\n");
            let id = format!("{organization}-{team}");
            add("teams", &id, &owner, TEAMS, budgeted);
            for key in 1..=KEYS {
                let owners = format!("{owner}team = \"{id}\"\n");
                add("keys", &format!("{id}-{key}"), &owners, TEAMS * KEYS, budgeted);
            }
        }
    }
    text
}
