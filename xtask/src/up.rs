//! The whole stack to play with: servers, two upstreams, a tenant, the flusher, the gateway.

mod card;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::child::{self, Child, Listen};
use crate::process;
use crate::stack::Stack;
use card::Card;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the gateway listens on 127.0.0.1; 0 takes any free port [default: 8080 if it is free, else any]
    #[arg(long, value_name = "N")]
    gateway_port: Option<u16>,
    /// Print one JSON object instead of the text for people
    #[arg(long)]
    json: bool,
}

/// How long a program may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long it may stay unnoticed that a program has ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const USUAL_PORT: u16 = 8080;

/// The upstreams: the name of their host in `deploy/demo/gateway.toml`, which Compose uses too, and their pace.
const MOCKS: [Mock; 2] = [
    Mock { name: "mock-a", latency_ms: "40", token_interval_ms: "8" },
    Mock { name: "mock-b", latency_ms: "120", token_interval_ms: "16" },
];
/// Their port there.
const MOCK_PORT: u16 = 9101;

/// Tenant and configuration, for this command and for Compose.
const DEMO: &str = "deploy/demo";

struct Mock {
    name: &'static str,
    latency_ms: &'static str,
    token_interval_ms: &'static str,
}

/// The programs of one run.
struct Programs {
    gateway: PathBuf,
    flusher: PathBuf,
    mock: PathBuf,
}

/// What runs, in the order in which it is stopped: who makes bills before who settles them.
struct Running {
    children: Vec<Child>,
    // The last to go: everybody else uses it.
    _stack: Stack,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    eprintln!("building ...");
    let programs = Programs::build()?;
    let folder = own_folder()?;
    let stack = Stack::start()?;
    let (running, card) = start(&programs, stack, &folder, options.gateway_port)?;
    // Until here a signal ends this process at once, and all others with it.
    let asked = signals()?;
    let mut stdout = std::io::stdout().lock();
    let text = if options.json { format!("{}\n", card.json()) } else { card.text() };
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")?;
    running.until(&asked)
}

