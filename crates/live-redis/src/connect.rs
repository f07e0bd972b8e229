//! Where Redis is and how it is reached: one server, Sentinel or Cluster, in the clear or over TLS.

mod cluster;
mod link;
mod resend;
mod target;
mod wide;

pub(crate) use cluster::{Cluster, Importers};
pub(crate) use link::{HotConnection, Link, Links};
pub(crate) use resend::{Attempts, Question};
pub(crate) use target::Target;
pub(crate) use wide::Wide;

use std::sync::Arc;
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
    /// And what reaches one of its nodes by an address of the cluster's.
    Cluster(ClusterClient, Arc<Importers>),
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
            Peer::Cluster(client, importers) => {
                let connection = client.get_async_connection().await?;
                return Ok(HotConnection::Cluster(Cluster::new(connection, Arc::clone(importers))));
            }
        };
        Ok(HotConnection::Single(dial(client, self.deadline).await?))
    }

    /// Whether a broken connection may mean that the primary is elsewhere now.
    pub(crate) const fn asks_for_the_primary(&self) -> bool {
        matches!(self.peer, Peer::Sentinel(_))
    }

    /// Whether keys are spread over several servers.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.peer, Peer::Cluster(..))
    }

    /// The only server, when there is only one.
    pub(crate) const fn standalone(&self) -> Option<&redis::Client> {
        match &self.peer {
            Peer::Standalone(client) => Some(client),
            Peer::Sentinel(_) | Peer::Cluster(..) => None,
        }
    }
}

/// A multiplexed connection to one server. What was lost with a broken connection is never sent again by it.
async fn dial(client: redis::Client, deadline: Duration) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(deadline))
        .set_response_timeout(Some(deadline));
    ConnectionManager::new_with_config(client, config).await
}
