//! Private Redis Clusters.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::cluster_view::{SLOTS, View, agreement};
use crate::error::{DevstackError, Result};
use crate::group::{in_range, in_sync, settle};
use crate::install::{self, Source};
use crate::port::PortLease;
use crate::redis::RedisServer;
use crate::redis_builder::RedisBuilder;
use crate::redis_config::quoted;
use crate::service::Service;

/// What errors call it.
const WHAT: &str = "the Redis Cluster";

/// How long the nodes may take to find each other. Two seconds of it are Redis's own: a node that has just started
/// waits as long before it serves.
const FORMED_WITHIN: Duration = Duration::from_secs(60);

/// How often another bus port is tried.
const BUS_ATTEMPTS: u32 = 3;

/// Options of a [`RedisCluster`]; made by [`RedisCluster::builder`].
#[derive(Debug, Clone)]
pub struct RedisClusterBuilder {
    primaries: usize,
    replicas: usize,
    node_timeout: Duration,
    node: RedisBuilder,
}

impl RedisClusterBuilder {
    /// The number of primaries, 1 to 16. Default: 3, the fewest that can replace a failed one.
    #[must_use]
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// The number of replicas of each primary, 0 to 3. Default: 0.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// After how long a silent node is suspected (`cluster-node-timeout`). Default: 1 s. A fail-over takes about
    /// 2 s more than this.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Options of every node: password, users, TLS (which the nodes then use among themselves too), files, further
    /// lines.
    #[must_use]
    pub fn nodes(mut self, options: RedisBuilder) -> Self {
        self.node = options;
        self
    }

    /// Starts the nodes, gives each primary an equal part of the slots, and waits until all of them say
    /// `cluster_state:ok` and every replica is in sync.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`] for the numbers, [`DevstackError::NeedsProgram`] if Redis is to be had in
    /// Docker only, [`DevstackError::NotSettled`] if the nodes do not find each other in a minute; else as
    /// [`RedisBuilder::start`].
    pub fn start(&self) -> Result<RedisCluster> {
        in_range("the number of primaries", self.primaries, 1, 16)?;
        in_range("the number of replicas of a primary", self.replicas, 0, 3)?;
        // In containers, the nodes would tell each other addresses that do not lead to them.
        if let Source::Docker = install::resolve(Service::Redis)? {
            return Err(DevstackError::NeedsProgram { service: Service::Redis, what: "a Redis Cluster" });
        }
        let nodes = (0..self.primaries * (1 + self.replicas)).map(|_| self.start_node());
        let cluster = RedisCluster { nodes: nodes.collect::<Result<_>>()? };
        cluster.form(self.primaries)?;
        cluster.wait_ok(FORMED_WITHIN)?;
        Ok(cluster)
    }

    fn start_node(&self) -> Result<Node> {
        let mut attempt = 1;
        loop {
            // Redis would take the number of the client port plus 10000, which may be an ephemeral port.
            let bus = PortLease::take()?;
            match self.node_options(bus.number()).start() {
                // Whoever took the bus port makes every client port look taken.
                Err(DevstackError::NoFreePort { .. }) if attempt < BUS_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(server) => {
                    let id = call(&server, &["CLUSTER", "MYID"])?;
                    return Ok(Node { id, bus, server });
                }
            }
        }
    }

    fn node_options(&self, bus: u16) -> RedisBuilder {
        let mut lines = vec![
            ("cluster-enabled", "yes".to_owned()),
            ("cluster-port", bus.to_string()),
            ("cluster-node-timeout", self.node_timeout.as_millis().to_string()),
            ("cluster-require-full-coverage", "yes".to_owned()),
            // A replica stays with its primary, so that a test knows what it kills.
            ("cluster-allow-replica-migration", "no".to_owned()),
            // Redis waits five seconds for further replicas before it sends its data.
            ("repl-diskless-sync-delay", "0".to_owned()),
        ];
        lines.extend(self.node.password.iter().map(|password| ("masterauth", quoted(password))));
        if self.node.tls.is_some() {
            lines.extend(["tls-cluster", "tls-replication"].map(|name| (name, "yes".to_owned())));
        }
        self.node.clone().preset(&lines)
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// Held for the life of the node, as its client port is.
    bus: PortLease,
    pub(crate) server: RedisServer,
}

/// A Redis Cluster on 127.0.0.1. Nodes are named by their index: at first, the primaries come first, in the order of
/// their slots, then their replicas, in the same order.
///
/// Every node is a [`RedisServer`] and ends as surely.
pub struct RedisCluster {
    pub(crate) nodes: Vec<Node>,
}

impl RedisCluster {
    /// Options, to be followed by [`RedisClusterBuilder::start`].
    pub fn builder() -> RedisClusterBuilder {
        RedisClusterBuilder {
            primaries: 3,
            replicas: 0,
            node_timeout: Duration::from_secs(1),
            node: RedisServer::builder(),
        }
    }

    /// The URLs of all nodes, of those that are down too, with the password if there is one.
    pub fn urls(&self) -> Vec<String> {
        self.servers().map(|server| server.url().to_owned()).collect()
    }

    /// The nodes' servers in the order of their index.
    pub fn servers(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().map(|node| &node.server)
    }

