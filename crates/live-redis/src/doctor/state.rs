//! What the server holds and knows: its clock, its cluster's slots, the queue's shard count and its gateways' settings.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use spend_queue::{Finding, Severity, ShardCount};

use super::agreement::{self, Recorded};
use super::report::Report;
use super::{Role, answered};
use crate::LiveRedis;
use crate::error::LiveRedisError;

const CLOCK: &str = "redis.clock";
const SHARDS: &str = "redis.shards";
const SLOTS: &str = "redis.slots";

/// More than this counts a moment in two minutes often enough to be noticed.
const CLOCK_TOLERANCE: TimeDelta = TimeDelta::seconds(2);

/// How many shards are looked at besides the client's own: a queue that was set up with more is found by those that
/// were used.
const LOOK_FURTHER: u16 = 64;

/// The shard count, and the fields of [`agreement::FIELDS`].
type Stored = (Option<String>, Option<String>, Option<String>, Option<String>);

impl LiveRedis {
    /// In a cluster, whether every slot is served.
    pub(super) async fn examine_slots(
        &self,
        mode: Option<&str>,
        report: &mut Report,
    ) -> Result<(), LiveRedisError> {
        if mode != Some("cluster") {
            return Ok(());
        }
        let mut ask = redis::cmd("CLUSTER");
        ask.arg("INFO");
        match answered(self.wide::<String>(&ask).await)? {
            Ok(info) => report.add(slots(&info)),
            Err(reason) => report.unknown(SLOTS, "the cluster's state", &reason, "CLUSTER INFO"),
        }
        Ok(())
    }

    /// How far the server's clock is from ours, half the round trip allowed for.
    pub(super) async fn examine_clock(&self, report: &mut Report) -> Result<(), LiveRedisError> {
        let before = Utc::now();
        let answer = answered(self.wide::<(i64, u32)>(&redis::cmd("TIME")).await)?;
        let middle = before + (Utc::now() - before) / 2;
        match answer {
            Ok((second, micros)) => {
                let server =
                    DateTime::from_timestamp(second, micros.saturating_mul(1000)).unwrap_or_default();
                report.add(clock(server - middle));
            }
            Err(reason) => report.unknown(CLOCK, "the clock difference", &reason, "TIME"),
        }
        Ok(())
    }

    /// What the shards' states record: whether the queue was set up with the client's shard count, and whether the gateways
    /// agree on their settings.
    pub(super) async fn examine_state(&self, role: Role, report: &mut Report) -> Result<(), LiveRedisError> {
        let count = self.shard_count();
        let further = ShardCount::new(LOOK_FURTHER.max(count.get())).unwrap_or(count);
        let ours = count.get();
        let reads = further.iter().map(|shard| {
            let mut read = redis::cmd("HMGET");
            read.arg(self.shared.options.prefix.shard(shard).state()).arg("shards").arg(&agreement::FIELDS);
            async move {
                let answer = self.hot_command(&read).await;
                answered(answer).map(|stored: Result<Stored, String>| (shard, stored))
            }
        });
        let (mut stored, mut recorded) = (None, Vec::new());
        for (shard, answer) in try_join_all(reads).await? {
            match answer {
                Ok((None, ..)) => {}
                Ok((Some(count), settings, since, before)) if count == ours.to_string() => {
                    stored = Some(count);
                    recorded.push(Recorded {
                        settings,
                        since: since.and_then(|since| since.parse().ok()),
                        before,
                    });
                }
                Ok((Some(count), ..)) => {
                    report.add(other_count(&count, ours));
                    return Ok(());
                }
                Err(reason) if shard.index() < ours => {
                    report.unknown(
                        SHARDS,
                        &format!("the state of shard {shard}"),
                        &reason,
                        "HMGET on the queue's state",
                    );
                    return Ok(());
                }
                // Rights may well end at the client's own shards.
                Err(_) => {}
            }
        }
        report.add(Finding::ok(
            SHARDS,
            match stored {
                Some(count) => format!("the queue has {count} shards, as this client"),
                None => format!("no queue yet; this client uses {ours} shards"),
            },
        ));
        report.add(agreement::judge(role, &self.shared.options, &recorded, Utc::now()));
        Ok(())
    }
}

fn other_count(stored: &str, ours: u16) -> Finding {
    Finding::new(
        SHARDS,
        Severity::Fatal,
        format!("the queue has {} shards, this client uses {ours}", stored.escape_debug()),
        "with two counts one tenant's state lies in two places: limits would be counted twice, and spend missed",
        "start this client with the queue's count; to change it, drain the queue first and stop all others",
    )
}

fn clock(ahead: TimeDelta) -> Finding {
    let millis = ahead.num_milliseconds();
    let what = format!(
        "the server's clock is {} ms {} ours",
        millis.abs(),
        if millis < 0 { "behind" } else { "ahead of" }
    );
    if ahead.abs() <= CLOCK_TOLERANCE {
        return Finding::ok(CLOCK, what);
    }
    Finding::new(
        CLOCK,
        Severity::Warning,
        what,
        "gateways whose clocks differ count one moment in two minutes, and keys expire early or late",
        "run NTP on both hosts, or let the server's clock decide (`--window-clock redis` for every gateway)",
    )
}

fn slots(info: &str) -> Finding {
    let value = |name: &str| {
        let mut pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        pairs.find(|(found, _)| *found == name).map_or("unknown", |(_, value)| value)
    };
    let (state, served) = (value("cluster_state"), value("cluster_slots_ok"));
    let what = format!("cluster_state is {state}, {served} of 16384 slots are served");
    if state == "ok" && served == "16384" {
        return Finding::ok(SLOTS, what);
    }
    Finding::new(
        SLOTS,
        Severity::Fatal,
        what,
        "the tenants of a slot that nobody serves can neither be admitted nor billed",
        "assign the missing slots (`redis-cli --cluster fix`) or bring their primaries back",
    )
    .passing()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_two_seconds() {
        for (millis, severity) in [
            (0, Severity::Ok),
            (2000, Severity::Ok),
            (-2000, Severity::Ok),
            (2001, Severity::Warning),
            (-2001, Severity::Warning),
        ] {
            assert_eq!(clock(TimeDelta::milliseconds(millis)).severity, severity, "{millis}");
        }
        assert_eq!(clock(TimeDelta::milliseconds(-5)).what, "the server's clock is 5 ms behind ours");
    }

    #[test]
    fn a_cluster_is_whole_or_fatal() {
        assert_eq!(slots("cluster_state:ok\r\ncluster_slots_ok:16384\r\n").severity, Severity::Ok);
        assert_eq!(slots("cluster_state:fail\r\ncluster_slots_ok:16384\r\n").severity, Severity::Fatal);
        assert_eq!(slots("cluster_state:ok\r\ncluster_slots_ok:16000\r\n").severity, Severity::Fatal);
        assert_eq!(slots("").severity, Severity::Fatal);
    }
}
