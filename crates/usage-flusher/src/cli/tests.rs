//! What is refused, and how.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, Command, CommandFactory};
use service_frame::command_line::one_line;

use super::*;

/// Flags whose values only the work itself can judge: paths, and words that are read where they are used. How those are
/// refused is tested with the binary.
const JUDGED_LATER: [&str; 10] = [
    "database-url",
    "database-url-file",
    "redis-url",
    "redis-url-file",
    "redis-ca-file",
    "redis-cert-file",
    "redis-key-file",
    "otlp-endpoint",
    "reason",
    "entry",
];

/// What no flag with a value of its own takes.
const NONSENSE: [&str; 2] = ["{no such value}", ""];

/// Every command with its words, deepest last.
fn commands(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut found = vec![(words.to_vec(), command.clone())];
    for subcommand in command.get_subcommands() {
        let words: Vec<_> = words.iter().cloned().chain([subcommand.get_name().to_owned()]).collect();
        found.extend(commands(subcommand, &words));
    }
    found
}

fn refused(words: &[String]) -> String {
    let error = Cli::try_parse_from(words).map(|cli| format!("{words:?} gives {cli:?}")).unwrap_err();
    one_line(&error)
}

fn takes_a_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

#[test]
fn each_flag_of_each_command_refuses_nonsense_in_one_line_with_its_name_and_what_is_accepted() {
    let mut judged = BTreeSet::new();
    for (words, command) in commands(&Cli::command(), &["usage-flusher".to_owned()]) {
        for argument in command.get_arguments().filter(|argument| takes_a_value(argument)) {
            let Some(flag) = argument.get_long() else { continue };
            judged.insert(flag.to_owned());
            // The report reads its own flags: report/args.rs has their tests.
            if JUDGED_LATER.contains(&flag) || words.last().is_some_and(|word| word == "report") {
                continue;
            }
            for value in NONSENSE {
                let given: Vec<_> = words.iter().cloned().chain([format!("--{flag}={value}")]).collect();
                let text = refused(&given);
                assert!(text.starts_with("error: ") && text.lines().count() == 1, "{text}");
                assert!(text.contains(&format!("--{flag}")), "{given:?}: {text}");
                assert!(text.contains(value), "{given:?}: {text}");
                let says = ["accepted", "a value is required", "characters"];
                assert!(says.iter().any(|words| text.contains(words)), "{given:?}: {text}");
            }
        }
    }
    assert!(judged.len() > 25, "{judged:?}");
}

#[test]
fn each_flag_says_in_its_help_what_it_is_and_what_holds_without_it() {
    for (words, command) in commands(&Cli::command(), &[]) {
        for argument in command.get_arguments().filter(|argument| takes_a_value(argument)) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.len() > 10, "{words:?} {}: {help:?}", argument.get_id());
            let number = argument.get_id().as_str();
            let unit = match number {
                name if name.ends_with("_ms") => "milliseconds",
                name if name.ends_with("_days") => "days",
                name if name.starts_with("batch_") => "entries",
                _ => continue,
            };
            assert!(help.contains(unit), "{number}: {help}");
            assert!(!argument.get_default_values().is_empty(), "{number} has no default");
        }
    }
}

#[test]
fn a_url_in_the_wrong_place_is_not_repeated() {
    let words = ["usage-flusher", "run", "postgres://u:canary@h/d"].map(str::to_owned);
    let text = refused(&words);
    assert!(!text.contains("canary") && text.lines().count() == 1, "{text}");
    let words = ["usage-flusher", "run", "--database_url=postgres://u:canary@h/d"].map(str::to_owned);
    assert!(!refused(&words).contains("canary"));
}

#[test]
fn misspelt_commands_and_flags_are_one_line_with_the_nearest_one() {
    for (words, hint) in [
        (&["usage-flusher", "rnu"][..], "'rnu'; --help lists"),
        (&["usage-flusher", "run", "--batchmin=1"], "--batch-min"),
        (&["usage-flusher", "dead-letters", "replay"], "<ID>..."),
        (&["usage-flusher", "quarantine", "--head=0123456789012345678901234567890123456789"], "--reason"),
    ] {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let text = refused(&words);
        assert!(text.contains(hint) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn secrets_are_not_shown_when_options_are_printed() {
    let args =
        ["flusher", "run", "--redis-url", "redis://:canary@h", "--database-url", "postgres://u:canary@h/d"];
    let cli = Cli::try_parse_from(args).unwrap();
    assert!(!format!("{cli:?}").contains("canary"));
}
