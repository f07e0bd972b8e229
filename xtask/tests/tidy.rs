//! The repository's own rules, as ordinary tests.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Who may know whom (ARCHITECTURE.md): one direction, bottom to top. An edge that is not here fails.
const LAYERS: [(&str, &[&str]); 17] = [
    ("rate-plan", &[]),
    ("spend-queue", &[]),
    ("devstack", &[]),
    ("mock-upstream", &[]),
    // For benches only.
    ("bench-frame", &["spend-queue"]),
    ("spend-spool", &["spend-queue"]),
    ("iam-ledger", &["rate-plan", "spend-queue"]),
    ("live-redis", &["rate-plan", "spend-queue"]),
    ("service-frame", &["live-redis", "spend-queue"]),
    ("usage-flusher", &["live-redis", "iam-ledger", "spend-queue", "service-frame"]),
    ("gateway", &["rate-plan", "live-redis", "iam-ledger", "spend-queue", "spend-spool", "service-frame"]),
    // Types of a settlement only.
    ("flush-sim", &["usage-flusher", "iam-ledger", "spend-queue"]),
    ("hand-off-model", &["spend-queue"]),
    ("rate-sim", &["rate-plan", "live-redis", "iam-ledger", "spend-queue", "devstack"]),
    // Its checker uses none of them: only its gateways do.
    ("chaos", &["rate-plan", "live-redis", "spend-queue", "devstack"]),
    // Bytes from outside enter by these. Programs for libFuzzer are in `fuzz/`, outside the workspace.
    ("fuzz-bodies", &["rate-plan", "spend-queue", "live-redis", "gateway"]),
    ("xtask", &["devstack"]),
];

/// What the two pure crates must never reach, however indirectly.
const IMPURE: [&str; 4] = ["tokio", "redis", "sqlx", "sqlx-core"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).exec().unwrap()
}

fn ours(metadata: &Metadata) -> BTreeMap<String, Package> {
    metadata.workspace_packages().into_iter().map(|p| (p.name.to_string(), p.clone())).collect()
}

#[test]
fn knowledge_flows_in_one_direction() {
    let metadata = metadata();
    let ours = ours(&metadata);
    let allowed: BTreeMap<_, BTreeSet<_>> =
        LAYERS.iter().map(|(name, below)| (*name, below.iter().copied().collect())).collect();
    assert_eq!(ours.keys().map(String::as_str).collect::<BTreeSet<_>>(), allowed.keys().copied().collect());
    for (name, package) in &ours {
        for dependency in &package.dependencies {
            if !ours.contains_key(&dependency.name) {
                continue;
            }
            // Tests may start services and upstreams, and benches share a frame; the two pure crates need none.
            let for_tests = dependency.kind == DependencyKind::Development
                && ["devstack", "mock-upstream", "bench-frame"].contains(&dependency.name.as_str())
                && !["rate-plan", "spend-queue"].contains(&name.as_str());
            assert!(
                for_tests || allowed[name.as_str()].contains(dependency.name.as_str()),
                "{name} must not know {} (ARCHITECTURE.md, the layer rule)",
                dependency.name
            );
        }
    }
}

/// The names of crates that stand in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words.filter(|word| LAYERS.iter().any(|(name, _)| name == word)).collect()
}

#[test]
fn both_lists_of_crates_are_those_of_the_layer_rule() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let list = page.split("## Crates, bottom to top\n\n```\n").nth(1).unwrap().split("\n```").next().unwrap();
    let mut listed = BTreeMap::new();
    for line in list.lines() {
        let (name, rest) = line.split_once(' ').unwrap();
        // What stands behind a semicolon is who uses it.
        let (_, knows) = rest.split_once("knows ").unwrap_or_else(|| panic!("{name}: knows whom?"));
        assert!(listed.insert(name, named(knows.split(';').next().unwrap())).is_none(), "{name} twice");
    }
    let rule = LAYERS.map(|(name, below)| (name, below.iter().copied().collect::<BTreeSet<_>>()));
    assert_eq!(listed, rule.into_iter().collect(), "ARCHITECTURE.md");

    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [`")?.split_once('`'));
    let shown: BTreeSet<_> = rows.map(|(name, _)| name).collect();
    let crates = LAYERS.iter().map(|(name, _)| *name).filter(|name| *name != "xtask");
    assert_eq!(shown, crates.collect(), "README.md");
}

