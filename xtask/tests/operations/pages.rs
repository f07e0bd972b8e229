//! The pages: links lead somewhere, and commands and settings exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{below, read, root};

fn pages() -> Vec<PathBuf> {
    let mut pages = below(&root().join("docs/operations"), "md");
    pages.extend(["README.md", "docs/integrating.md", "docs/ledger.md"].map(|page| root().join(page)));
    pages
}

/// The anchors of a page, as its headings make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept =
            words.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    for page in crate::claims::pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (at, _) in text.match_indices("](") {
            let link = text[at + 2..].split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if let Some(anchor) = anchor {
                assert!(anchors(&target).contains(anchor), "{}: {link}", page.display());
            }
        }
    }
}

/// Flags, environment variables and commands of flusher and gateway, as their sources and those of their common frame name them.
fn sources() -> String {
    let folders = ["crates/service-frame/src", "crates/usage-flusher/src", "crates/gateway/src"];
    let files = folders.iter().flat_map(|folder| below(&root().join(folder), "rs"));
    files.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The environment variables that the flusher and the gateway read.
pub(crate) fn settings() -> BTreeSet<String> {
    let sources = sources();
    let found = sources.split("env = \"").skip(1).filter_map(|after| after.split('"').next());
    found.map(str::to_owned).collect()
}

/// The words in a text that look like our environment variables.
pub(crate) fn named_settings(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("TALLYWEIR_")).map(str::to_owned).collect()
}

/// `DeadLetters` as it is typed: `dead-letters`.
fn kebab(name: &str) -> String {
    let mut typed = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !typed.is_empty() {
            typed.push('-');
        }
        typed.push(letter.to_ascii_lowercase());
    }
    typed
}

#[test]
fn the_pages_name_settings_that_exist() {
    let settings = settings();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let unknown: Vec<_> = named_settings(&text).difference(&settings).cloned().collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", page.display());
    }
}

/// The commands of a program: the variants of its `enum Command`, as they are typed.
fn commands(source: &str) -> BTreeSet<String> {
    let cli = read(source);
    let variants = cli.split("enum Command {").nth(1).unwrap().split("\n}").next().unwrap();
    variants
        .lines()
        .filter_map(|line| line.trim().split(['(', ',']).next())
        .filter(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .filter(|name| name.chars().all(|letter| letter.is_ascii_alphanumeric()))
        .map(kebab)
        .collect()
}

#[test]
fn the_commands_that_pages_name_exist() {
    let programs = [
        ("usage-flusher", "crates/usage-flusher/src/cli.rs", "dead-letters"),
        ("tallyweir-gateway", "crates/gateway/src/cli.rs", "tenant"),
        ("rate-sim", "crates/rate-sim/src/cli.rs", "replay"),
        ("cargo xtask", "xtask/src/main.rs", "e2e"),
    ];
    for (program, source, known) in programs {
        let commands = commands(source);
        assert!(commands.contains(known), "{commands:?}");
        let mut seen = 0;
        for page in crate::claims::pages() {
            let text = fs::read_to_string(&page).unwrap();
            for opening in ["`", "\n", "    "].map(|before| format!("{before}{program} ")) {
                for after in text.split(&opening).skip(1) {
                    let word: String = after
                        .chars()
                        .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
                        .collect();
                    // A flag, or a word such as FILE that stands for another.
                    if word.starts_with(|letter: char| letter.is_ascii_lowercase()) {
                        assert!(commands.contains(&word), "{}: {program} {word}", page.display());
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 0, "no page names a command of {program}");
    }
}