    /// The index of the node that serves this slot (0 to 16383), as the nodes that are up see it.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`]; [`DevstackError::Redis`] when no node that is up serves it.
    pub fn primary_of(&self, slot: u16) -> Result<usize> {
        in_range("the slot", slot.into(), 0, (SLOTS - 1).into())?;
        let doing = format!("find the primary of slot {slot}");
        let views = self.views().map_err(DevstackError::redis(&doing))?;
        // A primary that comes back does not know for a moment that it was replaced.
        let claims = views.values().filter_map(View::myself).filter(|line| line.owns(slot));
        let owner = claims.max_by_key(|line| line.epoch).map(|line| line.id.as_str());
        let index = self.nodes.iter().position(|node| Some(node.id.as_str()) == owner);
        index.ok_or_else(|| DevstackError::redis(doing)("no node that is up owns it".to_owned()))
    }

    /// Kills (`SIGKILL`) the node that serves this slot and returns its index. [`wait_ok`](Self::wait_ok) then waits
    /// for the fail-over.
    ///
    /// # Errors
    ///
    /// As [`primary_of`](Self::primary_of).
    pub fn kill_primary_of(&mut self, slot: u16) -> Result<usize> {
        let index = self.primary_of(slot)?;
        self.kill(index)?;
        Ok(index)
    }

    /// Kills a node (`SIGKILL`). Harmless when it does not run.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`].
    pub fn kill(&mut self, index: usize) -> Result<()> {
        self.node_mut(index)?.server.kill();
        Ok(())
    }

    /// Starts a node again, on the same ports and with what it knew of the Cluster. It does not wait for the others
    /// to notice: see [`wait_ok`](Self::wait_ok).
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`]; else as [`RedisServer::start_again`].
    pub fn start_again(&mut self, index: usize) -> Result<()> {
        self.node_mut(index)?.server.start_again()
    }

    fn node_mut(&mut self, index: usize) -> Result<&mut Node> {
        let last = self.nodes.len().saturating_sub(1);
        let missing = DevstackError::OutOfRange { what: "the node's index", value: index, first: 0, last };
        self.nodes.get_mut(index).ok_or(missing)
    }

    /// Waits until all nodes that are up (not killed) agree that they own every slot, say `cluster_state:ok`, and
    /// their replicas are in sync. After a kill this is the end of the fail-over, not the moment before it.
    ///
    /// # Errors
    ///
    /// [`DevstackError::NotSettled`], with what was still wrong: a killed primary without a replica, for example.
    pub fn wait_ok(&self, within: Duration) -> Result<()> {
        settle(WHAT, within, self.servers(), || self.check())
    }

    fn check(&self) -> Result<(), String> {
        let views = self.views()?;
        agreement(&views)?;
        for node in self.up() {
            let state = node.server.connect()?.call(&[b"CLUSTER", b"INFO"])?;
            if !state.lines().any(|line| line == "cluster_state:ok") {
                return Err(format!("node {} does not say cluster_state:ok", node.server.port()));
            }
            let primary = views.get(node.id.as_str()).and_then(View::myself);
            if let Some(primary) = primary.and_then(|line| line.primary.as_deref()) {
                let primary = self.nodes.iter().find(|node| node.id == primary);
                in_sync(&node.server, primary.map_or(0, |primary| primary.server.port()))?;
            }
        }
        Ok(())
    }

    pub(crate) fn up(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.server.is_up())
    }

    /// What each node that is up believes, by its id.
    pub(crate) fn views(&self) -> Result<BTreeMap<&str, View>, String> {
        let view = |node: &'_ Node| View::parse(&node.server.connect()?.call(&[b"CLUSTER", b"NODES"])?);
        self.up().map(|node| Ok((node.id.as_str(), view(node)?))).collect()
    }

    /// Makes a Cluster of fresh nodes.
    fn form(&self, primaries: usize) -> Result<()> {
        for (epoch, node) in (1..).zip(&self.nodes) {
            // Epochs that differ from the beginning spare the nodes the negotiation.
            call(&node.server, &["CLUSTER", "SET-CONFIG-EPOCH", &i32::to_string(&epoch)])?;
        }
        let bound = |index: usize| index * usize::from(SLOTS) / primaries;
        for (index, node) in self.nodes.iter().take(primaries).enumerate() {
            let (first, last) = (bound(index).to_string(), (bound(index + 1) - 1).to_string());
            call(&node.server, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        // Each with each: faster than waiting for the gossip.
        for (index, node) in self.nodes.iter().enumerate() {
            for other in self.nodes.iter().skip(index + 1) {
                let (port, bus) = (other.server.port().to_string(), other.bus.number().to_string());
                call(&node.server, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        let replicas = self.nodes.iter().skip(primaries);
        for (replica, primary) in replicas.zip(self.nodes.iter().take(primaries).cycle()) {
            // Refused until the two have met.
            settle(WHAT, FORMED_WITHIN, self.servers(), || {
                replica.server.connect()?.call(&[b"CLUSTER", b"REPLICATE", primary.id.as_bytes()])
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedisCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCluster").field("nodes", &self.nodes).finish()
    }
}

/// Sends one command, none of whose words is a secret: they are in the error.
pub(crate) fn call(server: &RedisServer, command: &[&str]) -> Result<String> {
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    let doing = format!("{} at port {}", command.join(" "), server.port());
    server.connect().and_then(|mut connection| connection.call(&words)).map_err(DevstackError::redis(doing))
}
