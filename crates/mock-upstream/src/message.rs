//! Requests, as far as the mock understands them.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

use crate::behaviour::Behaviour;
use crate::refusal::Refusal;
use crate::tokens::{MAX_ANSWER_TOKENS, count_chat, count_text};

/// The length of an answer when nothing asks for another, in tokens.
const USUAL_ANSWER_TOKENS: u32 = 32;
/// The most answers to one prompt.
const MAX_CHOICES: u32 = 16;
/// The most numbers of a vector.
const MAX_DIMENSIONS: u32 = 4096;

/// The request's own words to the mock; other entries are its client's.
#[derive(Debug, Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow)]
    mock: Option<Cow<'a, str>>,
}

/// A request for a chat completion.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest<'a> {
    #[serde(borrow)]
    pub(crate) model: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(default)]
    pub(crate) stream: bool,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    n: Option<u32>,
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    #[serde(borrow)]
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// A request for embeddings.
#[derive(Debug, Deserialize)]
pub(crate) struct EmbeddingRequest<'a> {
    #[serde(borrow)]
    pub(crate) model: Cow<'a, str>,
    #[serde(borrow)]
    input: Input<'a>,
    pub(crate) dimensions: Option<u32>,
    #[serde(default)]
    pub(crate) encoding_format: Encoding,
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

/// How the numbers of a vector are written.
#[derive(Debug, Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    /// As numbers.
    #[default]
    Float,
    /// As 32-bit floats, least significant byte first, in base64: what OpenAI's own clients ask for.
    Base64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Texts(Vec<Cow<'a, str>>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// One input: its tokens, and a number that stands for its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) tokens: u64,
    pub(crate) digest: u64,
}

impl<'a> ChatRequest<'a> {
    pub(crate) fn read(body: &'a Bytes) -> Result<Self, Refusal> {
        let request: Self = read(body)?;
        let tokens =
            [("max_tokens", request.max_tokens), ("max_completion_tokens", request.max_completion_tokens)];
        if let Some((name, _)) = tokens.iter().find(|(_, value)| *value == Some(0)) {
            return Err(Refusal::bad_request(format!("mock: {name} is 0; at least 1 is needed")));
        }
        if request.n.is_some_and(|n| !(1..=MAX_CHOICES).contains(&n)) {
            return Err(Refusal::bad_request(format!("mock: n, from 1 to {MAX_CHOICES}")));
        }
        if request.messages.is_empty() {
            return Err(Refusal::bad_request("mock: no messages"));
        }
        Ok(request)
    }

    pub(crate) fn behaviour(&self) -> Result<Behaviour, Refusal> {
        behaviour(self.metadata.as_ref())
    }

    pub(crate) fn prompt_tokens(&self) -> u64 {
        count_chat(self.messages.iter().map(|message| (&*message.role, message.text())))
    }

    /// Answers to this prompt.
    pub(crate) fn choices(&self) -> u32 {
        self.n.unwrap_or(1)
    }

    /// Tokens of each answer, and whether it ends because no more were allowed.
    pub(crate) fn answer_tokens(&self, wanted: Option<u32>) -> (u32, bool) {
        let most = self.max_completion_tokens.or(self.max_tokens).unwrap_or(MAX_ANSWER_TOKENS);
        let wanted = wanted.unwrap_or(USUAL_ANSWER_TOKENS);
        (wanted.min(most), wanted > most)
    }

    /// Whether a stream ends with its usage.
    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }
}

impl Message<'_> {
    fn text(&self) -> Cow<'_, str> {
        match &self.content {
            None => Cow::Borrowed(""),
            Some(Content::Text(text)) => Cow::Borrowed(text),
            Some(Content::Parts(parts)) => parts.iter().filter_map(|part| part.text.as_deref()).collect(),
        }
    }
}

