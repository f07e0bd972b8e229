//! Where Redis is and how it is reached: one server, Sentinel or Cluster, in the clear or over TLS.

mod link;
mod target;
mod wide;

pub(crate) use link::{HotConnection, Link, Links};
pub(crate) use target::Target;
pub(crate) use wide::Wide;

use std::time::Duration;

use redis::RedisError;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::sentinel::SentinelClient;
use tokio::sync::Mutex;

/// Makes connections to a target, again and again.
pub(crate) struct Dialer {
    peer: Peer,
    deadline: Duration,
}

pub(crate) enum Peer {
    Standalone(redis::Client),
    /// Asked for the primary at each dialling.
    Sentinel(Mutex<SentinelClient>),
    Cluster(ClusterClient),
}

impl Dialer {
    pub(crate) const fn new(peer: Peer, deadline: Duration) -> Self {
        Self { peer, deadline }
    }

    /// A connection that multiplexes concurrent calls and reconnects to the same place by itself.
    pub(crate) async fn dial(&self) -> Result<HotConnection, RedisError> {
        let client = match &self.peer {
            Peer::Standalone(client) => client.clone(),
            Peer::Sentinel(sentinel) => sentinel.lock().await.async_get_client().await?,
            Peer::Cluster(client) => return Ok(HotConnection::Cluster(client.get_async_connection().await?)),
        };
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(self.deadline))
            .set_response_timeout(Some(self.deadline));
        Ok(HotConnection::Single(ConnectionManager::new_with_config(client, config).await?))
    }

    /// Whether a broken connection may mean that the primary is elsewhere now.
    pub(crate) const fn asks_for_the_primary(&self) -> bool {
        matches!(self.peer, Peer::Sentinel(_))
    }

    /// Whether keys are spread over several servers.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.peer, Peer::Cluster(_))
    }

    /// The only server, when there is only one.
    pub(crate) const fn standalone(&self) -> Option<&redis::Client> {
        match &self.peer {
            Peer::Standalone(client) => Some(client),
            Peer::Sentinel(_) | Peer::Cluster(_) => None,
        }
    }
}
