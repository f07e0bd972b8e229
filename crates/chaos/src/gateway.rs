//! A gateway process under test: admits, charges, retries, and writes down what it means to do and what it was told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use chrono::{DateTime, Utc};
use live_redis::{LiveRedis, Options};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rate_plan::{Limits, Node, RateTree, Scope};
use spend_queue::{Enqueued, ScopeRef, SpendEvent, Usd};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::backlog::Unanswered;
use crate::bill::Bill;
use crate::clock::now_micros;
use crate::journal::{Answer, Journal, Record};
use crate::tenants::{Tenant, tenants};

/// The first and the longest wait before a call is repeated.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Longest pause of a task between two requests.
const LONGEST_PAUSE_MILLIS: u64 = 30;

/// What a gateway process is told.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// Its name, unique in the run; its journals begin so.
    pub name: String,
    /// Which of its lives this is, from 1.
    pub life: u32,
    /// Where its journals are.
    pub folder: PathBuf,
    /// Redis.
    pub redis_url: String,
    /// What every key starts with.
    pub prefix: String,
    /// Seed of what it sends.
    pub seed: u64,
    /// How many requests are under way at once.
    pub tasks: u32,
}

/// Runs until `SIGTERM`, and then until each request under way has its answer; ends at once when standard input does, since
/// then nobody watches over it any more.
///
/// # Errors
///
/// When the journal cannot be read or written: nothing may be sent that is not written down.
pub async fn gateway(options: GatewayOptions) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for signals")?;
    let (stop, stopped) = watch::channel(false);
    let mut work = tokio::spawn(serve(options, stopped));
    let (orphan, orphaned) = oneshot::channel();
    std::thread::spawn(move || {
        // Nothing is ever sent; what comes is the end.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = orphan.send(());
    });
    tokio::select! {
        ended = &mut work => return ended.context("the gateway died")?,
        _ = orphaned => return Err(anyhow!("nobody watches over this gateway")),
        _ = terminate.recv() => stop.send_replace(true),
    };
    work.await.context("the gateway died")?
}

async fn serve(options: GatewayOptions, stopped: watch::Receiver<bool>) -> Result<()> {
    let earlier = Unanswered::of(&options.folder, &options.name)?;
    let file = options.folder.join(format!("{}.{:04}.journal", options.name, options.life));
    let journal = Journal::create(Path::new(&file))?;
    let redis = open(&options, stopped.clone()).await?;
    let Some(redis) = redis else { return Ok(()) };
    let shared = Arc::new(Shared {
        trees: tenants().into_iter().map(Rated::new).collect::<Result<_>>()?,
        name: format!("{}-{}", options.name, options.life),
        sent: AtomicU64::new(0),
        journal,
        redis,
    });
    let mut tasks = JoinSet::new();
    for number in 0..u64::from(options.tasks.max(1)) {
        let seed = options.seed ^ (u64::from(options.life) << 32) ^ (number << 16);
        let client = Client { rng: ChaCha8Rng::seed_from_u64(seed), shared: Arc::clone(&shared) };
        tasks.spawn(client.work(stopped.clone()));
    }
    let seed = options.seed ^ u64::from(options.life);
    let client = Client { rng: ChaCha8Rng::seed_from_u64(seed), shared: Arc::clone(&shared) };
    tasks.spawn(client.settle_earlier(earlier));
    while let Some(ended) = tasks.join_next().await {
        ended.context("a client died")??;
    }
    Ok(())
}

/// Connects, however long that takes; `None` when told to stop before.
async fn open(options: &GatewayOptions, stopped: watch::Receiver<bool>) -> Result<Option<LiveRedis>> {
    let prefix = options.prefix.parse().context("the prefix")?;
    let redis_options = Options::default().with_prefix(prefix);
    while !*stopped.borrow() {
        match LiveRedis::open_with(options.redis_url.as_str(), redis_options.clone()).await {
            Ok(redis) => return Ok(Some(redis)),
            Err(error) => eprintln!("{error}"),
        }
        tokio::time::sleep(BACKOFF.0).await;
    }
    Ok(None)
}

/// A tenant and its tree as the code under test wants it.
struct Rated {
    tenant: Tenant,
    tree: Arc<RateTree>,
}

impl Rated {
    fn new(tenant: Tenant) -> Result<Self> {
        let nodes = tenant.subjects.iter().map(|subject| {
            let scope = Scope::new(subject.kind.as_str(), subject.id.as_str())?;
            let limits = Limits { rpm: subject.rpm, tpm: subject.tpm };
            Ok(Node { scope, parent: subject.parent, limits })
        });
        let tree = RateTree::new(nodes.collect::<Result<_>>()?)?;
        Ok(Self { tenant, tree: Arc::new(tree) })
    }
}

struct Shared {
    trees: Vec<Rated>,
    name: String,
    sent: AtomicU64,
    journal: Journal,
    redis: LiveRedis,
}

/// One client: a request after the other.
struct Client {
    rng: ChaCha8Rng,
    shared: Arc<Shared>,
}

