//! The server's own secret, under which keys' secrets are stored.

use core::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// The shortest pepper, in bytes: as long as what HMAC-SHA-256 gives (RFC 2104, section 3).
pub const MIN_PEPPER_BYTES: usize = 32;

/// What the server mixes into every secret before it is stored: without it, a copy of the database proves nothing about
/// any secret. It comes from a secret store, is the same on every host, and is never written to the database.
///
/// It does not print. Clones share one value, which is wiped when the last one goes. Another pepper makes every stored
/// secret unknown.
#[derive(Clone)]
pub struct Pepper(Arc<Hmac<Sha256>>);

/// The pepper is too short. It is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the pepper has {bytes} bytes; at least {MIN_PEPPER_BYTES} random ones are needed")]
pub struct PepperTooShort {
    /// How many it has.
    pub bytes: usize,
}

/// HMAC-SHA-256 of a secret. All that the database and the caches know of one; equal only in constant time where the
/// answer matters. It does not print either, since it is enough to be found in a dump.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SecretHmac([u8; 32]);

impl Pepper {
    /// A pepper of at least [`MIN_PEPPER_BYTES`] random bytes.
    ///
    /// # Errors
    ///
    /// [`PepperTooShort`].
    pub fn new(bytes: impl Into<SecretSlice<u8>>) -> Result<Self, PepperTooShort> {
        let bytes: SecretSlice<u8> = bytes.into();
        let bytes = bytes.expose_secret();
        let too_short = PepperTooShort { bytes: bytes.len() };
        if bytes.len() < MIN_PEPPER_BYTES {
            return Err(too_short);
        }
        // HMAC takes keys of every length, so that this cannot fail.
        Hmac::new_from_slice(bytes).map(|keyed| Self(Arc::new(keyed))).map_err(|_| too_short)
    }

    pub(crate) fn hmac(&self, secret: &str) -> SecretHmac {
        SecretHmac(Hmac::clone(&self.0).chain_update(secret.as_bytes()).finalize().into_bytes().into())
    }
}

impl SecretHmac {
    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares without telling by its duration where the difference is.
    pub(crate) fn matches(&self, stored: &[u8]) -> bool {
        self.0.ct_eq(stored).into()
    }
}

impl fmt::Debug for Pepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pepper([REDACTED])")
    }
}

impl fmt::Debug for SecretHmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHmac([REDACTED])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_pepper_is_refused_and_neither_prints() {
        assert_eq!(Pepper::new(vec![7; 31]).unwrap_err(), PepperTooShort { bytes: 31 });
        let pepper = Pepper::new(vec![7; 32]).unwrap();
        assert_eq!(format!("{pepper:?} {:?}", pepper.hmac("x")), "Pepper([REDACTED]) SecretHmac([REDACTED])");
    }

    #[test]
    fn it_is_hmac_sha_256() {
        // RFC 4231, test case 6, whose key is long enough.
        let pepper = Pepper::new(vec![0xaa; 131]).unwrap();
        let hmac = pepper.hmac("Test Using Larger Than Block-Size Key - Hash Key First");
        let hex: String = hmac.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        assert!(hmac.matches(hmac.as_bytes()) && !hmac.matches(&[0; 32]) && !hmac.matches(&[]));
    }
}
