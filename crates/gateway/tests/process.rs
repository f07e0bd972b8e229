//! The binary: how it starts, serves, is told to stop, and what it says of a configuration.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use devstack::{RedisServer, TestDatabase, TestRedis};
use iam_ledger::{Keyring, Ledger, LedgerOptions, NewIdentity, Pepper};
use live_redis::{LiveRedis, Options};
use mock_upstream::{MockOptions, MockUpstream};
use serde_json::{Value, json};
use spend_queue::{BatchLimit, ShardCount, SpendQueue};

const PEPPER: &str = "pepper-of-a-test-that-has-32-bytes-or-more";

/// The binary with none of the surrounding settings. The tests' PostgreSQL does not fsync, for which a strict start refuses it.
fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyweir-gateway"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
        command.env_remove(name);
    }
    command.env("TALLYWEIR_LENIENT_START", "true");
    command
}

fn config(base_url: &str, rest: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "{rest}\n[[models]]\nname = \"small\"\n[[models.deployments]]\nid = \"a\"\nbase_url = \"{base_url}/v1\"\n\
         input_usd_per_million = \"0.15\"\noutput_usd_per_million = \"0.6\"\n"
    )
    .unwrap();
    file
}

#[test]
fn check_prints_a_table_or_says_what_is_wrong_with_exit_code_2() {
    let good = config("http://127.0.0.1:9", "");
    let output = binary().args(["check", "--config"]).arg(good.path()).output().unwrap();
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("small") && table.contains("0.15"), "{table}");

    let bad = config("http://127.0.0.1:9", "[limits]\nbody_byte = 5");
    let output = binary().args(["check", "--config"]).arg(bad.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("body_byte"), "{error}");
}

/// A client of a test's own; the gateway's process has chosen its cryptography by itself.
fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

struct Process {
    child: Child,
    logs: Option<BufReader<ChildStderr>>,
    url: String,
}

/// A test that fails leaves nothing running.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut process = Self { child, logs: None, url: String::new() };
        let mut logs = BufReader::new(process.child.stderr.take().unwrap());
        while process.url.is_empty() {
            let mut line = String::new();
            assert!(logs.read_line(&mut line).unwrap() > 0, "it ended");
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if line["message"] == "listening" {
                process.url = format!("http://{}", line["address"].as_str().unwrap());
            }
        }
        process.logs = Some(logs);
        process
    }

    fn terminate(&self) {
        let killed = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
    }

    /// Exit code and what it logged since it listened.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let logs = self.logs.take().unwrap().lines().map_while(Result::ok).collect();
        (status.code(), logs)
    }
}

struct Tenant {
    redis: TestRedis,
    database: TestDatabase,
    hot: LiveRedis,
    secret: String,
}

