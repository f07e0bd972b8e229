//! Single statements to a PostgreSQL server, from any thread.

use std::error::Error as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::resume_unwind;
use std::time::Duration;

use postgres::{Client, Config, NoTls};

use crate::error::{DevstackError, Result};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Runs statements that return nothing.
///
/// # Errors
///
/// [`DevstackError::Sql`], saying that it could not do `doing`.
pub(crate) fn execute(url: &str, doing: &str, sql: &str) -> Result<()> {
    with_client(url, doing, |client| client.batch_execute(sql))
}

/// The first column of the only row of a query, as text.
pub(crate) fn text(url: &str, doing: &str, sql: &str) -> Result<String> {
    with_client(url, doing, |client| client.query_one(sql, &[])?.try_get(0))
}

/// Whether the process that listens there speaks PostgreSQL's protocol: it answers the request for TLS with
/// one byte. The client library would wait for ever for a stranger that says nothing.
pub(crate) fn speaks(host: &str, port: u16) -> Result<(), String> {
    // A message of 8 bytes with the code 80877103; PostgreSQL's documentation, "Message Formats", SSLRequest.
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let ask = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect((host, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(&SSL_REQUEST)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    };
    match ask() {
        Ok(b'S' | b'N') => Ok(()),
        Ok(other) => Err(format!("the port does not speak PostgreSQL's protocol (byte {other})")),
        Err(error) => Err(error.to_string()),
    }
}

/// On a thread of its own: the client blocks on a runtime that it hides, which panics on a thread that already
/// drives one, as that of an async test does.
fn with_client<T: Send>(
    url: &str,
    doing: &str,
    work: impl FnOnce(&mut Client) -> std::result::Result<T, postgres::Error> + Send,
) -> Result<T> {
    let connect_and_work = || {
        let mut config: Config = url.parse()?;
        config.connect_timeout(CONNECT_WITHIN);
        work(&mut config.connect(NoTls)?)
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(connect_and_work).join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    result.map_err(|error| DevstackError::Sql { doing: doing.to_owned(), reason: reason(&error) })
}

/// The server's message instead of "db error"; the client's causes else.
fn reason(error: &postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{}: {}", db.severity(), db.message());
    }
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
