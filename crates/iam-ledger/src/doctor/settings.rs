//! The server's settings, and what each is worth to a ledger.

use chrono::TimeDelta;
use spend_queue::{Finding, Severity};

use crate::MIN_SERVER_VERSION;

const VERSION: &str = "postgresql.version";
const FSYNC: &str = "postgresql.fsync";
const FULL_PAGE_WRITES: &str = "postgresql.full_page_writes";
const SYNCHRONOUS_COMMIT: &str = "postgresql.synchronous_commit";
const TIME_ZONE: &str = "postgresql.time_zone";
const CLOCK: &str = "postgresql.clock";
const ROLE: &str = "postgresql.role";

/// More than this dates a batch noticeably wrong.
const CLOCK_TOLERANCE: TimeDelta = TimeDelta::seconds(2);

/// What the server says, in a session as the ledger's are.
pub(super) struct Settings {
    /// `server_version_num`.
    pub(super) version: i32,
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    pub(super) synchronous_commit: String,
    pub(super) time_zone: String,
    pub(super) standby: bool,
    /// How far its clock is ahead of ours.
    pub(super) ahead: TimeDelta,
    /// Whether the session stays on the machine.
    pub(super) local: bool,
}

impl Settings {
    pub(super) fn judge(&self, findings: &mut Vec<Finding>) {
        findings.push(version(self.version));
        findings.push(role(self.standby));
        findings.push(fsync(self.fsync));
        findings.push(full_page_writes(self.full_page_writes));
        findings.push(synchronous_commit(&self.synchronous_commit));
        findings.push(time_zone(&self.time_zone));
        findings.push(clock(self.ahead));
    }
}

pub(super) fn version(found: i32) -> Finding {
    let what = format!("PostgreSQL {}.{}", found / 10_000, found % 10_000);
    if found >= MIN_SERVER_VERSION {
        return Finding::ok(VERSION, what);
    }
    let oldest = MIN_SERVER_VERSION / 10_000;
    Finding::new(
        VERSION,
        Severity::Fatal,
        what,
        format!("the tables and statements are written for PostgreSQL {oldest} and later"),
        format!("upgrade to PostgreSQL {oldest} or later"),
    )
}

pub(super) fn role(standby: bool) -> Finding {
    if !standby {
        return Finding::ok(ROLE, "a primary");
    }
    Finding::new(
        ROLE,
        Severity::Fatal,
        "a standby, which is read-only",
        "no batch can be committed here",
        "connect to the primary; with several hosts in the URL's place, through what knows the primary",
    )
    .passing()
}

fn fsync(on: bool) -> Finding {
    if on {
        return Finding::ok(FSYNC, "fsync is on");
    }
    Finding::new(
        FSYNC,
        Severity::Fatal,
        "fsync is off",
        "a crash of the machine loses committed bills that were already taken off the queue, or the whole database",
        "set fsync = on in postgresql.conf and reload; off is for tests only",
    )
}

fn full_page_writes(on: bool) -> Finding {
    if on {
        return Finding::ok(FULL_PAGE_WRITES, "full_page_writes is on");
    }
    Finding::new(
        FULL_PAGE_WRITES,
        Severity::Warning,
        "full_page_writes is off",
        "a crash of the machine may leave torn pages that no recovery mends, unless the file system writes pages whole",
        "set full_page_writes = on in postgresql.conf and reload",
    )
}

fn synchronous_commit(value: &str) -> Finding {
    let what = format!("synchronous_commit is {value} in the ledger's sessions");
    if matches!(value, "on" | "remote_apply") {
        return Finding::ok(SYNCHRONOUS_COMMIT, what);
    }
    Finding::new(
        SYNCHRONOUS_COMMIT,
        Severity::Fatal,
        what,
        "a commit that was answered may be lost, and its bills are no longer in the queue then",
        "use a pooler in session mode, or ALTER ROLE ... SET synchronous_commit = on",
    )
}

fn time_zone(zone: &str) -> Finding {
    let what = format!("the session's time zone is {zone}");
    if matches!(zone, "UTC" | "Etc/UTC" | "GMT") {
        return Finding::ok(TIME_ZONE, what);
    }
    Finding::new(
        TIME_ZONE,
        Severity::Warning,
        what,
        "sessions ask for UTC; a pooler that drops that may drop the ledger's other settings as well",
        "use a pooler in session mode that passes the start-up parameters on",
    )
}

fn clock(ahead: TimeDelta) -> Finding {
    let millis = ahead.num_milliseconds();
    let side = if millis < 0 { "behind" } else { "ahead of" };
    let what = format!("the server's clock is {} ms {side} ours", millis.abs());
    if ahead.abs() <= CLOCK_TOLERANCE {
        return Finding::ok(CLOCK, what);
    }
    Finding::new(
        CLOCK,
        Severity::Warning,
        what,
        "an event without times of its own falls into the day and period of the flusher's clock",
        "run NTP on both hosts",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_by_which_a_committed_bill_can_be_lost_are_fatal() {
        for (finding, severity) in [
            (version(140_000), Severity::Ok),
            (version(139_999), Severity::Fatal),
            (fsync(false), Severity::Fatal),
            (full_page_writes(false), Severity::Warning),
            (role(true), Severity::Fatal),
            (synchronous_commit("on"), Severity::Ok),
            (synchronous_commit("remote_apply"), Severity::Ok),
            (synchronous_commit("local"), Severity::Fatal),
            (synchronous_commit("off"), Severity::Fatal),
            (time_zone("UTC"), Severity::Ok),
            (time_zone("Europe/Berlin"), Severity::Warning),
            (clock(TimeDelta::milliseconds(-2000)), Severity::Ok),
            (clock(TimeDelta::milliseconds(2001)), Severity::Warning),
        ] {
            assert_eq!(finding.severity, severity, "{finding:?}");
            assert_eq!(finding.why.is_empty(), severity == Severity::Ok, "{finding:?}");
        }
    }
}
