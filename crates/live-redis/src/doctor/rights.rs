//! Whether the client's user may call what its role calls: a script that is denied a command half-way has written
//! before.

use std::collections::BTreeSet;

use redis::{Cmd, Pipeline, RedisResult};
use spend_queue::{Finding, Severity};

use super::report::Report;
use super::{Role, answered};
use crate::LiveRedis;
use crate::connect::Question;
use crate::error::LiveRedisError;

const RIGHTS: &str = "redis.rights";
const SCRIPTS: &str = "redis.scripts";
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// A command that a role calls, as it is asked about.
struct Probe {
    words: Vec<String>,
    /// For people: the command and its keys.
    name: String,
}

impl Probe {
    fn new(words: &[&str], named: usize) -> Self {
        let name = words.iter().take(named).copied().collect::<Vec<_>>().join(" ");
        Self { words: words.iter().map(|&word| word.to_owned()).collect(), name }
    }

    /// `command` is its name, with a bar before a subcommand, and what stands behind the keys.
    fn on(command: &str, keys: &[String]) -> Self {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let mut words: Vec<_> = name.split('|').collect();
        words.extend(keys.iter().map(String::as_str));
        let named = words.len();
        words.extend(rest.split_whitespace());
        Self::new(&words, named)
    }

    fn script_on(keys: &[String]) -> Self {
        let count = keys.len().to_string();
        let mut words = vec!["EVALSHA", NO_SCRIPT, &count];
        words.extend(keys.iter().map(String::as_str));
        Self { name: format!("EVALSHA on {}", keys.join(", ")), ..Self::new(&words, 1) }
    }

    fn dry_run(&self, user: &str) -> Cmd {
        let mut command = redis::cmd("ACL");
        command.arg("DRYRUN").arg(user).arg(&self.words);
        command
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
        // It has no shard, so it is asked about once.
        let mut older = self.shared.options.older_queue.as_ref();
        for shard in first_and_last {
            let keys = self.shared.options.prefix.shard(shard);
            probes.extend(role.commands(&keys, older).map(|(command, keys)| Probe::on(command, &keys)));
            scripts.extend(role.declarations(&keys, older).map(|keys| Probe::script_on(&keys)));
            older = None;
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
        let call = self.hot(&Question::Pipeline(&pipeline)).await;
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
        let question = format!("whether this user may call each command of the role {role}");
        report.unknown(RIGHTS, &question, reason, "ACL WHOAMI and ACL DRYRUN");
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg("return 1");
        let loaded = answered(self.wide::<String>(&load).await)?;
        let mut call = redis::cmd("EVALSHA");
        let keys = self.shared.options.prefix.shard(self.shard_count().shard_of(""));
        call.arg(NO_SCRIPT).arg(1).arg(keys.queue());
        let called = match answered(self.hot_command::<()>(&call).await)? {
            // It may be called: only there is no such script.
            Err(reason) if reason.contains("NOSCRIPT") => Ok(()),
            called => called,
        };
        let denied = [("SCRIPT LOAD", loaded.err()), ("EVALSHA on the queue", called.err())];
        let denied = denied.into_iter().filter_map(|(name, refused)| refused.map(|_| name.to_owned()));
        report.add(scripts_finding("of this client", &denied.collect::<Vec<_>>()));
        Ok(())
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
        return Finding::ok(
            RIGHTS,
            format!("user {user} may make all {asked} kinds of access of the role {role}"),
        );
    }
    Finding::new(
        RIGHTS,
        Severity::Fatal,
        format!("user {user} may not call {}", denied.join(", ")),
        "a script that is denied a command half-way keeps what it wrote before: an entry without its charge, a counter \
         without its expiry",
        format!("give the user the line of docs/security.md for the role {role}, with this prefix"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_names_the_command_and_the_key() {
        let probe = Probe::on("HSET x 1", &["p:{0}:hot".into()]);
        assert_eq!(probe.words, ["HSET", "p:{0}:hot", "x", "1"]);
        assert_eq!(probe.name, "HSET p:{0}:hot");
        let probe = Probe::on("MEMORY|USAGE", &["p:{0}:queue".into()]);
        assert_eq!(probe.words, ["MEMORY", "USAGE", "p:{0}:queue"]);
        assert_eq!(probe.name, "MEMORY USAGE p:{0}:queue");
        let probe = Probe::script_on(&["a".into(), "b".into()]);
        assert_eq!(probe.words, ["EVALSHA", NO_SCRIPT, "2", "a", "b"]);
        assert_eq!(probe.name, "EVALSHA on a, b");
    }
}
