//! What the invented tenants look like, and what happens to traffic at their limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use iam_ledger::ScopeKind;
use rate_plan::{Usage, admit};

use super::*;
use crate::generator::Generator;
use crate::trace::{self, TraceRequest};

const SEEDS: std::ops::Range<u64> = 0..12;

#[test]
fn a_seed_and_a_run_name_the_same_tenants() {
    let text = |seed, run| format!("{:?}", Tenants::new(seed, run).organizations);
    assert_eq!(text(1, "r"), text(1, "r"));
    assert_ne!(text(1, "r"), text(2, "r"));
    assert_eq!(text(1, "r").replace("\"r-", "\"s-"), text(1, "s"), "the run id changes nothing but ids");
}

#[test]
fn there_are_six_organizations_of_the_described_size() {
    for seed in SEEDS {
        let tenants = Tenants::new(seed, "run");
        assert_eq!(tenants.organizations.len(), 6);
        for organization in &tenants.organizations {
            let below = |parent: usize, kind| {
                organization.tenants.iter().filter(|t| t.parent == Some(parent) && t.kind == kind).count()
            };
            assert!((2..=4).contains(&below(0, ScopeKind::Team)));
            for (place, tenant) in organization.tenants.iter().enumerate() {
                match tenant.kind {
                    ScopeKind::Team => assert!((2..=5).contains(&below(place, ScopeKind::User))),
                    ScopeKind::User | ScopeKind::Project => {
                        assert!((1..=3).contains(&below(place, ScopeKind::Key)));
                    }
                    ScopeKind::Organization | ScopeKind::Key => {}
                }
            }
        }
    }
}

#[test]
fn every_tree_is_valid_and_promises_no_child_more_than_its_parent_has() {
    for seed in SEEDS {
        for organization in Tenants::new(seed, "run").organizations {
            let tree = organization.rate_tree().unwrap();
            for dimension in rate_plan::Dimension::ALL {
                let mut promised = vec![0; tree.len()];
                for node in tree.bottom_up() {
                    promised[node] = tree.children(node).map(|child| promised[child]).sum();
                    if let Some(limit) = tree.nodes()[node].limits.get(dimension) {
                        assert!(promised[node] <= limit, "seed {seed}, node {node}, {dimension}");
                        promised[node] = limit;
                    }
                }
            }
        }
    }
}

#[test]
fn fixed_allocations_stand_beside_shared_ones() {
    let organizations = Tenants::new(1, "run").organizations;
    let mixed = organizations.iter().filter(|organization| {
        let limits = |kind| organization.tenants.iter().filter(move |t| t.kind == kind).map(|t| t.limits.tpm);
        organization.tenants[0].limits.tpm.is_some()
            && limits(ScopeKind::Team).any(|tpm| tpm.is_some())
            && limits(ScopeKind::Team).any(|tpm| tpm.is_none())
    });
    assert!(mixed.count() > 0);
}

#[test]
fn busier_organizations_send_more() {
    let tenants = Tenants::new(1, "run");
    let mut random = Random::new(1, "test");
    let mut sent = [0_u32; 6];
    for _ in 0..20_000 {
        sent[tenants.caller(&mut random).organization] += 1;
    }
    assert!(sent.is_sorted_by(|a, b| a > b), "{sent:?}");
    assert!((7_600..8_700).contains(&sent[0]), "{sent:?}");
}

/// Refused requests by reason, and how many of them are refused though the refusing scope had room, because it keeps
/// some for the allocations of others.
fn refusals(seed: u64, requests: impl Iterator<Item = TraceRequest>) -> (f64, BTreeMap<String, u64>, u64) {
    let tenants = Tenants::new(seed, "run");
    let mut random = Random::new(seed, "callers");
    let trees: Vec<Arc<RateTree>> =
        tenants.organizations.iter().map(|o| Arc::new(o.rate_tree().unwrap())).collect();
    let mut usage: Vec<Vec<Usage>> = Vec::new();
    let (mut minute, mut sent, mut held) = (i64::MIN, 0_u64, 0);
    let mut reasons = BTreeMap::new();
    for request in requests {
        if request.at.timestamp().div_euclid(60) != minute {
            minute = request.at.timestamp().div_euclid(60);
            usage = trees.iter().map(|tree| vec![Usage::default(); tree.len()]).collect();
        }
        let caller = tenants.caller(&mut random);
        let plan = trees[caller.organization].plan(caller.key).unwrap();
        let estimate = i64::try_from(request.context_tokens + request.generated_tokens).unwrap();
        let decision = admit(&plan, &mut usage[caller.organization], estimate).unwrap();
        sent += 1;
        if let Some(rejection) = decision.rejection() {
            *reasons.entry(rejection.to_string()).or_default() += 1;
            held += u64::from(rejection.used + rejection.demand <= rejection.limit);
        }
    }
    let refused: u64 = reasons.values().sum();
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    (100.0 * refused as f64 / sent as f64, reasons, held)
}

fn assert_plausible(seed: u64, (percent, reasons, held): (f64, BTreeMap<String, u64>, u64)) {
    let text = format!("seed {seed}: {percent:.1} % refused, {held} for siblings: {reasons:?}");
    assert!((5.0..=25.0).contains(&percent), "{text}");
    assert!(reasons.len() >= 5, "{text}");
    for kind in ["organization ", "team ", "user ", "key "] {
        assert!(reasons.keys().any(|reason| reason.starts_with(kind)), "{text}");
    }
    assert!(held > 0, "{text}");
}

#[test]
fn invented_traffic_is_refused_now_and_then_for_various_reasons() {
    for seed in SEEDS {
        assert_plausible(seed, refusals(seed, Generator::new(seed).take(10_000)));
    }
}

#[test]
fn recorded_traffic_is_refused_now_and_then_for_various_reasons() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/azure-llm-2023-conv.csv");
    for seed in SEEDS {
        // A longer invented trace stands in where the recorded one is not at hand.
        let now: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
        let found = match trace::open(&recorded, now) {
            Ok(reader) => refusals(seed, reader.map(Result::unwrap)),
            Err(_) => refusals(seed, Generator::new(seed + 100).take(20_000)),
        };
        assert_plausible(seed, found);
    }
}
