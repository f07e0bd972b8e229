//! Variables that look like ours and are not: a misspelt one would silently leave a default in force.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Command, CommandFactory};

use crate::cli::Cli;

const PREFIX: &str = "TOLLGATE_";

/// Warns about each variable with our prefix that no command knows.
pub(crate) fn warn_of_unknown() {
    for name in unknown(std::env::vars_os().map(|(name, _)| name)) {
        tracing::warn!("the environment variable {name} is not one of ours: it has no effect");
    }
}

fn unknown(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut known = BTreeSet::new();
    collect(&Cli::command(), &mut known);
    names
        .filter(|name| !known.contains(name))
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(PREFIX))
        .collect()
}

fn collect(command: &Command, known: &mut BTreeSet<OsString>) {
    known.extend(command.get_arguments().filter_map(|argument| argument.get_env()).map(ToOwned::to_owned));
    for subcommand in command.get_subcommands() {
        collect(subcommand, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_our_prefix_and_no_command_knows_is_named() {
        let names = ["TOLLGATE_REDIS_URL", "TOLLGATE_BATCH_MAX", "TOLLGATE_BATCHMAX", "PATH", "TOLLGATE_"];
        assert_eq!(unknown(names.into_iter().map(OsString::from)), ["TOLLGATE_BATCHMAX", "TOLLGATE_"]);
    }
}
