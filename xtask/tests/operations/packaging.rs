//! Image, Compose stack, Kubernetes manifests and systemd unit.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::pages::{named_settings, settings};
use crate::{below, list, read, root, text, yaml};

const COMPOSE: &str = "docker-compose.yml";
const KUBERNETES: [&str; 2] =
    ["deploy/kubernetes/usage-flusher.yaml", "deploy/kubernetes/tallyweir-gateway.yaml"];
const UNITS: [&str; 2] = ["deploy/systemd/usage-flusher.service", "deploy/systemd/tallyweir-gateway.service"];

#[test]
fn packages_set_only_what_the_programs_read() {
    let settings = settings();
    for path in ["Dockerfile", COMPOSE].into_iter().chain(KUBERNETES).chain(UNITS) {
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
        for config in service["configs"].as_array().into_iter().flatten() {
            let file = text(&stack["configs"][text(config, "source")], "file");
            assert!(!read(file).is_empty(), "{name}: {file}");
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
        "Deployment" | "StatefulSet" | "Job" => Some(&resource["spec"]["template"]),
        "CronJob" => Some(&resource["spec"]["jobTemplate"]["spec"]["template"]),
        _ => None,
    }
}

#[test]
fn pods_are_confined_and_take_secrets_from_secrets() {
    let (mut names, mut pods_seen) = (BTreeSet::new(), 0);
    for resource in KUBERNETES.iter().flat_map(|path| yaml(path)).collect::<Vec<_>>().iter() {
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
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let folders: Vec<_> = mounts
                .filter(|mount| {
                    let volume = list(spec, "volumes").iter().find(|volume| volume["name"] == mount["name"]);
                    volume.is_some_and(|volume| volume["secret"]["secretName"].is_string())
                })
                .map(|mount| format!("{}/", text(mount, "mountPath")))
                .collect();
            let mut urls = 0;
            for variable in list(container, "env") {
                let setting = text(variable, "name");
                assert!(
                    !setting.ends_with("_URL") && !setting.ends_with("_PEPPER"),
                    "{name}: {setting} would put a password into the environment"
                );
                if setting.ends_with("_URL_FILE") || setting.ends_with("_PEPPER_FILE") {
                    let file = text(variable, "value");
                    assert!(
                        folders.iter().any(|folder| file.starts_with(folder)),
                        "{name}: {file} is no secret"
                    );
                    urls += 1;
                }
            }
            assert!(urls > 0, "{name} reaches no server");
        }
    }
    assert!(pods_seen > 1, "the flusher and its migrations");
}

#[test]
fn selectors_match_their_pods_and_probes_ask_for_what_is_served() {
    let [flusher, gateway] = KUBERNETES;
    for (path, kind, selecting, sources) in [
        (flusher, "Deployment", &["PodDisruptionBudget"][..], "crates/usage-flusher/src"),
        (gateway, "StatefulSet", &["PodDisruptionBudget", "Service"], "crates/gateway/src"),
    ] {
        let resources = yaml(path);
        let of = |kind: &str| resources.iter().find(|resource| text(resource, "kind") == kind).unwrap();
        let running = of(kind);
        let labels = running["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
        for selector in
            selecting.iter().map(|kind| &of(kind)["spec"]["selector"]).chain([&running["spec"]["selector"]])
        {
            let wanted = selector.get("matchLabels").unwrap_or(selector).as_object().unwrap();
            assert!(
                !wanted.is_empty() && wanted.iter().all(|(label, value)| labels.get(label) == Some(value))
            );
        }
        assert!(running["spec"]["replicas"].as_u64().unwrap() >= 2);
        // Migrations are not flushers: the budget would count them, and Prometheus scrape them.
        for resource in resources.iter().filter(|resource| text(resource, "kind") != kind) {
            let other =
                pods(resource).map(|template| &template["metadata"]["labels"]["app.kubernetes.io/name"]);
            assert_ne!(other, labels.get("app.kubernetes.io/name"));
        }
        let served: String =
            below(&root().join(sources), "rs").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let container = &running["spec"]["template"]["spec"]["containers"][0];
        for (probe, path) in
            [("livenessProbe", "/livez"), ("startupProbe", "/livez"), ("readinessProbe", "/readyz")]
        {
            assert_eq!(container[probe]["httpGet"]["path"], path, "{probe}");
            assert!(served.contains(&format!("\"{path}\"")), "{path} is not served");
        }
    }
}

#[test]
fn units_are_well_formed_and_hardened() {
    for path in UNITS {
        let unit = read(path);
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
        ] {
            assert!(unit.lines().any(|found| found == line), "{path}: {line}");
        }
        for setting in ["MemoryMax", "RestrictAddressFamilies", "TimeoutStopSec", "LoadCredential"] {
            assert!(unit.contains(&format!("\n{setting}=")), "{path}: {setting}");
        }
        // A password in the unit would be everybody's to read.
        assert!(!unit.contains("_URL=") && !unit.contains("_PEPPER="), "{path}");
    }
}

#[test]
fn images_run_as_nobody_and_build_what_is_locked() {
    let image = read("Dockerfile");
    let stages: Vec<_> = image.split("\nFROM ").skip(1).collect();
    let [build, base, images @ ..] = &stages[..] else { panic!("no stages") };
    assert!(build.contains("--locked"));
    let last_user = |stage: &str| {
        let user = stage.lines().rev().find_map(|line| line.strip_prefix("USER ").map(str::to_owned));
        user.inspect(|user| {
            assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}: above 0");
        })
    };
    assert!(last_user(base).is_some(), "the base has a user");
    let mut names = BTreeSet::new();
    for stage in images {
        let (head, steps) = stage.split_once('\n').unwrap();
        let name = head.strip_prefix("base AS ").unwrap();
        last_user(stage);
        let binary = format!("COPY --from=build /out/{name} /usr/local/bin/{name}\n");
        assert!(steps.contains(&binary) && steps.matches("COPY ").count() == 1, "{name}: its binary alone");
        assert!(steps.contains("HEALTHCHECK ") && steps.contains("/livez"), "{name}");
        assert!(names.insert(name));
    }
    assert_eq!(names, BTreeSet::from(["mock-upstream", "tallyweir-gateway", "usage-flusher"]));
    assert!(images.last().unwrap().starts_with("base AS usage-flusher\n"), "what is built without --target");
}