impl<'a> EmbeddingRequest<'a> {
    pub(crate) fn read(body: &'a Bytes) -> Result<Self, Refusal> {
        let request: Self = read(body)?;
        if request.dimensions.is_some_and(|dimensions| !(1..=MAX_DIMENSIONS).contains(&dimensions)) {
            return Err(Refusal::bad_request(format!("mock: dimensions, from 1 to {MAX_DIMENSIONS}")));
        }
        if request.inputs().is_empty() {
            return Err(Refusal::bad_request("mock: no input"));
        }
        Ok(request)
    }

    pub(crate) fn behaviour(&self) -> Result<Behaviour, Refusal> {
        behaviour(self.metadata.as_ref())
    }

    pub(crate) fn inputs(&self) -> Vec<Measured> {
        let text = |text: &Cow<'_, str>| Measured { tokens: count_text(text), digest: digest(text.bytes()) };
        let tokens = |tokens: &[u32]| Measured {
            tokens: tokens.len() as u64,
            digest: digest(tokens.iter().flat_map(|token| token.to_le_bytes())),
        };
        match &self.input {
            Input::Text(one) => vec![text(one)],
            Input::Texts(many) => many.iter().map(text).collect(),
            Input::Tokens(one) if one.is_empty() => Vec::new(),
            Input::Tokens(one) => vec![tokens(one)],
            Input::TokenLists(many) => many.iter().map(|one| tokens(one)).collect(),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad_request(format!("mock: {error}")))
}

fn behaviour(metadata: Option<&Metadata<'_>>) -> Result<Behaviour, Refusal> {
    let words = metadata.and_then(|metadata| metadata.mock.as_deref()).unwrap_or_default();
    words.parse::<Behaviour>().map_err(|error| Refusal::bad_request(error.to_string()))
}

/// FNV-1a.
fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: &'static str) -> ChatRequest<'static> {
        let body: &'static Bytes = Box::leak(Box::new(Bytes::from_static(body.as_bytes())));
        ChatRequest::read(body).unwrap()
    }

    #[test]
    fn parts_and_missing_content_are_counted_as_their_text() {
        let text = chat(r#"{"model":"m","messages":[{"role":"user","content":"Hello world"}]}"#);
        let parts = chat(
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Hello"},
                {"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":" world"}]}]}"#,
        );
        assert_eq!((text.prompt_tokens(), parts.prompt_tokens()), (9, 9));
        let none = chat(r#"{"model":"m","messages":[{"role":"user","content":null}]}"#);
        assert_eq!(none.prompt_tokens(), 7);
    }

    #[test]
    fn the_most_that_is_allowed_bounds_what_is_wanted() {
        let plain = chat(r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#);
        assert_eq!((plain.answer_tokens(None), plain.answer_tokens(Some(99))), ((32, false), (99, false)));
        let bounded = chat(
            r#"{"model":"m","max_tokens":50,"max_completion_tokens":9,"messages":[{"role":"user","content":"x"}]}"#,
        );
        assert_eq!((bounded.answer_tokens(None), bounded.answer_tokens(Some(4))), ((9, true), (4, false)));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for body in [
            "",
            "{",
            r#"{"model":"m"}"#,
            r#"{"model":"m","messages":[]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":-1}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":0}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"n":17}"#,
        ] {
            assert!(ChatRequest::read(&Bytes::from_static(body.as_bytes())).is_err(), "{body}");
        }
        for body in [r#"{"model":"m","input":[]}"#, r#"{"model":"m","input":"x","dimensions":0}"#] {
            assert!(EmbeddingRequest::read(&Bytes::from_static(body.as_bytes())).is_err(), "{body}");
        }
    }

    #[test]
    fn inputs_of_every_form_are_counted() {
        for (input, tokens) in [
            (r#""Hello world""#, &[2][..]),
            (r#"["Hello","Hello world"]"#, &[1, 2]),
            ("[5,6,7]", &[3]),
            ("[[5],[6,7]]", &[1, 2]),
        ] {
            let body = Bytes::from(format!(r#"{{"model":"m","input":{input}}}"#));
            let inputs = EmbeddingRequest::read(&body).unwrap().inputs();
            assert_eq!(inputs.iter().map(|one| one.tokens).collect::<Vec<_>>(), tokens);
        }
    }
}