impl Client {
    async fn work(mut self, stopped: watch::Receiver<bool>) -> Result<()> {
        let mut refused = 0;
        while !*stopped.borrow() {
            let pause = Duration::from_millis(self.rng.random_range(0..=LONGEST_PAUSE_MILLIS));
            tokio::time::sleep(pause).await;
            if self.request(&mut refused).await?.is_none() {
                tokio::time::sleep(BACKOFF.0).await;
            }
        }
        self.shared.journal.append(&[Record::Refused { at: now_micros(), requests: refused }]).await
    }

    /// One request: admitted, charged, and sometimes charged again. `None` when it was not admitted.
    async fn request(&mut self, refused: &mut u64) -> Result<Option<()>> {
        let shared = Arc::clone(&self.shared);
        let rated = &shared.trees[self.rng.random_range(0..shared.trees.len())];
        let keys = rated.tenant.keys();
        let leaf = keys[self.rng.random_range(0..keys.len())];
        let plan = rated.tree.plan(leaf)?;
        let tokens = self.rng.random_range(1..1_500_u32);
        let Ok(admission) = shared.redis.admit_rate_plan(&plan, tokens.into(), Utc::now()).await else {
            return Ok(None);
        };
        let minute = admission.minute();
        let Some(ticket) = admission.into_ticket() else {
            *refused += 1;
            return Ok(None);
        };
        let (at, tokens) = (now_micros(), u64::from(tokens));
        let subjects: Vec<_> = rated.tenant.path(leaf).iter().map(|subject| subject.name()).collect();
        let admitted = Record::Admitted { at, minute, subjects: subjects.clone(), tokens };
        if self.rng.random_bool(0.03) {
            // The request did not run after all.
            let refunding = Record::Refunding { at, minute, subjects, tokens };
            shared.journal.append(&[admitted, refunding]).await?;
            let _ = shared.redis.refund(&ticket).await;
            return Ok(Some(()));
        }
        let id = format!("{}-{}", shared.name, shared.sent.fetch_add(1, Ordering::Relaxed));
        let bill = Bill::random(&mut self.rng, id, &rated.tenant, leaf, at);
        shared.journal.append(&[admitted, Record::Intent { at, bill: bill.clone() }]).await?;
        if self.charge(&bill, false, 0.02).await? {
            if self.rng.random_bool(0.1) {
                self.charge(&bill, false, 0.0).await?;
            }
            if self.rng.random_bool(0.01) {
                let altered = bill.altered();
                shared.journal.append(&[Record::Altered { at: now_micros(), bill: altered.clone() }]).await?;
                self.charge(&altered, true, 0.0).await?;
            }
        }
        Ok(Some(()))
    }

    /// Sends a bill under its id until there is an answer, or gives up after a failure as often as `gives_up` says.
    /// Whether there was an answer.
    async fn charge(&mut self, bill: &Bill, altered: bool, gives_up: f64) -> Result<bool> {
        let event = event_of(bill)?;
        let mut wait = BACKOFF.0;
        loop {
            let id = bill.id.clone();
            match self.shared.redis.enqueue_spend(&event, Utc::now()).await {
                Ok(enqueued) => {
                    let answer = match enqueued {
                        Enqueued::Accepted { .. } => Answer::Accepted,
                        Enqueued::Duplicate => Answer::Duplicate,
                        Enqueued::Conflict => Answer::Conflict,
                    };
                    let answered = Record::Answered { at: now_micros(), id, altered, answer };
                    return self.shared.journal.append(&[answered]).await.map(|()| true);
                }
                Err(error) => eprintln!("{id}: {error}"),
            }
            if self.rng.random_bool(gives_up) {
                let unknown = Record::Unknown { at: now_micros(), id };
                return self.shared.journal.append(&[unknown]).await.map(|()| false);
            }
            tokio::time::sleep(wait.mul_f64(self.rng.random_range(0.5..1.0))).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    /// What this gateway's earlier lives left without an answer: half is sent again, as a host with a spool would, and half
    /// is given up, as a host without one must.
    async fn settle_earlier(mut self, earlier: Unanswered) -> Result<()> {
        for bill in earlier.bills {
            if self.rng.random_bool(0.5) {
                self.charge(&bill, false, 0.0).await?;
            } else {
                self.shared.journal.append(&[Record::Unknown { at: now_micros(), id: bill.id }]).await?;
            }
        }
        Ok(())
    }
}

fn event_of(bill: &Bill) -> Result<SpendEvent> {
    let scopes = bill.scopes.iter().map(|(kind, id)| ScopeRef::new(kind.as_str(), id.as_str()));
    let mut event = SpendEvent::new(&bill.id, &bill.model, scopes.collect::<Result<_, _>>()?);
    event.organization_id = Some(bill.organization.clone());
    event.team_id = Some(bill.team.clone());
    event.key_id = Some(bill.key.clone());
    event.provider = "chaos".to_owned();
    event.prompt_tokens = bill.prompt_tokens.into();
    event.completion_tokens = bill.completion_tokens.into();
    event.cost = bill.cost.map(|picos| Usd::from_picos(picos.into()));
    let started_at = DateTime::from_timestamp_micros(bill.started_at);
    event.started_at = Some(started_at.context("a bill starts outside of the calendar")?);
    Ok(event)
}