async fn tenant() -> Tenant {
    let redis = devstack::redis().unwrap().test();
    let database = devstack::postgres().unwrap().database("gateway").unwrap();
    let options = Options::default().with_prefix(redis.prefix().parse().unwrap());
    let hot = LiveRedis::open_with(redis.url(), options).await.unwrap();
    let ledger = Ledger::connect(&database.url().to_owned().into(), LedgerOptions::default()).await.unwrap();
    ledger.migrate().await.unwrap();
    let keyring = Keyring::new(ledger.clone(), Pepper::new(PEPPER.as_bytes().to_vec()).unwrap());
    ledger.create(&NewIdentity::organization("acme", "")).await.unwrap();
    let key = NewIdentity::key("laptop", "").of_organization("acme");
    let secret = keyring.create_key(&key).await.unwrap().expose_secret().to_owned();
    Tenant { redis, database, hot, secret }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_in_mid_stream_cuts_bills_and_ends_with_0_within_a_second_of_the_grace() {
    let tenant = tenant().await;
    let mock = MockUpstream::start(MockOptions::default()).unwrap();
    let file = config(&mock.url(), "");
    let mut command = binary();
    command
        .args([
            "run",
            "--log-format",
            "json",
            "--listen",
            "127.0.0.1:0",
            "--shutdown-grace-ms",
            "500",
            "--config",
        ])
        .arg(file.path())
        .env("TALLYWEIR_REDIS_URL", tenant.redis.url())
        .env("TALLYWEIR_DATABASE_URL", tenant.database.url())
        .env("TALLYWEIR_PREFIX", tenant.redis.prefix())
        .env("TALLYWEIR_PEPPER", PEPPER);
    let process = Process::start(command);

    let body = json!({"model": "small", "stream": true, "messages": [{"role": "user", "content": "canary"}],
        "metadata": {"mock": "interval_ms=50,tokens=100"}, "max_tokens": 100});
    let http = client();
    let request = http.post(format!("{}/v1/chat/completions", process.url)).bearer_auth(&tenant.secret);
    let mut response = request.body(body.to_string()).send().await.unwrap();
    response.chunk().await.unwrap();
    process.terminate();
    let told = Instant::now();
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    assert!(text.contains("shutting_down"), "{text}");
    let (code, logs) = process.end();
    assert_eq!(code, Some(0), "{logs}");
    assert!((500..1_500).contains(&told.elapsed().as_millis()), "{:?}", told.elapsed());
    assert!(!logs.contains("canary") && !logs.contains(&tenant.secret), "{logs}");

    let limit = BatchLimit::new(10).unwrap();
    let peeked = tenant.hot.peek(ShardCount::ONE.shard_of("any"), limit).await.unwrap();
    assert_eq!(peeked.entries.len(), 1);
    assert_eq!(peeked.entries[0].event.status, "partial");
}

/// Stops a server without closing anything: it is silent from now on.
fn freeze(server: &RedisServer) {
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("server").query(&mut raw).unwrap();
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim();
    assert!(Command::new("kill").args(["-STOP", pid]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bill_that_a_silent_redis_does_not_take_is_logged_whole_before_the_process_ends() {
    let tenant = tenant().await;
    let server = RedisServer::builder().start().unwrap();
    let mock = MockUpstream::start(MockOptions::default()).unwrap();
    let file = config(&mock.url(), "");
    let mut command = binary();
    command
        .args([
            "run",
            "--log-format",
            "json",
            "--listen",
            "127.0.0.1:0",
            "--shutdown-grace-ms",
            "200",
            "--config",
        ])
        .arg(file.path())
        .env("TALLYWEIR_REDIS_URL", server.url())
        .env("TALLYWEIR_DATABASE_URL", tenant.database.url())
        .env("TALLYWEIR_PEPPER", PEPPER);
    let process = Process::start(command);
    let body = json!({"model": "small", "stream": true, "messages": [{"role": "user", "content": "canary"}],
        "metadata": {"mock": "interval_ms=50,tokens=400"}, "max_tokens": 400});
    let request = client().post(format!("{}/v1/chat/completions", process.url)).bearer_auth(&tenant.secret);
    let mut response = request.body(body.to_string()).send().await.unwrap();
    response.chunk().await.unwrap();
    freeze(&server);
    process.terminate();
    let (code, logs) = process.end();
    assert_eq!(code, Some(0), "{logs}");
    assert!(logs.contains("a bill is lost: neither queue nor spool took it"), "{logs}");
    for field in ["partial", "completion_tokens", "key_id", "spend_pusd"] {
        assert!(logs.contains(field), "{field}: {logs}");
    }
    assert!(!logs.contains("canary") && !logs.contains(&tenant.secret), "{logs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_gateway_ends_at_once() {
    let tenant = tenant().await;
    let file = config("http://127.0.0.1:9", "");
    let mut command = binary();
    command
        .args(["run", "--log-format", "json", "--listen", "127.0.0.1:0", "--config"])
        .arg(file.path())
        .env("TALLYWEIR_REDIS_URL", tenant.redis.url())
        .env("TALLYWEIR_DATABASE_URL", tenant.database.url())
        .env("TALLYWEIR_PREFIX", tenant.redis.prefix())
        .env("TALLYWEIR_PEPPER", PEPPER);
    let process = Process::start(command);
    let http = client();
    // A connection that is kept alive does not keep the gateway.
    assert!(http.get(format!("{}/livez", process.url)).send().await.unwrap().status().is_success());
    process.terminate();
    let told = Instant::now();
    let (code, logs) = process.end();
    assert_eq!(code, Some(0), "{logs}");
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
}
