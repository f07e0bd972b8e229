//! A gateway with servers, a tenant and upstreams of a test's own.

use std::path::PathBuf;
use std::time::Duration;

use devstack::{TestDatabase, TestRedis};
use gateway::{Config, Gateway, Parts};
use iam_ledger::{Budget, IdentityPatch, Keyring, Ledger, LedgerOptions, NewIdentity, Pepper, ScopeKind};
use live_redis::{LiveRedis, Options};
use mock_upstream::{JournalLine, MockOptions, MockUpstream, Moment};
use rate_plan::Limits;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use spend_queue::{BatchLimit, ShardCount, SpendEvent, SpendQueue, Usd};
use spend_spool::{Spool, SpoolOptions};

/// Longer than anything takes here.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

/// How a test wants its world.
pub(crate) struct Wishes {
    /// Limits of the key.
    pub(crate) key: Limits,
    /// Limits of the team above it.
    pub(crate) team: Limits,
    /// Budget of the organization, in USD.
    pub(crate) budget: Option<&'static str>,
    /// Tables of the configuration besides models.
    pub(crate) config: &'static str,
    /// How many deployments the model has, each a mock.
    pub(crate) deployments: usize,
    /// Where Redis is, if not the shared one.
    pub(crate) redis: Option<String>,
    /// Whether there is a spool.
    pub(crate) spool: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            key: Limits::SHARED,
            team: Limits::SHARED,
            budget: None,
            config: "",
            deployments: 1,
            redis: None,
            spool: false,
        }
    }
}

