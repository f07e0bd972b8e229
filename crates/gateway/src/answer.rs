//! What an upstream's answer says, as far as a bill needs it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::tokenizer::Tokenizer;
use crate::usage::{Told, Usage};

/// A whole answer, or one event of a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<Told>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow, alias = "message")]
    delta: Option<Message<'a>>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    refusal: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Debug, Deserialize)]
struct ToolCall<'a> {
    #[serde(default, borrow)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    arguments: Option<Cow<'a, str>>,
}

impl<'a> Answer<'a> {
    /// Reads JSON; `None` for what is none, or has another form.
    pub(crate) fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The usage that it tells.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage.and_then(Told::usage)
    }

    /// Whether it tells of an error instead.
    pub(crate) fn is_error(&self) -> bool {
        self.error.is_some_and(|error| error.get() != "null")
    }

    /// Whether it is the part of a stream that tells the usage and nothing else.
    pub(crate) fn is_usage_alone(&self) -> bool {
        self.choices.is_empty() && self.usage.is_some()
    }

    /// The texts that a model produced.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.choices.iter().filter_map(|choice| choice.delta.as_ref()).flat_map(Message::texts)
    }
}

impl Message<'_> {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let own = [&self.content, &self.refusal, &self.reasoning_content];
        let functions = self.tool_calls.iter().flatten().filter_map(|call| call.function.as_ref());
        let called = functions.flat_map(|function| [&function.name, &function.arguments]);
        own.into_iter().chain(called).filter_map(|text| text.as_deref())
    }
}

/// What was produced so far, to be counted if the upstream does not tell its usage.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    text: String,
    told: Option<Usage>,
}

impl Produced {
    /// Adds a whole answer or one event.
    pub(crate) fn add(&mut self, answer: &Answer<'_>) {
        answer.texts().for_each(|text| self.text.push_str(text));
        // Some upstreams tell it with every event: the last counts.
        if let Some(usage) = answer.usage() {
            self.told = Some(usage);
        }
    }

    /// The upstream's own usage if it came, else the prompt and the text that was produced, counted.
    pub(crate) async fn usage(self, prompt_tokens: u64, tokenizer: Tokenizer) -> Usage {
        if let Some(told) = self.told {
            return told;
        }
        let completion = tokenizer.count_apart(self.text).await;
        Usage { prompt: prompt_tokens, cached: 0, completion }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn produced(events: &[&str]) -> Produced {
        let mut produced = Produced::default();
        for event in events {
            produced.add(&Answer::read(event.as_bytes()).unwrap());
        }
        produced
    }

    #[test]
    fn texts_of_all_kinds_are_produced() {
        let produced = produced(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":"a\nb"}},{"message":{"content":"c","refusal":"d"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{}}]}"#,
            r#"{"data":[{"embedding":[0.5]}]}"#,
        ]);
        assert_eq!(produced.text, "a\nbcdf{}");
        assert!(produced.told.is_none());
    }

    #[tokio::test]
    async fn the_upstreams_own_usage_counts_when_it_can_be() {
        let told = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}"#;
        assert!(Answer::read(told.as_bytes()).unwrap().is_usage_alone());
        let usage = produced(&[told]).usage(9, Tokenizer::O200kBase).await;
        assert_eq!(usage, Usage { prompt: 5, cached: 3, completion: 2 });
        let absurd = r#"{"usage":{"prompt_tokens":5,"completion_tokens":9999999999999999}}"#;
        let usage = produced(&[absurd]).usage(9, Tokenizer::O200kBase).await;
        assert_eq!(usage, Usage { prompt: 9, cached: 0, completion: 0 });
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for garbage in ["", "<html>", "[", "[1]", r#"{"choices":1}"#, r#"{"usage":{"prompt_tokens":-1}}"#] {
            assert!(Answer::read(garbage.as_bytes()).is_none(), "{garbage}");
        }
        assert!(Answer::read(br#"{"error":{"message":"x"}}"#).unwrap().is_error());
        assert!(!Answer::read(br#"{"error":null}"#).unwrap().is_error());
    }
}
