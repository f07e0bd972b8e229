//! Readers of the values of operators' flags. Each refusal says what is accepted.

/// A SHA-1 as `peek` and `quarantine` show it.
pub(crate) fn sha1(text: &str) -> Result<String, String> {
    let digits = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| text.to_ascii_lowercase()).ok_or_else(|| "40 hexadecimal digits are accepted".to_owned())
}

/// Why entries were moved aside.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    let fits = (1..=128).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
        .ok_or_else(|| "a text of 1 to 128 bytes without control characters is accepted".to_owned())
}