pub(crate) struct World {
    pub(crate) mocks: Vec<MockUpstream>,
    pub(crate) hot: LiveRedis,
    pub(crate) ledger: Ledger,
    pub(crate) keyring: Keyring,
    pub(crate) secret: String,
    pub(crate) http: Client,
    pub(crate) url: String,
    gateway: Option<Gateway>,
    spool: Option<PathBuf>,
    _redis: TestRedis,
    _database: TestDatabase,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(Wishes::default()).await
    }

    pub(crate) async fn with(wishes: Wishes) -> Self {
        let redis = devstack::redis().unwrap().test();
        let database = devstack::postgres().unwrap().database("gateway").unwrap();
        let options = Options::default()
            .with_prefix(redis.prefix().parse().unwrap())
            .with_deadline(Duration::from_millis(500));
        let url = wishes.redis.clone().unwrap_or_else(|| redis.url().to_owned());
        let hot = LiveRedis::open_with(url, options).await.unwrap();
        let ledger_options =
            LedgerOptions { acquire_timeout: Duration::from_secs(1), ..LedgerOptions::default() };
        let ledger = Ledger::connect(&database.url().to_owned().into(), ledger_options).await.unwrap();
        ledger.migrate().await.unwrap();
        let keyring = Keyring::new(ledger.clone(), Pepper::new(vec![7; 32]).unwrap());
        let secret = enrol(&ledger, &keyring, &wishes).await;

        let mocks: Vec<_> = (0..wishes.deployments)
            .map(|_| {
                MockUpstream::start(MockOptions { latency: Duration::ZERO, ..MockOptions::default() })
                    .unwrap()
            })
            .collect();
        let urls: Vec<_> = mocks.iter().map(MockUpstream::url).collect();
        let config = Config::parse(&config(&wishes, &urls), |_| None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = wishes.spool.then(|| folder.path().join("bills.spool"));
        let spool = path.as_ref().map(|path| Spool::open(path, SpoolOptions::default()).unwrap());
        let parts =
            Parts { config, redis: hot.clone(), ledger: ledger.clone(), keyring: keyring.clone(), spool };
        let gateway = Gateway::start(parts, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self {
            url: format!("http://{}", gateway.address()),
            gateway: Some(gateway),
            http: Client::builder().no_proxy().build().unwrap(),
            mocks,
            hot,
            ledger,
            keyring,
            secret,
            spool: path,
            _redis: redis,
            _database: database,
            _folder: folder,
        }
    }

    /// A request with the key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.http
            .post(format!("{}/v1/{path}", self.url))
            .bearer_auth(&self.secret)
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    pub(crate) async fn chat(&self, body: &Value) -> Response {
        self.post("chat/completions", body).send().await.unwrap()
    }

    /// Stops the gateway, which waits for all bills, and reads the queue.
    pub(crate) async fn bills(&mut self) -> Vec<SpendEvent> {
        self.stop(GRACE).await;
        let shard = ShardCount::ONE.shard_of("any");
        let peeked = self.hot.peek(shard, BatchLimit::new(1000).unwrap()).await.unwrap();
        peeked.entries.into_iter().map(|entry| entry.event).collect()
    }

    /// What the spool holds; after a stop.
    pub(crate) fn spooled(&self) -> u64 {
        Spool::open(self.spool.as_ref().unwrap(), SpoolOptions::default()).unwrap().len()
    }

    pub(crate) async fn stop(&mut self, grace: Duration) {
        if let Some(gateway) = self.gateway.take() {
            gateway.stop(grace).await;
        }
    }

    /// The gateway itself, to be stopped while something else goes on.
    pub(crate) fn take_gateway(&mut self) -> Gateway {
        self.gateway.take().unwrap()
    }

    /// What the upstreams say that they sent.
    pub(crate) fn sent(&self) -> Vec<JournalLine> {
        let lines = self.mocks.iter().flat_map(MockUpstream::journal);
        lines.filter(|line| line.event == Moment::End).collect()
    }

    pub(crate) async fn block(&self, kind: ScopeKind, id: &str) {
        self.ledger.update(kind, id, &IdentityPatch::new().set_blocked(true)).await.unwrap();
    }
}

async fn enrol(ledger: &Ledger, keyring: &Keyring, wishes: &Wishes) -> String {
    let amount = wishes.budget.map(|amount| amount.parse::<Usd>().unwrap());
    let organization =
        NewIdentity::organization("acme", "Acme").with_budget(Budget { amount, ..Budget::default() });
    let team = NewIdentity::team("blue", "Blue").of_organization("acme").with_limits(wishes.team);
    ledger.create_all(&[organization, team]).await.unwrap();
    let key = NewIdentity::key("laptop", "").of_organization("acme").of_team("blue").with_limits(wishes.key);
    keyring.create_key(&key).await.unwrap().expose_secret().to_owned()
}

fn config(wishes: &Wishes, urls: &[String]) -> String {
    let mut text = wishes.config.to_owned();
    for (model, kind) in [("small", "chat"), ("embed", "embedding")] {
        text += &format!("\n[[models]]\nname = \"{model}\"\nkind = \"{kind}\"\ndefault_max_tokens = 64\n");
        for (place, url) in urls.iter().enumerate() {
            text += &format!(
                "[[models.deployments]]\nid = \"{model}-{place}\"\nbase_url = \"{url}/v1\"\n\
                 input_usd_per_million = \"0.15\"\ncached_input_usd_per_million = \"0.075\"\n\
                 output_usd_per_million = \"0.60\"\n"
            );
        }
    }
    text
}

/// A chat's body that tells the mock how to behave.
pub(crate) fn chat(mock: &str) -> Value {
    json!({
        "model": "small",
        "messages": [{"role": "user", "content": "Say something nice."}],
        "metadata": {"mock": mock},
    })
}

pub(crate) fn stream(mock: &str) -> Value {
    let mut body = chat(mock);
    body["stream"] = true.into();
    body
}

/// The cost at the prices of this world.
pub(crate) fn cost(prompt: u64, cached: u64, completion: u64) -> Option<Usd> {
    let picos = (prompt - cached) * 150_000 + cached * 75_000 + completion * 600_000;
    Some(Usd::from_picos(picos.into()))
}

/// The body as JSON.
pub(crate) async fn json_of(response: Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

/// Status, code and whole body of an error, which must have OpenAI's form and an id.
pub(crate) async fn refusal(response: Response) -> (u16, String, Value) {
    let status = response.status().as_u16();
    assert!(response.headers().contains_key("x-request-id"));
    let body: Value = json_of(response).await;
    let error = &body["error"];
    assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
    assert!(error.get("param").is_some(), "{body}");
    (status, error["code"].as_str().unwrap().to_owned(), body)
}

/// The data of a stream's events.
pub(crate) fn events(text: &str) -> Vec<&str> {
    text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
}

/// The number in a header.
pub(crate) fn number(response: &Response, header: &str) -> u64 {
    response.headers().get(header).unwrap().to_str().unwrap().parse().unwrap()
}
