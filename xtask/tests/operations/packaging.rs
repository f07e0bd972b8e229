//! Image, Compose stack, Kubernetes manifests and systemd unit.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pages::{named_settings, settings};
use crate::{list, read, text, yaml};

const COMPOSE: &str = "docker-compose.yml";
const KUBERNETES: &str = "deploy/kubernetes/usage-flusher.yaml";
const UNIT: &str = "deploy/systemd/usage-flusher.service";

#[test]
fn packages_set_only_what_the_flusher_reads() {
    let settings = settings();
    for path in ["Dockerfile", COMPOSE, KUBERNETES, UNIT] {
        let named = named_settings(&read(path));
        assert!(!named.is_empty(), "{path} sets nothing");
        let unknown: Vec<_> = named.difference(&settings).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}

#[test]
fn the_compose_stack_waits_for_what_it_needs_and_keeps_bills() {
    let [stack] = &yaml(COMPOSE)[..] else { panic!("one document") };
    let services = stack["services"].as_object().unwrap();
    for (name, service) in services {
        assert!(service["image"].is_string(), "{name}: image");
        for (needed, how) in service["depends_on"].as_object().into_iter().flatten() {
            let condition = text(how, "condition");
            let kept = match condition {
                "service_healthy" => services[needed]["healthcheck"]["test"].is_array(),
                "service_completed_successfully" => services[needed]["restart"] == "no",
                _ => false,
            };
            assert!(kept, "{name}: {needed} never becomes {condition}");
        }
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(
                port.as_str().unwrap().starts_with("127.0.0.1:"),
                "{name}: {port} is open to the network"
            );
        }
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let volume = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(stack["volumes"].as_object().unwrap().contains_key(volume), "{name}: volume {volume}");
        }
    }
    let redis: Vec<_> =
        list(&services["redis"], "command").iter().map(|word| word.as_str().unwrap()).collect();
    for pair in [["--appendonly", "yes"], ["--maxmemory-policy", "noeviction"]] {
        assert!(redis.windows(2).any(|words| words == pair), "redis: {pair:?}");
    }
}

/// The template of the pods that a resource makes.
fn pods(resource: &Value) -> Option<&Value> {
    match text(resource, "kind") {
        "Deployment" | "Job" => Some(&resource["spec"]["template"]),
        "CronJob" => Some(&resource["spec"]["jobTemplate"]["spec"]["template"]),
        _ => None,
    }
}

#[test]
fn pods_are_confined_and_take_secrets_from_secrets() {
    let (mut names, mut pods_seen) = (BTreeSet::new(), 0);
    for resource in &yaml(KUBERNETES) {
        let name = text(&resource["metadata"], "name");
        assert!(!text(resource, "apiVersion").is_empty());
        assert!(names.insert((text(resource, "kind"), name)), "{name} twice");
        let Some(template) = pods(resource) else { continue };
        pods_seen += 1;
        let spec = &template["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false, "{name}");
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{name}");
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        for container in list(spec, "containers") {
            let confined = &container["securityContext"];
            assert_eq!(confined["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(confined["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(confined["capabilities"]["drop"][0], "ALL", "{name}");
            assert!(container["resources"]["limits"]["memory"].is_string(), "{name}: memory");
            for variable in list(container, "env") {
                if text(variable, "name").ends_with("_URL") {
                    assert!(variable["valueFrom"]["secretKeyRef"]["key"].is_string(), "{name}: {variable}");
                }
            }
        }
    }
    assert!(pods_seen > 1, "the flusher and its migrations");
}

#[test]
fn the_deployments_selectors_match_its_pods_and_probes_ask_for_what_is_served() {
    let resources = yaml(KUBERNETES);
    let of = |kind: &str| resources.iter().find(|resource| text(resource, "kind") == kind).unwrap();
    let deployment = of("Deployment");
    let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
    for selecting in [deployment, of("PodDisruptionBudget")] {
        for (label, value) in selecting["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(labels.get(label), Some(value));
        }
    }
    assert!(deployment["spec"]["replicas"].as_u64().unwrap() >= 2);
    // Migrations are not flushers: the budget would count them, and Prometheus scrape them.
    for resource in resources.iter().filter(|resource| text(resource, "kind") != "Deployment") {
        let other = pods(resource).map(|template| &template["metadata"]["labels"]["app.kubernetes.io/name"]);
        assert_ne!(other, labels.get("app.kubernetes.io/name"));
    }
    let served = read("crates/usage-flusher/src/http.rs");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for (probe, path) in
        [("livenessProbe", "/livez"), ("startupProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(container[probe]["httpGet"]["path"], path, "{probe}");
        assert!(served.contains(&format!("\"{path}\"")), "{path} is not served");
    }
}

#[test]
fn the_unit_is_well_formed_and_hardened() {
    let unit = read(UNIT);
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let section = line.starts_with('[') && line.ends_with(']');
        assert!(section || line.split_once('=').is_some_and(|(key, _)| !key.contains(' ')), "{line}");
    }
    for line in [
        "DynamicUser=yes",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "SystemCallFilter=@system-service",
        "Restart=always",
        "TimeoutStopSec=10",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    assert!(unit.contains("\nMemoryMax=") && unit.contains("\nRestrictAddressFamilies="));
}

#[test]
fn the_image_runs_as_nobody_and_builds_what_is_locked() {
    let image = read("Dockerfile");
    let stages: Vec<_> = image.split("\nFROM ").skip(1).collect();
    let [build, last] = stages[..] else { panic!("two stages") };
    assert!(build.contains("--locked"));
    let user = last.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}: numbers above 0");
    assert_eq!(last.matches("COPY ").count(), 1, "the binary alone");
    assert!(last.contains("HEALTHCHECK ") && last.contains("/livez"));
}
