//! Whether the client's user may call what its role calls: a script that is denied a command half-way has written
//! before.

use std::collections::BTreeSet;
use std::fmt;

use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind};
use spend_queue::{Finding, RequestDigest, Severity};

use super::report::Report;
use super::{Role, answered};
use crate::LiveRedis;
use crate::error::LiveRedisError;
use crate::keys::ShardKeys;

const RIGHTS: &str = "redis.rights";
const SCRIPTS: &str = "redis.scripts";
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// One kind of key, with ids that stand for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Queue,
    State,
    Seen,
    Hot,
    Count,
    Since,
    SinceAmount,
    Quarantine,
    Rate,
    Settled,
    Fails,
    Cooldown,
    Latency,
    Usage,
    Rpm,
    Tpm,
    Affinity,
    Text,
}
use Family::{
    Affinity, Cooldown, Count, Fails, Hot, Latency, Quarantine, Queue, Rate, Rpm, Seen, Settled, Since,
    SinceAmount, State, Text, Tpm, Usage,
};

/// Commands on kinds of key. The key stands behind the command's first word.
type Rights = (&'static [Family], &'static [&'static str]);

const GATEWAY: &[Rights] = &[
    (&[Queue], &["RPUSH x", "LLEN", "LINDEX 0", "LRANGE 0 1"]),
    (&[State], &["HMGET x", "HSET x x", "HSETNX x x", "HDEL x"]),
    (&[Seen], &["HGET x", "HSET x x", "PEXPIRE 1"]),
    (&[Hot, Count], &["HGET x", "HMGET x", "HLEN", "HSET x x", "DEL"]),
    (&[Since], &["ZCARD", "ZADD 0 x", "ZRANGEBYLEX - +", "DEL"]),
    (&[SinceAmount], &["HMGET x", "HLEN", "HSET x x", "DEL"]),
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
    (&[Queue], &["LLEN", "LRANGE 0 1", "LINDEX 0", "LTRIM 0 1"]),
    (&[State], &["HMGET x", "HSET x x", "HDEL x"]),
    (&[Hot, Count, SinceAmount], &["HMGET x", "HLEN", "HSET x x", "HDEL x", "DEL"]),
    (&[Since], &["ZCARD", "ZADD 0 x", "ZREM x", "DEL"]),
];

const OPERATOR: &[Rights] = &[
    (&[Queue], &["LLEN", "LRANGE 0 1", "LINDEX 0", "MEMORY|USAGE"]),
    (&[State], &["HMGET x"]),
    (&[Hot, Count], &["HGET x", "HLEN", "HGETALL"]),
    (&[Since], &["ZCARD"]),
    (&[SinceAmount], &["HLEN"]),
    (&[Quarantine], &["LRANGE 0 1", "LLEN"]),
];

impl Family {
    fn key(self, keys: &ShardKeys<'_>) -> String {
        match self {
            Queue => keys.queue(),
            State => keys.state(),
            Seen => keys.seen(&RequestDigest::of("id"), None),
            Since => keys.since(),
            SinceAmount => keys.since_amount(),
            Quarantine => keys.quarantine(),
            Hot => keys.hot(),
            Count => keys.count(),
            Rate => keys.rate(0, "id"),
            Settled => keys.settled(0, "id"),
            Fails => keys.fails("id"),
            Cooldown => keys.cooldown("id"),
            Latency => keys.latency("id"),
            Usage => keys.usage(0, "id"),
            Rpm => keys.rpm(0, "id"),
            Tpm => keys.tpm(0, "id"),
            Affinity => keys.affinity("id"),
            Text => keys.string("id"),
        }
    }
}

/// A command that a role calls, as it is asked about.
struct Probe {
    words: Vec<String>,
    /// For people: the command and its key.
    name: String,
}

impl Probe {
    fn new(words: &[&str], named: usize) -> Self {
        let name = words.iter().take(named).copied().collect::<Vec<_>>().join(" ");
        Self { words: words.iter().map(|&word| word.to_owned()).collect(), name }
    }

    fn on(command: &str, key: &str) -> Self {
        let mut words: Vec<_> = command.split(' ').collect();
        words.insert(1, key);
        Self::new(&words, 2)
    }

    fn script_on(key: &str) -> Self {
        Self { name: format!("EVALSHA on {key}"), ..Self::new(&["EVALSHA", NO_SCRIPT, "1", key], 1) }
    }

    fn dry_run(&self, user: &str) -> Cmd {
        let mut command = redis::cmd("ACL");
        command.arg("DRYRUN").arg(user).arg(&self.words);
        command
    }
}

impl Role {
    const fn rights(self) -> &'static [Rights] {
        match self {
            Self::Gateway => GATEWAY,
            Self::Flusher => FLUSHER,
            Self::Operator => OPERATOR,
        }
    }

    /// The kinds of key that its scripts declare: an operator's declare the queue alone, it reads the others directly.
    fn declared(self) -> impl Iterator<Item = Family> {
        let families = self.rights().iter().flat_map(|(families, _)| *families).copied();
        families.filter(move |family| self != Self::Operator || *family == Queue)
    }

    /// Every command on every kind of key of one shard.
    fn probes(self, keys: &ShardKeys<'_>) -> Vec<Probe> {
        let mut probes = Vec::new();
        for (families, commands) in self.rights() {
            for family in *families {
                let key = family.key(keys);
                probes.extend(commands.iter().map(|command| Probe::on(command, &key)));
            }
        }
        probes
    }
}

impl LiveRedis {
    /// Asks the server's own judge, `ACL DRYRUN`, about each command. Where it may not be asked, that is said, and at
    /// least loading and calling a script are tried.
    pub(super) async fn examine_rights(&self, role: Role, report: &mut Report) -> Result<(), LiveRedisError> {
        let mut whoami = redis::cmd("ACL");
        whoami.arg("WHOAMI");
        let user = match answered(self.wide::<String>(&whoami).await)? {
            Ok(user) => user,
            Err(reason) => return self.try_scripts(role, &reason, report).await,
        };
        let shards = self.shard_count();
        let first_and_last =
            BTreeSet::from_iter(shards.iter().next().into_iter().chain(shards.iter().last()));
        let mut probes = vec![Probe::new(&["PING"], 1), Probe::new(&["TIME"], 1)];
        let mut scripts = vec![Probe::new(&["SCRIPT", "LOAD", "x"], 2)];
        for shard in first_and_last {
            let keys = self.shared.options.prefix.shard(shard);
            probes.extend(role.probes(&keys));
            scripts.extend(role.declared().map(|family| Probe::script_on(&family.key(&keys))));
        }
        let denied = match self.denied(&user, &scripts).await? {
            Ok(denied) => denied,
            Err(reason) => return self.try_scripts(role, &reason, report).await,
        };
        report.add(scripts_finding(&user, &denied));
        match self.denied(&user, &probes).await? {
            Ok(denied) => report.add(rights_finding(role, &user, probes.len(), &denied)),
            Err(reason) => report.unknown(RIGHTS, "what this user may call", &reason, "ACL DRYRUN"),
        }
        Ok(())
    }

    /// The names of what the user may not do, or why that cannot be asked.
    async fn denied(
        &self,
        user: &str,
        probes: &[Probe],
    ) -> Result<Result<Vec<String>, String>, LiveRedisError> {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        for probe in probes {
            pipeline.add_command(probe.dry_run(user));
        }
        let call = self.hot(async move |mut conn| pipeline.query_async(&mut conn).await).await;
        let answers: Vec<RedisResult<String>> = match answered(call)? {
            Ok(answers) => answers,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut denied = Vec::new();
        for (probe, answer) in probes.iter().zip(answers) {
            match answer {
                Ok(answer) if answer == "OK" => {}
                Ok(_) => denied.push(probe.name.clone()),
                // A command that the server does not have cannot be called either.
                Err(error) if error.code() == Some("ERR") && error.to_string().contains("not found") => {
                    denied.push(probe.name.clone());
                }
                Err(error) => return Ok(Err(LiveRedisError::from(error).to_string())),
            }
        }
        denied.dedup();
        Ok(Ok(denied))
    }

    /// What can be found out without `ACL DRYRUN` and without writing anything.
    async fn try_scripts(&self, role: Role, reason: &str, report: &mut Report) -> Result<(), LiveRedisError> {
        let question = format!("whether this user may call each command of a {role}");
        report.unknown(RIGHTS, &question, reason, "ACL WHOAMI and ACL DRYRUN");
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg("return 1");
        let loaded = answered(self.wide::<String>(&load).await)?;
        let mut call = redis::cmd("EVALSHA");
        let keys = self.shared.options.prefix.shard(self.shard_count().shard_of(""));
        call.arg(NO_SCRIPT).arg(1).arg(keys.queue());
        let called = self
            .hot(async move |mut conn| match call.query_async::<()>(&mut conn).await {
                // It may be called: only there is no such script.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(()),
                answer => answer,
            })
            .await;
        let called = answered(called)?;
        let denied = [("SCRIPT LOAD", loaded.err()), ("EVALSHA on the queue", called.err())];
        let denied = denied.into_iter().filter_map(|(name, refused)| refused.map(|_| name.to_owned()));
        report.add(scripts_finding("of this client", &denied.collect::<Vec<_>>()));
        Ok(())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn scripts_finding(user: &str, denied: &[String]) -> Finding {
    if denied.is_empty() {
        return Finding::ok(SCRIPTS, "scripts may be loaded and called");
    }
    Finding::new(
        SCRIPTS,
        Severity::Fatal,
        format!("user {} may not call {}", user.escape_debug(), denied.join(", ")),
        "every atomic step is a script; after a restart of the server each has to be loaded again",
        "grant +evalsha and +script|load on this prefix's keys: docs/security.md has the whole line",
    )
}

fn rights_finding(role: Role, user: &str, asked: usize, denied: &[String]) -> Finding {
    let user = user.escape_debug();
    if denied.is_empty() {
        return Finding::ok(RIGHTS, format!("user {user} may make all {asked} kinds of access of a {role}"));
    }
    Finding::new(
        RIGHTS,
        Severity::Fatal,
        format!("user {user} may not call {}", denied.join(", ")),
        "a script that is denied a command half-way keeps what it wrote before: an entry without its charge, a counter \
         without its expiry",
        format!("give the user the line of docs/security.md for a {role}, with this prefix"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scripts that a role calls.
    const CALLED: [(Role, &[&str]); 3] = [
        (
            Role::Gateway,
            &[
                include_str!("../../lua/admit_one.lua"),
                include_str!("../../lua/admit_batch.lua"),
                include_str!("../../lua/rebuild.lua"),
                include_str!("../../lua/settle.lua"),
                include_str!("../../lua/enqueue.lua"),
                include_str!("../../lua/record_failure.lua"),
                include_str!("../../lua/add_latency.lua"),
                include_str!("../../lua/hit.lua"),
                include_str!("../../lua/write_string.lua"),
                include_str!("../../lua/renew_string.lua"),
                include_str!("../../lua/swap_string.lua"),
            ],
        ),
        (Role::Flusher, &[include_str!("../../lua/peek.lua"), include_str!("../../lua/ack.lua")]),
        (Role::Operator, &[include_str!("../../lua/peek.lua")]),
    ];

    #[test]
    fn every_command_of_a_roles_scripts_is_asked_about() {
        for (role, scripts) in CALLED {
            let asked = role.rights().iter().flat_map(|(_, commands)| *commands);
            let asked: BTreeSet<_> = asked.filter_map(|command| command.split(' ').next()).collect();
            for script in scripts {
                for called in script.split("call('").skip(1) {
                    let command = called.split('\'').next().unwrap();
                    assert!(
                        command == "TIME" || asked.contains(command),
                        "{role} does not ask about {command}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_asked_names_the_command_and_the_key() {
        let probe = Probe::on("HINCRBY x 1", "p:{0}:hot");
        assert_eq!(probe.words, ["HINCRBY", "p:{0}:hot", "x", "1"]);
        assert_eq!(probe.name, "HINCRBY p:{0}:hot");
    }
}
