//! Refused command lines: each in one line that names the flag, its value and what is accepted.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Error, Parser};

/// The exit code for a command line that is not understood; 1 says that the work failed. Others: [`crate::start`].
const MISUSED: u8 = 2;

/// Reads the command line.
///
/// # Errors
///
/// The exit code, when everything is said already: help, version, or what is wrong.
pub fn parse<Cli: Parser>() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A reader that has seen enough is no failure.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { MISUSED } else { 0 })
        }
        _ => {
            eprintln!("{}", one_line(&error));
            ExitCode::from(MISUSED)
        }
    })
}

/// The parser's words without its advice on usage.
#[must_use]
pub fn one_line(error: &Error) -> String {
    // A URL in a place where none belongs may hold a password.
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
        && given.contains("://")
    {
        return "error: a URL stands where none is accepted; see --help".to_owned();
    }
    let text = error.render().to_string();
    let said = text.split("\n\nUsage:").next().unwrap_or_default();
    let said = said.split("\n\nFor more information").next().unwrap_or_default();
    let mut line = String::new();
    for part in said.lines().map(str::trim).filter(|part| !part.is_empty()) {
        line += if line.is_empty() {
            ""
        } else if line.ends_with(':') {
            " "
        } else {
            "; "
        };
        line += part;
    }
    if let Some((before, values)) = line.split_once("[possible values: ") {
        line = format!("{before}accepted are {}", values.trim_end_matches(']'));
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        line += "; --help lists those that are accepted";
    }
    line
}
