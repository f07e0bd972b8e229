//! The tables `[[models]]` and `[[models.deployments]]`.

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use serde::Deserialize;
use url::Url;

use super::ConfigError;
use crate::price::{Prices, TokenPrice};
use crate::tokenizer::Tokenizer;

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `POST /v1/chat/completions`.
    #[default]
    Chat,
    /// `POST /v1/embeddings`.
    Embedding,
}

/// A model that clients may name, and who runs it.
#[derive(Debug, Clone)]
pub struct Model {
    /// What clients call it: 1 to 128 bytes.
    pub name: Arc<str>,
    /// What it is asked for.
    pub kind: Kind,
    /// How its text is counted.
    pub tokenizer: Tokenizer,
    /// The most tokens of an answer when the client names no bound: told to the upstream, so that the estimate is one.
    pub default_max_tokens: u64,
    /// The most tokens of prompt and answer together.
    pub context_tokens: u64,
    /// Who runs it; at least one.
    pub deployments: Vec<Arc<Deployment>>,
}

/// One upstream that runs a model.
#[derive(Debug)]
pub struct Deployment {
    /// Under which telemetry is kept: 1 to 128 bytes, the same in every gateway.
    pub id: Arc<str>,
    /// Where requests go.
    pub url: Url,
    /// What the upstream calls the model.
    pub upstream_model: Arc<str>,
    /// `Bearer` and the key, marked as sensitive so that it is not printed.
    pub authorization: Option<HeaderValue>,
    /// What it costs.
    pub prices: Prices,
}

impl Kind {
    /// The word that configuration, bills and metrics use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
        }
    }

    /// The end of its path, on both sides.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Embedding => "embeddings",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    name: String,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    tokenizer: Tokenizer,
    #[serde(default = "default_max_tokens")]
    default_max_tokens: u64,
    #[serde(default = "context_tokens")]
    context_tokens: u64,
    #[serde(default)]
    deployments: Vec<WrittenDeployment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDeployment {
    id: String,
    base_url: String,
    upstream_model: Option<String>,
    api_key_env: Option<String>,
    input_usd_per_million: TokenPrice,
    cached_input_usd_per_million: Option<TokenPrice>,
    #[serde(default)]
    output_usd_per_million: TokenPrice,
}

const fn default_max_tokens() -> u64 {
    1_024
}

const fn context_tokens() -> u64 {
    128_000
}

impl Written {
    pub(super) fn check(self, environment: &impl Fn(&str) -> Option<String>) -> Result<Model, ConfigError> {
        let place = format!("model {:?}", self.name);
        check_id(&place, &self.name)?;
        if !(1..=1 << 30).contains(&self.context_tokens) {
            return Err(ConfigError::value(place, "context_tokens: 1 to 2^30 are possible"));
        }
        if !(1..=self.context_tokens).contains(&self.default_max_tokens) {
            return Err(ConfigError::value(place, "default_max_tokens: 1 to context_tokens are possible"));
        }
        if self.deployments.is_empty() {
            return Err(ConfigError::value(place, "at least one [[models.deployments]] is needed"));
        }
        let deployments = self.deployments.into_iter();
        let deployments =
            deployments.map(|deployment| deployment.check(self.kind, &self.name, environment).map(Arc::new));
        Ok(Model {
            deployments: deployments.collect::<Result<_, _>>()?,
            name: self.name.into(),
            kind: self.kind,
            tokenizer: self.tokenizer,
            default_max_tokens: self.default_max_tokens,
            context_tokens: self.context_tokens,
        })
    }
}

impl WrittenDeployment {
    fn check(
        self,
        kind: Kind,
        model: &str,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Result<Deployment, ConfigError> {
        let place = format!("deployment {:?}", self.id);
        let refuse = |problem: String| ConfigError::value(&*place, problem);
        check_id(&place, &self.id)?;
        let authorization = match &self.api_key_env {
            None => None,
            Some(name) => {
                let key = environment(name)
                    .filter(|key| !key.is_empty())
                    .ok_or_else(|| refuse(format!("api_key_env: the variable {name} is not set")))?;
                let mut header = HeaderValue::from_str(&format!("Bearer {key}"))
                    .map_err(|_| refuse(format!("api_key_env: {name} holds what no header can")))?;
                header.set_sensitive(true);
                Some(header)
            }
        };
        Ok(Deployment {
            url: upstream(&self.base_url, kind).map_err(|problem| refuse(format!("base_url {problem}")))?,
            upstream_model: self.upstream_model.as_deref().unwrap_or(model).into(),
            authorization,
            prices: Prices {
                input: self.input_usd_per_million,
                cached_input: self.cached_input_usd_per_million.unwrap_or(self.input_usd_per_million),
                output: self.output_usd_per_million,
            },
            id: self.id.into(),
        })
    }
}

fn upstream(base: &str, kind: Kind) -> Result<Url, &'static str> {
    let form = "must be an http or https URL, such as http://127.0.0.1:9101/v1";
    let base = Url::parse(base.trim_end_matches('/')).map_err(|_| form)?;
    if !["http", "https"].contains(&base.scheme()) || base.host_str().is_none() {
        return Err(form);
    }
    if !base.username().is_empty() || base.password().is_some() || base.query().is_some() {
        return Err("must not hold credentials or a query: a key belongs into api_key_env");
    }
    Url::parse(&format!("{}/{}", base.as_str().trim_end_matches('/'), kind.path())).map_err(|_| form)
}

fn check_id(place: &str, id: &str) -> Result<(), ConfigError> {
    if id.is_empty() || id.len() > spend_queue::MAX_ID_BYTES || id.chars().any(char::is_control) {
        let most = spend_queue::MAX_ID_BYTES;
        return Err(ConfigError::value(
            place,
            format!("a name has 1 to {most} bytes and no control character"),
        ));
    }
    Ok(())
}
