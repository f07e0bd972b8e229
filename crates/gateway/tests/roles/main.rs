//! Every command of the program, as the users and roles of `docs/security.md` and on servers that refuse them everything else, and
//! what `deploy/` says, run so.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use devstack::{Deployed, GuardedServers, RedisServer, commands_of, watched_series};
use iam_ledger::{Ledger, LedgerOptions};
use mock_upstream::{MockOptions, MockUpstream};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../../docs/security.md");
const MANIFEST: &str = include_str!("../../../../deploy/kubernetes/tallyweir-gateway.yaml");
const UNIT: &str = include_str!("../../../../deploy/systemd/tallyweir-gateway.service");
const ALERTS: &str = include_str!("../../../../docs/operations/alerts.yml");
const METRICS: &str = include_str!("../../../../docs/operations/metrics.md");
const TENANT: &str = "../../deploy/demo/tenant.toml";
const OWNER: &str = "tallyweir_owner";
const PEPPER: &str = "pepper-of-a-test-that-has-32-bytes-or-more";
const PROGRAM: &str = env!("CARGO_BIN_EXE_tallyweir-gateway");

/// Servers with the page's users, and the ledger's tables.
async fn guarded() -> GuardedServers {
    let servers = GuardedServers::start(PAGE, OWNER).unwrap();
    let owner = Ledger::connect(&servers.database_url(OWNER).into(), LedgerOptions::default()).await.unwrap();
    owner.migrate().await.unwrap();
    owner.close().await;
    servers.grant(OWNER).unwrap();
    servers
}

/// The binary with none of the surrounding settings.
fn binary(words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
        command.env_remove(name);
    }
    command.args(words).env("TALLYWEIR_LOG_FORMAT", "json").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// As the role of people who administer.
fn administer(servers: &GuardedServers, words: &[&str]) -> Output {
    let mut command = binary(words);
    command.env("TALLYWEIR_DATABASE_URL", servers.database_url("tallyweir_admin"));
    command.env("TALLYWEIR_PEPPER", PEPPER).output().unwrap()
}

fn config(base_url: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "[budget]\nmode = \"hold\"\n[[models]]\nname = \"small\"\ncontext_tokens = 8000\ndefault_max_tokens = 100\n\
         [[models.deployments]]\nid = \"a\"\nbase_url = \"{base_url}/v1\"\ninput_usd_per_million = \"0.15\"\n\
         output_usd_per_million = \"0.6\"\n"
    )
    .unwrap();
    file
}

