//! A server that vanishes without closing its connections: calls find another way before the kernel notices.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live_redis::{LiveRedis, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Passes connections on to a port. Those that are open when it is told so go silent for ever and stay open.
async fn passage(port: u16) -> (u16, impl Fn()) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = listener.local_addr().unwrap().port();
    let current = Arc::new(std::sync::Mutex::new(Arc::new(AtomicBool::new(false))));
    let silencer = Arc::clone(&current);
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let silent = Arc::clone(&current.lock().unwrap());
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(pass(from_client, to_server, Arc::clone(&silent)));
            tokio::spawn(pass(from_server, to_client, silent));
        }
    });
    let vanish = move || {
        let mut current = silencer.lock().unwrap();
        current.store(true, Ordering::SeqCst);
        *current = Arc::default();
    };
    (ours, vanish)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, silent: Arc<AtomicBool>) {
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if !silent.load(Ordering::SeqCst) {
            to.write_all(&piece[..length]).await.unwrap();
        }
    }
    if silent.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn connections_that_went_silent_are_replaced_within_a_few_deadlines() {
    let server = devstack::RedisServer::builder().start().unwrap();
    let (port, vanish) = passage(server.port()).await;
    let deadline = Duration::from_millis(300);
    let redis =
        LiveRedis::open_with(format!("redis://127.0.0.1:{port}"), Options::default().with_deadline(deadline))
            .await
            .unwrap();
    redis.set_string("key", "value", Duration::from_secs(60)).await.unwrap();
    vanish();
    let vanished = Instant::now();
    while redis.get_string("key").await.unwrap().as_deref() != Some("value") {
        assert!(vanished.elapsed() < deadline * 30, "no other way was found");
    }
    // Each of the two links finds its own.
    let before = redis.degradations();
    for _ in 0..20 {
        redis.get_string("key").await.unwrap();
    }
    assert!(redis.degradations() - before <= 4, "silent connections are still in use");
}
