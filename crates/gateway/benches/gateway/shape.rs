//! What is asked for, and what it uses.

use anyhow::Result;
use bytes::Bytes;
use mock_upstream::count_chat;
use serde_json::json;

/// Tokens of every answer.
const ANSWER_TOKENS: u64 = 16;
const SYSTEM: &str = "You are an assistant of a shop for garden tools. Answer in one short sentence, in the language of the \
                      question, and name no prices that are not in the question.";
const QUESTION: &str = "I have bought a hedge trimmer with a battery of 36 V in spring. After ten minutes of work it stops and \
                        the light on the battery blinks twice; when it has cooled down, it works again for ten minutes. Is this \
                        how it should be, and may I go on with it until the hedge is done?";

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole.
    Plain,
    /// In parts, one a token.
    Stream,
}

/// How fast the upstream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// As the mock is by itself: 20 ms before an answer, 2 ms from token to token of a stream.
    Usual,
    /// As fast as it can.
    Immediate,
}

impl Shape {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Stream];

    /// The body of a request.
    pub(crate) fn body(self, upstream: Upstream) -> Bytes {
        let mut body = json!({
            "model": "small",
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0.2,
        });
        if self == Self::Stream {
            body["stream"] = true.into();
        }
        if upstream == Upstream::Immediate {
            body["metadata"] = json!({"mock": "latency_ms=0,interval_ms=0"});
        }
        body.to_string().into()
    }

    /// Whether an answer of this shape came to its end, by the last part of it.
    pub(crate) fn is_end(self, last: &[u8]) -> bool {
        match self {
            Self::Plain => last.ends_with(b"}"),
            Self::Stream => last.ends_with(b"data: [DONE]\n\n"),
        }
    }
}

/// Whether a part of a stream holds text.
pub(crate) fn has_text(part: &[u8]) -> bool {
    const FIELD: &[u8] = b"\"content\":\"";
    part.windows(FIELD.len() + 1).any(|bytes| bytes.starts_with(FIELD) && !bytes.ends_with(b"\""))
}

/// Tokens of every prompt and of every answer.
pub(crate) fn tokens() -> Result<(u64, u64)> {
    Ok((count_chat([("system", SYSTEM.into()), ("user", QUESTION.into())]), ANSWER_TOKENS))
}
