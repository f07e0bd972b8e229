//! Everything that is measured together: servers, upstream, gateway, tenant, and the client's thread.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use iam_ledger::{Ledger, LedgerOptions};
use mock_upstream::{MockOptions, MockUpstream};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::child::{Child, program};
use crate::client::Target;
use crate::servers::Servers;
use crate::tenant::Tenant;

const PEPPER: &str = "the pepper of a bench, which guards nothing";
/// The name of the thread that all requests come from.
pub(crate) const CLIENT: &str = "client";

/// What a million tokens cost: read, read from a cache, written.
pub(crate) const PRICES: [&str; 3] = ["0.15", "0.075", "0.60"];

pub(crate) struct Stack {
    pub(crate) servers: Servers,
    pub(crate) gateway: Child,
    /// The upstream without a gateway.
    pub(crate) alone: Arc<Target>,
    /// The gateway, with keys that have no budget.
    pub(crate) unbudgeted: Arc<Target>,
    /// The gateway, with keys that have one, and their owners, too.
    pub(crate) budgeted: Arc<Target>,
    runtime: Runtime,
    folder: TempDir,
    _mock: MockUpstream,
}

impl Stack {
    pub(crate) fn start() -> Result<Self> {
        let (servers, folder) = (Servers::start()?, tempfile::tempdir()?);
        // One thread: clients are other machines, and should not take both cores.
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name(CLIENT).enable_all().build()?;
        runtime.block_on(async {
            let ledger = ledger(&servers).await?;
            ledger.migrate().await?;
            ledger.close().await;
            anyhow::Ok(())
        })?;
        let mock = MockUpstream::start(MockOptions::default())?;
        let upstream = mock.url();
        let config = folder.path().join("gateway.toml");
        fs::write(&config, configuration(&upstream))?;
        let tenant = Tenant::create(&mut gateway(&servers), folder.path())?;
        let mut command = gateway(&servers);
        command.args(["run", "--log-format", "json", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--spool").arg(folder.path().join("spool"));
        let mut gateway = Child::start("tallyweir-gateway", &mut command, folder.path())?;
        let address = gateway.address()?;
        let alone = upstream.strip_prefix("http://").context("the mock's address")?.parse()?;
        Ok(Self {
            alone: Target::new(alone, Vec::new()),
            unbudgeted: Target::new(address, tenant.unbudgeted),
            budgeted: Target::new(address, tenant.budgeted),
            servers,
            gateway,
            runtime,
            folder,
            _mock: mock,
        })
    }

    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Runs work on the client's thread.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.runtime.block_on(self.runtime.spawn(work))?
    }

    /// Where logs go.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Answers that the gateway has given.
    pub(crate) fn answers(&self) -> u64 {
        self.unbudgeted.answers() + self.budgeted.answers()
    }
}

/// With one connection.
pub(crate) async fn ledger(servers: &Servers) -> Result<Ledger> {
    let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
    Ok(Ledger::connect(&servers.database_url().into(), options).await?)
}

fn gateway(servers: &Servers) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_tallyweir-gateway"));
    command
        .env("TALLYWEIR_REDIS_URL", servers.redis_url())
        .env("TALLYWEIR_DATABASE_URL", servers.database_url())
        .env("TALLYWEIR_PEPPER", PEPPER);
    command
}

/// One model with two deployments, so that there is a choice to make; both are the same mock.
fn configuration(upstream: &str) -> String {
    let [input, cached, output] = PRICES;
    let deployment = |id: &str| {
        format!(
            "[[models.deployments]]\nid = \"small-{id}\"\nbase_url = \"{upstream}/v1\"\ninput_usd_per_million = \"{input}\"\n\
             cached_input_usd_per_million = \"{cached}\"\noutput_usd_per_million = \"{output}\"\n"
        )
    };
    format!("[[models]]\nname = \"small\"\n{}{}", deployment("a"), deployment("b"))
}
