//! Variables that look like ours and are not: a misspelt one would silently leave a default in force.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Command, CommandFactory};

const PREFIX: &str = "TALLYWEIR_";

/// Warns about each variable of this process with our prefix that no command of the program knows.
pub fn warn_of_unknown<Cli: CommandFactory>() {
    for name in unknown(&Cli::command(), std::env::vars_os().map(|(name, _)| name)) {
        tracing::warn!("the environment variable {name} is not one of ours: it has no effect");
    }
}

fn unknown(command: &Command, names: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut known = BTreeSet::new();
    collect(command, &mut known);
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
    use clap::Arg;

    use super::*;

    #[test]
    fn only_what_has_our_prefix_and_no_command_knows_is_named() {
        let inner =
            Command::new("run").arg(Arg::new("batch-max").long("batch-max").env("TALLYWEIR_BATCH_MAX"));
        let command =
            Command::new("service").arg(Arg::new("log").env("TALLYWEIR_LOG_FORMAT")).subcommand(inner);
        let names =
            ["TALLYWEIR_LOG_FORMAT", "TALLYWEIR_BATCH_MAX", "TALLYWEIR_BATCHMAX", "PATH", "TALLYWEIR_"];
        let names = names.into_iter().map(OsString::from);
        assert_eq!(unknown(&command, names), ["TALLYWEIR_BATCHMAX", "TALLYWEIR_"]);
    }
}
