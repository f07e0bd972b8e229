//! A TCP proxy that can do to its connections what networks do.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a proxy does with the bytes and connections that pass it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Passes everything.
    Pass,
    /// Passes what is open and resets every new connection.
    Refuse,
    /// Passes everything, each piece so much later.
    Delay(Duration),
    /// Swallows what clients send; replies pass.
    DropRequests,
    /// Passes what clients send and swallows the replies: the server has executed, the client never hears.
    DropReplies,
    /// Breaks a connection the moment that a reply comes on it, so the reply is lost and the client knows that something is.
    CutAtReply,
    /// Swallows both ways and tells neither side when the other has gone, for ever: the other machine has vanished.
    HalfOpen,
}

#[derive(Debug, Clone, Copy)]
struct State {
    mode: Mode,
    /// Connections of earlier epochs are closed.
    epoch: u64,
}

/// A running proxy in front of one server on this machine. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1, on the given runtime, and passes everything to `target`.
    ///
    /// # Errors
    ///
    /// When no port can be bound.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (state, _) = watch::channel(State { mode: Mode::Pass, epoch: 0 });
        let listening = Handle::current().spawn(accept(listener, target, state.clone()));
        Ok(Self { address, state, listening })
    }

    /// Where clients connect.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what is done from now on. A connection of which bytes were swallowed cannot go on, so it is closed as soon as the
    /// mode becomes [`Mode::Pass`]; except after [`Mode::HalfOpen`], whose connections stay dead and open.
    pub fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Closes all connections but dead ones ([`Mode::HalfOpen`]); new ones are treated by the mode.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.epoch += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // With the last sender gone, every connection ends.
        self.listening.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, state: watch::Sender<State>) {
    while let Ok((client, _)) = listener.accept().await {
        let state = state.subscribe();
        if state.borrow().mode == Mode::Refuse {
            // A reset, as from a port where nobody listens.
            let _ = client.set_zero_linger();
            continue;
        }
        tokio::spawn(carry(client, target, state));
    }
}

/// What became of one connection.
#[derive(Debug, Default)]
struct Damage {
    /// Bytes are missing.
    swallowed: AtomicBool,
    /// It was open while the other machine had vanished.
    vanished: AtomicBool,
}

async fn carry(client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let epoch = state.borrow().epoch;
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Requests and replies are small, and a proxy must not add waits of its own.
    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let damage = Arc::new(Damage::default());
    if state.borrow().mode == Mode::HalfOpen {
        damage.vanished.store(true, Ordering::Relaxed);
    }
    let requests = pump(from_client, to_server, Way::Request, state.clone(), &damage);
    let replies = pump(from_server, to_client, Way::Reply, state.clone(), &damage);
    let cut = async {
        loop {
            let now = *state.borrow_and_update();
            if now.mode == Mode::HalfOpen {
                damage.vanished.store(true, Ordering::Relaxed);
            }
            let broken = now.mode == Mode::Pass && damage.swallowed.load(Ordering::Relaxed);
            if (now.epoch != epoch || broken) && !damage.vanished.load(Ordering::Relaxed) {
                return;
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
        () = cut => {}
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Request,
    Reply,
}

/// Carries one direction until its end.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    state: watch::Receiver<State>,
    damage: &Damage,
) {
    let mut piece = vec![0; 64 * 1024];
    // Nothing may follow what is missing.
    let mut incomplete = false;
    loop {
        let read = from.read(&mut piece).await;
        let mode = state.borrow().mode;
        let swallows = match mode {
            Mode::HalfOpen => true,
            Mode::DropRequests => way == Way::Request,
            Mode::DropReplies => way == Way::Reply,
            _ => damage.vanished.load(Ordering::Relaxed),
        };
        let length = match read {
            Ok(length) if length > 0 => length,
            // The end does not get through either. The connection's task ends this one.
            _ if damage.vanished.load(Ordering::Relaxed) => std::future::pending().await,
            _ => return,
        };
        if mode == Mode::CutAtReply && way == Way::Reply {
            return;
        }
        if swallows || incomplete {
            incomplete = true;
            damage.swallowed.store(true, Ordering::Relaxed);
            continue;
        }
        if let Mode::Delay(delay) = mode {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
