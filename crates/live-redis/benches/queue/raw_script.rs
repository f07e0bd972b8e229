//! The enqueue script called without this project's client: one event a call, as many calls under way as wait.

use std::sync::Arc;

use anyhow::{Result, ensure};
use redis::{Cmd, Script, Value};
use spend_queue::EncodedEvent;

use crate::common::load::{Measured, rate_of_all};
use crate::common::server::Server;

/// The parts in the order in which the client puts them.
const SOURCE: [&str; 5] = [
    include_str!("../../lua/parts/decimal.lua"),
    include_str!("../../lua/parts/bulk.lua"),
    include_str!("../../lua/parts/index.lua"),
    include_str!("../../lua/parts/lost.lua"),
    include_str!("../../lua/enqueue.lua"),
];

/// The calls of a number of events, made ready.
pub(crate) struct RawScript(Arc<Vec<Cmd>>);

impl RawScript {
    pub(crate) async fn of(server: &Server, events: &[EncodedEvent]) -> Result<Self> {
        let script = Script::new(&format!("#!lua\n{}", SOURCE.concat().replace("#!lua\n", "")));
        script.load_async(&mut server.plain.clone()).await?;
        Ok(Self(Arc::new(events.iter().map(|event| call(&script, event)).collect())))
    }

    pub(crate) async fn measure(&self, server: &Server, callers: usize) -> Result<Measured> {
        let (calls, plain) = (self.0.clone(), server.plain.clone());
        rate_of_all(server, calls.len(), callers, move |nth| {
            let (calls, mut plain) = (calls.clone(), plain.clone());
            async move {
                let answer: Value = calls[nth].query_async(&mut plain).await?;
                let accepted = answer.as_sequence().and_then(|events| events.first()?.as_sequence());
                ensure!(accepted.is_some_and(|event| event.len() == 3), "not accepted: {answer:?}");
                Ok(())
            }
        })
        .await
    }
}

/// The client's call, on keys of its own.
fn call(script: &Script, event: &EncodedEvent) -> Cmd {
    let digest = event.digest();
    let digest = digest.as_bytes();
    let (scopes, starts): (Vec<_>, Vec<_>) = (
        event.charges().map(|(scope, _)| scope.to_string()).collect(),
        event.starts().map(|start| start.to_string()).collect(),
    );
    let mut call = redis::cmd("EVALSHA");
    call.arg(script.get_hash()).arg(8);
    for part in ["queue", "state", "hot", "count", "since", "since:amount", "lost"] {
        call.arg(format!("raw:{{0}}:{part}"));
    }
    call.arg(format!("raw:{{0}}:seen:{:02x}{:02x}", digest[0], digest[1] & 0xfe));
    let numbers: Vec<u8> = (1..).take(scopes.len() + starts.len()).flat_map(u16::to_be_bytes).collect();
    call.arg(1).arg(1).arg(0).arg("local 0").arg(scopes.len()).arg(starts.len()).arg(scopes).arg(starts);
    call.arg(&digest[2..]).arg(&event.payload_check().short()[..]).arg(event.encoded().get());
    call.arg(event.charges().next().map_or(0, |(_, picos)| picos)).arg(numbers).arg(event.body());
    call
}
