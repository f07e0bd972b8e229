//! What each role calls: commands on kinds of key, and the kinds of key that one script declares together.

use std::fmt;

use super::Role;
use super::family::Family;
use crate::OlderQueue;
use crate::keys::ShardKeys;

use Family::{
    Affinity, Cooldown, Count, Fails, Hot, Latency, Lost, OlderCounter, OlderList, Quarantine, Queue, Rate,
    Rpm, Seen, Settled, Since, SinceAmount, State, Text, Tpm, Usage,
};

/// Commands on kinds of key. The key stands behind the command's name, which may be of two words.
type Rights = (&'static [Family], &'static [&'static str]);

const GATEWAY: &[Rights] = &[
    (&[Queue], &["RPUSH x", "LLEN", "LINDEX 0", "LRANGE 0 1"]),
    (&[State], &["HMGET x", "HSET x x", "HSETNX x x", "HDEL x"]),
    (&[Seen], &["HGET x", "HSET x x", "PEXPIRE 1"]),
    (&[Hot], &["HGET x", "HGETALL"]),
    (&[Hot, Count], &["HMGET x", "HLEN", "HSET x x"]),
    (&[Since], &["ZCARD", "ZCOUNT 0 0", "ZADD 0 x", "ZRANGEBYLEX - +", "ZLEXCOUNT - +"]),
    (&[SinceAmount], &["HMGET x", "HLEN", "HSET x x"]),
    (&[Lost], &["LLEN", "RPUSH x"]),
    (&[OlderList], &["LLEN", "LINDEX 0", "LRANGE 0 1"]),
    (
        &[Rate],
        &["HGET x", "HMGET x", "HSET x x", "HDEL x", "HKEYS", "HLEN", "HEXISTS x", "EXISTS", "EXPIRE 1"],
    ),
    (&[Settled], &["SADD x", "SISMEMBER x", "EXPIRE 1"]),
    (&[Fails, Cooldown], &["GET", "SET x", "INCR", "PEXPIRE 1", "PTTL"]),
    (&[Latency], &["LRANGE 0 1", "LPUSH x", "LTRIM 0 1", "LLEN", "PEXPIRE 1"]),
    (&[Usage, Rpm, Tpm], &["GET", "INCRBY 1", "PEXPIRE 1"]),
    (&[Affinity, Text], &["GET", "SET x", "STRLEN", "PEXPIRE 1"]),
];

const FLUSHER: &[Rights] = &[
    (&[Queue], &["LLEN", "LRANGE 0 1", "LINDEX 0", "LTRIM 0 1", "MEMORY|USAGE"]),
    // Which of them were dealt with stands in the items.
    (&[Quarantine], &["LRANGE 0 1"]),
    (&[State], &["HMGET x", "HSET x x", "HDEL x"]),
    (&[Hot], &["HGETALL"]),
    (&[Hot, Count, SinceAmount], &["HMGET x", "HLEN", "HSET x x", "HDEL x"]),
    (&[Lost], &["LLEN", "LRANGE 0 1", "RPUSH x"]),
    (&[Since], &["ZCARD", "ZCOUNT 0 0", "ZADD 0 x", "ZREM x"]),
    (&[OlderList], &["LLEN", "LRANGE 0 1", "LINDEX 0", "LTRIM 0 1", "MEMORY|USAGE"]),
    (&[OlderCounter], &["GET", "INCRBYFLOAT 1", "DEL"]),
];

const OPERATOR: &[Rights] = &[
    (&[Queue, OlderList], &["LLEN", "LRANGE 0 1", "LINDEX 0", "MEMORY|USAGE"]),
    (&[State], &["HMGET x"]),
    (&[Hot], &["HGET x"]),
    (&[Hot, Count], &["HMGET x", "HLEN", "HGETALL"]),
    (&[Since], &["ZCARD", "ZCOUNT 0 0", "ZRANGEBYLEX - +", "ZLEXCOUNT - +"]),
    (&[SinceAmount], &["HMGET x", "HLEN"]),
    (&[Quarantine, Lost], &["LRANGE 0 1"]),
    (&[Seen], &["HKEYS"]),
];

const REPAIRER: &[Rights] = &[
    (&[Queue], &["LLEN", "LRANGE 0 1", "LINDEX 0", "MEMORY|USAGE", "LPOP", "LPUSH x"]),
    (&[OlderList], &["LLEN", "LRANGE 0 1", "LINDEX 0", "MEMORY|USAGE"]),
    (&[State], &["HMGET x", "HSET x x", "HDEL x"]),
    (&[Hot], &["HGET x"]),
    (&[Hot, Count], &["HMGET x", "HLEN", "HGETALL", "HSET x x"]),
    (&[Since], &["ZCARD", "ZCOUNT 0 0", "ZRANGEBYLEX - +", "ZLEXCOUNT - +", "ZADD 0 x"]),
    (&[SinceAmount], &["HMGET x", "HLEN", "HSET x x"]),
    (&[Quarantine], &["LRANGE 0 1", "LLEN", "LINDEX 0", "RPUSH x", "LSET 0 x", "LREM 1 x"]),
    (&[Lost], &["LRANGE 0 1", "LLEN", "LINDEX 0", "RPUSH x", "LSET 0 x"]),
];

/// The whole index of pending spend goes in one command.
const INDEX_AT_ONCE: &[Rights] = &[(&[Hot, Count, Since, SinceAmount], &["DEL"])];

impl Role {
    const fn rights(self) -> &'static [Rights] {
        match self {
            Self::Gateway => GATEWAY,
            Self::Flusher => FLUSHER,
            Self::Operator => OPERATOR,
            Self::Repairer => REPAIRER,
        }
    }

    /// Commands that name several keys at once: the right must come from one place of the user's line for all of them.
    const fn at_once(self) -> &'static [Rights] {
        match self {
            Self::Gateway | Self::Flusher | Self::Repairer => INDEX_AT_ONCE,
            Self::Operator => &[],
        }
    }

    /// The kinds of key that its scripts declare, each time all that one script declares: the right to call a script
    /// must come from one place of the user's line for all of them.
    const fn declared(self) -> &'static [&'static [Family]] {
        match self {
            Self::Gateway => &[
                &[Queue, State, Hot, Count, Since, SinceAmount, Lost, Seen],
                &[OlderList],
                &[Rate, Settled],
                &[Fails, Cooldown],
                &[Latency],
                &[Usage],
                &[Rpm],
                &[Tpm],
                &[Affinity],
                &[Text],
            ],
            Self::Flusher => {
                &[&[Queue, State, Hot, Count, Since, SinceAmount, Lost], &[OlderList, OlderCounter]]
            }
            Self::Operator => &[&[Queue, State, Hot, Count, Since, SinceAmount], &[OlderList]],
            Self::Repairer => {
                &[&[Queue, State, Hot, Count, Since, SinceAmount, Quarantine, Lost], &[OlderList]]
            }
        }
    }

    /// Every command on the keys of one shard, and of an older deployment's queue where there is one.
    pub(super) fn commands(
        self,
        keys: &ShardKeys<'_>,
        older: Option<&OlderQueue>,
    ) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        let each = self.rights().iter().flat_map(move |(families, commands)| {
            families.iter().filter_map(move |family| Some((vec![family.key(keys, older)?], *commands)))
        });
        let at_once = self.at_once().iter().filter_map(move |(families, commands)| {
            let keys: Option<Vec<_>> = families.iter().map(|family| family.key(keys, older)).collect();
            Some((keys?, *commands))
        });
        each.chain(at_once)
            .flat_map(|(keys, commands)| commands.iter().map(move |&command| (command, keys.clone())))
    }

    /// The keys that each of its scripts declares.
    pub(super) fn declarations(
        self,
        keys: &ShardKeys<'_>,
        older: Option<&OlderQueue>,
    ) -> impl Iterator<Item = Vec<String>> {
        let each = self.declared().iter();
        each.filter_map(move |families| families.iter().map(|family| family.key(keys, older)).collect())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::script;

    /// What a role does: scripts that it calls, and commands that it calls without a script.
    struct Calls {
        role: Role,
        scripts: &'static [&'static str],
        directly: &'static [&'static str],
    }

    const READS: &[&str] = &["PEEK", "PENDING", "PENDING_OLDER", "BACKLOG", "QUEUE_STATE"];
    const CALLS: [Calls; 4] = [
        Calls {
            role: Role::Gateway,
            scripts: &[
                "ADMIT_ONE",
                "ADMIT_BATCH",
                "REBUILD",
                "TURN",
                "SETTLE",
                "ENQUEUE",
                "PENDING",
                "PENDING_OLDER",
                "BACKLOG",
                "RECORD_FAILURE",
                "ADD_LATENCY",
                "HIT",
                "WRITE_STRING",
                "RENEW_STRING",
                "SWAP_STRING",
            ],
            directly: &["HGET", "HKEYS", "HSETNX", "LLEN", "LRANGE", "GET"],
        },
        Calls {
            role: Role::Flusher,
            scripts: &["PEEK", "ACK", "ACK_OLDER", "REINDEX", "BACKLOG", "QUEUE_STATE"],
            directly: &["LLEN", "LRANGE", "MEMORY|USAGE"],
        },
        Calls {
            role: Role::Operator,
            scripts: READS,
            directly: &["HGET", "HMGET", "LLEN", "LRANGE", "HGETALL", "HKEYS", "MEMORY|USAGE"],
        },
        Calls {
            role: Role::Repairer,
            scripts: &[
                "PEEK",
                "PENDING",
                "PENDING_OLDER",
                "BACKLOG",
                "QUEUE_STATE",
                "REINDEX",
                "QUARANTINE",
                "RESTORE",
                "ACKNOWLEDGE_ITEM",
            ],
            directly: &["HGET", "HMGET", "LLEN", "LRANGE", "HGETALL", "MEMORY|USAGE"],
        },
    ];

    /// The names that the scripts of the queue give to keys.
    const NAMES: [(&str, Family); 7] = [
        ("queue", Queue),
        ("state", State),
        ("hot", Hot),
        ("count", Count),
        ("since", Since),
        ("amounts", SinceAmount),
        ("lost", Lost),
    ];

    /// What a script really runs: without the functions of its parts that it does not call.
    fn reachable(script: &str) -> String {
        let mut functions = BTreeMap::new();
        let mut main = String::new();
        let mut rest = script;
        while let Some((before, function)) = rest.split_once("\nlocal function ") {
            let (body, after) = function.split_once("\nend").unwrap();
            main.push_str(before);
            functions.insert(body.split('(').next().unwrap(), body);
            rest = after;
        }
        main.push_str(rest);
        while let Some(called) = functions.keys().copied().find(|name| main.contains(&format!("{name}("))) {
            main.push_str(functions.remove(called).unwrap());
        }
        main
    }

    /// Commands of a script, and the key each has where the script names it as [`NAMES`] do.
    fn commands_of(script: &str) -> Vec<(&str, Option<Family>)> {
        let quoted = script.split("('").skip(1).filter_map(|rest| rest.split_once('\''));
        let commands =
            quoted.filter(|(word, _)| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
        commands
            .filter(|(command, _)| *command != "TIME")
            .map(|(command, rest)| {
                let key = rest.trim_start_matches([',', ' ']);
                let key = key.split(|c: char| !c.is_ascii_alphanumeric()).next();
                (command, NAMES.iter().find(|(name, _)| Some(*name) == key).map(|(_, family)| *family))
            })
            .collect()
    }

    fn rights(role: Role) -> impl Iterator<Item = &'static Rights> {
        role.rights().iter().chain(role.at_once())
    }

    fn name(command: &str) -> &str {
        command.split(' ').next().unwrap()
    }

    #[test]
    fn every_command_of_a_roles_scripts_is_asked_about_and_no_other() {
        let texts: BTreeMap<_, _> =
            script::texts().into_iter().map(|(name, text)| (name, reachable(&text))).collect();
        for Calls { role, scripts, directly } in CALLS {
            let mut called: BTreeSet<&str> = directly.iter().copied().collect();
            for script in scripts {
                for (command, family) in commands_of(&texts[script]) {
                    called.insert(command);
                    let asked = rights(role).any(|(families, commands)| {
                        family.is_none_or(|family| families.contains(&family))
                            && commands.iter().any(|asked| name(asked) == command)
                    });
                    assert!(asked, "{role} does not ask about {command} on {family:?}, which {script} calls");
                }
            }
            for asked in rights(role).flat_map(|(_, commands)| *commands) {
                assert!(called.contains(name(asked)), "{role} asks about {asked} and never calls it");
            }
        }
    }

    #[test]
    fn every_script_is_called_by_a_role() {
        let called: BTreeSet<_> = CALLS.iter().flat_map(|calls| calls.scripts).copied().collect();
        let all: BTreeSet<_> = script::texts().into_iter().map(|(name, _)| name).collect();
        assert_eq!(called, all);
    }

    #[test]
    fn every_kind_of_key_that_a_script_declares_has_rights() {
        for Calls { role, .. } in CALLS {
            let with_rights =
                |family: &Family| role.rights().iter().any(|(families, _)| families.contains(family));
            assert!(role.declared().iter().flat_map(|families| *families).all(with_rights), "{role}");
        }
    }

    #[test]
    fn an_older_queue_is_asked_about_only_where_there_is_one() {
        let prefix = crate::KeyPrefix::default();
        let keys = prefix.shard(spend_queue::ShardCount::ONE.shard_of(""));
        let older = OlderQueue::default();
        for Calls { role, .. } in CALLS {
            let of_older = |older: Option<&OlderQueue>| {
                let commands = role.commands(&keys, older).flat_map(|(_, keys)| keys);
                let declared = role.declarations(&keys, older).flatten();
                commands.chain(declared).filter(|key| key.starts_with("xhub:")).collect::<BTreeSet<_>>()
            };
            assert_eq!(of_older(None), BTreeSet::new());
            let list = "xhub:spendlog".to_owned();
            let expected = match role {
                Role::Flusher => BTreeSet::from([list, "xhub:spend:key/id".to_owned()]),
                _ => BTreeSet::from([list]),
            };
            assert_eq!(of_older(Some(&older)), expected, "{role}");
        }
    }
}
