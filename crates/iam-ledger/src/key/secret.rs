//! A key's secret: how it is made and what it looks like.

use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::zeroize::Zeroize;
use secrecy::{ExposeSecret, SecretString};

use crate::LedgerError;

/// What every secret begins with, so that people and scanners of leaked secrets recognise one.
pub const KEY_SECRET_PREFIX: &str = "tw_";
/// 256 bits: guessing one is hopeless, so that a plain HMAC and no slow hash protects it.
const RANDOM_BYTES: usize = 32;
/// Base64 without padding.
const ENCODED_CHARS: usize = (RANDOM_BYTES * 8).div_ceil(6);
/// The length of every secret.
const SECRET_CHARS: usize = KEY_SECRET_PREFIX.len() + ENCODED_CHARS;

/// The secret of a key: `tw_` and 43 characters of URL-safe base64, which hold 256 random bits of the operating system.
///
/// It is returned once, when it is made, and stored nowhere. It does not print and is wiped when dropped.
pub struct KeySecret(SecretString);

impl KeySecret {
    /// A new one.
    pub(super) fn generate() -> Result<Self, LedgerError> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| LedgerError::Entropy(error.to_string()))?;
        // Of its final length from the start, so that growing leaves no copy behind.
        let mut text = String::with_capacity(SECRET_CHARS);
        text.push_str(KEY_SECRET_PREFIX);
        URL_SAFE_NO_PAD.encode_string(random, &mut text);
        random.zeroize();
        Ok(Self(text.into()))
    }

    /// The secret, to be shown to its owner once.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<KeySecret> for SecretString {
    fn from(secret: KeySecret) -> Self {
        secret.0
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret([REDACTED])")
    }
}

/// Whether a text can be a secret at all. Length first, so that a long text costs nothing.
pub(super) fn is_well_formed(text: &str) -> bool {
    if text.len() != SECRET_CHARS {
        return false;
    }
    let Some(encoded) = text.strip_prefix(KEY_SECRET_PREFIX) else { return false };
    let mut decoded = [0; RANDOM_BYTES];
    // Strict: the bits of the last character that encode nothing must be zero, so that a secret has one spelling.
    let well_formed = URL_SAFE_NO_PAD.decode_slice(encoded, &mut decoded) == Ok(RANDOM_BYTES);
    decoded.zeroize();
    well_formed
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_secret_is_new_and_well_formed_and_does_not_print() {
        let secrets: HashSet<String> = (0..1000)
            .map(|_| {
                let secret = KeySecret::generate().unwrap();
                assert_eq!(format!("{secret:?}"), "KeySecret([REDACTED])");
                assert!(is_well_formed(secret.expose_secret()));
                secret.expose_secret().to_owned()
            })
            .collect();
        assert_eq!(secrets.len(), 1000);
    }

    #[test]
    fn another_spelling_of_the_same_bytes_is_none() {
        assert!(is_well_formed(&format!("tw_{}A", "A".repeat(42))));
        assert!(!is_well_formed(&format!("tw_{}B", "A".repeat(42))), "loose bits");
        assert!(!is_well_formed(&format!("tw_{}=", "A".repeat(42))), "padding");
        assert!(!is_well_formed(&format!("tw_{}+", "A".repeat(42))), "the other alphabet");
    }
}
