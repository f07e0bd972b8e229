//! Names that never repeat, and passwords that nobody guesses.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{DevstackError, Result};

/// `<pid><separator><counter><separator><nanoseconds>`: unique among the processes of this machine, and, by the
/// time, among those that reuse a process id on a server that outlives them.
pub(crate) fn unique_suffix(separator: char) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos());
    format!("{}{separator}{count}{separator}{nanos}", std::process::id())
}

/// 128 random bits as 32 hexadecimal digits.
pub(crate) fn random_password() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(DevstackError::io("read /dev/urandom"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_and_passwords_never_repeat() {
        assert_ne!(unique_suffix('x'), unique_suffix('x'));
        let password = random_password().unwrap();
        assert_eq!(password.len(), 32);
        assert_ne!(password, random_password().unwrap());
    }
}
