//! What a call has used, as the upstream tells it or as it was counted.

use serde::Deserialize;

/// Tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt, cached ones included.
    pub prompt: u64,
    /// Of those, what the upstream had in its cache.
    pub cached: u64,
    /// Of the answer.
    pub completion: u64,
}

impl Usage {
    /// What counts against limits.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

/// `usage` of an answer, in the names of chat completions and embeddings.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Told {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl Told {
    /// The usage; `None` when it cannot be: no event holds more than 2^40 tokens.
    pub(crate) fn usage(self) -> Option<Usage> {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
        let (prompt, completion) = (self.prompt_tokens, self.completion_tokens);
        let plausible = [prompt, completion].iter().all(|&tokens| tokens <= spend_queue::MAX_TOKENS);
        plausible.then_some(Usage { prompt, cached: cached.min(prompt), completion })
    }
}
