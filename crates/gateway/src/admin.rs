//! What an operator does with identities: `tenant`, `key`, `budget`.

mod budget;
mod difference;
mod entry;
mod key;
mod owners;
mod tenant;
mod tenant_file;
mod tenant_report;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use iam_ledger::ScopeKind;
use spend_queue::Usd;

use crate::connection::{KeyringConnection, LedgerConnection};

/// All kinds of identities, owners before what they own.
const KINDS: [ScopeKind; 5] =
    [ScopeKind::Organization, ScopeKind::Team, ScopeKind::Project, ScopeKind::User, ScopeKind::Key];

/// The longest time that an old secret may live on: 30 days.
const MAX_GRACE_SECONDS: u32 = 30 * 86_400;

/// One of the commands.
#[derive(Debug)]
pub(crate) enum Command {
    Tenant(TenantOptions),
    Key(KeyCommand),
    Budget(BudgetOptions),
}

#[derive(Debug, Args)]
pub(crate) struct TenantOptions {
    /// What there shall be: [[organizations]], [[teams]], [[projects]], [[users]], [[keys]]
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keyring: KeyringConnection,
}

#[derive(Debug, Args)]
pub(crate) struct KeyCommand {
    #[command(subcommand)]
    action: KeyAction,
}

#[derive(Debug, Subcommand)]
enum KeyAction {
    /// Make another secret for a key, and print it; id, limits, budget and usage stay
    Rotate(RotateOptions),
    /// Refuse a key from now on
    Block(BlockOptions),
    /// Accept a blocked key again
    Unblock(BlockOptions),
}

#[derive(Debug, Args)]
struct RotateOptions {
    /// The key's id, not its secret
    id: String,
    /// How long the old secret is still accepted
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_GRACE_SECONDS)))]
    grace_seconds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keyring: KeyringConnection,
}

#[derive(Debug, Args)]
struct BlockOptions {
    /// The key's id, not its secret
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ledger: LedgerConnection,
}

#[derive(Debug, Args)]
pub(crate) struct BudgetOptions {
    /// Whose budget, such as team/blue
    #[arg(value_name = "KIND/ID", value_parser = scope)]
    scope: Scope,
    /// US dollars as a decimal number, or `none` for no bound
    #[arg(value_name = "USD|none", value_parser = amount)]
    amount: Amount,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ledger: LedgerConnection,
}

/// An identity's kind and id.
#[derive(Debug, Clone)]
struct Scope {
    kind: ScopeKind,
    id: String,
}

/// A bound on money, or none.
#[derive(Debug, Clone, Copy)]
struct Amount(Option<Usd>);

/// Does what a command says.
pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Tenant(options) => tenant::run(&options).await,
        Command::Key(KeyCommand { action }) => match action {
            KeyAction::Rotate(options) => key::rotate(&options).await,
            KeyAction::Block(options) => key::set_blocked(&options, true).await,
            KeyAction::Unblock(options) => key::set_blocked(&options, false).await,
        },
        Command::Budget(options) => budget::run(&options).await,
    }
}

fn scope(text: &str) -> Result<Scope, String> {
    let found = text
        .split_once('/')
        .and_then(|(word, id)| Some((KINDS.into_iter().find(|kind| kind.as_str() == word)?, id)));
    match found {
        Some((kind, id)) if !id.is_empty() => Ok(Scope { kind, id: id.to_owned() }),
        _ => Err("KIND/ID is accepted, KIND one of organization, team, project, user, key".to_owned()),
    }
}

fn amount(text: &str) -> Result<Amount, String> {
    match text {
        "none" => Ok(Amount(None)),
        text => text.parse().map(|amount| Amount(Some(amount))).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_known_kind_and_an_id_that_may_hold_slashes() {
        let found = scope("team/red/blue").unwrap();
        assert_eq!((found.kind, &*found.id), (ScopeKind::Team, "red/blue"));
        for text in ["team", "team/", "tenant/x", "/x", ""] {
            assert!(scope(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_amount_is_exact_or_none() {
        assert_eq!(amount("none").unwrap().0, None);
        assert_eq!(amount("0.000000000001").unwrap().0, Some(Usd::from_picos(1)));
        for text in ["", "5 USD", "0.0000000000001", "NaN"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }
}
