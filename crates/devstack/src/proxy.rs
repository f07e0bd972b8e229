//! A TCP proxy that can do to its connections what networks do.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    target: SocketAddr,
    /// Connections of earlier epochs are closed.
    epoch: u64,
}

/// A running proxy in front of one server on this machine. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    listening: JoinHandle<()>,
    doomed: Doomed,
}

/// What a request must hold whose reply is to be lost, until one did.
type Doomed = Arc<Mutex<Option<Vec<u8>>>>;

impl Proxy {
    /// Listens on a free port of 127.0.0.1, on the given runtime, and passes everything to `target`.
    ///
    /// # Errors
    ///
    /// When no port can be bound.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (state, _) = watch::channel(State { mode: Mode::Pass, target, epoch: 0 });
        let doomed = Doomed::default();
        let carrying = accept(listener, state.clone(), Arc::clone(&doomed));
        let listening = Handle::current().spawn(carrying);
        Ok(Self { address, state, listening, doomed })
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

    /// Takes connections that are made from now on to another server, as a name that changes its meaning does.
    pub fn lead_to(&self, target: SocketAddr) {
        self.state.send_modify(|state| state.target = target);
    }

    /// Breaks a connection at the next reply after a request that holds these bytes in one piece: the server has executed it, and
    /// its client never hears. Once; everything else passes as the mode says.
    pub fn cut_at_the_reply_to(&self, bytes: &[u8]) {
        *self.doomed.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes.to_owned());
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

async fn accept(listener: TcpListener, state: watch::Sender<State>, doomed: Doomed) {
    while let Ok((client, _)) = listener.accept().await {
        let state = state.subscribe();
        if state.borrow().mode == Mode::Refuse {
            // A reset, as from a port where nobody listens.
            let _ = client.set_zero_linger();
            continue;
        }
        tokio::spawn(carry(client, state, Arc::clone(&doomed)));
    }
}

/// What became of one connection.
#[derive(Debug, Default)]
struct Damage {
    /// Bytes are missing.
    swallowed: AtomicBool,
    /// It was open while the other machine had vanished.
    vanished: AtomicBool,
    /// The next reply is lost, and the connection with it.
    doomed: AtomicBool,
}

async fn carry(client: TcpStream, mut state: watch::Receiver<State>, doomed: Doomed) {
    let State { epoch, target, .. } = *state.borrow();
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Requests and replies are small, and a proxy must not add waits of its own.
    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let damage = Arc::new(Damage::default());
    if state.borrow().mode == Mode::HalfOpen {
        damage.vanished.store(true, Ordering::Relaxed);
    }
    let requests = pump(from_client, to_server, Way::Request(&doomed), state.clone(), &damage);
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

#[derive(Debug, Clone, Copy)]
enum Way<'a> {
    Request(&'a Doomed),
    Reply,
}

impl Way<'_> {
    const fn is_reply(self) -> bool {
        matches!(self, Self::Reply)
    }

    /// Whether this piece is the request whose reply is to be lost.
    fn dooms(self, piece: &[u8]) -> bool {
        let Self::Request(doomed) = self else { return false };
        let mut doomed = doomed.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            doomed.as_ref().is_some_and(|bytes| piece.windows(bytes.len().max(1)).any(|part| part == bytes));
        if found {
            doomed.take();
        }
        found
    }
}

/// Carries one direction until its end.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way<'_>,
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
            Mode::DropRequests => !way.is_reply(),
            Mode::DropReplies => way.is_reply(),
            _ => damage.vanished.load(Ordering::Relaxed),
        };
        let length = match read {
            Ok(length) if length > 0 => length,
            // The end does not get through either. The connection's task ends this one.
            _ if damage.vanished.load(Ordering::Relaxed) => std::future::pending().await,
            _ => return,
        };
        if way.is_reply() && (mode == Mode::CutAtReply || damage.doomed.load(Ordering::SeqCst)) {
            return;
        }
        if way.dooms(&piece[..length]) {
            damage.doomed.store(true, Ordering::SeqCst);
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
