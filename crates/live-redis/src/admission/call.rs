//! The arguments and answers of the admission scripts.

use std::collections::HashMap;
use std::sync::Arc;

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

/// Asks that go [together](super::together::Together), made ready: their distinct nodes, and the asks in terms of them.
pub(super) struct Call<'a> {
    asks: &'a [Ask],
    /// Places in `fields` and `terms`, the asks' paths one behind the other.
    places: Vec<usize>,
    /// Of each node of any path, once; a single path's are leaf to root.
    fields: Vec<String>,
    terms: Vec<u8>,
}

/// What tells a node from the others of a call: its index, which costs less, where all asks have the very same tree.
#[derive(PartialEq, Eq, Hash)]
enum Name<'a> {
    Index(usize),
    Scope(&'a Scope),
}

/// What a script answered.
pub(super) enum Reply {
    Decided { decisions: Vec<Result<Decision, UsageError>>, second: Option<i64> },
    OtherMinute { second: i64 },
    OtherVersion { second: Option<i64> },
}

impl<'a> Call<'a> {
    /// `asks` is not empty, and they go together.
    pub(super) fn new(asks: &'a [Ask]) -> Result<Self, LiveRedisError> {
        let first = asks[0].plan.tree();
        let one_tree = asks.iter().all(|ask| Arc::ptr_eq(ask.plan.tree(), first));
        let most = asks[0].plan.path().len();
        let mut call =
            Self { asks, places: Vec::new(), fields: Vec::new(), terms: Vec::with_capacity(most * 32) };
        if let [ask] = asks {
            // A path names no node twice.
            for &node in ask.plan.path().as_slice() {
                call.places.push(call.fields.len());
                call.name(first, node)?;
            }
            return Ok(call);
        }
        let mut known = HashMap::new();
        for ask in asks {
            let tree = ask.plan.tree();
            for &node in ask.plan.path().as_slice() {
                let name = if one_tree { Name::Index(node) } else { Name::Scope(&tree.nodes()[node].scope) };
                let place = *known.entry(name).or_insert(call.fields.len());
                if place == call.fields.len() {
                    call.name(tree, node)?;
                }
                call.places.push(place);
            }
        }
        Ok(call)
    }

    /// One more node.
    fn name(&mut self, tree: &RateTree, node: usize) -> Result<(), LiveRedisError> {
        self.fields.push(field(&tree.nodes()[node].scope)?);
        self.terms.extend(limits(tree, node));
        for dimension in Dimension::ALL {
            self.terms.extend(tree.promised(node, dimension).to_be_bytes());
        }
        Ok(())
    }

    /// The asks' tree; of flat ones any, which tells nothing about the scopes of the others.
    pub(super) fn tree(&self) -> &RateTree {
        self.asks[0].plan.tree()
    }

    /// The fields of the nodes of all paths.
    pub(super) fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Each ask and the places of its path.
    fn each(&self) -> impl Iterator<Item = (&Ask, &[usize])> {
        self.asks.iter().scan(&self.places[..], |rest, ask| {
            let (path, behind) = rest.split_at(ask.plan.path().len());
            *rest = behind;
            Some((ask, path))
        })
    }

    /// Whether the script for one request can take it: it walks a chain, which several independent scopes are not.
    pub(super) fn is_one(&self) -> bool {
        let chain = !self.tree().is_flat() || self.fields.len() == 1;
        self.asks.len() == 1 && self.fields.len() <= ONE_PATH && chain
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
    pub(super) fn version(&self) -> [u8; VERSION_BYTES] {
        let mut version = [0; VERSION_BYTES];
        version[..16].copy_from_slice(self.tree().fingerprint().as_bytes());
        version
    }

    /// The MessagePack array that `admit_batch` describes: consecutive asks of one path make one run.
    fn runs(&self) -> Vec<u8> {
        let mut numbers = Vec::with_capacity(self.places.len() + 2 * self.asks.len());
        let mut each = self.each().peekable();
        while let Some((ask, path)) = each.next() {
            numbers.push(path.len() as u64);
            numbers.extend(path.iter().map(|&place| place as u64 + 1));
            let (requests, mut run) = (numbers.len(), 1);
            numbers.extend([run, ask.tokens()]);
            while let Some((ask, _)) = each.next_if(|(_, same)| *same == path) {
                numbers.push(ask.tokens());
                run += 1;
            }
            numbers[requests] = run;
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
        let mut windows = Vec::with_capacity(self.fields.len());
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
        let mut path = Vec::new();
        for ((ask, mine), code) in self.each().zip(&codes) {
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
pub(super) fn pack_texts<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Vec<u8> {
    let length = u32::try_from(texts.len()).unwrap_or(u32::MAX);
    let mut packed = Vec::new();
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
