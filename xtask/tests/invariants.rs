//! INVARIANTS.md names only what is there, so that a promise cannot outlive what keeps it.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What promises are about: admission, queue, ledger, spool, how programs run.
const KINDS: [&str; 5] = ["ADM", "QUE", "LED", "SPL", "RUN"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What stands between the two, each time. They may be the same, as backquotes are.
fn between<'a>(mut text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    while let Some((inside, rest)) = text.split_once(open).and_then(|(_, rest)| rest.split_once(close)) {
        found.push(inside);
        text = rest;
    }
    found
}

#[test]
fn every_promise_has_an_id_of_its_own_a_strength_code_and_tests() {
    let page = read("INVARIANTS.md");
    let strengths = [
        "*Unrepresentable by construction.*",
        "*Refused inside the owning component.*",
        "*Tested convention.*",
    ];
    let mut ids = BTreeSet::new();
    for promise in page.split("\n**").skip(1) {
        let (id, text) = promise.split_once("** ").unwrap();
        let (kind, number) = id.split_once('-').unwrap();
        let known = KINDS.contains(&kind) && number.parse::<u32>().is_ok();
        assert!(known && ids.insert(id), "{id}: no id, or one that is there twice");
        let strength = strengths.iter().filter(|strength| text.contains(**strength)).count();
        assert_eq!(strength, 1, "{id}: says once how it is kept");
        assert!(text.contains("\n- Kept by [") && text.contains("\n- Shown by `"), "{id}: code and tests");
    }
    assert!(ids.len() >= 30, "only {} promises were found", ids.len());
    assert!(page.contains("\n## What is not claimed\n"));
}

#[test]
fn the_map_names_promises_that_exist() {
    let (page, map) = (read("INVARIANTS.md"), read("ARCHITECTURE.md"));
    let words = map.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let ids: BTreeSet<_> = words
        .filter(|word| word.split_once('-').is_some_and(|(kind, _)| KINDS.contains(&kind)))
        .inspect(|id| assert!(page.contains(&format!("\n**{id}** ")), "{id} is no promise"))
        .collect();
    assert!(ids.len() >= 9, "{ids:?}");
}

#[test]
fn every_file_and_every_test_that_is_named_exists() {
    let page = read("INVARIANTS.md");
    let mut tests = 0;
    for line in page.lines() {
        for link in between(line, "](", ")") {
            assert!(root().join(link).is_file(), "{link} is named and does not exist: {line}");
        }
        let Some(shown) = line.strip_prefix("- Shown by ") else { continue };
        for test in shown.split("; ") {
            let (name, file) = (between(test, "`", "`")[0], between(test, "](", ")")[0]);
            let declared = read(file).split(&format!("fn {name}(")).count() - 1;
            assert_eq!(declared, 1, "{file} has the test {name} once");
            tests += 1;
        }
    }
    assert!(tests >= 30, "only {tests} tests are named");
}

#[test]
fn every_planted_bug_is_named_at_the_promise_that_it_breaks() {
    let page = read("INVARIANTS.md");
    let caught = page.lines().filter_map(|line| line.strip_prefix("- Caught: "));
    let named: BTreeSet<_> = caught.flat_map(|line| between(line, "`", "`")).collect();
    let bugs = read("crates/flush-sim/src/bug.rs");
    let planted: BTreeSet<_> = bugs
        .lines()
        .filter_map(|line| line.trim().strip_suffix("\",")?.split_once(" = \""))
        .map(|(_, name)| name)
        .collect();
    assert!(planted.len() >= 20, "only {} planted bugs were found", planted.len());
    assert_eq!(named, planted);
}
