//! What operators are given agrees with the code: metrics, rules, dashboard, runbook, packaging; and what all
//! pages say of files, functions, flags and defaults.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod catalogue;
mod claims;
mod packaging;
mod pages;
mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use catalogue::Metric;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The documents of a YAML file.
fn yaml(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files with an extension below a folder.
fn below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is no text in {value}"))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("{field} is no list in {value}"))
}

/// The documented metrics that an expression names; fails on any other.
fn metrics_of(named: &promql::Named, known: &BTreeMap<String, Metric>, place: &str) -> BTreeSet<String> {
    let base = |name: &String| {
        let base = catalogue::base(name, known);
        base.unwrap_or_else(|| panic!("{place}: {name} is not in docs/operations/metrics.md")).to_owned()
    };
    named.metrics.iter().map(base).collect()
}

#[test]
fn the_rules_are_what_prometheus_takes_and_each_has_its_page_in_the_runbook() {
    let known = catalogue::documented();
    let runbook = read("docs/operations/runbook.md");
    let mut sections: BTreeSet<&str> = runbook.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let [file] = &yaml("docs/operations/alerts.yml")[..] else { panic!("one document") };
    let (mut groups, mut alerts) = (BTreeSet::new(), BTreeSet::new());
    for group in list(file, "groups") {
        assert!(groups.insert(text(group, "name")), "group {} twice", text(group, "name"));
        for rule in list(group, "rules") {
            let name = text(rule, "alert");
            let fields = rule.as_object().unwrap().keys().map(String::as_str);
            let unknown: Vec<_> = fields
                .filter(|field| {
                    !["alert", "expr", "for", "keep_firing_for", "labels", "annotations"].contains(field)
                })
                .collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
            assert!(alerts.insert(name), "{name} twice");

            let named = promql::read(text(rule, "expr")).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!metrics_of(&named, &known, name).is_empty(), "{name} looks at nothing of ours");
            assert!(named.variables.is_empty(), "{name}: a rule has no variables");
            for field in ["for", "keep_firing_for"].into_iter().filter(|field| !rule[*field].is_null()) {
                promql::duration(text(rule, field)).unwrap_or_else(|why| panic!("{name}: {field}: {why}"));
            }

            assert!(["page", "ticket"].contains(&text(&rule["labels"], "severity")), "{name}: severity");
            for field in ["summary", "description"] {
                let words = text(&rule["annotations"], field);
                assert!(!words.is_empty(), "{name}: {field}");
                assert_eq!(words.matches("{{").count(), words.matches("}}").count(), "{name}: {field}");
            }
            let link = format!("docs/operations/runbook.md#{}", name.to_lowercase());
            let description = text(&rule["annotations"], "description");
            assert!(description.split_whitespace().any(|word| word == link), "{name}: says {link}");
            assert!(sections.remove(name), "docs/operations/runbook.md has no section {name}");
        }
    }
    assert!(sections.is_empty(), "sections of the runbook without an alert: {sections:?}");
}

#[test]
fn the_dashboard_shows_every_metric_for_the_chosen_job_and_nothing_else() {
    let known = catalogue::documented();
    let dashboard: Value = serde_json::from_str(&read("docs/operations/grafana-dashboard.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 38, "Grafana 10");
    assert!(dashboard["id"].is_null(), "an import is given its number");
    let declared: BTreeSet<_> =
        list(&dashboard["templating"], "list").iter().map(|variable| text(variable, "name")).collect();

    let (mut ids, mut tiles, mut shown) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for panel in list(&dashboard, "panels") {
        let title = text(panel, "title");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is another panel's");
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{title}: beyond the right edge");
        for tile in (side("x")..side("x") + side("w"))
            .flat_map(|x| (side("y")..side("y") + side("h")).map(move |y| (x, y)))
        {
            if let Some(other) = tiles.insert(tile, title) {
                panic!("{title} lies over {other}");
            }
        }
        if text(panel, "type") == "row" {
            continue;
        }
        assert!(!list(panel, "targets").is_empty(), "{title} shows nothing");
        for target in list(panel, "targets") {
            assert_eq!(text(&target["datasource"], "uid"), "${datasource}", "{title}");
            let expression = text(target, "expr");
            let named = promql::read(expression).unwrap_or_else(|why| panic!("{title}: {why}: {expression}"));
            let metrics = metrics_of(&named, &known, title);
            assert!(!metrics.is_empty(), "{title}: {expression}");
            assert!(named.variables.contains("job"), "{title}: for any job: {expression}");
            for variable in named.variables.iter().filter(|variable| !variable.starts_with("__")) {
                assert!(declared.contains(variable.as_str()), "{title}: ${variable} is not declared");
            }
            shown.extend(metrics);
        }
    }
    let missing: Vec<_> = known.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}
