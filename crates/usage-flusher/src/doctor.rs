//! The command `doctor`: both servers, as one role needs them.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use iam_ledger::{Ledger, LedgerOptions};
use live_redis::{LiveRedis, RedisUrl, Role};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use service_frame::connection::DatabaseOptions;
use service_frame::secret::SecretSource;
use spend_queue::{Finding, Severity};

use crate::cli::{AskedRole, DoctorOptions};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    role: AskedRole,
    /// Whether nothing is fatal.
    healthy: bool,
    findings: Vec<Finding>,
}

/// Prints what is well and what is not; answers whether nothing is fatal.
pub(crate) async fn run(options: DoctorOptions) -> Result<bool> {
    let role = options.role;
    let (mut findings, ledger) =
        tokio::join!(Box::pin(redis_findings(&options)), Box::pin(ledger_findings(&options.database, role)));
    findings.extend(ledger);
    let healthy = findings.iter().all(|finding| finding.severity != Severity::Fatal);
    let report = Report { role, healthy, findings };
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    } else {
        print!("{}", table(&report));
    }
    Ok(healthy)
}

async fn redis_findings(options: &DoctorOptions) -> Vec<Finding> {
    let url = match url("redis.url", &options.redis_url.url(), Severity::Fatal) {
        Ok(url) => url,
        Err(finding) => return vec![finding],
    };
    let redis_options = match options.redis.options() {
        Ok(redis_options) => redis_options,
        Err(error) => {
            return vec![Finding::new(
                "redis.certificates",
                Severity::Fatal,
                format!("{error:#}"),
                "the flusher cannot connect without them",
                "check --redis-ca-file, --redis-cert-file and --redis-key-file",
            )];
        }
    };
    match LiveRedis::open_with(RedisUrl::new(url.expose_secret()), redis_options).await {
        Ok(redis) => {
            let findings = redis.doctor(options.role.into()).await;
            redis.close();
            findings
        }
        Err(error) => vec![Finding::new(
            "redis.reachable",
            Severity::Fatal,
            error.to_string(),
            "nothing can be admitted or billed without it",
            "check that the server runs, and host, port, TLS, user and password of the URL",
        )],
    }
}

async fn ledger_findings(database: &DatabaseOptions, role: AskedRole) -> Vec<Finding> {
    // A gateway may well run without one.
    let missing = if role == AskedRole::Gateway { Severity::Note } else { Severity::Fatal };
    let url = match url("postgresql.url", &database.url(), missing) {
        Ok(url) => url,
        Err(finding) => return vec![finding],
    };
    match Ledger::connect(&url, LedgerOptions::default()).await {
        Ok(ledger) => {
            let findings = ledger.doctor().await;
            ledger.close().await;
            findings
        }
        Err(error) => vec![Ledger::connect_finding(&error)],
    }
}

/// The URL of a server, or what is wrong with how it was given.
fn url(check: &'static str, source: &SecretSource<'_>, missing: Severity) -> Result<SecretString, Finding> {
    let unseen = "it was not looked at";
    let SecretSource { flag, .. } = source;
    match source.read() {
        Ok(Some(url)) => Ok(url),
        Ok(None) => {
            let mend = format!("give {flag}, {flag}-file or their variables");
            Err(Finding::new(check, missing, "no URL was given", unseen, mend))
        }
        Err(error) => {
            let mend = format!("check what {flag}, {flag}-file and their variables say");
            Err(Finding::new(check, Severity::Fatal, error.to_string(), unseen, mend))
        }
    }
}

/// For people: a line a finding, and below it why and how to mend it, unless all is well.
fn table(report: &Report) -> String {
    let width = report.findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Finding { check, severity, what, why, mend, .. } in &report.findings {
        let _ = writeln!(text, "{severity:7}  {check:width$}  {what}");
        if *severity != Severity::Ok {
            let _ = writeln!(text, "{:9}why: {why}\n{:9}mend: {mend}", "", "");
        }
    }
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let _ = writeln!(
        text,
        "\n{} fatal, {} warnings, {} notes for role {}",
        count(Severity::Fatal),
        count(Severity::Warning),
        count(Severity::Note),
        Role::from(report.role)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_explains_only_what_is_not_well() {
        let findings = vec![
            Finding::ok("redis.version", "Redis 7.2.4"),
            Finding::new("redis.eviction", Severity::Fatal, "allkeys-lru", "bills vanish", "noeviction"),
        ];
        let report = Report { role: AskedRole::Flusher, healthy: false, findings };
        assert_eq!(
            table(&report),
            "ok       redis.version   Redis 7.2.4\n\
             fatal    redis.eviction  allkeys-lru\n         why: bills vanish\n         mend: noeviction\n\n\
             1 fatal, 0 warnings, 0 notes for role flusher\n"
        );
    }
}
