//! On which servers the service does not start, and what its supervisor learns.

use std::process::Output;

use devstack::{AppendFsync, Durability, GuardedServers, PostgresServer, RedisServer};

use crate::{Running, as_roles, complaint, guarded};

/// The command `run` with one server changed; it must end by itself.
fn refused(servers: &GuardedServers, variable: &str, url: &str) -> (Option<i32>, String) {
    let output: Output =
        as_roles(servers, "flusher", "flusher").arg("run").env(variable, url).output().unwrap();
    (output.status.code(), complaint(&output))
}

#[test]
fn a_server_that_would_lose_limits_or_money_is_refused_in_one_line_and_tolerated_only_if_somebody_insists() {
    let servers = guarded();
    let evicting = RedisServer::builder().arg("maxmemory-policy", "allkeys-lru").start().unwrap();
    let weak = RedisServer::builder()
        .appendfsync(AppendFsync::Always)
        .acl_user("weak on >hidden ~* +@all -ltrim")
        .start()
        .unwrap();
    let replica = RedisServer::builder().arg("replicaof", "127.0.0.1 1").start().unwrap();
    let (redis, database) = ("TALLYWEIR_REDIS_URL", "TALLYWEIR_DATABASE_URL");
    for (url, code, check, word) in [
        (evicting.url().to_owned(), 78, "redis.eviction", "allkeys-lru"),
        (weak.url_as("weak", "hidden"), 78, "redis.rights", "LTRIM"),
        (replica.url().to_owned(), 75, "redis.replication", "slave"),
    ] {
        let (found, line) = refused(&servers, redis, &url);
        assert_eq!(found, Some(code), "{line}");
        assert!(line.starts_with(&format!("error: this Redis must not be used: {check}: ")), "{line}");
        assert!(
            line.contains(word) && line.contains("--lenient-start") && !line.contains("hidden"),
            "{line}"
        );
    }
    let (code, line) = refused(&servers, redis, "redis://:hidden@127.0.0.1:1");
    assert_eq!(code, Some(1), "{line}");

    let standby = standby();
    let (code, line) = refused(&servers, database, standby.1.as_str());
    assert_eq!(code, Some(75), "{line}");
    assert!(line.contains("this PostgreSQL must not be used: postgresql.role: a standby"), "{line}");

    let careless = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let forgetful = careless.database("careless").unwrap();
    let mut migrate = as_roles(&servers, "", "owner");
    assert!(migrate.arg("migrate").env(database, forgetful.url()).status().unwrap().success());
    let (code, line) = refused(&servers, database, forgetful.url());
    assert_eq!(code, Some(78), "{line}");
    assert!(line.contains("postgresql.fsync"), "{line}");

    let mut lenient = as_roles(&servers, "flusher", "flusher");
    lenient.env(redis, evicting.url()).env(database, forgetful.url()).env("TALLYWEIR_LENIENT_START", "1");
    assert_eq!(Running::start(lenient).stop()["event"], "stopped");
    let mut unclear = as_roles(&servers, "flusher", "flusher");
    let output = unclear.arg("run").env("TALLYWEIR_LENIENT_START", "maybe").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        complaint(&output).contains("--lenient-start") && complaint(&output).contains("accepted"),
        "{output:?}"
    );
}

/// A migrated server in recovery, and its URL.
fn standby() -> (PostgresServer, String) {
    let mut server = PostgresServer::builder().start().unwrap();
    let url = server.database("standby").unwrap().keep();
    let mut migrate = crate::support::binary();
    assert!(migrate.arg("migrate").env("TALLYWEIR_DATABASE_URL", &url).status().unwrap().success());
    server.stop().unwrap();
    std::fs::write(server.folder().unwrap().join("data/standby.signal"), "").unwrap();
    server.start_again().unwrap();
    (server, url)
}

#[test]
fn a_role_without_a_password_is_told_so_in_one_line() {
    let servers = guarded();
    servers.database().execute("no password", "alter role tallyweir_flusher password null").unwrap();
    let output = as_roles(&servers, "flusher", "flusher").arg("run").output().unwrap();
    let line = complaint(&output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.starts_with("error: ") && line.contains("password authentication failed"), "{line}");
    assert!(line.contains("tallyweir_flusher") && !line.contains("hidden"), "{line}");
}
