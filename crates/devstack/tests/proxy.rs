//! Each mode of the proxy does to a conversation what its name says.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use devstack::{Mode, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// A server that answers each byte with itself and counts what it got.
async fn echo() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut byte = [0];
                while client.read_exact(&mut byte).await.is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                    client.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    (address, received)
}

struct Talk {
    proxy: Proxy,
    received: Arc<AtomicUsize>,
    client: TcpStream,
}

impl Talk {
    async fn start() -> Self {
        let (server, received) = echo().await;
        let proxy = Proxy::start(server).await.unwrap();
        let client = TcpStream::connect(proxy.address()).await.unwrap();
        let mut talk = Self { proxy, received, client };
        assert_eq!(talk.say().await, Some(1));
        talk
    }

    /// Sends a byte; the length of the answer, 0 for the end of the connection, `None` for silence.
    async fn say(&mut self) -> Option<usize> {
        let _ = self.client.write_all(b"x").await;
        self.hear().await
    }

    async fn hear(&mut self) -> Option<usize> {
        let mut byte = [0];
        let heard = timeout(Duration::from_millis(400), self.client.read(&mut byte)).await;
        heard.ok().map(|read| read.unwrap_or(0))
    }

    async fn received(&self, count: usize) {
        let give_up = Instant::now() + Duration::from_secs(20);
        while self.received.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < give_up, "the server did not get byte {count}");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_cut_closes_what_is_open_and_new_connections_pass() {
    let mut talk = Talk::start().await;
    talk.proxy.cut();
    assert_eq!(talk.hear().await, Some(0));
    talk.client = TcpStream::connect(talk.proxy.address()).await.unwrap();
    assert_eq!(talk.say().await, Some(1));
}

#[tokio::test]
async fn refused_connections_are_reset_and_open_ones_pass() {
    let mut talk = Talk::start().await;
    talk.proxy.set(Mode::Refuse);
    assert_eq!(talk.say().await, Some(1));
    talk.client = TcpStream::connect(talk.proxy.address()).await.unwrap();
    assert_eq!(talk.say().await, Some(0));
}

#[tokio::test]
async fn a_delay_is_added_to_each_way() {
    let mut talk = Talk::start().await;
    talk.proxy.set(Mode::Delay(Duration::from_millis(60)));
    let asked = Instant::now();
    assert_eq!(talk.say().await, Some(1));
    assert!(asked.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn lost_requests_reach_nobody_and_their_connection_ends_with_the_fault() {
    let mut talk = Talk::start().await;
    talk.proxy.set(Mode::DropRequests);
    assert_eq!(talk.say().await, None);
    assert_eq!(talk.received.load(Ordering::SeqCst), 1);
    talk.proxy.set(Mode::Pass);
    assert_eq!(talk.hear().await, Some(0));
}

#[tokio::test]
async fn lost_replies_belong_to_requests_that_were_executed() {
    let mut talk = Talk::start().await;
    talk.proxy.set(Mode::DropReplies);
    assert_eq!(talk.say().await, None);
    assert_eq!(talk.say().await, None);
    talk.received(3).await;
    talk.proxy.set(Mode::Pass);
    assert_eq!(talk.hear().await, Some(0));
}

#[tokio::test]
async fn a_cut_at_the_reply_comes_after_the_execution() {
    let mut talk = Talk::start().await;
    talk.proxy.set(Mode::CutAtReply);
    assert_eq!(talk.say().await, Some(0));
    talk.received(2).await;
}

#[tokio::test]
async fn the_reply_to_one_request_is_lost_and_others_pass() {
    let mut talk = Talk::start().await;
    talk.proxy.cut_at_the_reply_to(b"x");
    assert_eq!(talk.say().await, Some(0));
    talk.received(2).await;
    talk.client = TcpStream::connect(talk.proxy.address()).await.unwrap();
    assert_eq!(talk.say().await, Some(1));
}

#[tokio::test]
async fn half_open_connections_stay_silent_for_ever_and_new_ones_pass_after_the_fault() {
    let mut talk = Talk::start().await;
    talk.proxy.set(Mode::HalfOpen);
    assert_eq!(talk.say().await, None);
    talk.proxy.set(Mode::Pass);
    talk.proxy.cut();
    assert_eq!(talk.say().await, None);
    assert_eq!(talk.received.load(Ordering::SeqCst), 1);
    talk.client = TcpStream::connect(talk.proxy.address()).await.unwrap();
    assert_eq!(talk.say().await, Some(1));
}
