//! The floors: what a connection carries when the server has next to nothing to do, without this project's code.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Script};

use super::load::{Measured, rate};
use super::server::Server;

/// Commands of one explicit pipeline, and callers who share the connection in its place.
const PIPELINE: usize = 512;

/// The least that a script which counts can do: one counter.
const ONE_HINCRBY: &str = "return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])";

/// Loads the script of the floor, which is forgotten when the server is told to forget its scripts.
pub(crate) async fn one_hincrby(server: &Server) -> Result<Cmd> {
    let script = Script::new(ONE_HINCRBY);
    script.load_async(&mut server.plain.clone()).await?;
    let mut increment = redis::cmd("EVALSHA");
    increment.arg(script.get_hash()).arg(1).arg("floor:{0}").arg("key/key-000000").arg(1);
    Ok(increment)
}

/// Callers who each wait for one command after the other.
pub(crate) async fn commands(
    server: &Server,
    span: Duration,
    command: &Cmd,
    callers: usize,
) -> Result<Measured> {
    let (command, plain) = (Arc::new(command.clone()), server.plain.clone());
    rate(server, span, callers, move |_, _| {
        let (command, mut plain) = (command.clone(), plain.clone());
        async move {
            command.query_async::<()>(&mut plain).await?;
            Ok(1)
        }
    })
    .await
}

/// The better of two ways to keep the connection full: explicit pipelines, and many callers.
pub(crate) async fn pipelined(server: &Server, span: Duration, command: &Cmd) -> Result<Measured> {
    let mut pipe = redis::pipe();
    for _ in 0..PIPELINE {
        pipe.add_command(command.clone()).ignore();
    }
    let (pipe, plain): (_, MultiplexedConnection) = (Arc::new(pipe), server.plain.clone());
    let explicit = rate(server, span, 2, move |_, _| {
        let (pipe, mut plain) = (pipe.clone(), plain.clone());
        async move {
            pipe.query_async::<()>(&mut plain).await?;
            Ok(PIPELINE)
        }
    })
    .await?;
    Ok(explicit.better(commands(server, span, command, PIPELINE).await?))
}
