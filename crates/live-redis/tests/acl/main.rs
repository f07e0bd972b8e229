//! The users of `docs/security.md`, made on a real server: each can make every call of its role, no other, and could do
//! with no word less.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod denials;
mod words;

use std::sync::Arc;
use std::time::Duration;

use common::{limit, now, shard};
use devstack::RedisServer;
use live_redis::{CallError, LiveRedis, LiveRedisError, OlderQueue, OperatorNote, Options, Role, Ticket};
use rate_plan::{Limits, Node, RatePlan, RateTree, Scope};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};
use spend_queue::{Finding, Receipt, Severity, SpendQueue};

const PAGE: &str = include_str!("../../../../docs/security.md");
const MINUTE: Duration = Duration::from_secs(60);
const ROLES: [Role; 4] = [Role::Gateway, Role::Flusher, Role::Operator, Role::Repairer];

/// An entry of an older deployment that is paid for by organization `o`.
const OLDER: &str =
    r#"RPUSH xhub:spendlog {"request_id":"old","org_id":"o","api_key":"0ff","key_id":"k","spend":0.5}"#;

/// The words of a role's line, `user` and the name left out.
fn line(role: Role) -> Vec<String> {
    let start = format!("```acl\nuser {role} ");
    let (_, rest) = PAGE.split_once(&start).unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    words(block)
}

/// The words that a role needs besides for the queue of an older deployment.
fn line_for_older(role: Role) -> Vec<String> {
    let (_, rest) = PAGE.split_once("**The queue of an older deployment**").unwrap();
    let mut items = rest.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": `"));
    let role = role.to_string();
    let (_, block) = items.find(|(roles, _)| roles.split(", ").any(|named| named == role)).unwrap();
    words(block.strip_suffix('`').unwrap())
}

fn words(block: &str) -> Vec<String> {
    // Parentheses as words of their own are allowed, and let a test leave out any other word.
    let block = block.replace('(', "( ").replace(')', " )");
    block.split_whitespace().map(str::to_owned).collect()
}

fn password(role: Role) -> String {
    format!("{role}_PASSWORD").to_uppercase()
}

fn older() -> Options {
    Options::default().with_older_queue(OlderQueue::default())
}

/// A server of one's own, an administrator's connection to it, and the page's users.
struct Guarded {
    server: RedisServer,
    admin: MultiplexedConnection,
}

impl Guarded {
    async fn start() -> Self {
        let server = RedisServer::builder().arg("enable-debug-command", "yes").start().unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let guarded = Self { server, admin: client.get_multiplexed_async_connection().await.unwrap() };
        for role in ROLES {
            guarded.set_user(&role.to_string(), &line(role)).await;
        }
        guarded
    }

    /// With the right to an older deployment's queue, in which something waits.
    async fn start_with_older() -> Self {
        let guarded = Self::start().await;
        for role in ROLES {
            guarded.set_user(&role.to_string(), &[line(role), line_for_older(role)].concat()).await;
        }
        guarded.admin::<u64>(OLDER).await;
        guarded
    }

    async fn set_user(&self, name: &str, words: &[String]) {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(name).arg("reset").arg(words);
        set.query_async::<()>(&mut self.admin.clone()).await.unwrap();
    }

    async fn admin<T: FromRedisValue>(&self, command: &str) -> T {
        run(&self.admin, command).await.unwrap()
    }

    fn url(&self, role: Role) -> String {
        self.server.url_as(&role.to_string(), &password(role))
    }

    async fn client(&self, role: Role, options: Options) -> LiveRedis {
        LiveRedis::open_with(self.url(role), options).await.unwrap()
    }

    async fn open(&self, role: Role) -> LiveRedis {
        self.client(role, Options::default()).await
    }

    async fn raw(&self, role: Role) -> MultiplexedConnection {
        redis::Client::open(self.url(role)).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    async fn digest(&self) -> String {
        self.admin("DEBUG DIGEST").await
    }

    /// Awaits calls that must be refused for lack of rights and change nothing.
    async fn denied<T: std::fmt::Debug>(&self, call: impl Future<Output = Result<T, LiveRedisError>>) {
        let before = self.digest().await;
        let error = call.await.unwrap_err();
        assert!(matches!(&error, LiveRedisError::Call(CallError::Refused(_))), "{error:?}");
        let text = error.to_string().to_lowercase();
        assert!(["permission", "can't access", "can't run"].iter().any(|said| text.contains(said)), "{text}");
        assert_eq!(self.digest().await, before, "{error}");
    }
}

async fn run<T: FromRedisValue>(connection: &MultiplexedConnection, command: &str) -> RedisResult<T> {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.query_async(&mut connection.clone()).await
}

fn plan(rpm: u64) -> RatePlan {
    let node = |kind, parent, rpm| Node {
        scope: Scope::new(kind, "a").unwrap(),
        parent,
        limits: Limits { rpm, tpm: None },
    };
    let nodes = vec![node("organization", None, Some(rpm)), node("team", Some(0), None)];
    Arc::new(RateTree::new(nodes).unwrap()).plan(1).unwrap()
}

async fn ticket(redis: &LiveRedis) -> Ticket {
    redis.admit_rate_plan(&plan(50), 10, now()).await.unwrap().into_ticket().unwrap()
}

fn note() -> OperatorNote {
    OperatorNote { reason: "a test".into(), at: now() }
}

async fn receipt(redis: &LiveRedis) -> Receipt {
    redis.peek(shard(), limit(10)).await.unwrap().receipt().unwrap()
}

fn severity(findings: &[Finding], check: &str) -> Severity {
    findings.iter().find(|finding| finding.check == check).map(|finding| finding.severity).unwrap()
}
