//! What is done with secrets.

use chrono::{DateTime, Utc};
use rate_plan::Limits;
use secrecy::{ExposeSecret, SecretString};

use super::secret::is_well_formed;
use super::{Identity, IdentityScope, KeySecret, Pepper, SecretHmac};
use crate::identity::{check_id, read_limit, refused};
use crate::{Ledger, LedgerError, NewIdentity, ScopeKind};

/// A ledger together with the pepper of its secrets. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keyring {
    ledger: Ledger,
    pepper: Pepper,
}

/// What a secret stands for, and until when.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) identity: Identity,
    /// First instant at which this secret is refused: one that was replaced.
    pub(crate) valid_until: Option<DateTime<Utc>>,
}

impl Keyring {
    /// Secrets of this ledger under this pepper.
    #[must_use]
    pub const fn new(ledger: Ledger, pepper: Pepper) -> Self {
        Self { ledger, pepper }
    }

    /// Creates a key and returns its secret, which cannot be had a second time. The database gets the secret's HMAC only.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::create_all`]; [`LedgerError::Identity`] for what is no key; [`LedgerError::Entropy`]. Nothing
    /// was written. After [`LedgerError::OutcomeUnknown`] the key may exist with a secret that nobody has: rotate it.
    pub async fn create_key(&self, key: &NewIdentity) -> Result<KeySecret, LedgerError> {
        self.create_key_with(key, None).await
    }

    /// [`Keyring::create_key`] with budgets compared in the periods that `now` is in.
    ///
    /// # Errors
    ///
    /// Those of [`Keyring::create_key`].
    pub async fn create_key_at(
        &self,
        key: &NewIdentity,
        now: DateTime<Utc>,
    ) -> Result<KeySecret, LedgerError> {
        self.create_key_with(key, Some(now)).await
    }

    async fn create_key_with(
        &self,
        key: &NewIdentity,
        now: Option<DateTime<Utc>>,
    ) -> Result<KeySecret, LedgerError> {
        if key.kind != ScopeKind::Key {
            return Err(refused(key.kind, &key.id, "has no secret; only a key has".to_owned()));
        }
        let (secret, hmac) = self.generate()?;
        self.ledger.create_with(std::slice::from_ref(key), Some(hmac.as_bytes()), now).await?;
        Ok(secret)
    }

    /// Gives a key another secret; its id, limits, budget and usage stay. The old secret is refused at once, or from
    /// `old_valid_until` on. Only one old secret is ever accepted: rotating again ends the one before. A key that
    /// was created without a secret gets its first.
    ///
    /// One statement, so that a caller sees the old secret or the new one accepted and never neither. Gateways that
    /// cache identities follow within their staleness ([`ConfigWatch`](crate::ConfigWatch)).
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotFound`]; [`LedgerError::Identity`] for an id that none can have; [`LedgerError::Entropy`];
    /// [`LedgerError::Query`], after which, if the connection broke, either secret may be the valid one: rotate again.
    pub async fn rotate_key(
        &self,
        id: &str,
        old_valid_until: Option<DateTime<Utc>>,
    ) -> Result<KeySecret, LedgerError> {
        check_id(ScopeKind::Key, id)?;
        let (secret, hmac) = self.generate()?;
        let changed =
            sqlx::query_file!("queries/rotate_key.sql", id, hmac.as_bytes().as_slice(), old_valid_until)
                .execute(&self.ledger.pool)
                .await
                .map_err(|error| self.ledger.failed("rotating a key", error))?;
        if changed.rows_affected() == 0 {
            return Err(LedgerError::NotFound { kind: ScopeKind::Key, id: id.to_owned() });
        }
        Ok(secret)
    }

    /// Who presents this secret. One query by an index, whose cost does not depend on how many keys there are; none for
    /// what cannot be a secret by its form.
    ///
    /// Looked up is the HMAC, so that what an attacker sends is compared with nothing stored; the row's HMAC is then compared
    /// in constant time once more.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotAuthenticated`], whatever is wrong with the secret; [`LedgerError::Query`] or
    /// [`LedgerError::Busy`] when the database did not answer, which says nothing about the secret.
    pub async fn authenticate(
        &self,
        secret: &SecretString,
        now: DateTime<Utc>,
    ) -> Result<Identity, LedgerError> {
        let hmac = self.hmac(secret)?;
        self.look_up(&hmac, now).await.map(|found| found.identity)
    }

    /// The HMAC of what has the form of a secret.
    pub(crate) fn hmac(&self, secret: &SecretString) -> Result<SecretHmac, LedgerError> {
        let text = secret.expose_secret();
        if is_well_formed(text) { Ok(self.pepper.hmac(text)) } else { Err(LedgerError::NotAuthenticated) }
    }

    pub(crate) async fn look_up(
        &self,
        hmac: &SecretHmac,
        now: DateTime<Utc>,
    ) -> Result<Authenticated, LedgerError> {
        let rows = sqlx::query_file!("queries/authenticate.sql", hmac.as_bytes().as_slice(), now)
            .fetch_all(&self.ledger.pool)
            .await
            .map_err(|error| self.ledger.failed("authenticating a key", error))?;
        let first = rows.first().ok_or(LedgerError::NotAuthenticated)?;
        let (version, valid_until, budgeted) = (first.version, first.valid_until, first.budgeted);
        let mut scopes = Vec::with_capacity(rows.len());
        for row in rows {
            if !hmac.matches(&row.secret_hmac) {
                return Err(LedgerError::NotAuthenticated);
            }
            let kind = ScopeKind::from_word(&row.kind)
                .ok_or_else(|| LedgerError::Unreadable { column: "kind", value: row.kind.clone() })?;
            let limits = Limits { rpm: read_limit(row.rpm_limit)?, tpm: read_limit(row.tpm_limit)? };
            scopes.push(IdentityScope { kind, id: row.id, limits, blocked: row.blocked });
        }
        Ok(Authenticated { identity: Identity::new(scopes, version, budgeted)?, valid_until })
    }

    fn generate(&self) -> Result<(KeySecret, SecretHmac), LedgerError> {
        let secret = KeySecret::generate()?;
        let hmac = self.pepper.hmac(secret.expose_secret());
        Ok((secret, hmac))
    }
}
