//! The words with which a server refuses, each made on a real server: what they mean to a caller, as docs/operations/metrics.md says.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::{event, limit, now, shard, team};
use devstack::RedisServer;
use live_redis::{CallError, LiveRedis, LiveRedisError, Options};
use rate_plan::{Limits, Scope};
use spend_queue::{PendingSpend, QueueError, SpendQueue};

const TTL: Duration = Duration::from_secs(60);

/// A row of the table.
struct Row {
    word: String,
    kind: String,
    reads_go_on: bool,
}

fn table() -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("## Words of Redis").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        Row { word: cells[1].into(), kind: cells[2].into(), reads_go_on: cells[4] == "go on" }
    });
    rows.collect()
}

struct World {
    server: RedisServer,
    redis: LiveRedis,
    raw: redis::Connection,
}

impl World {
    async fn start(cluster: bool) -> Self {
        let builder = RedisServer::builder().arg("enable-debug-command", "yes").arg("save", "3600 1");
        let builder =
            builder.arg("loading-process-events-interval-bytes", "1024").arg("busy-reply-threshold", "5");
        let server = if cluster { builder.arg("cluster-enabled", "yes") } else { builder }.start().unwrap();
        let raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let url = match cluster {
            false => server.url().to_owned(),
            true => format!("redis+cluster://127.0.0.1:{}", server.port()),
        };
        let mut world = Self { redis: LiveRedis::disabled(), server, raw };
        if cluster {
            world.run("CLUSTER ADDSLOTSRANGE 0 16383");
            world.wait_for("CLUSTER INFO", "cluster_state:ok");
        }
        // Something to load.
        world.run("DEBUG POPULATE 60000 filler 100");
        let options = Options::default().with_deadline(Duration::from_secs(1));
        world.redis = LiveRedis::open_with(url, options).await.unwrap();
        for (_, answer) in world.writes().await.into_iter().chain(world.reads().await) {
            answer.unwrap();
        }
        world
    }

    fn ask(&mut self, line: &str) -> redis::RedisResult<redis::Value> {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query(&mut self.raw)
    }

    fn run(&mut self, line: &str) {
        self.ask(line).unwrap();
    }

    fn wait_for(&mut self, line: &str, text: &str) {
        while !format!("{:?}", self.ask(line)).contains(text) {
            std::thread::yield_now();
        }
    }

    /// Runs a command that lasts on a connection of its own.
    fn meanwhile(&self, command: redis::Cmd) {
        let client = redis::Client::open(self.server.url()).unwrap();
        std::thread::spawn(move || command.query::<redis::Value>(&mut client.get_connection().unwrap()));
    }

    fn digest(&mut self) -> redis::Value {
        // A script that is killed ends a moment later.
        self.wait_for("PING", "PONG");
        self.ask("DEBUG DIGEST").unwrap()
    }

    async fn writes(&self) -> Vec<(&'static str, Result<(), LiveRedisError>)> {
        let key = (Scope::new("key", "k").unwrap(), Limits { rpm: Some(100), tpm: None });
        vec![
            ("enqueue", self.redis.enqueue(&event("a", 5)).await.map(drop)),
            ("admit_rates", self.redis.admit_rates(vec![key], 1, now()).await.map(drop)),
            ("swap_affinity", self.redis.swap_affinity("k", None, "v", TTL).await.map(drop)),
        ]
    }

    async fn reads(&self) -> Vec<(&'static str, Result<(), LiveRedisError>)> {
        vec![
            ("pending", self.redis.pending(&team()).await.map(drop)),
            ("peek", self.redis.peek(shard(), limit(1)).await.map(drop)),
            ("backlog", self.redis.backlog(shard()).await.map(drop)),
        ]
    }

    async fn check(&mut self, row: &Row) {
        let refused = |(call, answer): (&str, Result<(), LiveRedisError>)| {
            let error = answer.expect_err(call);
            let kind = match &error {
                LiveRedisError::Call(CallError::Unavailable(_)) => "unavailable",
                LiveRedisError::Call(CallError::Refused(_)) => "refused",
                _ => "another",
            };
            assert_eq!(kind, row.kind, "{call}: {error}");
            assert_eq!(error.is_transient(), kind == "unavailable", "{call}: {error}");
            assert!(error.to_string().contains(&format!(": {} ", row.word)), "{call}: {error}");
        };
        self.writes().await.into_iter().for_each(refused);
        for (call, answer) in self.reads().await {
            if row.reads_go_on { answer.unwrap() } else { refused((call, answer)) }
        }
    }

    /// Brings the server to where it answers a word; what undoes it.
    fn provoke(&mut self, word: &str) -> &'static [&'static str] {
        match word {
            "OOM" => {
                self.run("CONFIG SET maxmemory 1");
                &["CONFIG SET maxmemory 0"]
            }
            "MISCONF" => {
                std::fs::remove_dir_all(self.server.folder().unwrap()).unwrap();
                let _ = self.ask("BGSAVE");
                self.wait_for("INFO persistence", "rdb_last_bgsave_status:err");
                &["CONFIG SET stop-writes-on-bgsave-error no"]
            }
            "NOREPLICAS" => {
                self.run("CONFIG SET min-replicas-to-write 1");
                &["CONFIG SET min-replicas-to-write 0"]
            }
            "BUSY" => {
                let mut endless = redis::cmd("EVAL");
                endless.arg("while true do end").arg(0);
                self.meanwhile(endless);
                self.wait_for("PING", "BUSY");
                &["SCRIPT KILL"]
            }
            "LOADING" => {
                // At least 6 s for all keys, unless it is undone; the server answers after every kilobyte.
                self.run("CONFIG SET key-load-delay 100");
                let mut reload = redis::cmd("DEBUG");
                reload.arg("RELOAD");
                self.meanwhile(reload);
                self.wait_for("INFO persistence", "loading:1");
                &["CONFIG SET key-load-delay 0"]
            }
            "READONLY" => {
                self.run("REPLICAOF 127.0.0.1 1");
                &["REPLICAOF NO ONE"]
            }
            "CLUSTERDOWN" => {
                self.run("CLUSTER DELSLOTSRANGE 0 16383");
                &["CLUSTER ADDSLOTSRANGE 0 16383"]
            }
            "NOPERM" => {
                self.run("ACL SETUSER default -evalsha");
                &["ACL SETUSER default +evalsha"]
            }
            other => panic!("nobody knows how to provoke {other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_word_of_the_table_means_what_it_says_and_nothing_was_written() {
    let rows = table();
    assert!(rows.len() >= 8);
    for row in rows {
        println!("{}", row.word);
        let mut world = World::start(row.word == "CLUSTERDOWN").await;
        let before = world.digest();
        let undo = world.provoke(&row.word);
        world.check(&row).await;
        undo.iter().for_each(|line| world.run(line));
        assert_eq!(world.digest(), before, "{}", row.word);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_full_of_clients_may_be_asked_again_when_others_have_left() {
    let mut world = World::start(false).await;
    world.run("CONFIG SET maxclients 1");
    world.run("CLIENT KILL TYPE normal SKIPME yes");
    for _ in 0..20 {
        let error = world.redis.enqueue(&event("full", 5)).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    world.run("CONFIG SET maxclients 100");
    for _ in 0..1_000 {
        match world.redis.enqueue(&event("full", 5)).await {
            Ok(_) => return,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
    panic!("the client did not come back");
}
