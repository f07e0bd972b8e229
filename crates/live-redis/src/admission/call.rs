//! The arguments and answers of the admission scripts.

use std::collections::HashMap;

use rate_plan::{Decision, Dimension, NodeWindow, RatePlan, RateTree, Scope, UsageError, admit_on_path};
use redis::{FromRedisValue, ScriptInvocation, Value};
use spend_queue::ScopeRef;

use crate::error::{CallError, LiveRedisError};

/// The longest path that the script for one request takes: its nodes become arguments of one Redis call.
const ONE_PATH: usize = 64;

/// Redis keeps a hash of up to 128 (512 before 7.2) short values as a list and searches it from the start for each
/// field. A value above `hash-max-listpack-value` (64 bytes) makes it a table, in which a field costs the same
/// whatever the number of nodes.
const VERSION_BYTES: usize = 65;

/// More tokens than this in one request make the script watch how far counters reach. Below, and with counters below
/// 2^52, a million requests of one call cannot pass 2^53-1.
const LARGE: u64 = 1 << 32;

/// One request to be decided.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) plan: RatePlan,
    /// In tokens, at most 2^53-1.
    pub(super) estimate: i64,
}

impl Ask {
    fn tokens(&self) -> u64 {
        Dimension::Tpm.demand(self.estimate)
    }
}

/// Asks of one tree, made ready: its distinct nodes, and the asks in terms of them.
pub(super) struct Call<'a> {
    asks: &'a [Ask],
    /// Tree indices of the nodes of all paths, each once; a single path's are leaf to root.
    nodes: Vec<usize>,
    /// Places in `nodes`, the asks' paths one behind the other.
    places: Vec<usize>,
    fields: Vec<String>,
    terms: Vec<u8>,
}

/// What a script answered.
pub(super) enum Reply {
    Decided { decisions: Vec<Result<Decision, UsageError>>, second: Option<i64> },
    OtherMinute { second: i64 },
    OtherVersion { second: Option<i64> },
}

impl<'a> Call<'a> {
    /// `asks` is not empty, and all its plans are of one version of one tree.
    pub(super) fn new(asks: &'a [Ask]) -> Result<Self, LiveRedisError> {
        let mut nodes = Vec::new();
        let mut places = Vec::new();
        match asks {
            // A path names no node twice.
            [ask] => {
                nodes.extend_from_slice(ask.plan.path().as_slice());
                places.extend(0..nodes.len());
            }
            _ => {
                let mut known = HashMap::new();
                for node in asks.iter().flat_map(|ask| ask.plan.path().as_slice()) {
                    places.push(*known.entry(*node).or_insert_with(|| {
                        nodes.push(*node);
                        nodes.len() - 1
                    }));
                }
            }
        }
        let tree = asks[0].plan.tree();
        let fields = nodes.iter().map(|&node| field(&tree.nodes()[node].scope)).collect::<Result<_, _>>()?;
        let mut terms = Vec::with_capacity(nodes.len() * 32);
        for &node in &nodes {
            terms.extend(limits(tree, node));
            for dimension in Dimension::ALL {
                terms.extend(tree.promised(node, dimension).to_be_bytes());
            }
        }
        Ok(Self { asks, nodes, places, fields, terms })
    }

    pub(super) fn tree(&self) -> &RateTree {
        self.asks[0].plan.tree()
    }

    /// Tree indices of the nodes of all paths.
    pub(super) fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    /// Whether the script for one request can take it: it walks a chain, which several independent scopes are not.
    pub(super) fn is_one(&self) -> bool {
        let chain = !self.tree().is_flat() || self.nodes.len() == 1;
        self.asks.len() == 1 && self.nodes.len() <= ONE_PATH && chain
    }

    /// Arguments of the scripts `admit_one` and `admit_batch`; `minute` when the server's clock is to decide.
    pub(super) fn arguments(&self, invocation: &mut ScriptInvocation<'_>, minute: Option<i64>) {
        if self.is_one() {
            self.head(invocation, self.asks[0].tokens(), minute);
        } else {
            self.head(invocation, self.runs(), minute);
        }
    }

    /// Arguments of the script `admit_batch`, also for a single ask.
    pub(super) fn batch_arguments(&self, invocation: &mut ScriptInvocation<'_>) {
        self.head(invocation, self.runs(), None);
    }

    /// Arguments of the script `settle` for the path of the only ask.
    pub(super) fn settle_arguments(
        &self,
        invocation: &mut ScriptInvocation<'_>,
        ticket: &[u8; 16],
        requests: i64,
        tokens: i64,
    ) {
        invocation.arg(&self.version()[..]).arg(&self.terms[..]);
        invocation.arg(&ticket[..]).arg(self.asks[0].tokens()).arg(requests).arg(tokens);
        invocation.arg(u8::from(self.tree().is_flat()));
        for field in &self.fields {
            invocation.arg(field);
        }
    }

    fn head(
        &self,
        invocation: &mut ScriptInvocation<'_>,
        demand: impl redis::ToRedisArgs,
        minute: Option<i64>,
    ) {
        invocation.arg(&self.version()[..]).arg(&self.terms[..]).arg(demand);
        match minute {
            Some(minute) => invocation.arg(minute),
            None => invocation.arg(""),
        };
        for field in &self.fields {
            invocation.arg(field);
        }
    }

    /// What `v` holds: the tree's fingerprint, made long enough that Redis keeps the hash as a table.
    fn version(&self) -> [u8; VERSION_BYTES] {
        let mut version = [0; VERSION_BYTES];
        version[..16].copy_from_slice(self.tree().fingerprint().as_bytes());
        version
    }

