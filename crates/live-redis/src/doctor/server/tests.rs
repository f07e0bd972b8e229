use super::*;

#[test]
fn versions_from_7_0_on_pass_and_valkey_is_told_from_redis() {
    for (redis, valkey, severity) in [
        ("7.0.15", None, Severity::Ok),
        ("8.2.1", None, Severity::Ok),
        ("10.0.0", None, Severity::Ok),
        ("7.2.4", Some("8.1.4"), Severity::Ok),
        ("6.2.20", None, Severity::Fatal),
        ("6.99.0", None, Severity::Fatal),
        ("", None, Severity::Fatal),
        ("seven", None, Severity::Fatal),
    ] {
        assert_eq!(version(redis, valkey).severity, severity, "{redis}");
    }
    assert_eq!(version("7.2.4", Some("8.1.4")).what, "Valkey 8.1.4 (compatible with Redis 7.2.4)");
}

/// The lines of `INFO` that are read, as each server writes them.
#[test]
fn every_supported_server_is_understood_in_its_own_words() {
    const SAME: &str = "role:master\r\nconnected_slaves:0\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";
    for (server, name) in [
        ("redis_version:7.0.15\r\nredis_mode:cluster\r\n", "Redis 7.0.15"),
        ("redis_version:7.2.5\r\nredis_mode:cluster\r\n", "Redis 7.2.5"),
        ("redis_version:8.2.1\r\nredis_mode:cluster\r\n", "Redis 8.2.1"),
        (
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.4\r\nserver_mode:cluster\r\n",
            "Valkey 8.1.4 (compatible with Redis 7.2.4)",
        ),
        (
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.0\r\nserver_mode:cluster\r\n",
            "Valkey 9.0.0 (compatible with Redis 7.2.4)",
        ),
    ] {
        let info = fields(&format!("# Server\r\n{server}\r\n{SAME}"));
        let settings = Settings { info, ..Settings::default() };
        assert_eq!(settings.mode(), Some("cluster"), "{name}");
        let mut report = Report::default();
        settings.judge(&mut report);
        let findings = report.into_findings();
        assert_eq!(findings[0].what, name);
        assert!(findings.iter().all(|finding| !finding.what.contains("does not say")), "{findings:#?}");
    }
}

#[test]
fn any_eviction_is_fatal() {
    for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random", ""] {
        assert_eq!(eviction(policy).severity, Severity::Fatal, "{policy}");
    }
    assert_eq!(eviction("noeviction").severity, Severity::Ok);
}

#[test]
fn persistence_says_in_words_what_a_crash_loses() {
    assert!(no_append_only_file().why.contains("everything since the last snapshot"));
    assert_eq!(append_only_file("always").severity, Severity::Ok);
    assert!(append_only_file("everysec").why.contains("the last second"));
    assert_eq!(append_only_file("no").severity, Severity::Warning);
}

#[test]
fn a_replica_is_fatal_and_a_primary_that_waits_for_nobody_is_a_note() {
    assert_eq!(replication("slave", "0", false).severity, Severity::Fatal);
    assert_eq!(replication("master", "0", false).severity, Severity::Ok);
    assert_eq!(replication("master", "2", false).severity, Severity::Note);
    assert_eq!(replication("master", "2", true).severity, Severity::Ok);
}

#[test]
fn what_is_not_told_is_a_finding_for_each_check_and_nothing_passes_silently() {
    let settings = Settings { info_refused: "no rights".into(), ..Settings::default() };
    let mut report = Report::default();
    settings.judge(&mut report);
    let findings = report.into_findings();
    let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, [VERSION, EVICTION, MEMORY, PERSISTENCE, REPLICATION]);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
    assert!(findings.iter().all(|finding| finding.what.contains("no rights")));
}