#[test]
fn the_pure_crates_reach_no_runtime_and_no_store() {
    let metadata = metadata();
    let resolve = metadata.resolve.as_ref().unwrap();
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let names: BTreeMap<_, _> = metadata.packages.iter().map(|p| (&p.id, p.name.to_string())).collect();
    for pure in ["rate-plan", "spend-queue"] {
        let start = &ours(&metadata)[pure].id;
        let mut reached = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            for dependency in &nodes[id].deps {
                let shipped =
                    dependency.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development);
                if shipped && reached.insert(&dependency.pkg) {
                    open.push(&dependency.pkg);
                }
            }
        }
        let found: Vec<_> =
            reached.iter().map(|id| &names[*id]).filter(|n| IMPURE.contains(&n.as_str())).collect();
        assert!(found.is_empty(), "{pure} reaches {found:?}");
    }
}

#[test]
fn every_crate_says_what_it_is_and_shares_the_workspaces_settings() {
    for (name, package) in ours(&metadata()) {
        let folder = package.manifest_path.parent().unwrap().as_std_path().to_owned();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}: lints");
        assert!(manifest.contains("rust-version.workspace = true"), "{name}: rust-version");
        assert!(package.description.is_some_and(|text| !text.is_empty()), "{name}: description");
        if name != "xtask" {
            let readme = fs::read_to_string(folder.join("README.md")).unwrap();
            assert!(readme.contains("```"), "{name}: the README shows an example");
            let library = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
            assert!(
                library.contains("include_str!(\"../README.md\")"),
                "{name}: the README's example is compiled"
            );
        }
    }
}

/// Files below a folder, generated ones left out.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != ".git" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

fn sources(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), &mut found);
    found.retain(|path| path.extension().is_some_and(|e| e == extension));
    assert!(!found.is_empty(), "no .{extension} file found");
    found
}

#[test]
fn every_script_names_its_keys_arguments_and_answers() {
    for path in sources("lua") {
        let text = fs::read_to_string(&path).unwrap();
        if path.components().any(|part| part.as_os_str() == "parts") {
            assert!(text.starts_with("-- Part of other scripts: "), "{}: says what it is", path.display());
            continue;
        }
        assert!(text.starts_with("#!lua"), "{}: the first line names the engine", path.display());
        for part in ["-- KEYS[1", "-- ARGV[1", "-- Returns"] {
            assert!(text.contains(part), "{}: the header lacks {part:?}", path.display());
        }
    }
}

#[test]
fn every_query_and_migration_says_why_it_is() {
    for path in sources("sql") {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.trim_start().starts_with("--"), "{}: starts with a comment", path.display());
    }
}

#[test]
fn nothing_is_left_undone_or_skipped() {
    // Spelled in two parts, so that this file does not find itself.
    let words = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["#[ig", "nore"],
        ["todo", "!("],
        ["unimpl", "emented!("],
        ["dbg", "!("],
    ];
    for path in sources("rs") {
        let text = fs::read_to_string(&path).unwrap();
        for word in words.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{}: {word}", path.display());
        }
    }
}

/// The project was called otherwise before its first release; other projects of the field have that name.
#[test]
fn the_former_name_is_nowhere() {
    // Spelled in two parts, so that this file does not find itself.
    let former = ["toll", "gate"].concat();
    let mut found = Vec::new();
    files(&root(), &mut found);
    assert!(found.len() > 500, "only {} files were found", found.len());
    for path in found {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().to_lowercase();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).to_lowercase();
        assert!(!name.contains(&former) && !text.contains(&former), "{}: the former name", path.display());
    }
}

#[test]
fn decisions_are_numbered_without_gaps_and_say_their_status() {
    let folder = root().join("docs/decisions");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for (at, name) in names.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}-", at + 1)), "{name}");
        let text = fs::read_to_string(folder.join(name)).unwrap();
        for part in ["Status:", "## Context", "## Decision", "## Consequences"] {
            assert!(text.contains(part), "{name} lacks {part:?}");
        }
    }
}
