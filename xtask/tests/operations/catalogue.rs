//! The metrics as they are documented, and as the code exports them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::{below, read, root};

/// A metric: its kind (`counter`, `gauge`, `histogram`) and its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
}

/// The table of docs/operations/metrics.md.
pub(crate) fn documented() -> BTreeMap<String, Metric> {
    let text = read("docs/operations/metrics.md");
    let mut metrics = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `tallyweir_")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, unit, from, meaning] = cells[..] else { panic!("six cells: {line}") };
        assert!(!unit.is_empty() && !meaning.is_empty() && ["F", "G", "FG"].contains(&from), "{line}");
        let labels = labels.split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let metric =
            Metric { kind: kind.to_owned(), labels: labels.filter(|label| !label.is_empty()).collect() };
        assert!(metrics.insert(name.trim_matches('`').to_owned(), metric).is_none(), "twice: {line}");
    }
    assert!(!metrics.is_empty(), "the table has no rows");
    metrics
}

/// The metric that a name in an expression stands for: a histogram is asked for by its parts.
pub(crate) fn base<'a>(name: &'a str, known: &BTreeMap<String, Metric>) -> Option<&'a str> {
    let is =
        |name: &str, histogram: bool| known.get(name).is_some_and(|m| (m.kind == "histogram") == histogram);
    if is(name, false) {
        return Some(name);
    }
    ["_bucket", "_sum", "_count"]
        .into_iter()
        .filter_map(|part| name.strip_suffix(part))
        .find(|base| is(base, true))
}

/// Every use of a metric in the crates' sources.
fn exported() -> BTreeMap<String, Vec<Metric>> {
    let mut found = BTreeMap::<String, Vec<Metric>>::new();
    for path in below(&root().join("crates"), "rs") {
        if !path.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for kind in ["counter", "gauge", "histogram"] {
            for (at, call) in text.match_indices(&format!("{kind}!(")) {
                // `describe_counter!` and its like export nothing.
                if text[..at].ends_with('_') {
                    continue;
                }
                let arguments = arguments(&text[at + call.len()..]);
                let mut literals =
                    arguments.split('"').skip(1).step_by(2).zip(arguments.split('"').skip(2).step_by(2));
                let Some((name, _)) = literals.next().filter(|(name, _)| name.starts_with("tallyweir_"))
                else {
                    continue;
                };
                let labels = literals.filter(|(_, after)| after.trim_start().starts_with("=>"));
                let labels = labels.map(|(label, _)| label.to_owned()).collect();
                found.entry(name.to_owned()).or_default().push(Metric { kind: kind.to_owned(), labels });
            }
        }
    }
    found
}

/// What stands between the parentheses of a call.
fn arguments(text: &str) -> &str {
    let mut depth = 1;
    for (at, letter) in text.char_indices() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

#[test]
fn every_documented_metric_is_exported_as_the_table_says_and_none_is_left_out() {
    let (documented, exported) = (documented(), exported());
    let mut wrong = Vec::new();
    for name in documented.keys().filter(|name| !exported.contains_key(*name)) {
        wrong.push(format!("{name} is documented, and no crate exports it"));
    }
    for (name, uses) in &exported {
        match documented.get(name) {
            None => wrong.push(format!("{name} is exported, and docs/operations/metrics.md lacks it")),
            Some(metric) => {
                let others = uses.iter().filter(|exported| *exported != metric);
                wrong
                    .extend(others.map(|other| format!("{name}: documented {metric:?}, exported {other:?}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