/// As the gateway itself.
fn run(servers: &GuardedServers, config: &Path) -> Command {
    let mut command = binary(&["run", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(config).env("TALLYWEIR_REDIS_URL", servers.redis_url("gateway"));
    command.env("TALLYWEIR_DATABASE_URL", servers.database_url("tallyweir_gateway"));
    command.env("TALLYWEIR_PEPPER", PEPPER);
    command
}

/// A gateway that listens.
struct Running {
    child: Child,
    url: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut seen = Vec::new();
        let address = lines.by_ref().find_map(|line| {
            seen.push(line.clone());
            let line: Value = serde_json::from_str(&line).ok()?;
            Some(line["address"].as_str().filter(|_| line["message"] == "listening")?.to_owned())
        });
        let url = format!("http://{}", address.unwrap_or_else(|| panic!("it ended: {seen:#?}")));
        // The pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// The object that a successful command printed.
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_as_the_roles_that_the_page_gives_it() {
    let servers = guarded().await;
    let mut ran = BTreeSet::new();
    let mut administer = |name: &'static str, words: &[&str]| {
        ran.insert(name);
        report(&administer(&servers, &[words, &["--json"]].concat()))
    };
    let made = administer("tenant", &["tenant", TENANT]);
    let key = made["keys"][0]["key"].as_str().or(made["keys"][0]["id"].as_str()).unwrap().to_owned();
    administer("key block", &["key", "block", &key]);
    administer("key unblock", &["key", "unblock", &key]);
    let secret = administer("key rotate", &["key", "rotate", &key])["secret"].as_str().unwrap().to_owned();
    administer("budget", &["budget", "team/web", "30"]);

    let mock = MockUpstream::start(MockOptions::default()).unwrap();
    let file = config(&mock.url());
    let mut check = binary(&["check", "--config"]);
    assert!(check.arg(file.path()).output().unwrap().status.success());
    let folder = tempfile::tempdir().unwrap();
    let mut serve = run(&servers, file.path());
    let running = Running::start(serve.arg("--spool").arg(folder.path().join("bills.spool")));
    let http = client();
    let body = json!({"model": "small", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9});
    let request = http.post(format!("{}/v1/chat/completions", running.url)).bearer_auth(&secret);
    let answer = request.body(body.to_string()).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    let metrics = http.get(format!("{}/metrics", running.url)).send().await.unwrap().text().await.unwrap();
    let failed = ["tallyweir_redis_errors_total", "tallyweir_redis_degradations_total"];
    let failed = metrics
        .lines()
        .filter(|line| failed.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0"));
    assert_eq!(failed.collect::<Vec<_>>(), [""; 0], "nothing is refused");
    let there = |name: &str| metrics.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
    let watched = watched_series(ALERTS, METRICS, 'G');
    let missing: Vec<_> = watched.iter().filter(|name| !there(name)).collect();
    assert!(missing.is_empty() && watched.contains("tallyweir_spool_bytes"), "{missing:?}");
    running.stop();
    // Of the file alone, whatever its servers.
    let spool =
        |words: &[&str]| binary(words).env("TALLYWEIR_SPOOL", folder.path().join("bills.spool")).output();
    assert_eq!(report(&spool(&["spool", "list", "--json"]).unwrap())["conflicts"], json!([]));
    let unknown = spool(&["spool", "take", "r"]).unwrap();
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("has no conflict"), "{unknown:?}");
    ran.extend(["check", "run", "spool list", "spool take"]);

    let all = commands_of(Path::new(PROGRAM));
    let missed: Vec<_> = all.iter().filter(|command| !ran.contains(command.as_str())).collect();
    assert!(missed.is_empty() && all.contains("key rotate"), "no role was tried with {missed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateways_own_role_may_not_write_identities() {
    let servers = guarded().await;
    let mut command = binary(&["tenant", TENANT]);
    command.env("TALLYWEIR_DATABASE_URL", servers.database_url("tallyweir_gateway"));
    let output = command.env("TALLYWEIR_PEPPER", PEPPER).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("permission denied"), "{text}");
    // So no file tells anybody to do it where only that role is.
    for file in [MANIFEST, UNIT] {
        let told = file.lines().filter(|line| line.contains("tallyweir-gateway tenant"));
        assert!(!told.clone().any(|line| line.contains("exec")), "{:?}", told.collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_deployment_files_run_works_as_the_user_and_role_that_they_give_it() {
    let servers = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (_, config) = MANIFEST.split_once("gateway.toml: |\n").unwrap();
    let config = config.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let config = write("gateway.toml", &config.collect::<Vec<_>>().join("\n"));
    let containers = Deployed::in_manifest(MANIFEST);
    assert!(!containers.is_empty());
    for (number, deployed) in containers.into_iter().chain(Deployed::in_unit(UNIT)).enumerate() {
        assert_eq!(deployed.program, "tallyweir-gateway");
        let redis = write("redis-url", &servers.redis_url(&deployed.redis_user));
        let database = write("database-url", &servers.database_url(&deployed.database_role));
        let env = deployed.env_with(|name| match name {
            "TALLYWEIR_REDIS_URL_FILE" => Some(redis.clone()),
            "TALLYWEIR_DATABASE_URL_FILE" => Some(database.clone()),
            "TALLYWEIR_PEPPER_FILE" => Some(write("pepper", PEPPER)),
            "TALLYWEIR_CONFIG" => Some(config.clone()),
            "TALLYWEIR_SPOOL" => {
                Some(folder.path().join(format!("{number}.spool")).to_str().unwrap().to_owned())
            }
            "TALLYWEIR_GATEWAY_LISTEN" => Some("127.0.0.1:0".to_owned()),
            _ => None,
        });
        let words: Vec<_> = deployed.words.iter().map(String::as_str).collect();
        let running = Running::start(binary(&words).envs(env).env("OPENAI_API_KEY", "none"));
        let ready = client().get(format!("{}/readyz", running.url)).send().await.unwrap();
        assert_eq!(ready.status(), 200, "{deployed:?}");
        running.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_does_not_start_on_a_redis_that_evicts_unless_somebody_insists() {
    let servers = guarded().await;
    let evicting = RedisServer::builder().arg("maxmemory-policy", "allkeys-lru").start().unwrap();
    let file = config("http://127.0.0.1:9");
    let mut strict = run(&servers, file.path());
    let output = strict.env("TALLYWEIR_REDIS_URL", evicting.url()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{text}");
    let line = text.lines().last().unwrap();
    assert!(line.starts_with("error: this Redis must not be used: redis.eviction: "), "{line}");
    let mut lenient = run(&servers, file.path());
    Running::start(lenient.arg("--lenient-start").env("TALLYWEIR_REDIS_URL", evicting.url())).stop();
}
