//! What each Sentinel believes about a group, and whether the servers bear it out.

use crate::group::in_sync;
use crate::redis::RedisServer;
use crate::sentinel::{NAME, RedisSentinel};

/// The condition of [`RedisSentinel::wait_ok`].
pub(crate) fn check(group: &RedisSentinel) -> Result<(), String> {
    let mut sentinels = group.sentinels.iter().filter(|sentinel| sentinel.is_up()).peekable();
    let port = primary_port(sentinels.peek().ok_or("no Sentinel is up")?)?;
    let up = || group.servers.iter().filter(|server| server.is_up());
    let primary = up().find(|server| server.port() == port).ok_or("the primary is down")?;
    if primary.connect()?.info("replication", "role")?.as_deref() != Some("master") {
        return Err(format!("{port} does not know that it is the primary"));
    }
    let replicas: Vec<&RedisServer> = up().filter(|server| server.port() != port).collect();
    replicas.iter().try_for_each(|replica| in_sync(replica, port))?;
    sentinels.try_for_each(|sentinel| check_sentinel(group, sentinel, port, &replicas))
}

fn check_sentinel(
    group: &RedisSentinel,
    sentinel: &RedisServer,
    primary: u16,
    replicas: &[&RedisServer],
) -> Result<(), String> {
    let told = |problem: &str| format!("Sentinel {}: {problem}", sentinel.port());
    let known = records(sentinel, "MASTER")?;
    let master = known.first().ok_or_else(|| told("no primary"))?;
    if field(master, "port") != primary.to_string() || field(master, "flags") != "master" {
        return Err(told(&format!("the primary is {}, {}", field(master, "port"), field(master, "flags"))));
    }
    if field(master, "num-other-sentinels") != (group.sentinels.len() - 1).to_string() {
        return Err(told("it does not know all others"));
    }
    let known = records(sentinel, "REPLICAS")?;
    for replica in replicas {
        let port = replica.port().to_string();
        let line = known.iter().find(|fields| field(fields, "port") == port);
        let line = line.ok_or_else(|| told(&format!("it does not know the replica {port}")))?;
        if field(line, "flags") != "slave" || field(line, "master-port") != primary.to_string() {
            return Err(told(&format!("the replica {port} is {}", field(line, "flags"))));
        }
    }
    sentinel.connect()?.call(&[b"SENTINEL", b"CKQUORUM", NAME.as_bytes()]).map(drop)
}

/// The primary's port, as this Sentinel tells it to clients.
pub(crate) fn primary_port(sentinel: &RedisServer) -> Result<u16, String> {
    let command: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", NAME.as_bytes()];
    let address = sentinel.connect()?.list(&command)?;
    let port = address.get(1).and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
    port.ok_or_else(|| format!("Sentinel {} knows no primary", sentinel.port()))
}

type Record = Vec<(String, String)>;

/// The records that a Sentinel lists: names and values by turns, each record with `name` first.
fn records(sentinel: &RedisServer, kind: &str) -> Result<Vec<Record>, String> {
    let items = sentinel.connect()?.list(&[b"SENTINEL", kind.as_bytes(), NAME.as_bytes()])?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut records: Vec<Record> = Vec::new();
    for pair in items.chunks_exact(2) {
        let (name, value) = (text(&pair[0]), text(&pair[1]));
        match records.last_mut().filter(|_| name != "name") {
            Some(record) => record.push((name, value)),
            None => records.push(vec![(name, value)]),
        }
    }
    Ok(records)
}

fn field<'a>(record: &'a Record, name: &str) -> &'a str {
    record.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
}
