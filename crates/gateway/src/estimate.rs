//! How many tokens a prompt has.
//!
//! Chat models read 3 tokens before the answer and, for each message, 3 and those of its role and its text; a name takes one
//! and its own. Whatever else is part of a prompt (tools, calls of them, formats) is counted as it was written, which is more than
//! models make of it. A part that is no text counts [`MEDIA_TOKENS`].

use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::fields::{Fields, Text};
use crate::tokenizer::Tokenizer;

/// What an image, a sound or a file counts for. An upstream's own usage replaces it once there is an answer.
pub(crate) const MEDIA_TOKENS: u64 = 1_500;

/// Before the answer, and before each message.
const FRAME: u64 = 3;
/// Fields of a chat request that models read as text.
const READ_AS_TEXT: [&str; 3] = ["tools", "functions", "response_format"];

/// The tokens of a chat's prompt.
pub(crate) fn chat(tokenizer: Tokenizer, fields: &Fields<'_>) -> Result<u64, ApiError> {
    let bad = |what: &str| ApiError::invalid("messages", what);
    let messages = fields.get("messages").ok_or_else(|| bad("There must be messages."))?;
    let messages: Vec<Fields<'_>> =
        serde_json::from_str(messages.get()).map_err(|_| bad("messages must be a list of objects."))?;
    if messages.is_empty() {
        return Err(bad("There must be at least one message."));
    }
    let mut tokens = FRAME;
    for message in &messages {
        let role = message.read::<String>("role");
        let Some(Ok(role)) = role else { return Err(bad("Each message must have a role, a string.")) };
        tokens += FRAME + tokenizer.count(&role);
        for (name, value) in message.iter().filter(|(_, value)| value.get() != "null") {
            tokens += match name {
                "role" => 0,
                "content" => content(tokenizer, value).ok_or_else(|| {
                    bad("The content of a message must be a string or a list of parts with a type.")
                })?,
                "name" => {
                    1 + string(tokenizer, value)
                        .ok_or_else(|| bad("The name in a message must be a string."))?
                }
                _ => tokenizer.count(value.get()),
            };
        }
    }
    let others = READ_AS_TEXT.iter().filter_map(|name| fields.get(name));
    Ok(tokens + others.map(|value| tokenizer.count(value.get())).sum::<u64>())
}

/// The tokens of what is to be embedded: a text, a list of texts, a list of tokens, or a list of lists of tokens.
pub(crate) fn embedding(tokenizer: Tokenizer, fields: &Fields<'_>) -> Result<u64, ApiError> {
    let bad = |what: &str| ApiError::invalid("input", what);
    let input = fields.get("input").ok_or_else(|| bad("There must be an input."))?;
    if let Some(tokens) = string(tokenizer, input) {
        return Ok(tokens);
    }
    let wrong =
        || bad("input must be a string, a list of strings, a list of tokens, or a list of lists of tokens.");
    let items: Vec<&RawValue> = serde_json::from_str(input.get()).map_err(|_| wrong())?;
    if items.is_empty() {
        return Err(bad("There must be at least one input."));
    }
    // All items are of the kind of the first.
    let each: fn(Tokenizer, &RawValue) -> Option<u64> = match items[0].get().as_bytes().first() {
        Some(b'"') => string,
        Some(b'[') => {
            |_, item| serde_json::from_str::<Vec<u32>>(item.get()).ok().map(|tokens| length(tokens.len()))
        }
        _ => |_, item| serde_json::from_str::<u32>(item.get()).ok().map(|_| 1),
    };
    items.into_iter().try_fold(0, |sum, item| Ok(sum + each(tokenizer, item).ok_or_else(wrong)?))
}

fn content(tokenizer: Tokenizer, value: &RawValue) -> Option<u64> {
    if let Some(tokens) = string(tokenizer, value) {
        return Some(tokens);
    }
    let parts: Vec<Fields<'_>> = serde_json::from_str(value.get()).ok()?;
    parts.iter().try_fold(0, |sum, part| {
        let kind = part.read::<String>("type")?.ok()?;
        Some(
            sum + match &*kind {
                "text" | "refusal" => string(tokenizer, part.get(&kind)?)?,
                _ => MEDIA_TOKENS,
            },
        )
    })
}

fn string(tokenizer: Tokenizer, value: &RawValue) -> Option<u64> {
    let Text(text) = serde_json::from_str(value.get()).ok()?;
    Some(tokenizer.count(&text))
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
