//! How text is counted.

use std::fmt;

use serde::Deserialize;
use tiktoken_rs::CoreBPE;

/// The vocabulary of a model. Loading one takes some tenths of a second and is done once a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// Of OpenAI's models since 2024.
    #[default]
    O200kBase,
    /// The same with the markers of open-weight models.
    O200kHarmony,
    /// Of OpenAI's models of 2023.
    Cl100kBase,
    /// Of older ones.
    P50kBase,
    /// Of the oldest.
    R50kBase,
}

/// What is counted within a millisecond or so, in bytes; longer texts are counted on a thread of their own.
pub(crate) const SHORT_BYTES: usize = 16 << 10;

impl Tokenizer {
    /// Loads the vocabulary, so that no request waits for it.
    pub fn load(self) {
        self.vocabulary();
    }

    /// The tokens of a text; markers in it are text like all other.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        u64::try_from(self.vocabulary().count_ordinary(text)).unwrap_or(u64::MAX)
    }

    /// [`Tokenizer::count`] that lets others work meanwhile when it may take long.
    pub async fn count_apart(self, text: String) -> u64 {
        if text.len() <= SHORT_BYTES {
            return self.count(&text);
        }
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        // No text has more tokens than bytes: too much rather than too little, should the count have died.
        tokio::task::spawn_blocking(move || self.count(&text)).await.unwrap_or(bytes)
    }

    fn vocabulary(self) -> &'static CoreBPE {
        match self {
            Self::O200kBase => tiktoken_rs::o200k_base_singleton(),
            Self::O200kHarmony => tiktoken_rs::o200k_harmony_singleton(),
            Self::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
            Self::P50kBase => tiktoken_rs::p50k_base_singleton(),
            Self::R50kBase => tiktoken_rs::r50k_base_singleton(),
        }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::O200kBase => "o200k_base",
            Self::O200kHarmony => "o200k_harmony",
            Self::Cl100kBase => "cl100k_base",
            Self::P50kBase => "p50k_base",
            Self::R50kBase => "r50k_base",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_counted_and_markers_are_text() {
        assert_eq!(Tokenizer::O200kBase.count("hello world"), 2);
        assert!(Tokenizer::O200kBase.count("<|endoftext|>") > 1);
        assert_eq!(Tokenizer::Cl100kBase.count(""), 0);
    }
}
