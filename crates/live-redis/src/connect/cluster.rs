//! A connection to a whole cluster, which sends nothing again that may have run.
//!
//! The driver's own retries would: they repeat whatever was lost with a connection. So it has none, and what they did besides
//! is done here and in `resend.rs`. MOVED: the driver learns the slots anew, then the call is made again. ASK, while a slot moves:
//! the node that takes the slot is asked, on a connection of our own, since the driver may know of no such node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::cluster_async::ClusterConnection;
use redis::{
    Arg, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisError, RedisResult,
    ServerErrorKind, TlsCertificates, Value,
};
use tokio::sync::Mutex;

use super::dial;

/// All primaries of a cluster; a clone shares the connections.
#[derive(Clone)]
pub(crate) struct Cluster {
    connection: ClusterConnection,
    importers: Arc<Importers>,
}

impl Cluster {
    pub(crate) fn new(connection: ClusterConnection, importers: Arc<Importers>) -> Self {
        Self { connection, importers }
    }

    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let answer = self.connection.req_packed_command(command).await;
        match &answer {
            // The nodes that take slots may have none yet, so that the driver leaves them out.
            Ok(_) if is_load(command) => self.importers.load(command).await,
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                if let Some((node, _)) = error.redirect_node() {
                    return self.importers.ask(node, command).await;
                }
            }
            _ => {}
        }
        answer
    }

    pub(crate) async fn send_all(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        match self.connection.req_packed_commands(pipeline, offset, count).await {
            // Some keys of the slot have moved ahead and some have not: each is looked for by itself.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                let mut answers = Vec::with_capacity(count);
                for command in pipeline.cmd_iter().skip(offset).take(count) {
                    answers.push(self.send(command).await?);
                }
                Ok(answers)
            }
            answers => answers,
        }
    }
}

fn is_load(command: &Cmd) -> bool {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => b"",
    });
    words.next() == Some(b"SCRIPT") && words.next() == Some(b"LOAD")
}

/// The nodes that have been asked for keys that are on their way to them.
pub(crate) struct Importers {
    /// Login and transport of every node.
    like: Option<ConnectionInfo>,
    certificates: Option<TlsCertificates>,
    deadline: Duration,
    open: Mutex<HashMap<String, ConnectionManager>>,
}

impl Importers {
    pub(crate) fn new(
        like: Option<ConnectionInfo>,
        certificates: Option<TlsCertificates>,
        deadline: Duration,
    ) -> Self {
        Self { like, certificates, deadline, open: Mutex::default() }
    }

    /// Both in one piece, since a node answers one command after each ASKING.
    async fn ask(&self, node: &str, command: &Cmd) -> RedisResult<Value> {
        let mut asking = Pipeline::new();
        asking.cmd("ASKING").add_command(command.clone());
        let mut connection = self.connection(node).await?;
        match connection.req_packed_commands(&asking, 1, 1).await {
            Ok(mut answers) => answers.pop().ok_or_else(|| malformed("no answer after ASKING")),
            Err(error) => {
                if error.is_io_error() {
                    self.open.lock().await.remove(node);
                }
                Err(error)
            }
        }
    }

    async fn connection(&self, node: &str) -> RedisResult<ConnectionManager> {
        let mut open = self.open.lock().await;
        if let Some(connection) = open.get(node) {
            return Ok(connection.clone());
        }
        let connection = dial(self.client(node)?, self.deadline).await?;
        open.insert(node.to_owned(), connection.clone());
        Ok(connection)
    }

    fn client(&self, node: &str) -> RedisResult<Client> {
        let like = self.like.clone().ok_or_else(|| malformed("a cluster without nodes"))?;
        let (host, port) = node.rsplit_once(':').ok_or_else(|| malformed("ASK names no node"))?;
        let port = port.parse().map_err(|_| malformed("ASK names no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = match like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let info = like.set_addr(address);
        match &self.certificates {
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            None => Client::open(info),
        }
    }

    /// A node that cannot be reached is told when it is asked.
    async fn load(&self, command: &Cmd) {
        let open: Vec<_> = self.open.lock().await.values().cloned().collect();
        for mut connection in open {
            let _ = connection.req_packed_command(command).await;
        }
    }
}

fn malformed(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::Parse, what))
}
