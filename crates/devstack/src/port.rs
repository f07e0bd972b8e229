//! Ports that servers can listen on, and keep across a restart.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use crate::error::{DevstackError, Result};

/// Below the ranges from which Linux (32768 and up) and macOS (49152 and up) take the local ports of outgoing
/// connections. In those ranges a port could be taken by any client while its server is down, and a client that
/// polls a closed port there can even connect to itself.
const FIRST: u16 = 20_000;
const LAST: u16 = 29_999;
const ATTEMPTS: u32 = 200;

/// A TCP port of 127.0.0.1 that no other user of this crate, in any process, will be given while this value lives.
///
/// The mark is a bound UDP socket of the same number: the two protocols count their ports apart, so it does not
/// stand in the server's way, and the kernel removes it however the process ends.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: u16,
    _mark: UdpSocket,
}

impl PortLease {
    /// Takes a port that nobody listens on at this moment. A stranger may still bind it before the server does.
    ///
    /// # Errors
    ///
    /// [`DevstackError::NoFreePort`].
    pub(crate) fn take() -> Result<Self> {
        // A random start for each call: neighbours that start together would else walk the same way.
        let range = u64::from(LAST - FIRST) + 1;
        let start = RandomState::new().hash_one(std::process::id());
        for step in 0..u64::from(ATTEMPTS) {
            let offset = u16::try_from((start % range + step) % range).unwrap_or_default();
            let port = FIRST + offset;
            let Ok(mark) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(Self { port, _mark: mark });
            }
        }
        Err(no_free_port(ATTEMPTS))
    }

    pub(crate) fn number(&self) -> u16 {
        self.port
    }
}

pub(crate) fn no_free_port(attempts: u32) -> DevstackError {
    DevstackError::NoFreePort { first: FIRST, last: LAST, attempts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn leases_taken_at_the_same_time_never_share_a_port() {
        let leases: Vec<PortLease> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..25).map(|_| PortLease::take().unwrap()).collect::<Vec<_>>()))
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        let ports: HashSet<u16> = leases.iter().map(PortLease::number).collect();
        assert_eq!(ports.len(), 200);
        assert!(ports.iter().all(|port| (FIRST..=LAST).contains(port)));
    }

    #[test]
    fn a_leased_port_can_be_listened_on_again_and_again() {
        let lease = PortLease::take().unwrap();
        for _ in 0..3 {
            drop(TcpListener::bind((Ipv4Addr::LOCALHOST, lease.number())).unwrap());
        }
    }
}
