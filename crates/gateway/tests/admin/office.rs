//! A migrated database of a test's own, and the binary against it.

use std::process::{Command, Output};

use chrono::Utc;
use devstack::TestDatabase;
use iam_ledger::{Identity, IdentityRecord, Keyring, Ledger, LedgerError, LedgerOptions, Pepper, ScopeKind};
use serde_json::Value;

const PEPPER: &str = "a pepper for tests that is long enough";

pub(crate) struct Office {
    database: TestDatabase,
    pub(crate) ledger: Ledger,
    keyring: Keyring,
    folder: tempfile::TempDir,
}

impl Office {
    pub(crate) async fn open() -> Self {
        let database = devstack::postgres().unwrap().database("admin").unwrap();
        let ledger =
            Ledger::connect(&database.url().to_owned().into(), LedgerOptions::default()).await.unwrap();
        ledger.migrate().await.unwrap();
        let keyring = Keyring::new(ledger.clone(), Pepper::new(PEPPER.as_bytes().to_vec()).unwrap());
        Self { database, ledger, keyring, folder: tempfile::tempdir().unwrap() }
    }

    /// Runs the binary.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyweir-gateway"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
            command.env_remove(name);
        }
        command.args(words).env("TALLYWEIR_DATABASE_URL", self.database.url());
        command.env("TALLYWEIR_PEPPER", PEPPER).env("RUST_LOG", "trace").output().unwrap()
    }

    /// Applies a tenant file.
    pub(crate) fn tenant(&self, text: &str, more: &[&str]) -> Output {
        let path = self.folder.path().join("tenant.toml");
        std::fs::write(&path, text).unwrap();
        self.run(&[&["tenant", path.to_str().unwrap()], more].concat())
    }

    /// Applies a tenant file that must work, and returns the report.
    pub(crate) fn applied(&self, text: &str) -> Value {
        json(&self.tenant(text, &["--json"]))
    }

    /// Applies a tenant file that must be refused, and returns the complaint.
    pub(crate) fn refused(&self, text: &str) -> String {
        complaint(&self.tenant(text, &[]))
    }

    pub(crate) async fn record(&self, kind: ScopeKind, id: &str) -> IdentityRecord {
        self.ledger.identity(kind, id).await.unwrap()
    }

    pub(crate) async fn who(&self, secret: &str) -> Result<Identity, LedgerError> {
        self.keyring.authenticate(&secret.to_owned().into(), Utc::now()).await
    }
}

/// The object that a successful command printed.
pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The one line that a refused command printed, behind `error: `. Logs come before it.
pub(crate) fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let (_, complaint) = text.rsplit_once("error: ").unwrap_or_else(|| panic!("{text}"));
    let complaint = complaint.trim_end();
    assert!(!complaint.contains('\n'), "one line: {complaint}");
    complaint.to_owned()
}
