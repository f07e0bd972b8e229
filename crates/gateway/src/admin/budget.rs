//! `budget`: what a scope may spend.

use anyhow::Result;
use iam_ledger::{Change, IdentityPatch};
use serde_json::json;

use super::difference::amount;
use super::{Amount, BudgetOptions, Scope};
use crate::output;

pub(super) async fn run(options: &BudgetOptions) -> Result<()> {
    let ledger = options.ledger.ledger().await?;
    let (Scope { kind, id }, Amount(now)) = (&options.scope, options.amount);
    // Read first, for the report only: two of these at once both take effect, the later one last.
    let before = ledger.identity(*kind, id).await?.budget;
    let mut patch = IdentityPatch::new();
    patch.budget = now.map_or(Change::Clear, Change::Set);
    ledger.update(*kind, id, &patch).await?;
    let period = before.period.as_str();
    let value = options.json.then(|| {
        json!({
            "scope": format!("{kind}/{id}"),
            "budget_usd": now.map(|amount| amount.to_string()),
            "was_usd": before.amount.map(|amount| amount.to_string()),
            "period": period,
        })
    });
    output::print(value.as_ref(), || {
        format!(
            "updated    {kind}/{id}: budget_usd {} -> {}, period {period}\n",
            amount(before.amount),
            amount(now)
        )
    })
}
