//! Servers end with the process that started them, in whatever way it ends. A helper program, `devstack`, holds its
//! servers in statics, which are never dropped.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use devstack::{Durability, PostgresServer, RedisServer};
use url::Url;

/// The `devstack` program with its servers up, in a process group of its own, as under a terminal's shell.
struct Helper {
    child: Child,
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    url: String,
    port: u16,
    folder: PathBuf,
}

impl Server {
    fn gone(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_err() && !self.folder.exists()
    }
}

impl Helper {
    fn start(services: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devstack"));
        command
            .args(services)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for variable in ["TALLYWEIR_REDIS_URL", "TALLYWEIR_DATABASE_URL", "TALLYWEIR_KEEP"] {
            command.env_remove(variable);
        }
        let mut child = command.envs(env.iter().copied()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let count = services.iter().map(|service| server_count(service)).sum();
        let servers: Vec<Server> = lines.take(count).map(|line| server(&line.unwrap())).collect();
        assert_eq!(servers.len(), count, "the helper failed: {:?}", child.wait());
        Self { child, servers }
    }

    fn assert_all_gone(&mut self) {
        self.child.wait().unwrap();
        wait_until_gone(&self.servers);
    }
}

/// Nothing signals the end of a process that is not ours, so it is asked for, for a bounded time.
fn wait_until_gone(servers: &[Server]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !servers.iter().all(Server::gone) {
        assert!(Instant::now() < deadline, "still there: {servers:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn server_count(service: &str) -> usize {
    match service {
        "cluster" => 6,
        "sentinel" => 5,
        _ => 1,
    }
}

fn server(line: &str) -> Server {
    let [_, url, folder] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
    let port = Url::parse(url).unwrap().port().unwrap();
    let server = Server { url: url.into(), port, folder: folder.into() };
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    server
}

const BOTH: &[&str] = &["redis", "postgres"];

#[test]
fn servers_of_a_process_that_is_killed_go() {
    let mut helper = Helper::start(BOTH, &[]);
    assert!(helper.servers.iter().all(|server| server.folder.exists()));
    helper.child.kill().unwrap();
    helper.assert_all_gone();
}

#[test]
fn all_servers_of_a_cluster_and_of_a_sentinel_group_go_with_a_process_that_is_killed() {
    let mut helper = Helper::start(&["cluster", "sentinel"], &[]);
    helper.child.kill().unwrap();
    helper.assert_all_gone();
}

#[test]
fn servers_in_statics_go_when_main_returns() {
    let mut helper = Helper::start(BOTH, &[]);
    drop(helper.child.stdin.take());
    helper.assert_all_gone();
}

#[test]
fn servers_go_after_ctrl_c_although_it_does_not_reach_them() {
    let mut helper = Helper::start(BOTH, &[]);
    // What a terminal does: the whole process group gets SIGINT.
    let group = format!("-{}", helper.child.id());
    let sent = Command::new("sh").args(["-c", r#"kill -s INT -- "$1""#, "kill", &group]).status().unwrap();
    assert!(sent.success());
    helper.assert_all_gone();
}

#[test]
fn a_process_killed_in_the_middle_of_a_start_leaves_nothing() {
    // initdb takes long enough to be interrupted at any of these points.
    for after in [0, 3, 30, 150, 400] {
        let temporary = tempfile::Builder::new().prefix("devstack-test").tempdir_in("/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(temporary.path(), open).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_devstack"));
        command.arg("postgres").env("TMPDIR", temporary.path()).env_remove("TALLYWEIR_DATABASE_URL");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        child.kill().unwrap();
        child.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !processes_naming(temporary.path().to_str().unwrap()).is_empty()
            || std::fs::read_dir(temporary.path()).unwrap().next().is_some()
        {
            assert!(
                Instant::now() < deadline,
                "after {after} ms: {:?}",
                processes_naming(temporary.path().to_str().unwrap())
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Command lines, where `/proc` shows them, that hold this text.
fn processes_naming(text: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let lines = entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

#[test]
fn a_kept_server_outlives_its_value_and_its_commands_end_it() {
    let redis = RedisServer::builder().start().unwrap();
    let postgres = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let places = [(redis.port(), redis.folder()), (postgres.port(), postgres.folder())];
    let places = places.map(|(port, folder)| (port, folder.unwrap().to_path_buf()));
    for (kept, (port, folder)) in [redis.keep().unwrap(), postgres.keep().unwrap()].into_iter().zip(places) {
        let server = Server { url: kept.url().to_owned(), port, folder };
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok() && server.folder.exists());
        assert!(kept.to_string().contains(kept.url()) && !format!("{kept:?}").contains(kept.url()));
        for command in kept.stop_commands() {
            assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
        }
        wait_until_gone(&[server]);
    }
}

#[test]
fn a_temporary_folder_that_only_we_can_pass_does_not_keep_postgres_from_starting() {
    // As root, the server runs as somebody else, who could not reach a folder in there.
    let closed = tempfile::TempDir::new().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(closed.path(), mode).unwrap();
    let mut helper = Helper::start(&["postgres"], &[("TMPDIR", closed.path().to_str().unwrap())]);
    drop(helper.child.stdin.take());
    helper.assert_all_gone();
}

#[test]
fn given_servers_are_used_instead_of_private_ones() {
    let given = RedisServer::builder().password("a b").start().unwrap();
    let mut helper = Helper::start(&["redis"], &[("TALLYWEIR_REDIS_URL", given.url())]);
    assert_eq!(helper.servers[0].url, given.url());
    assert_eq!(helper.servers[0].folder, PathBuf::from("-"));
    drop(helper.child.stdin.take());
    helper.child.wait().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", given.port())).is_ok());
}

#[test]
fn a_given_server_that_does_not_answer_is_named_and_no_other_is_started() {
    let mut gone = RedisServer::builder().password("secret").start().unwrap();
    gone.kill();
    let mut command = Command::new(env!("CARGO_BIN_EXE_devstack"));
    let output =
        command.arg("redis").env("TALLYWEIR_REDIS_URL", gone.url()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(text.contains("TALLYWEIR_REDIS_URL is set but cannot be used"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_wrong_program_variable_is_named_and_no_other_program_is_used() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_devstack"));
    command
        .arg("redis")
        .env_remove("TALLYWEIR_REDIS_URL")
        .env("TALLYWEIR_REDIS_SERVER", "/no/such/redis-server");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(text.contains("TALLYWEIR_REDIS_SERVER") && text.contains("/no/such/redis-server"), "{text}");
}
