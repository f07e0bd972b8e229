//! A password appears in nothing that anybody could print.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{event, now, shard, team};
use devstack::RedisServer;
use live_redis::{LiveRedis, Options, RedisUrl};
use rate_plan::{Limits, Scope};
use spend_queue::SpendQueue;
use tracing_subscriber::fmt::MakeWriter;

const CANARY: &str = "canary-in-the-coal-mine";

/// Everything that is logged, at whatever level, by whatever crate.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_log_error_or_debug_text_holds_a_password() {
    let log = Log::default();
    // `init` also takes what libraries say through the `log` crate.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(log.clone())
        .init();
    let mut said = Vec::new();
    let mut server = RedisServer::builder().password(CANARY).start().unwrap();
    let url = RedisUrl::new(server.url());
    said.push(format!("{url:?}"));
    let options = Options::default().with_deadline(Duration::from_millis(300));
    said.push(format!("{options:?}"));
    let redis = LiveRedis::open_with(url, options).await.unwrap();
    said.push(format!("{redis:?}"));
    let scopes = || vec![(Scope::new("key", "k").unwrap(), Limits { rpm: None, tpm: None })];
    let admission = redis.admit_rates(scopes(), 1, now()).await.unwrap();
    said.push(format!("{admission:?}"));
    redis.enqueue(&event("a", 5)).await.unwrap();
    server.kill();
    said.push(format!("{:?}", redis.admit_rates(scopes(), 1, now()).await.unwrap_err()));
    said.push(format!("{:?}", redis.peek_logs(shard(), common::limit(1)).await.unwrap_err()));
    said.push(format!("{}", redis.hot_spend(&team()).await));
    for url in [
        format!("redis://:{CANARY}@127.0.0.1:1"),
        format!("redis://{CANARY}:{CANARY}@[::1"),
        format!("redis+sentinel://:{CANARY}@127.0.0.1:1/primary"),
        format!("redis+cluster://:{CANARY}@127.0.0.1:1"),
        format!("redis+cluster://:{CANARY}@127.0.0.1:x"),
        format!("{CANARY}://h"),
        CANARY.to_owned(),
    ] {
        let options = Options::default().with_deadline(Duration::from_millis(300));
        let error = LiveRedis::open_with(&*url, options).await.unwrap_err();
        said.push(format!("{error} {error:?}"));
    }
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("hot_spend"), "the log is taken: {logged}");
    for text in said.iter().chain([&logged]) {
        assert!(!text.contains(CANARY), "{text}");
    }
    println!("{} texts and {} bytes of log searched", said.len(), logged.len());
}
