//! A chat completion as server-sent events: one a token.

use std::fmt::Write;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::time::Instant;

use crate::answer::{Usage, broken, json};
use crate::journal::Record;
use crate::tokens::word;

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Streamed {
    pub(crate) record: Record,
    pub(crate) frame: Frame,
    /// Answers side by side.
    pub(crate) choices: u32,
    /// Tokens of each.
    pub(crate) tokens: u32,
    pub(crate) finish_reason: &'static str,
    /// What the last event says, if it is wanted.
    pub(crate) usage: Option<Usage>,
    /// From token to token, whatever the connection does meanwhile.
    pub(crate) interval: Duration,
    /// When the last token was due.
    pub(crate) due: Option<Instant>,
    /// Whether the connection breaks half-way.
    pub(crate) half: bool,
}

/// What all events of a stream have in common.
#[derive(Debug)]
pub(crate) struct Frame {
    before: String,
    after: &'static str,
}

impl Frame {
    pub(crate) fn new(id: &str, created: i64, model: &str, includes_usage: bool) -> Self {
        let model = serde_json::Value::from(model);
        let before = format!(
            "data: {{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":{created},\"model\":{model},\
             \"choices\":["
        );
        let after = if includes_usage { "],\"usage\":null}\n\n" } else { "]}\n\n" };
        Self { before, after }
    }

    /// Appends one event for each choice.
    fn events(&self, out: &mut String, choices: u32, delta: &str, finish_reason: &str) {
        for index in 0..choices {
            out.push_str(&self.before);
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "{{\"index\":{index},\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish_reason}}}"
            );
            out.push_str(self.after);
        }
    }

    fn usage(&self, out: &mut String, usage: &Usage) {
        out.push_str(&self.before);
        out.push_str("],\"usage\":");
        out.push_str(&String::from_utf8_lossy(&json(usage)));
        out.push_str("}\n\n");
    }
}

impl Streamed {
    /// The events: one that names the role, one a token, one that says why it ends, usage, the end.
    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::unfold((self, 0), |(mut streamed, step)| async move {
            let event = streamed.event(step).await?;
            Some((event, (streamed, step + 1)))
        })
    }

    async fn event(&mut self, step: u32) -> Option<io::Result<Bytes>> {
        let mut out = String::new();
        if step == 0 {
            self.frame.events(&mut out, self.choices, "{\"role\":\"assistant\",\"content\":\"\"}", "null");
            return Some(Ok(out.into()));
        }
        if step > self.tokens + 1 {
            return None;
        }
        self.pause().await;
        if self.half && step > self.tokens / 2 {
            self.record.failed("half");
            return Some(Err(broken()));
        }
        if step <= self.tokens {
            let delta = format!("{{\"content\":\"{}\"}}", word(step - 1));
            self.frame.events(&mut out, self.choices, &delta, "null");
            self.record.sent(self.choices.into());
            return Some(Ok(out.into()));
        }
        self.frame.events(&mut out, self.choices, "{}", &format!("\"{}\"", self.finish_reason));
        if let Some(usage) = &self.usage {
            self.frame.usage(&mut out, usage);
        }
        out.push_str("data: [DONE]\n\n");
        self.record.complete();
        Some(Ok(out.into()))
    }

    /// Lets the connection send what it has, and notice that its client left. Whoever measures what stands between a client and this
    /// upstream measures nothing of this machine's timers: one that fires late makes no later token later.
    async fn pause(&mut self) {
        let now = Instant::now();
        let due = self.due.unwrap_or(now) + self.interval;
        self.due = Some(due);
        if due <= now {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep_until(due).await;
        }
    }
}
