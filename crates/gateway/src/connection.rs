//! How the gateway's commands reach the ledger and its keys.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use iam_ledger::{Keyring, Ledger, LedgerError, LedgerOptions, MIN_PEPPER_BYTES, Pepper};
use secrecy::{ExposeSecret, SecretString};
use service_frame::connection::DatabaseOptions;
use service_frame::secret::SecretSource;
use service_frame::start::Unfit;

/// Where PostgreSQL is.
#[derive(Debug, Args)]
pub(crate) struct LedgerConnection {
    #[command(flatten)]
    database: DatabaseOptions,
}

impl LedgerConnection {
    /// Connects, and refuses a database whose tables are of another release.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, is too old, or is not migrated; the text has no password.
    pub(crate) async fn ledger(&self) -> Result<Ledger> {
        self.ledger_with(LedgerOptions::default()).await
    }

    /// [`LedgerConnection::ledger`] with other options.
    ///
    /// # Errors
    ///
    /// As [`LedgerConnection::ledger`].
    pub(crate) async fn ledger_with(&self, options: LedgerOptions) -> Result<Ledger> {
        let ledger =
            Ledger::connect(&self.database.url().required()?, options).await.map_err(
                |error| match error {
                    LedgerError::ServerTooOld { .. } | LedgerError::Standby { .. } => {
                        Unfit::new("PostgreSQL", vec![Ledger::connect_finding(&error)]).into()
                    }
                    error => anyhow::Error::from(error),
                },
            )?;
        ledger.require_migrated().await?;
        Ok(ledger)
    }
}

/// Where PostgreSQL is, and under which pepper it keeps the secrets of keys.
#[derive(Debug, Args)]
pub(crate) struct KeyringConnection {
    #[command(flatten)]
    database: LedgerConnection,
    /// What the secrets of keys are stored under: at least 32 bytes, the same for every gateway
    #[arg(long, env = "TALLYWEIR_PEPPER", hide_env_values = true, value_name = "SECRET")]
    pepper: Option<SecretString>,
    /// File that holds the pepper and nothing else, such as a mounted secret; in place of --pepper
    #[arg(long, env = "TALLYWEIR_PEPPER_FILE", value_name = "FILE")]
    pepper_file: Option<PathBuf>,
}

impl KeyringConnection {
    /// Connects: the secrets of the ledger's keys under this pepper, and the ledger.
    ///
    /// # Errors
    ///
    /// As [`LedgerConnection::ledger`]; before any server is asked, when there is no pepper or it is too short.
    pub(crate) async fn keyring(&self) -> Result<(Keyring, Ledger)> {
        self.keyring_with(LedgerOptions::default()).await
    }

    /// [`KeyringConnection::keyring`] with other options.
    ///
    /// # Errors
    ///
    /// As [`KeyringConnection::keyring`].
    pub(crate) async fn keyring_with(&self, options: LedgerOptions) -> Result<(Keyring, Ledger)> {
        let pepper = self.pepper().required()?;
        let pepper = Pepper::new(pepper.expose_secret().as_bytes().to_vec())?;
        let ledger = self.database.ledger_with(options).await?;
        Ok((Keyring::new(ledger.clone(), pepper), ledger))
    }

    fn pepper(&self) -> SecretSource<'_> {
        SecretSource {
            what: "pepper",
            accepted: "a text of at least 32 bytes",
            flag: "--pepper",
            variable: "TALLYWEIR_PEPPER",
            is_one: |text| text.len() >= MIN_PEPPER_BYTES,
            given: self.pepper.as_ref(),
            file: self.pepper_file.as_deref(),
        }
    }
}
