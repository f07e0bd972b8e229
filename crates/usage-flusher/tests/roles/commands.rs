//! Each command as its roles.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use devstack::{GuardedServers, commands_of};
use iam_ledger::{Batch, Ledger, LedgerOptions};
use live_redis::LiveRedis;
use serde_json::Value;
use spend_queue::{Chain, Entry, Epoch, ShardCount, SpendQueue};

use crate::support::{event, now, shard};
use crate::{Running, as_roles, complaint, guarded, until};

/// Runs commands as roles, and remembers which.
struct Trial<'a> {
    servers: &'a GuardedServers,
    ran: RefCell<BTreeSet<String>>,
}

impl Trial<'_> {
    /// Runs a command that must succeed, and returns what it printed.
    fn run(&self, redis: &str, postgres: &str, words: &str) -> String {
        let words: Vec<_> = words.split(' ').collect();
        let output = as_roles(self.servers, redis, postgres).args(&words).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(
            output.status.success(),
            "{words:?} as {redis} and {postgres}: {text} {}",
            complaint(&output)
        );
        let names = words.iter().take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
        self.ran.borrow_mut().insert(names.copied().collect::<Vec<_>>().join(" "));
        text
    }

    fn json(&self, redis: &str, postgres: &str, words: &str) -> Value {
        let text = self.run(redis, postgres, &format!("{words} --json"));
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{words}: {text}"))
    }
}

/// A ledger's handle as a role.
async fn ledger(servers: &GuardedServers, role: &str) -> Ledger {
    let url = servers.database_url(&format!("tallyweir_{role}")).into();
    Ledger::connect(&url, LedgerOptions::default()).await.unwrap()
}

/// Leaves a dead letter: the ledger refuses a text with a zero byte.
async fn dead_letter(servers: &GuardedServers) {
    let encoded = event("bad", 5);
    let bytes = encoded.entry(1, encoded.chain_after(Chain::GENESIS, 1)).into_bytes();
    let mut entry = Entry::decode(bytes).unwrap();
    entry.event.status = "\0".into();
    // Of another deployment on the same ledger: the queue of this one has no such number.
    let epoch = Epoch::new("elsewhere", ShardCount::ONE);
    let batch = Batch { epoch: &epoch, shard: shard(), entries: &[entry], committed_at: now() };
    let flusher = ledger(servers, "flusher").await;
    assert_eq!(flusher.commit(&batch).await.unwrap().refused, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_works_as_the_roles_that_the_page_gives_it() {
    let servers = guarded();
    let trial = Trial { servers: &servers, ran: RefCell::default() };
    dead_letter(&servers).await;
    let gateway = LiveRedis::open(servers.redis_url("gateway")).await.unwrap();
    for id in ["a", "b", "c"] {
        gateway.enqueue(&event(id, 5)).await.unwrap();
    }

    assert_eq!(
        trial.json("", "owner", "migrate")["applied"],
        Value::Array(Vec::new()),
        "nothing was missing"
    );
    for (role, postgres) in
        [("flusher", "flusher"), ("gateway", "gateway"), ("operator", "auditor"), ("repairer", "auditor")]
    {
        let report = trial.json(role, postgres, &format!("doctor --role {role}"));
        let findings = report["findings"].as_array().unwrap();
        let rights = findings.iter().find(|finding| finding["check"] == "redis.rights").unwrap();
        assert_eq!(rights["severity"], "ok", "{report:#}");
    }
    for role in ["operator", "repairer"] {
        assert_eq!(trial.json(role, "", "status")["entries"], 3, "{role}");
        assert_eq!(trial.json(role, "", "peek")["entries"].as_array().unwrap().len(), 3, "{role}");
        trial.run(role, "", "quarantine --list");
        trial.run(role, "", "repair");
        trial.run(role, "", "losses");
    }
    let head = trial.json("repairer", "", "quarantine")["sha1"].as_str().unwrap().to_owned();
    trial.run("repairer", "", &format!("quarantine --head {head} --reason test --yes"));
    assert_eq!(trial.json("operator", "", "quarantine --list")["items"].as_array().unwrap().len(), 1);
    trial.run("repairer", "", "quarantine --restore 0 --yes");
    trial.run("repairer", "", "repair --yes");

    for role in ["auditor", "flusher"] {
        for by in ["day", "model", "scope", "period", "holds", "overruns"] {
            trial.run("", role, &format!("report --by {by}"));
        }
        let letters = trial.json("", role, "dead-letters list");
        assert_eq!(letters["letters"].as_array().unwrap().len(), 1, "{role}");
        trial.run("", role, &format!("dead-letters show {}", letters["letters"][0]["id"]));
    }
    let letter = trial.json("", "auditor", "dead-letters list")["letters"][0]["id"].to_string();
    let replayed = trial.json("", "flusher", &format!("dead-letters replay {letter} --yes"));
    assert_eq!(replayed["attempts"][0]["outcome"], "settled", "{replayed}");

    let running = Running::start(as_roles(&servers, "flusher", "flusher"));
    until("the hand-off", || running.get("/metrics").contains("tallyweir_events_settled_total 3"));
    let stopped = running.stop();
    assert_eq!(
        (&stopped["event"], &stopped["signal"], &stopped["flushed"]),
        (&"stopped".into(), &"SIGTERM".into(), &3.into())
    );
    trial.ran.borrow_mut().insert("run".to_owned());
    trial.run("operator", "auditor", "audit --deep");
    trial.run("repairer", "auditor", "audit");

    // An entry leaves the queue by hand, and the repairer writes down that it is missing.
    gateway.enqueue(&event("d", 5)).await.unwrap();
    let mut by_hand = redis::Client::open(servers.redis_url("repairer")).unwrap().get_connection().unwrap();
    let _: Vec<u8> = redis::cmd("LPOP").arg("tallyweir:{0}:queue").query(&mut by_hand).unwrap();
    trial.run("repairer", "", "repair --yes");
    assert_eq!(trial.json("operator", "", "losses")["losses"].as_array().unwrap().len(), 1);
    let marked = trial.json("repairer", "", "losses --shard 0 --acknowledge 0 --reason tried --yes");
    assert_eq!(marked["done"], true, "{marked}");

    // Another is moved aside, and the repairer writes down that it was dealt with.
    gateway.enqueue(&event("e", 5)).await.unwrap();
    let head = trial.json("repairer", "", "quarantine")["sha1"].as_str().unwrap().to_owned();
    trial.run("repairer", "", &format!("quarantine --head {head} --reason test --yes"));
    let marked = trial.json("repairer", "", "quarantine --acknowledge 0 --reason tried --yes");
    assert_eq!(marked["done"], true, "{marked}");

    // Words that are no command, such as a number, stand behind those that are.
    let ran = trial.ran.into_inner();
    let all = commands_of(Path::new(env!("CARGO_BIN_EXE_usage-flusher")));
    let missed: Vec<_> = all
        .iter()
        .filter(|command| {
            !ran.iter().any(|words| words == *command || words.starts_with(&format!("{command} ")))
        })
        .collect();
    assert!(missed.is_empty() && all.contains("dead-letters replay"), "no role was tried with {missed:?}");
}
