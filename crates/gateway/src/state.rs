//! What all requests share.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use iam_ledger::{
    ConfigWatch, IdentityCache, IdentityCacheOptions, Keyring, Ledger, QuotaError, QuotaPath, RateTreeCache,
    WatchOptions,
};
use live_redis::{LiveRedis, LiveRedisError};
use spend_queue::ScopeRef;
use spend_spool::Spool;

use crate::affinity::Affinities;
use crate::bill::Bills;
use crate::config::Config;
use crate::dispatch::Upstreams;
use crate::key_spend::KeySpends;
use crate::shared_reads::SharedReads;
use crate::shutdown::Shutdown;
use crate::telemetry::Telemetry;

/// The most rate trees that are kept; a tree of 100 nodes takes some 20 kB.
const MAX_TREES: usize = 10_000;

/// What a gateway is made of. The caller opens and closes the parts.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Models, prices and bounds.
    pub config: Config,
    /// The hot state, shared with all other gateways.
    pub redis: LiveRedis,
    /// The source of truth.
    pub ledger: Ledger,
    /// How secrets are told from each other.
    pub keyring: Keyring,
    /// Where bills go that Redis does not take; without one, such a request fails.
    pub spool: Option<Spool>,
}

/// What a key's path has left, or why that cannot be told.
pub(crate) type Quota = Result<QuotaPath, QuotaError<LiveRedisError>>;

/// Reads of what keys' paths have left.
pub(crate) type Quotas = SharedReads<ScopeRef, Quota>;

/// One for all requests.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) redis: LiveRedis,
    pub(crate) ledger: Ledger,
    pub(crate) identities: IdentityCache,
    pub(crate) trees: RateTreeCache,
    pub(crate) watch: ConfigWatch,
    pub(crate) bills: Bills,
    pub(crate) upstreams: Upstreams,
    pub(crate) telemetry: Telemetry,
    pub(crate) affinities: Affinities,
    pub(crate) key_spends: KeySpends,
    pub(crate) quota_bounds: Quotas,
    pub(crate) quotas: Quotas,
    pub(crate) shutdown: Shutdown,
}

impl State {
    /// Must be called within a tokio runtime: it starts the watch over the configuration of tenants. Loads the vocabularies
    /// of all models.
    pub(crate) fn new(parts: Parts) -> Result<Self, reqwest::Error> {
        let Parts { config, redis, ledger, keyring, spool } = parts;
        let tokenizers: BTreeSet<_> = config.models.iter().map(|model| model.tokenizer.to_string()).collect();
        tracing::debug!(?tokenizers, "loading vocabularies");
        for model in &config.models {
            model.tokenizer.load();
        }
        let identities = IdentityCache::new(keyring, IdentityCacheOptions::default());
        let trees = RateTreeCache::new(ledger.clone(), MAX_TREES);
        let watch =
            ConfigWatch::start(ledger.clone(), WatchOptions::default(), trees.clone(), identities.clone());
        let deployments = config.models.iter().flat_map(|model| &model.deployments);
        Ok(Self {
            upstreams: Upstreams::new(&config.limits)?,
            telemetry: Telemetry::new(
                redis.clone(),
                deployments.map(|deployment| Arc::clone(&deployment.id)),
            ),
            affinities: Affinities::new(redis.clone(), config.routing.affinity()),
            key_spends: KeySpends::new(redis.clone(), ledger.clone()),
            quota_bounds: Quotas::new(),
            quotas: Quotas::new(),
            bills: Bills::new(redis.clone(), spool),
            shutdown: Shutdown::default(),
            config,
            redis,
            ledger,
            identities,
            trees,
            watch,
        })
    }

    /// How long a bill can take at most once calls are cut: one answer of Redis.
    pub(crate) fn billing_deadline(&self) -> Duration {
        self.redis.options().deadline
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("config", &self.config).finish_non_exhaustive()
    }
}
