//! Secrets of a command line: given as they are, or as a file that holds one, as Docker, Kubernetes and systemd hand them out.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use secrecy::{ExposeSecret, SecretString};

/// No URL and no pepper is longer, in bytes.
const LONGEST: u64 = 8192;

/// The two ways to give one secret: a flag or variable, or one with `-file` or `_FILE` that names where it stands.
#[derive(Debug, Clone, Copy)]
pub struct SecretSource<'a> {
    /// What it is, with its article left out: `PostgreSQL URL`.
    pub what: &'static str,
    /// What is accepted: `a PostgreSQL URL such as ...`.
    pub accepted: &'static str,
    /// The flag: `--database-url`.
    pub flag: &'static str,
    /// The variable: `TALLYWEIR_DATABASE_URL`.
    pub variable: &'static str,
    /// Whether a text can be one.
    pub is_one: fn(&str) -> bool,
    /// The secret, if it was given as it is.
    pub given: Option<&'a SecretString>,
    /// The file, if one was given.
    pub file: Option<&'a Path>,
}

impl SecretSource<'_> {
    /// The secret.
    ///
    /// # Errors
    ///
    /// In one line, without a word of the secret: none or both ways were used, the file cannot be read, or what it holds cannot be
    /// one.
    pub fn required(&self) -> Result<SecretString> {
        let Self { what, flag, variable, .. } = self;
        self.read()?.ok_or_else(|| {
            anyhow!(
                "no {what}: exactly one of {flag} ({variable}) and {flag}-file ({variable}_FILE) is accepted"
            )
        })
    }

    /// The secret, if one was given.
    ///
    /// # Errors
    ///
    /// As [`SecretSource::required`], but for none.
    pub fn read(&self) -> Result<Option<SecretString>> {
        let Self { what, accepted, flag, variable, is_one, .. } = self;
        match (self.given, self.file) {
            (Some(_), Some(_)) => bail!(
                "{flag} ({variable}) and {flag}-file ({variable}_FILE) are both given; exactly one of them is accepted"
            ),
            (Some(secret), None) if is_one(secret.expose_secret()) => Ok(Some(secret.clone())),
            (Some(_), None) => bail!("{flag} ({variable}): it is no {what}; {accepted} is accepted"),
            (None, Some(file)) => match self.held(file) {
                Ok(secret) => Ok(Some(secret)),
                Err(problem) => bail!(
                    "{flag}-file {}: {problem}; a file that holds one {what} and nothing else is accepted",
                    file.display()
                ),
            },
            (None, None) => Ok(None),
        }
    }

    /// The secret in a file, or what is wrong without a word of what the file holds.
    fn held(&self, file: &Path) -> Result<SecretString, String> {
        let mut text = String::new();
        let opened = File::open(file).map_err(|error| error.to_string())?;
        match opened.take(LONGEST + 1).read_to_string(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err("it is no UTF-8 text".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
        if u64::try_from(text.len()).is_ok_and(|length| length > LONGEST) {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        match text.trim() {
            "" => Err("it is empty".to_owned()),
            text if text.lines().count() > 1 => Err(format!("it has {} lines", text.lines().count())),
            text if !(self.is_one)(text) => Err(format!("it holds no {}", self.what)),
            text => Ok(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "postgres://u:canary@h/d";

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    fn source<'a>(given: Option<&'a SecretString>, file: Option<&'a Path>) -> SecretSource<'a> {
        SecretSource {
            what: "PostgreSQL URL",
            accepted: "a PostgreSQL URL such as postgres://user:password@host:port/database",
            flag: "--database-url",
            variable: "TALLYWEIR_DATABASE_URL",
            is_one: |text| text.contains("://"),
            given,
            file,
        }
    }

    #[test]
    fn a_url_comes_from_the_flag_or_from_a_file_whose_last_line_may_end() {
        for content in [CANARY.to_owned(), format!("{CANARY}\n"), format!(" {CANARY}\r\n\n")] {
            let file = file(content.as_bytes());
            let url = source(None, Some(file.path())).required().unwrap();
            assert_eq!(url.expose_secret(), CANARY);
        }
        let given = CANARY.into();
        assert_eq!(source(Some(&given), None).required().unwrap().expose_secret(), CANARY);
        assert!(source(None, None).read().unwrap().is_none());
    }

    #[test]
    fn both_ways_none_of_them_and_files_that_hold_no_url_are_refused_without_a_word_of_them() {
        let long = vec![b'c'; 9000];
        let sound = file(CANARY.as_bytes());
        let said = |source: SecretSource<'_>| {
            let text = source.required().unwrap_err().to_string();
            assert!(!text.contains("canary") && text.lines().count() == 1, "{text}");
            assert!(text.contains("--database-url") && text.contains("accepted"), "{text}");
            text
        };
        assert!(said(source(Some(&CANARY.into()), Some(sound.path()))).contains("both given"));
        assert!(said(source(None, None)).contains("TALLYWEIR_DATABASE_URL_FILE"));
        for nonsense in ["", "canary"] {
            assert!(said(source(Some(&nonsense.into()), None)).contains("such as postgres://"));
        }
        assert!(said(source(None, Some(Path::new("/nowhere/url")))).contains("/nowhere/url: No such file"));
        assert!(said(source(None, Some(Path::new("/")))).contains("directory"));
        for (content, problem) in [
            (&b" \n"[..], "it is empty"),
            (b"canary\ncanary\n", "it has 2 lines"),
            (b"canary\n", "it holds no PostgreSQL URL"),
            (b"\xff", "it is no UTF-8 text"),
            (&long, "it is longer than 8192 bytes"),
        ] {
            let file = file(content);
            let text = said(source(None, Some(file.path())));
            assert!(text.contains(problem), "{text}");
        }
    }
}