/// Logs, spool and configuration of this run. Those of runs that have ended are removed.
fn own_folder() -> Result<PathBuf> {
    let runs = process::root().join("target/up");
    for entry in fs::read_dir(&runs).into_iter().flatten().flatten() {
        let running = entry.file_name().to_str().is_some_and(child::is_running);
        if !running {
            // What cannot be removed is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let own = runs.join(std::process::id().to_string());
    fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
    Ok(own)
}

impl Programs {
    fn build() -> Result<Self> {
        let built = process::build(&["gateway", "usage-flusher", "mock-upstream"])?;
        let Ok([gateway, flusher, mock]) = <[PathBuf; 3]>::try_from(built) else {
            bail!("building gave no programs");
        };
        Ok(Self { gateway, flusher, mock })
    }
}

fn start(programs: &Programs, stack: Stack, folder: &Path, port: Option<u16>) -> Result<(Running, Card)> {
    stack.migrate(&programs.flusher)?;
    let pepper = random_hex()?;
    let log = |name: &str| folder.join(format!("{name}.log"));
    // Started first, stopped last.
    let mut children = Vec::new();
    let mut config = read_demo("gateway.toml")?;
    let mut mocks = Vec::new();
    for Mock { name, latency_ms, token_interval_ms } in MOCKS {
        let mut command = Command::new(&programs.mock);
        command.args(["--listen", "127.0.0.1:0", "--latency-ms", latency_ms]);
        command.args(["--token-interval-ms", token_interval_ms]);
        command.arg("--journal").arg(folder.join(format!("{name}.jsonl")));
        let mut mock = Child::start(name, command, Listen::Stdout, &log(name))?;
        let url = mock.wait_for(READY_WITHIN, |line| field(line, None, "listening"))?;
        let named = format!("http://{name}:{MOCK_PORT}");
        ensure!(config.contains(&named), "{DEMO}/gateway.toml does not name {named}");
        config = config.replace(&named, &url);
        mocks.push(url);
        children.push(mock);
    }
    let config_file = folder.join("gateway.toml");
    fs::write(&config_file, config).with_context(|| format!("writing {}", config_file.display()))?;

    let mut gateway = stack.command(&programs.gateway);
    gateway.env("TALLYWEIR_PEPPER", &pepper).args(["tenant", "--json"]).arg(demo("tenant.toml"));
    let keys = Keys::of(&mut gateway)?;

    let mut command = stack.command(&programs.flusher);
    command.args(["run", "--log-format", "json", "--listen", "127.0.0.1:0"]);
    let mut flusher = Child::start("usage-flusher", command, Listen::Stderr, &log("usage-flusher"))?;
    let flusher_address =
        flusher.wait_for(READY_WITHIN, |line| field(line, Some("endpoints are served"), "address"))?;
    children.push(flusher);

    let mut command = stack.command(&programs.gateway);
    command
        .args(["run", "--log-format", "json", "--listen", &gateway_address(port), "--config"])
        .arg(&config_file);
    command.env("TALLYWEIR_PEPPER", &pepper).arg("--spool").arg(folder.join("bills.spool"));
    let mut gateway = Child::start("tallyweir-gateway", command, Listen::Stderr, &log("tallyweir-gateway"))?;
    let address = gateway.wait_for(READY_WITHIN, |line| field(line, Some("listening"), "address"))?;
    children.push(gateway);

    children.reverse();
    let card = Card {
        gateway: format!("http://{address}"),
        flusher: format!("http://{flusher_address}"),
        key: keys.secret("app")?,
        tiny_key: keys.secret("tiny")?,
        poor_key: keys.secret("poor")?,
        database_url: stack.database_url().to_owned(),
        redis_url: stack.redis_url().to_owned(),
        mocks,
        folder: folder.to_owned(),
        pids: children.iter().map(|child| (child.name(), child.id())).collect(),
    };
    Ok((Running { children, _stack: stack }, card))
}

/// The secrets that `tenant` printed.
struct Keys(Value);

impl Keys {
    fn of(tenant: &mut Command) -> Result<Self> {
        let output = tenant.env("RUST_LOG", "warn").output().context("cannot start the gateway's program")?;
        if !output.status.success() {
            bail!("setting the tenant up: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(Self(serde_json::from_slice(&output.stdout).context("the tenant's report is no JSON")?))
    }

    fn secret(&self, id: &str) -> Result<String> {
        let key = self.0["keys"].as_array().into_iter().flatten().find(|key| key["id"] == id);
        let secret = key.and_then(|key| key["secret"].as_str());
        secret.map(str::to_owned).with_context(|| format!("{DEMO}/tenant.toml made no key {id:?}"))
    }
}

impl Running {
    /// Waits until it is told to stop, or something ends by itself, then stops everything.
    fn until(mut self, asked: &Receiver<()>) -> Result<()> {
        let mut outcome = self.watch(asked);
        eprintln!("stopping ...");
        for child in self.children.drain(..) {
            // Each is asked, also when one before it failed.
            outcome = outcome.and(child.stop());
        }
        outcome
    }

    /// Returns when it is told to stop; an error when something ended by itself.
    fn watch(&mut self, asked: &Receiver<()>) -> Result<()> {
        while let Err(RecvTimeoutError::Timeout) = asked.recv_timeout(LOOK_EVERY) {
            for child in &mut self.children {
                child.check()?;
            }
        }
        Ok(())
    }
}

/// Tells of the first signal that asks to stop. From now on none ends this process by itself.
fn signals() -> Result<Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")?;
    let (tell, asked) = channel();
    thread::spawn(move || {
        for _ in signals.forever() {
            let _ = tell.send(());
        }
    });
    Ok(asked)
}

/// A text field of a JSON line, if the line has this message.
fn field(line: &str, message: Option<&str>, name: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fits = message.is_none_or(|message| line["message"] == message);
    line[name].as_str().filter(|_| fits).map(str::to_owned)
}

fn gateway_address(port: Option<u16>) -> String {
    let port = port.unwrap_or_else(|| {
        // Free again at once. Whoever takes it before the gateway does makes the gateway say so.
        if TcpListener::bind(("127.0.0.1", USUAL_PORT)).is_ok() {
            return USUAL_PORT;
        }
        eprintln!("port {USUAL_PORT} is taken; the gateway takes another one");
        0
    });
    format!("127.0.0.1:{port}")
}

fn demo(name: &str) -> PathBuf {
    process::root().join(DEMO).join(name)
}

fn read_demo(name: &str) -> Result<String> {
    let path = demo(name);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// 256 random bits: the pepper of a run, which nobody has to know.
fn random_hex() -> Result<String> {
    use std::io::Read;

    let mut random = [0_u8; 32];
    let source = "/dev/urandom";
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut random))
        .with_context(|| format!("reading {source}"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
