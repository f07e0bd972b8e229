//! What a database must be like so that a committed bill stays, and whether this one is.

mod settings;

use chrono::Utc;
use spend_queue::{Finding, Severity};

use crate::{Ledger, LedgerError, MigrationStatus};
use settings::Settings;

const REACHABLE: &str = "postgresql.reachable";
const MIGRATIONS: &str = "postgresql.migrations";
const ENCRYPTION: &str = "postgresql.encryption";
const PARTITIONS: &str = "postgresql.partitions";

impl Ledger {
    /// Looks at the server, the session and the tables, and changes nothing. What cannot be asked is a finding too; a
    /// server that does not answer is a single fatal one.
    ///
    /// It asks four questions; each has the time-outs of a call.
    pub async fn doctor(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let before = Utc::now();
        let settings = match sqlx::query_file!("queries/server_settings.sql").fetch_one(&self.pool).await {
            Ok(row) => Settings {
                version: row.version,
                fsync: row.fsync == "on",
                full_page_writes: row.full_page_writes == "on",
                synchronous_commit: row.synchronous_commit,
                time_zone: row.time_zone,
                standby: row.standby,
                ahead: row.now - (before + (Utc::now() - before) / 2),
                local: row.local,
            },
            Err(error) => return vec![unreachable_server(&self.failed("asking for its settings", error))],
        };
        settings.judge(&mut findings);
        findings.push(self.examine_encryption(settings.local).await);
        let migrations = self.migration_status().await;
        let migrated = migrations.as_ref().is_ok_and(|status| status.check().is_ok());
        findings.push(match migrations {
            Ok(status) => migration_finding(&status),
            Err(error) => {
                unknown(MIGRATIONS, "which migrations are applied", &error, "SELECT on _sqlx_migrations")
            }
        });
        if migrated {
            findings.push(self.examine_partitions().await);
        }
        findings
    }

    /// What the doctor would say of a server that could not be connected to.
    #[must_use]
    pub fn connect_finding(error: &LedgerError) -> Finding {
        unreachable_server(error)
    }

    async fn examine_encryption(&self, local: bool) -> Finding {
        match sqlx::query_file!("queries/session_encrypted.sql").fetch_optional(&self.pool).await {
            Ok(Some(row)) if row.encrypted => Finding::ok(
                ENCRYPTION,
                format!("the session is encrypted ({})", row.version.unwrap_or_default()),
            ),
            Ok(_) => plain_session(local),
            Err(error) => {
                let error = self.failed("asking whether the session is encrypted", error);
                unknown(ENCRYPTION, "whether the session is encrypted", &error, "SELECT on pg_stat_ssl")
            }
        }
    }

    async fn examine_partitions(&self) -> Finding {
        match sqlx::query_file!("queries/usage_partitions.sql").fetch_one(&self.pool).await {
            Ok(row) => partition_finding(row.this_month, row.next_month, row.unplaced),
            Err(error) => {
                let error = self.failed("looking at the partitions", error);
                unknown(
                    PARTITIONS,
                    "whether months have partitions",
                    &error,
                    "SELECT on usage_events_default",
                )
            }
        }
    }
}

fn unreachable_server(error: &LedgerError) -> Finding {
    if let LedgerError::ServerTooOld { found, .. } = error {
        return settings::version(*found);
    }
    if let LedgerError::Standby { .. } = error {
        return settings::role(true);
    }
    Finding::new(
        REACHABLE,
        Severity::Fatal,
        error.to_string(),
        "nothing is settled without it; bills wait in Redis until its memory is full",
        "check that the server runs, and host, port, TLS, user, password and database of the URL",
    )
    .passing()
}

/// What could not be asked is not known to be well.
fn unknown(check: &'static str, question: &str, error: &LedgerError, grant: &str) -> Finding {
    Finding::new(
        check,
        Severity::Warning,
        format!("{question} is not known: {error}"),
        "what cannot be asked may be wrong, and nobody would notice",
        format!("grant {grant} to this user, or run the doctor as one who has it"),
    )
}

fn migration_finding(status: &MigrationStatus) -> Finding {
    let Err(problem) = status.check() else {
        return Finding::ok(MIGRATIONS, format!("all {} migrations are applied", status.applied.len()));
    };
    let mend = match problem {
        LedgerError::MigrationsPending(_) => "run `usage-flusher migrate` as the owner of the tables",
        LedgerError::MigrationsNewer(_) => "deploy the release that migrated the database, or a later one",
        _ => "find out which build migrated this database; restore it or use that build",
    };
    Finding::new(
        MIGRATIONS,
        Severity::Fatal,
        problem.to_string(),
        "this program's statements are written for its own tables: the flusher refuses to start",
        mend,
    )
}

fn plain_session(local: bool) -> Finding {
    let severity = if local { Severity::Note } else { Severity::Warning };
    let what = if local { "the session is not encrypted, and local" } else { "the session is not encrypted" };
    Finding::new(
        ENCRYPTION,
        severity,
        what,
        "whoever can read the network reads bills and ids, and may put words into the session",
        "add sslmode=verify-full and sslrootcert to the URL whenever it leaves the machine",
    )
}

fn partition_finding(this_month: bool, next_month: bool, unplaced: i64) -> Finding {
    let mend = "call `ensure_usage_partitions` (`usage-flusher migrate` does) at least once a month";
    let months = match (this_month, next_month) {
        (true, true) => None,
        (true, false) => Some("next month has no partition yet"),
        (false, _) => Some("this month has no partition"),
    };
    let rows = match unplaced {
        0 => None,
        1000.. => Some("1000 or more events are in the default partition".to_owned()),
        1 => Some("1 event is in the default partition".to_owned()),
        some => Some(format!("{some} events are in the default partition")),
    };
    let what: Vec<_> = months.map(str::to_owned).into_iter().chain(rows).collect();
    if what.is_empty() {
        return Finding::ok(
            PARTITIONS,
            "this month and the next have partitions; no event is in the default one",
        );
    }
    Finding::new(
        PARTITIONS,
        Severity::Warning,
        what.join("; "),
        "nothing is refused, but the default partition grows, and making a partition later has to move its events",
        mend,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_difference_between_program_and_database_is_fatal_with_its_own_remedy() {
        let fine = MigrationStatus { applied: vec![1, 2], ..MigrationStatus::default() };
        assert_eq!(migration_finding(&fine).severity, Severity::Ok);
        for (status, remedy) in [
            (MigrationStatus { pending: vec![2], ..fine.clone() }, "usage-flusher migrate"),
            (MigrationStatus { newer: vec![3], ..fine.clone() }, "deploy"),
            (MigrationStatus { differing: vec![1], ..fine.clone() }, "which build"),
        ] {
            let finding = migration_finding(&status);
            assert_eq!(finding.severity, Severity::Fatal);
            assert!(finding.mend.contains(remedy), "{finding:?}");
        }
    }

    #[test]
    fn partitions_are_warned_about_before_they_are_missing() {
        assert_eq!(partition_finding(true, true, 0).severity, Severity::Ok);
        assert!(partition_finding(true, false, 0).what.contains("next month"));
        let finding = partition_finding(false, false, 1000);
        assert!(finding.what.contains("this month") && finding.what.contains("1000 or more"), "{finding:?}");
    }

    #[test]
    fn a_plain_session_is_a_note_only_on_this_machine() {
        assert_eq!(plain_session(true).severity, Severity::Note);
        assert_eq!(plain_session(false).severity, Severity::Warning);
    }
}
