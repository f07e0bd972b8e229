//! Reading a Redis URL.

use std::sync::Arc;
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates, TlsMode,
};
use tokio::sync::Mutex;

use super::{Dialer, Importers, Peer};
use crate::error::{OpenError, Step};
use crate::options::Tls;

const EXPECTED: &str = "expected redis://[user:password@]host[:port][/db], rediss://... for TLS, \
                        redis+sentinel://[user:password@]host:port,.../primary[/db], \
                        or redis+cluster://[user:password@]host:port,...";

/// What a URL names. A password in it goes no further than the client libraries.
pub(crate) enum Target {
    Standalone(ConnectionInfo),
    Sentinel { sentinels: Vec<ConnectionInfo>, primary: String, db: i64 },
    Cluster(Vec<ConnectionInfo>),
}

/// Which kind of deployment a scheme names, and whether it is reached over TLS.
fn scheme_of(scheme: &str) -> Option<(Kind, bool)> {
    Some(match scheme {
        "redis" | "redis+unix" | "unix" | "valkey" => (Kind::Standalone, false),
        "rediss" | "valkeys" => (Kind::Standalone, true),
        "redis+sentinel" => (Kind::Sentinel, false),
        "rediss+sentinel" => (Kind::Sentinel, true),
        "redis+cluster" => (Kind::Cluster, false),
        "rediss+cluster" => (Kind::Cluster, true),
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Standalone,
    Sentinel,
    Cluster,
}

impl Target {
    /// Reads a URL. No part of it is in the error, since any part may be a misplaced password.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| malformed("it has no scheme"))?;
        let (kind, tls) = scheme_of(scheme).ok_or_else(|| malformed("its scheme is unknown"))?;
        if let Kind::Standalone = kind {
            let info = url.into_connection_info().map_err(|error| malformed(error.category()))?;
            return Ok(Self::Standalone(info));
        }
        if rest.contains(['?', '#']) {
            return Err(malformed("it has options, and none are known for several servers"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // The last `@`: a password may hold one.
        let (login, hosts) =
            authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
        let single = if tls { "rediss" } else { "redis" };
        let at = if login.is_empty() { "" } else { "@" };
        let server = |host: &str| match host {
            "" => Err(malformed("a host is empty")),
            _ => format!("{single}://{login}{at}{host}")
                .into_connection_info()
                .map_err(|error| malformed(error.category())),
        };
        let servers = hosts.split(',').map(server).collect::<Result<Vec<_>, _>>()?;
        match kind {
            Kind::Cluster if path.is_empty() => Ok(Self::Cluster(servers)),
            Kind::Cluster => Err(malformed("a Redis Cluster has no databases to choose from")),
            _ => {
                let (primary, db) = path.split_once('/').unwrap_or((path, "0"));
                let db = db.parse().ok().filter(|db| *db >= 0);
                let db = db.ok_or_else(|| malformed("its database is no number"))?;
                if primary.is_empty() {
                    return Err(malformed("it does not name the primary that the Sentinels watch"));
                }
                Ok(Self::Sentinel { sentinels: servers, primary: primary.to_owned(), db })
            }
        }
    }

    /// What dials it.
    pub(crate) fn dialer(self, tls: Option<&Tls>, deadline: Duration) -> Result<Dialer, OpenError> {
        let failed = |error: redis::RedisError| malformed(error.category());
        if let Some(tls) = tls {
            if !self.is_tls() {
                return Err(malformed("certificates are given, and its scheme is not one of TLS"));
            }
            tls.check().map_err(|reason| OpenError::new(Step::Parse, reason))?;
        }
        if self.is_tls() {
            // Whoever installed one before has chosen.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let certificates = certificates(tls);
        let peer = match self {
            Self::Standalone(info) if tls.is_some() => {
                Peer::Standalone(Client::build_with_tls(info, certificates).map_err(failed)?)
            }
            Self::Standalone(info) => Peer::Standalone(Client::open(info).map_err(failed)?),
            Self::Cluster(servers) => {
                let importers =
                    Importers::new(servers.first().cloned(), tls.map(|_| certificates.clone()), deadline);
                // The driver would send again what was lost with a connection, and it may have run. What certainly did not
                // run is sent again by us.
                let mut builder = ClusterClient::builder(servers)
                    .retries(0)
                    .connection_timeout(deadline)
                    .response_timeout(deadline)
                    .overall_response_timeout(Some(deadline));
                if tls.is_some() {
                    builder = builder.certs(certificates);
                }
                Peer::Cluster(builder.build().map_err(failed)?, Arc::new(importers))
            }
            Self::Sentinel { sentinels, primary, db } => {
                let login = sentinels.first().map(|info| info.redis_settings().clone());
                let secure = sentinels.iter().any(|info| is_tls(info.addr()));
                let addresses = sentinels.iter().map(|info| info.addr().clone());
                let mut builder = SentinelClientBuilder::new(addresses, primary, SentinelServerType::Master)
                    .map_err(failed)?
                    .set_client_to_redis_db(db);
                // The login is the servers'; Sentinels are asked without one.
                if let Some(login) = login {
                    if let Some(user) = login.username() {
                        builder = builder.set_client_to_redis_username(user);
                    }
                    if let Some(password) = login.password() {
                        builder = builder.set_client_to_redis_password(password);
                    }
                }
                if secure {
                    builder = builder
                        .set_client_to_redis_tls_mode(TlsMode::Secure)
                        .set_client_to_sentinel_tls_mode(TlsMode::Secure);
                }
                if tls.is_some() {
                    builder = builder
                        .set_client_to_redis_certificates(certificates.clone())
                        .set_client_to_sentinel_certificates(certificates);
                }
                Peer::Sentinel(Mutex::new(builder.build().map_err(failed)?))
            }
        };
        Ok(Dialer::new(peer, deadline))
    }

    fn is_tls(&self) -> bool {
        match self {
            Self::Standalone(info) => is_tls(info.addr()),
            Self::Sentinel { sentinels: servers, .. } | Self::Cluster(servers) => {
                servers.iter().any(|info| is_tls(info.addr()))
            }
        }
    }
}

fn is_tls(address: &ConnectionAddr) -> bool {
    matches!(address, ConnectionAddr::TcpTls { .. })
}

fn certificates(tls: Option<&Tls>) -> TlsCertificates {
    let client_tls = tls.and_then(|tls| {
        let (certificate, key) = (tls.client_certificate.clone()?, tls.client_key.as_ref()?);
        Some(ClientTlsConfig { client_cert: certificate, client_key: key.expose() })
    });
    TlsCertificates { client_tls, root_cert: tls.and_then(|tls| tls.authority.clone()) }
}

fn malformed(reason: &str) -> OpenError {
    OpenError::new(Step::Parse, format!("{reason}; {EXPECTED}"))
}
