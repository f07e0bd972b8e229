//! What a client asks for: the few fields of its body that decisions need, checked. All others go to the upstream unchanged.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::config::{Config, Kind, Model};
use crate::error::ApiError;
use crate::estimate;
use crate::fields::{Fields, Text, quoted, write_field};

/// The most answers to one prompt, as OpenAI has it.
const MAX_ANSWERS: u64 = 128;
/// The longest name that a conversation may be told apart by, in bytes; of longer ones only so much counts.
const MAX_CONVERSATION_BYTES: usize = 256;

/// A request that was understood.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The model.
    pub(crate) model: Arc<Model>,
    /// Whether the answer is a stream.
    pub(crate) stream: bool,
    /// Whether the client wants to see the usage at the end of a stream.
    pub(crate) include_usage: bool,
    /// The tokens of the prompt.
    pub(crate) prompt_tokens: u64,
    /// The most tokens of all answers together.
    pub(crate) most_output: u64,
    /// What tells this conversation from others of the same key.
    pub(crate) conversation: Option<Box<str>>,
    /// The body for an upstream, without its model and its end.
    body: Vec<u8>,
}

impl Asked {
    /// Reads a body. Takes time in proportion to it, since its text is counted.
    pub(crate) fn read(kind: Kind, body: &Bytes, config: &Config) -> Result<Self, ApiError> {
        let fields: Fields<'_> = serde_json::from_slice(body)
            .map_err(|error| ApiError::invalid_json(error.line(), error.column()))?;
        let model = model(&fields, kind, config)?;
        match kind {
            Kind::Chat => Self::chat(model, &fields, body.len()),
            Kind::Embedding => Self::embedding(model, &fields, body.len()),
        }
    }

    fn chat(model: Arc<Model>, fields: &Fields<'_>, length: usize) -> Result<Self, ApiError> {
        let stream = flag(fields, "stream")?;
        let include_usage = include_usage(fields, stream)?;
        let answers = count(fields, "n", MAX_ANSWERS)?.unwrap_or(1);
        let bound = match count(fields, "max_completion_tokens", u64::MAX)? {
            Some(bound) => Some(bound),
            None => count(fields, "max_tokens", u64::MAX)?,
        };
        let prompt_tokens = estimate::chat(model.tokenizer, fields)?;
        let room = room(&model, "messages", prompt_tokens)?;
        let most_each = bound.unwrap_or(model.default_max_tokens).min(room);

        // What is written here is not there already, be it as `null`.
        let mut ours = vec!["model", "stream_options"];
        ours.extend(bound.is_none().then_some("max_completion_tokens"));
        let mut body = fields.write_without(&ours, length + 128);
        if stream {
            write_field(&mut body, "stream_options", &stream_options(fields));
        }
        if bound.is_none() {
            // Else the estimate would bound nothing.
            write_field(&mut body, "max_completion_tokens", &most_each.to_string());
        }
        Ok(Self {
            stream,
            include_usage,
            prompt_tokens,
            most_output: most_each.saturating_mul(answers),
            conversation: conversation(fields),
            model,
            body,
        })
    }

    fn embedding(model: Arc<Model>, fields: &Fields<'_>, length: usize) -> Result<Self, ApiError> {
        let prompt_tokens = estimate::embedding(model.tokenizer, fields)?;
        Ok(Self {
            stream: false,
            include_usage: false,
            prompt_tokens,
            most_output: 0,
            conversation: conversation(fields),
            body: fields.write_without(&["model"], length + 128),
            model,
        })
    }

    /// The most tokens that the request can take.
    pub(crate) const fn estimate(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.most_output)
    }

    /// The body for an upstream that calls the model so.
    pub(crate) fn body_for(&self, upstream_model: &str) -> Bytes {
        let mut body = Vec::with_capacity(self.body.len() + upstream_model.len() + 16);
        body.extend_from_slice(&self.body);
        write_field(&mut body, "model", &quoted(upstream_model));
        body.push(b'}');
        body.into()
    }
}

fn model(fields: &Fields<'_>, kind: Kind, config: &Config) -> Result<Arc<Model>, ApiError> {
    let name =
        fields.read::<String>("model").ok_or_else(|| ApiError::invalid("model", "A model must be named."))?;
    let name = name.map_err(|_| ApiError::invalid("model", "The model's name must be a string."))?;
    if name.len() > spend_queue::MAX_ID_BYTES {
        return Err(ApiError::invalid("model", "No model has such a long name."));
    }
    let model = config.model(&name).filter(|model| model.kind == kind);
    model.cloned().ok_or_else(|| ApiError::model_not_found(&name))
}

fn flag(fields: &Fields<'_>, name: &'static str) -> Result<bool, ApiError> {
    let told = fields.read::<bool>(name).transpose();
    told.map(Option::unwrap_or_default)
        .map_err(|_| ApiError::invalid(name, format!("{name} must be true or false.")))
}

/// A count of 1 or more.
fn count(fields: &Fields<'_>, name: &'static str, most: u64) -> Result<Option<u64>, ApiError> {
    let Some(told) = fields.read::<u64>(name) else { return Ok(None) };
    match told {
        Ok(told @ 1..) if told <= most => Ok(Some(told)),
        _ if most == u64::MAX => {
            Err(ApiError::invalid(name, format!("{name} must be a whole number of 1 or more.")))
        }
        _ => Err(ApiError::invalid(name, format!("{name} must be a whole number from 1 to {most}."))),
    }
}

fn include_usage(fields: &Fields<'_>, stream: bool) -> Result<bool, ApiError> {
    const NAME: &str = "stream_options";
    let Some(given) = fields.get(NAME) else { return Ok(false) };
    if !stream {
        return Err(ApiError::invalid(NAME, "stream_options is for streams only."));
    }
    let options = serde_json::from_str::<Fields<'_>>(given.get());
    let options = options.map_err(|_| ApiError::invalid(NAME, "stream_options must be an object."))?;
    let wanted = options.read::<bool>("include_usage").transpose();
    wanted
        .map(Option::unwrap_or_default)
        .map_err(|_| ApiError::invalid(NAME, "stream_options.include_usage must be true or false."))
}

/// The client's options, and the usage that the bill needs.
fn stream_options(fields: &Fields<'_>) -> String {
    let given = fields.get("stream_options").map_or("{}", RawValue::get);
    let options: Fields<'_> = serde_json::from_str(given).unwrap_or_default();
    let mut out = options.write_without(&["include_usage"], given.len() + 24);
    write_field(&mut out, "include_usage", "true");
    out.push(b'}');
    // Put together of texts.
    String::from_utf8(out).unwrap_or_default()
}

fn room(model: &Model, param: &'static str, prompt: u64) -> Result<u64, ApiError> {
    match model.context_tokens.checked_sub(prompt) {
        Some(room @ 1..) => Ok(room),
        _ => Err(ApiError::too_long_for_the_model(param, prompt, model.context_tokens)),
    }
}

/// What clients tell upstreams' caches by; a value of another type is the upstream's to refuse.
fn conversation(fields: &Fields<'_>) -> Option<Box<str>> {
    ["prompt_cache_key", "user"].into_iter().find_map(|name| {
        let Text(text) = serde_json::from_str(fields.get(name)?.get()).ok()?;
        let end = text.floor_char_boundary(MAX_CONVERSATION_BYTES);
        (!text.is_empty()).then(|| text[..end].into())
    })
}
