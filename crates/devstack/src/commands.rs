//! The commands of a program, so that a test notices one that it does not try.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The commands of a program that do something, each by its words (`dead-letters replay`), as the help of each level lists them.
///
/// # Panics
///
/// When the program cannot be run.
#[allow(clippy::expect_used, reason = "for tests only")]
pub fn commands_of(program: &Path) -> BTreeSet<String> {
    below(program, &[])
}

#[allow(clippy::expect_used, reason = "for tests only")]
fn below(program: &Path, words: &[String]) -> BTreeSet<String> {
    let output = Command::new(program).args(words).arg("--help").output().expect("the program runs");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some((_, list)) = help.split_once("Commands:\n") else { return BTreeSet::from([words.join(" ")]) };
    // A name stands two blanks from the margin; what continues its explanation further in.
    let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.flat_map(|name| below(program, &[words, &[name]].concat())).collect()
}