    /// The MessagePack array that `admit_batch` describes: consecutive asks of one path make one run.
    fn runs(&self) -> Vec<u8> {
        let mut numbers = Vec::with_capacity(self.places.len() + 2 * self.asks.len());
        let mut at = 0;
        let mut asks = self.asks;
        while let Some(first) = asks.first() {
            let path = first.plan.path();
            let same = asks.iter().take_while(|ask| ask.plan.path() == path).count();
            numbers.push(path.len() as u64);
            numbers.extend(self.places[at..at + path.len()].iter().map(|&place| place as u64 + 1));
            numbers.push(same as u64);
            numbers.extend(asks[..same].iter().map(Ask::tokens));
            at += same * path.len();
            asks = &asks[same..];
        }
        let large = self.asks.iter().any(|ask| ask.tokens() > LARGE);
        pack(self.tree().is_flat(), large, &numbers)
    }

    /// Reads an answer: the codes are the script's decisions, and the values that it read tell their details, by the
    /// same algorithm. Both must agree, or neither is believed.
    pub(super) fn reply(&self, answer: Vec<Value>) -> Result<Reply, LiveRedisError> {
        let mut answer = answer.into_iter();
        let codes: Vec<u8> = convert(answer.next())?;
        match codes[..] {
            [b'C'] => return Ok(Reply::OtherMinute { second: convert(answer.next())? }),
            [b'R'] => return Ok(Reply::OtherVersion { second: convert(answer.next())? }),
            _ => {}
        }
        let mut windows = Vec::with_capacity(self.nodes.len());
        for field in &self.fields {
            let value: Option<Vec<u8>> = convert(answer.next())?;
            windows.push(match value {
                Some(bytes) => NodeWindow::from_bytes(&bytes)
                    .ok_or_else(|| LiveRedisError::Damaged(format!("rate counter of {field}")))?,
                None => NodeWindow::default(),
            });
        }
        if codes.len() != self.asks.len() {
            return Err(unlike(&codes));
        }
        let mut decisions = Vec::with_capacity(self.asks.len());
        let mut places = &self.places[..];
        let mut path = Vec::new();
        for (ask, code) in self.asks.iter().zip(&codes) {
            let (mine, rest) = places.split_at(ask.plan.path().len());
            places = rest;
            path.clear();
            path.extend(mine.iter().map(|&place| windows[place]));
            let decision = admit_on_path(&ask.plan, &mut path, ask.estimate);
            match (&decision, code) {
                (Ok(Decision::Admitted(_)), b'1') => {
                    for (&place, window) in mine.iter().zip(&path) {
                        windows[place] = *window;
                    }
                }
                (Ok(Decision::Rejected(_)), b'0') | (Err(UsageError::CounterFull { .. }), b'2') => {}
                _ => return Err(unlike(&codes)),
            }
            decisions.push(decision);
        }
        Ok(Reply::Decided { decisions, second: convert(answer.next())? })
    }
}

/// A node's field in the hash of its minute: the text of its scope ref, which no other scope has.
pub(super) fn field(scope: &Scope) -> Result<String, LiveRedisError> {
    match ScopeRef::new(scope.kind(), scope.id()) {
        Ok(scope) => Ok(scope.to_string()),
        Err(error) => Err(CallError::Answer(error.to_string()).into()),
    }
}

/// RPM and TPM limit of a node as the scripts read them: -1 is none.
pub(super) fn limits(tree: &RateTree, node: usize) -> impl Iterator<Item = u8> + use<> {
    let limits = tree.nodes()[node].limits;
    // A limit is at most 2^53-1.
    let number = |limit: Option<u64>| limit.map_or(-1, u64::cast_signed).to_be_bytes();
    [number(limits.rpm), number(limits.tpm)].into_iter().flatten()
}

/// A MessagePack array of two booleans and unsigned numbers.
fn pack(flat: bool, large: bool, numbers: &[u64]) -> Vec<u8> {
    let length = u32::try_from(numbers.len() + 2).unwrap_or(u32::MAX);
    let mut packed = Vec::with_capacity(numbers.len() * 3 + 6);
    // Writing to memory cannot fail.
    let _ = rmp::encode::write_array_len(&mut packed, length);
    let _ = rmp::encode::write_bool(&mut packed, flat);
    let _ = rmp::encode::write_bool(&mut packed, large);
    for &number in numbers {
        let _ = rmp::encode::write_uint(&mut packed, number);
    }
    packed
}

/// A MessagePack array of texts.
pub(super) fn pack_texts(texts: &[String]) -> Vec<u8> {
    let length = u32::try_from(texts.len()).unwrap_or(u32::MAX);
    let mut packed = Vec::with_capacity(texts.iter().map(|text| text.len() + 5).sum::<usize>() + 5);
    // Writing to memory cannot fail.
    let _ = rmp::encode::write_array_len(&mut packed, length);
    for text in texts {
        let _ = rmp::encode::write_str(&mut packed, text);
    }
    packed
}

fn convert<T: FromRedisValue>(value: Option<Value>) -> Result<T, LiveRedisError> {
    T::from_redis_value(value.unwrap_or(Value::Nil))
        .map_err(|error| CallError::Answer(format!("admission: {error}")).into())
}

fn unlike(codes: &[u8]) -> LiveRedisError {
    let codes = String::from_utf8_lossy(codes);
    CallError::Answer(format!("admission decided {codes:?}, which its counters do not bear out")).into()
}
