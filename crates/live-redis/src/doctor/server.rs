//! The server's settings: version, eviction, memory, persistence, replication.

use std::collections::{BTreeMap, HashMap};

use redis::Value;
use spend_queue::{Finding, Severity};

use super::answered;
use super::report::Report;
use crate::LiveRedis;
use crate::error::LiveRedisError;

const VERSION: &str = "redis.version";
const EVICTION: &str = "redis.eviction";
const MEMORY: &str = "redis.maxmemory";
const PERSISTENCE: &str = "redis.persistence";
const REPLICATION: &str = "redis.replication";

/// Scripts declare their flags since this version, and ACLs have selectors.
const OLDEST: (u32, u32) = (7, 0);

/// The settings that `INFO` does not tell, or not always.
const SETTINGS: [&str; 5] =
    ["maxmemory-policy", "maxmemory", "appendonly", "appendfsync", "min-replicas-to-write"];

/// What the server says about itself: `INFO` first, `CONFIG GET` for what that leaves open.
#[derive(Debug, Default)]
struct Settings {
    info: HashMap<String, String>,
    config: HashMap<String, String>,
    /// Why one of them is empty.
    info_refused: String,
    config_refused: String,
}

impl LiveRedis {
    /// Adds what the settings are worth; answers the server's mode (`standalone`, `cluster`, `sentinel`) if it is known.
    pub(super) async fn examine_server(&self, report: &mut Report) -> Result<Option<String>, LiveRedisError> {
        let mut nodes = BTreeMap::new();
        let mut info_refused = String::new();
        match answered(self.wide::<Value>(&redis::cmd("INFO")).await)? {
            // A cluster answers for each primary.
            Ok(Value::Map(answers)) => {
                let each = answers.into_iter().map(|(name, info)| (text(&name), fields(&text(&info))));
                nodes.extend(each);
            }
            Ok(info) => drop(nodes.insert(String::new(), fields(&text(&info)))),
            Err(reason) => {
                nodes.insert(String::new(), HashMap::new());
                info_refused = reason;
            }
        }
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg(&SETTINGS);
        let (config, config_refused) = match answered(self.wide(&get).await)? {
            Ok(config) => (config, String::new()),
            Err(reason) => (HashMap::new(), reason),
        };
        let mut settings = Settings { config, info_refused, config_refused, ..Settings::default() };
        for (name, info) in nodes {
            settings.info = info;
            let mut of_node = Report::default();
            settings.judge(&mut of_node);
            report.merge(&name, of_node);
        }
        Ok(settings.mode().map(str::to_owned))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

fn fields(info: &str) -> HashMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl Settings {
    fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// `standalone`, `cluster` or `sentinel`. Valkey has a name of its own for it, unless it is told to be compatible.
    fn mode(&self) -> Option<&str> {
        self.info("redis_mode").or(self.info("server_mode"))
    }

    fn judge(&self, report: &mut Report) {
        match (self.info("redis_version"), self.info("valkey_version")) {
            (Some(redis), valkey) => report.add(version(redis, valkey)),
            (None, _) => report.unknown(VERSION, "the server's version", &self.info_refusal(), "INFO"),
        }
        let policy = self.info("maxmemory_policy").or(self.config("maxmemory-policy"));
        match policy {
            Some(policy) => report.add(eviction(policy)),
            None => report.unknown(EVICTION, "the eviction policy", &self.info_refusal(), "INFO"),
        }
        match self.info("maxmemory").or(self.config("maxmemory")) {
            Some(bytes) => report.add(memory(bytes)),
            None => report.unknown(MEMORY, "the memory limit", &self.info_refusal(), "INFO"),
        }
        let appendonly = self.info("aof_enabled").or(self.config("appendonly"));
        match appendonly.map(|on| matches!(on, "1" | "yes")) {
            Some(false) => report.add(no_append_only_file()),
            Some(true) => match self.config("appendfsync") {
                Some(fsync) => report.add(append_only_file(fsync)),
                None => report.unknown(
                    PERSISTENCE,
                    "the append-only file is on, but when it is flushed (appendfsync)",
                    or_absent(&self.config_refused),
                    "CONFIG GET",
                ),
            },
            None => report.unknown(PERSISTENCE, "persistence", &self.info_refusal(), "INFO"),
        }
        self.judge_replication(report);
    }

    fn judge_replication(&self, report: &mut Report) {
        let Some(role) = self.info("role") else {
            report.unknown(REPLICATION, "the replication role", &self.info_refusal(), "INFO");
            return;
        };
        // INFO has this line only where a minimum is set.
        let waits = match self.config("min-replicas-to-write") {
            Some(count) => count != "0",
            None => self.info("min_slaves_good_slaves").is_some(),
        };
        report.add(replication(role, self.info("connected_slaves").unwrap_or("0"), waits));
    }

    fn info_refusal(&self) -> String {
        or_absent(&self.info_refused).to_owned()
    }
}

fn or_absent(reason: &str) -> &str {
    if reason.is_empty() { "the server does not say" } else { reason }
}

fn version(redis: &str, valkey: Option<&str>) -> Finding {
    let name = match valkey {
        Some(valkey) => format!("Valkey {valkey} (compatible with Redis {redis})"),
        None => format!("Redis {redis}"),
    };
    let mut numbers = redis.split('.').map(|part| part.parse::<u32>().ok());
    let found = (numbers.next().flatten(), numbers.next().flatten());
    match found {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Finding::ok(VERSION, name),
        _ => Finding::new(
            VERSION,
            Severity::Fatal,
            name,
            "the scripts declare flags that older servers do not know: every call would fail",
            format!("upgrade to Redis {}.{} or later, or to Valkey", OLDEST.0, OLDEST.1),
        ),
    }
}

fn eviction(policy: &str) -> Finding {
    if policy == "noeviction" {
        return Finding::ok(EVICTION, "maxmemory-policy is noeviction");
    }
    Finding::new(
        EVICTION,
        Severity::Fatal,
        format!("maxmemory-policy is {policy}"),
        "under memory pressure the server may delete queued bills, remembered request ids or a minute's counters",
        "set `maxmemory-policy noeviction` in redis.conf and by CONFIG SET; keep caches on another server",
    )
}

fn memory(bytes: &str) -> Finding {
    if bytes != "0" {
        return Finding::ok(MEMORY, format!("maxmemory is {bytes} bytes"));
    }
    Finding::new(
        MEMORY,
        Severity::Note,
        "maxmemory is 0: no limit",
        "a server that outgrows its machine is killed by the system, where one with a limit refuses and still drains",
        "set maxmemory below the machine's memory, with room for a fork",
    )
}

fn no_append_only_file() -> Finding {
    Finding::new(
        PERSISTENCE,
        Severity::Warning,
        "appendonly is no",
        "a crash of the server loses everything since the last snapshot: queued bills that were acknowledged to the \
         gateway, and this minute's counters",
        "set `appendonly yes` with `appendfsync everysec` or `always`",
    )
}

fn append_only_file(fsync: &str) -> Finding {
    let what = format!("appendonly is yes, appendfsync is {fsync}");
    match fsync {
        "always" => Finding::ok(PERSISTENCE, what),
        "everysec" => Finding::new(
            PERSISTENCE,
            Severity::Note,
            what,
            "a crash of the machine loses about the last second of acknowledged bills, two at worst",
            "set `appendfsync always` if that is too much; each write then waits for the disk",
        ),
        _ => Finding::new(
            PERSISTENCE,
            Severity::Warning,
            what,
            "a crash of the machine loses what the system has not written yet, half a minute or more of acknowledged \
             bills",
            "set `appendfsync everysec` or `always`",
        ),
    }
}

fn replication(role: &str, replicas: &str, waits: bool) -> Finding {
    match (role, replicas) {
        ("master", "0") => Finding::ok(REPLICATION, "a primary without replicas"),
        ("master", _) if waits => Finding::ok(
            REPLICATION,
            format!("a primary with {replicas} replicas and min-replicas-to-write set"),
        ),
        ("master", _) => Finding::new(
            REPLICATION,
            Severity::Note,
            format!("a primary with {replicas} replicas; min-replicas-to-write is 0"),
            "a primary that is cut off goes on accepting bills, and a fail-over drops them",
            "set min-replicas-to-write to 1 or more, with min-replicas-max-lag, to bound that loss",
        ),
        _ => Finding::new(
            REPLICATION,
            Severity::Fatal,
            format!("the server's role is {role}"),
            "a replica refuses every write",
            "connect to the primary, or through Sentinel",
        ),
    }
}

#[cfg(test)]
mod tests;
