//! What an operator decides: models, deployments, prices and limits, from one TOML file.
//!
//! Unknown fields are refused: a misspelt one would silently leave a default in force. Everything but the models has a
//! default.

mod limits;
mod model;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::Deserialize;
use thiserror::Error;

pub use limits::{Budget, BudgetMode, Limits, Routing};
pub use model::{Deployment, Kind, Model};

/// The whole file, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// How deployments are chosen.
    pub routing: Routing,
    /// Bounds on what clients and upstreams may do.
    pub limits: Limits,
    /// How budgets are kept.
    pub budget: Budget,
    /// What clients may ask for, by name; at least one.
    pub models: Vec<Arc<Model>>,
}

/// Why a file is no configuration. The text names the file or the place in it, and what is possible there; it holds no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No TOML, an unknown field, a field of another type, or a price that is none.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// A value that is out of its range, given twice, or refers to nothing.
    #[error("{place}: {problem}")]
    Value {
        /// Where it stands.
        place: String,
        /// What is wrong with it, with the bound.
        problem: String,
    },
}

impl ConfigError {
    pub(crate) fn value(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Value { place: place.into(), problem: problem.into() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    routing: Routing,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    budget: Budget,
    #[serde(default)]
    models: Vec<model::Written>,
}

impl Config {
    /// Reads and checks a file. Keys of upstreams are taken from the environment.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the first thing that is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, |name| std::env::var(name).ok())
    }

    /// Checks a text, with an environment to take keys from.
    ///
    /// # Errors
    ///
    /// As [`Config::read`].
    pub fn parse(text: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let Written { routing, limits, budget, models } = toml::from_str(text)?;
        routing.check()?;
        limits.check()?;
        budget.check()?;
        if models.is_empty() {
            return Err(ConfigError::value("models", "at least one [[models]] is needed"));
        }
        let models: Vec<_> = models
            .into_iter()
            .map(|model| model.check(&environment).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = models.iter().find(|model| !names.insert(&*model.name)) {
            return Err(ConfigError::value(format!("model {:?}", twice.name), "is there twice"));
        }
        let mut ids = BTreeSet::new();
        let mut deployments = models.iter().flat_map(|model| &model.deployments);
        if let Some(twice) = deployments.find(|deployment| !ids.insert(&*deployment.id)) {
            // Telemetry is kept by id, so two that share one would cool and slow each other.
            return Err(ConfigError::value(format!("deployment {:?}", twice.id), "is there twice"));
        }
        Ok(Self { routing, limits, budget, models })
    }

    /// The model of this name.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.iter().find(|model| &*model.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = r#"
        [[models]]
        name = "small"
        [[models.deployments]]
        id = "small-a"
        base_url = "http://127.0.0.1:9101/v1/"
        api_key_env = "UPSTREAM_KEY"
        input_usd_per_million = "0.15"
        output_usd_per_million = "0.60"
    "#;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, |name| (name == "UPSTREAM_KEY").then(|| "canary".to_owned()))
    }

    #[test]
    fn everything_but_the_models_has_a_default() {
        let config = parse(MODEL).unwrap();
        let model = config.model("small").unwrap();
        assert_eq!((model.kind, model.default_max_tokens, model.context_tokens), (Kind::Chat, 1024, 128_000));
        let deployment = &model.deployments[0];
        assert_eq!(&*deployment.upstream_model, "small");
        assert_eq!(deployment.prices.cached_input, deployment.prices.input);
        assert_eq!(deployment.url.as_str(), "http://127.0.0.1:9101/v1/chat/completions");
        assert_eq!(config.limits.body_bytes, 1 << 20);
        assert_eq!(config.budget.mode, BudgetMode::Check);
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let instead = |from: &str, to: &str| parse(&MODEL.replace(from, to)).unwrap_err().to_string();
        for (error, expected) in [
            (parse("").unwrap_err().to_string(), "at least one"),
            (parse(&format!("{MODEL}\n{MODEL}")).unwrap_err().to_string(), "is there twice"),
            (parse(&format!("[limits]\nbody_byte = 1\n{MODEL}")).unwrap_err().to_string(), "body_byte"),
            (parse(&format!("[limits]\nbody_bytes = 0\n{MODEL}")).unwrap_err().to_string(), "body_bytes"),
            (parse(&format!("[budget]\nmode = \"maybe\"\n{MODEL}")).unwrap_err().to_string(), "maybe"),
            (instead("\"0.15\"", "\"0.0000001\""), "picodollars"),
            (instead("\"0.15\"", "0.15"), "string"),
            (instead("http:", "ftp:"), "http"),
            (instead("//127", "//user:canary@127"), "must not hold"),
            (instead("UPSTREAM_KEY", "OTHER_KEY"), "OTHER_KEY"),
            (instead("name = \"small\"", "name = \"small\"\ntokenizer = \"gpt\""), "o200k_base"),
        ] {
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("canary@"), "{error}");
        }
    }
}
