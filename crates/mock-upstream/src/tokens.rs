//! Counting prompts, and answers whose length is known without counting.

use std::borrow::Cow;
use std::sync::LazyLock;

use tiktoken_rs::o200k_base_singleton;

/// The longest answer, in tokens.
pub const MAX_ANSWER_TOKENS: u32 = 131_072;
/// What each prompt counts beside its messages: the answer is primed with three tokens (OpenAI's own counting rule).
const PROMPT_TOKENS: u64 = 3;
/// What each message counts beside its role and text.
const MESSAGE_TOKENS: u64 = 3;

/// Each is one token with the blank before it (the first also without), and no two of them merge: the tokenizer splits before every blank.
const WORDS: [&str; 16] = [
    " the", " answer", " of", " this", " model", " is", " made", " from", " words", " that", " are", " one",
    " token", " each", " and", " nothing",
];

/// The longest answer's text.
static TEXT: LazyLock<String> =
    LazyLock::new(|| WORDS.iter().cycle().take(MAX_ANSWER_TOKENS as usize).copied().collect());

/// Bytes of one round of the words.
const ROUND_BYTES: usize = {
    let (mut bytes, mut index) = (0, 0);
    while index < WORDS.len() {
        bytes += WORDS[index].len();
        index += 1;
    }
    bytes
};

/// Tokens of a text in o200k_base. Texts that look like special tokens are text.
#[must_use]
pub fn count_text(text: &str) -> u64 {
    o200k_base_singleton().count_ordinary(text) as u64
}

/// Tokens of a prompt: 3, and for each message 3, its role's and its text's.
pub fn count_chat<'a>(messages: impl IntoIterator<Item = (&'a str, Cow<'a, str>)>) -> u64 {
    let message = |(role, text): (&str, Cow<'_, str>)| MESSAGE_TOKENS + count_text(role) + count_text(&text);
    PROMPT_TOKENS + messages.into_iter().map(message).sum::<u64>()
}

/// The answer's word at a position. The first has no blank before it.
pub(crate) fn word(position: u32) -> &'static str {
    let word = WORDS[position as usize % WORDS.len()];
    if position == 0 { word.trim_start() } else { word }
}

/// The first so many words, at most [`MAX_ANSWER_TOKENS`].
pub(crate) fn words(count: u32) -> &'static str {
    let count = count.min(MAX_ANSWER_TOKENS) as usize;
    let rest: usize = WORDS[..count % WORDS.len()].iter().map(|word| word.len()).sum();
    TEXT[..count / WORDS.len() * ROUND_BYTES + rest].trim_start()
}

/// Loads the tokenizer and the words, which takes a moment that no request should wait for.
pub(crate) fn load() {
    let _ = count_text("");
    LazyLock::force(&TEXT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_as_many_tokens_as_words() {
        for count in (0..70).chain([1000, 4096]) {
            assert_eq!(count_text(words(count)), u64::from(count));
            let joined: String = (0..count).map(word).collect();
            assert_eq!(joined, words(count));
        }
        assert_eq!(words(u32::MAX).len(), TEXT.len() - 1);
    }

    #[test]
    fn a_prompt_counts_its_frame_roles_and_texts() {
        // "user" and "Hello" are one token each.
        assert_eq!(count_chat([("user", "Hello".into())]), 3 + 3 + 1 + 1);
        assert_eq!(count_chat([]), 3);
        assert!(count_text("<|endoftext|>") > 1, "a special token in a text is text");
    }
}
