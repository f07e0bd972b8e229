//! Which deployment a conversation stays with. A hint: without an answer of Redis there is none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use live_redis::LiveRedis;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::call::Call;

/// For how long an affinity is believed, and not renewed, without asking Redis.
const BELIEVED: Duration = Duration::from_secs(10);
/// The most affinities that are remembered here; then all are asked for anew.
const MAX_REMEMBERED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Affinities {
    redis: LiveRedis,
    lasting: Option<Duration>,
    remembered: Mutex<HashMap<String, (Arc<str>, Instant)>>,
}

impl Affinities {
    /// `lasting`: how long one lasts after its last use; `None`: there are none.
    pub(crate) fn new(redis: LiveRedis, lasting: Option<Duration>) -> Self {
        Self { redis, lasting, remembered: Mutex::default() }
    }

    /// The deployment that a call's conversation was with, if there is a choice at all.
    pub(crate) async fn of(&self, call: &Call) -> Option<Arc<str>> {
        self.lasting?;
        if call.asked.model.deployments.len() < 2 {
            return None;
        }
        let key = key(call);
        if let Some(id) = self.remembered(&key) {
            return Some(id);
        }
        match self.redis.read_affinity(&key).await {
            Ok(found) => found.map(Into::into),
            Err(error) => {
                tracing::debug!(%error, "an affinity was not read");
                None
            }
        }
    }

    /// Lets a call's conversation stay with a deployment.
    pub(crate) async fn keep(&self, call: &Call, deployment: &Arc<str>) {
        let Some(lasting) = self.lasting else { return };
        if call.asked.model.deployments.len() < 2 {
            return;
        }
        let key = key(call);
        if self.remembered(&key).as_ref() == Some(deployment) {
            return;
        }
        match self.redis.write_affinity(&key, deployment, lasting).await {
            Ok(()) => self.remember(key, deployment, lasting),
            Err(error) => tracing::debug!(%error, "an affinity was not written"),
        }
    }

    fn remembered(&self, key: &str) -> Option<Arc<str>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(key).filter(|(_, until)| Instant::now() < *until).map(|(id, _)| Arc::clone(id))
    }

    fn remember(&self, key: String, deployment: &Arc<str>, lasting: Duration) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        // It must be renewed well before it ends.
        let until = Instant::now() + BELIEVED.min(lasting / 4);
        remembered.insert(key, (Arc::clone(deployment), until));
    }
}

/// By the key, the model and what the client tells its conversations by; hashed, since the last is the client's.
fn key(call: &Call) -> String {
    let mut hash = Sha256::new();
    let conversation = call.asked.conversation.as_deref().unwrap_or_default();
    for part in [call.identity.key_id(), &call.asked.model.name, conversation] {
        hash.update(part);
        // In no id.
        hash.update([0]);
    }
    format!("gateway:{}", hex::encode(hash.finalize()))
}
