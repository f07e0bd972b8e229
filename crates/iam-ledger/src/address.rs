//! Reading a connection URL without ever repeating a part of it that may be the password.

use std::net::IpAddr;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use crate::LedgerError;

/// The parameters that sqlx understands. It logs others together with their values, so they are refused before it
/// sees them.
const PARAMETERS: [&str; 17] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
];

/// A database's address, and how to name it to people.
pub(crate) struct Address {
    pub(crate) options: PgConnectOptions,
    pub(crate) target: String,
}

impl Address {
    pub(crate) fn parse(secret: &SecretString) -> Result<Self, LedgerError> {
        let refused = |reason: String| LedgerError::Url(reason);
        let text = secret.expose_secret();
        let url = Url::parse(text).map_err(|error| refused(format!("not a URL ({error})")))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(refused("must begin with postgres:// or postgresql://".to_owned()));
        }
        // An unescaped delimiter inside a password moves the rest of it into the path, the query or the fragment.
        if url.fragment().is_some()
            || url.path().contains(['@', ':'])
            || url.query().is_some_and(|q| q.contains('@'))
        {
            return Err(refused(
                "holds a delimiter in the wrong place; write / ? # @ : in a password as %2F %3F %23 %40 %3A"
                    .to_owned(),
            ));
        }
        for (position, (key, value)) in url.query_pairs().enumerate() {
            check_parameter(position + 1, &key, &value).map_err(refused)?;
        }
        let options = PgConnectOptions::from_str(text)
            .map_err(|_| refused("user, password, host or database is not valid UTF-8".to_owned()))?;
        let database = options.get_database().unwrap_or(options.get_username()).to_owned();
        let target = match options.get_socket() {
            Some(folder) => format!("{}:{}/{database}", folder.display(), options.get_port()),
            None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
        };
        Ok(Self { options, target })
    }
}

fn check_parameter(position: usize, key: &str, value: &str) -> Result<(), String> {
    let known =
        PARAMETERS.contains(&key) || key == "options" || (key.starts_with("options[") && key.ends_with(']'));
    if !known {
        return Err(format!(
            "its parameter number {position} is unknown; known are {}",
            PARAMETERS.join(", ")
        ));
    }
    let usable = match key {
        "sslmode" | "ssl-mode" => value.parse::<PgSslMode>().is_ok(),
        "port" => value.parse::<u16>().is_ok(),
        "hostaddr" => value.parse::<IpAddr>().is_ok(),
        "statement-cache-capacity" => value.parse::<usize>().is_ok(),
        _ => true,
    };
    if usable { Ok(()) } else { Err(format!("its parameter {key} has a value that cannot be used")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "canary";

    fn refused(url: &str) -> String {
        match Address::parse(&url.into()) {
            Ok(address) => panic!("{url} was read as {}", address.target),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_target_names_host_port_and_database_only() {
        for (url, target) in [
            ("postgres://app:canary@db.example:6432/ledger", "db.example:6432/ledger"),
            ("postgresql://app:canary@[::1]/ledger?sslmode=require", "[::1]:5432/ledger"),
            ("postgres:///ledger?host=/run/pg&port=5433&user=app&password=canary", "/run/pg:5433/ledger"),
            ("postgres://app:can%40ary%2F@localhost:1/x?options[search_path]=y", "localhost:1/x"),
        ] {
            assert_eq!(Address::parse(&url.into()).map(|address| address.target).unwrap(), target);
        }
    }

    #[test]
    fn a_refused_url_is_explained_without_repeating_it() {
        for (url, reason) in [
            ("canary", "not a URL"),
            ("mysql://app:canary@host/db", "must begin with"),
            ("postgres://app:pass/canary@host/db", "not a URL"),
            ("postgres://app:12/canary@host/db", "delimiter"),
            ("postgres://app:12?canary@host/db", "delimiter"),
            ("postgres://app:12#canary@host/db", "delimiter"),
            ("postgres://app:x@host/db?token=canary", "parameter number 1 is unknown"),
            ("postgres://app:x@host/db?sslmode=disable&canary=1", "parameter number 2 is unknown"),
            ("postgres://app:x@host/db?sslmode=canary", "sslmode has a value"),
            ("postgres://app:canary@host:99999/db", "not a URL"),
        ] {
            let message = refused(url);
            assert!(message.contains(reason), "{url}: {message}");
            assert!(!message.contains(CANARY), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
    }
}
