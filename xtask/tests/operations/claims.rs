//! What all pages claim: files, functions, tables and references that exist, and defaults that are so.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::{below, read, root};

/// The pages of the repository's root.
const ROOT: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "INVARIANTS.md", "CHANGELOG.md"];

/// Every page of the repository: the root's, the crates', and those of `docs/`.
pub(crate) fn pages() -> Vec<PathBuf> {
    let mut pages = below(&root().join("docs"), "md");
    pages.extend(ROOT.map(|page| root().join(page)));
    let crates = fs::read_dir(root().join("crates")).unwrap();
    pages.extend(crates.map(|folder| folder.unwrap().path().join("README.md")));
    pages
}

/// What stands between backticks.
fn spans(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.lines()).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Every file of the repository that a page may name.
fn files() -> Vec<PathBuf> {
    let kinds = ["rs", "lua", "py", "sql", "sh"];
    let folders = ["crates", "docs", "xtask", "e2e", "deploy", "fuzz/fuzz_targets", "proofs"];
    kinds
        .iter()
        .flat_map(|kind| folders.iter().flat_map(move |folder| below(&root().join(folder), kind)))
        .collect()
}

#[test]
fn the_source_files_that_pages_name_exist() {
    let (files, mut seen) = (files(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for span in spans(&text) {
            let ends = [".rs", ".lua", ".py", ".sql", ".sh"].iter().any(|end| span.ends_with(end));
            if ends && span.contains('/') && !span.contains([' ', '*', '<', '{', '…']) {
                // Told from the root, from a crate's folder, or by its last parts.
                let there = files.iter().any(|file| file.ends_with(span));
                assert!(there, "{}: {span} is not there", page.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "only {seen} paths were found");
}

#[test]
fn each_operation_and_situation_names_functions_and_tests_that_exist() {
    for (page, rows) in [("docs/specification.md", 25), ("docs/situations.md", 20)] {
        let named = check_rows(&read(page));
        assert!(named >= rows, "{page}: only {named} rows");
    }
}

/// Checks each row of the tables (what; files and functions; files and tests), and returns how many there are.
fn check_rows(page: &str) -> usize {
    let mut checked = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && line.contains("crates/")) {
        let columns: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let [_, place, tests] = &columns[..] else { panic!("three columns: {row}") };
        for (column, wanted) in [(place, 0), (tests, 1)] {
            let (mut file, mut named) = (None, 0);
            for span in spans(column) {
                if span.contains('/') {
                    file = Some((span, read(span)));
                    continue;
                }
                let (path, source) = file.as_ref().expect("a file before its functions");
                assert!(
                    source.contains(&format!("fn {span}(")) || source.contains(&format!("fn {span}<")),
                    "{path}: {span}"
                );
                named += 1;
            }
            assert!(file.is_some() && named >= wanted, "{row}");
        }
        checked += 1;
    }
    checked
}

/// Sections of a page that is no part of the repository mean nothing to its readers: a decision says it.
#[test]
fn nothing_refers_to_a_page_that_is_not_here() {
    let kinds = ["rs", "lua", "sql", "md", "toml", "py", "yml", "yaml"];
    let folders = ["crates", "docs", "xtask", "e2e", "deploy", "fuzz/fuzz_targets"];
    let files = kinds
        .iter()
        .flat_map(|kind| folders.iter().flat_map(move |folder| below(&root().join(folder), kind)));
    for path in files.chain(ROOT.map(|page| root().join(page))) {
        let text = fs::read_to_string(&path).unwrap().to_lowercase();
        // Put together of two parts, so that this file does not find itself.
        for after in text.split(&["desi", "gn"].concat()).skip(1) {
            let after = after.trim_start_matches([',', ' ']);
            let numbered = after.starts_with(|letter: char| letter.is_ascii_digit())
                || after
                    .strip_prefix('d')
                    .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
                || after.starts_with("section")
                || after.starts_with("page");
            assert!(!numbered, "{}: refers to a section of a page that is not here", path.display());
        }
        for after in text.split("docs/decisions/").skip(1) {
            let number: String = after.chars().take_while(char::is_ascii_digit).collect();
            let found = below(&root().join("docs/decisions"), "md")
                .iter()
                .any(|page| page.file_name().unwrap().to_string_lossy().starts_with(&number));
            assert!(
                number.is_empty() || (number.len() == 4 && found),
                "{}: no decision {number}",
                path.display()
            );
        }
    }
}

/// `--flag ... default_value = "x"` of all programs, as their sources declare them.
fn flags() -> BTreeSet<String> {
    let folders = ["crates", "xtask/src"];
    let sources = folders.iter().flat_map(|folder| below(&root().join(folder), "rs"));
    let mut flags = BTreeSet::from(["help", "version"].map(str::to_owned));
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for after in text.split("#[arg(").skip(1).filter(|after| after.contains("long")) {
            let Some((inside, rest)) = after.split_once(")]\n") else { continue };
            if let Some(named) = inside.split("long = \"").nth(1).and_then(|name| name.split('"').next()) {
                flags.insert(named.to_owned());
                continue;
            }
            let field =
                rest.lines().map(str::trim).find(|line| !line.starts_with("///") && !line.starts_with("#["));
            let field =
                field.unwrap_or_default().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            if let Some((name, _)) = field.split_once(':') {
                flags.insert(name.trim_start_matches("r#").replace('_', "-"));
            }
        }
    }
    flags
}

#[test]
fn the_flags_that_pages_name_beside_our_programs_exist() {
    let flags = flags();
    assert!(flags.contains("flush-log-days") && flags.contains("kill-flusher"), "{flags:?}");
    let ours =
        ["cargo xtask ", "usage-flusher ", "tallyweir-gateway ", "rate-sim ", "flush-sim ", "mock-upstream "];
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for line in text.lines() {
            let commands = ours.iter().flat_map(|program| line.split(program).skip(1));
            for command in commands {
                let command = command.split(['#', '`', '|', '>', ';']).next().unwrap_or_default();
                for word in command
                    .split_whitespace()
                    .filter_map(|word| word.trim_matches(['[', ']', ',', '.', ')', '(']).strip_prefix("--"))
                {
                    let flag = word.split('=').next().unwrap_or_default();
                    assert!(flag.is_empty() || flags.contains(flag), "{}: --{flag}", page.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 40, "only {seen} flags were found");
}

#[test]
fn the_default_named_behind_a_flag_is_the_flags() {
    let cli = read("crates/usage-flusher/src/cli.rs");
    let value = |field: &str| {
        let before = cli.split(&format!("pub(crate) {field}:")).next().unwrap();
        before.rsplit("default_value = \"").next().and_then(|rest| rest.split('"').next()).unwrap().to_owned()
    };
    let page = read("docs/operations/README.md");
    assert!(page.contains(&format!("`--flush-log-days` ({};", value("flush_log_days"))));
    let seconds = value("stop_deadline_ms").strip_suffix("000").map(str::to_owned).unwrap();
    assert!(page.contains(&format!("`--stop-deadline-ms` ({seconds} s)")));
    let sizing = read("docs/operations/sizing.md");
    assert!(sizing.contains(&format!("--in-flight, {} by default", value("in_flight"))));
    let pool = read("crates/gateway/src/run.rs");
    let pool =
        pool.split("DATABASE_CONNECTIONS: u32 = ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    assert!(sizing.contains(&format!("`tallyweir-gateway` has at most {pool} and that 1")));
    let window = read("crates/usage-flusher/src/flusher.rs");
    assert!(window.contains("WINDOW_BATCHES: u32 = 4;") && cli.contains("four are peeked at once"));
}

#[test]
fn the_tables_that_pages_query_are_made_by_the_migrations() {
    let migrations = below(&root().join("crates/iam-ledger/migrations"), "sql");
    let made: String =
        migrations.iter().map(|path| fs::read_to_string(path).unwrap().to_lowercase()).collect();
    let made: BTreeSet<&str> = ["create table ", "create or replace view ", "create view "]
        .iter()
        .flat_map(|opening| made.split(opening).skip(1))
        .map(|after| {
            after.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap()
        })
        .collect();
    assert!(made.contains("settled_requests") && made.contains("usage_by_day"), "{made:?}");
    let pages =
        ["docs/operations/runbook.md", "docs/operations/upgrade.md", "docs/operations/persistence.md"];
    let mut seen = 0;
    for page in pages {
        let text = read(page);
        for span in
            spans(&text).into_iter().filter(|span| span.starts_with("select ") || span.starts_with("delete "))
        {
            for after in span.split(" from ").skip(1) {
                let table: String = after
                    .chars()
                    .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                    .collect();
                let system = table.is_empty() || table.starts_with("pg_");
                assert!(system || made.contains(table.as_str()), "{page}: {table}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no query was found");
}
