//! Every target over its seeds, and over what proptest makes of them; and that the seeds and the targets of `fuzz/` are all.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fuzz_bodies::{TARGETS, search, target};

/// Inputs that each target is tried with: some seconds in all.
const INPUTS: u32 = 4_096;

fn holds(name: &str) {
    let target = target(name).unwrap();
    let seeds = target.seeds().unwrap();
    assert!(seeds.len() >= 4, "{name}: a handful of seeds");
    for seed in &seeds {
        target.check(&seed.bytes);
    }
    let seeds = seeds.into_iter().map(|seed| seed.bytes).collect();
    if let Err(broken) = search::try_many(target, seeds, INPUTS) {
        panic!("{}\n  input: {}", broken.reason, broken.bytes.escape_ascii());
    }
}

macro_rules! each_target_holds {
    ($($name:ident)*) => {
        $(#[test] fn $name() { holds(stringify!($name)); })*

        #[test]
        fn every_target_is_tried() {
            let tried = BTreeSet::from([$(stringify!($name)),*]);
            assert_eq!(tried, TARGETS.map(|target| target.name).into());
        }
    };
}

each_target_holds!(entry event keys node_window older_entry price request_body scope sse usd);

#[test]
fn cargo_fuzz_has_a_program_and_seeds_for_each_target_and_for_no_other() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let expected = BTreeSet::from(TARGETS.map(|target| target.name.to_owned()));
    let names = |folder: &str, end: &str| -> BTreeSet<String> {
        let files = fs::read_dir(fuzz.join(folder)).unwrap();
        files
            .map(|file| file.unwrap().file_name().to_str().unwrap().trim_end_matches(end).to_owned())
            .collect()
    };
    assert_eq!(names("fuzz_targets", ".rs"), expected);
    assert_eq!(names("corpus", ""), expected);
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for name in expected {
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")),
            "{name}"
        );
        let program = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("fuzz_bodies::{name}::check(bytes)")), "{name}");
    }
}

/// Most inputs are refused at once; these are the ones that a reader looks into.
#[test]
fn some_seeds_of_each_reader_are_taken() {
    use spend_queue::{Entry, ScopeRef};
    let taken = |name: &str, takes: &dyn Fn(&[u8]) -> bool| {
        let seeds = target(name).unwrap().seeds().unwrap();
        let count = seeds.iter().filter(|seed| takes(&seed.bytes)).count();
        assert!(count > 0 && count < seeds.len(), "{name}: {count} of {} are taken", seeds.len());
    };
    taken("entry", &|bytes| Entry::decode(bytes.to_vec()).is_ok());
    taken("older_entry", &|bytes| Entry::decode_older(bytes.to_vec()).is_ok());
    taken("node_window", &|bytes| rate_plan::NodeWindow::from_bytes(bytes).is_some());
    taken("scope", &|bytes| {
        String::from_utf8_lossy(bytes).lines().any(|line| line.parse::<ScopeRef>().is_ok())
    });
}
