//! Just enough of the Redis protocol (RESP2) to ask a server whether it is there, and to tidy up in it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use url::Url;

const TIMEOUT: Duration = Duration::from_secs(2);

/// The longest reply that is believed; `INFO server` takes about one KiB.
const LONGEST: usize = 1 << 20;

/// The most items, nested ones included, that are believed.
const MOST: usize = 100_000;

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A blocking connection to one Redis server.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

impl Connection {
    /// Connects to a `redis://` URL and authenticates if it holds a password.
    pub(crate) fn open(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|e| format!("not a URL: {e}"))?;
        if url.scheme() != "redis" {
            return Err(format!("scheme {:?}: only redis:// over TCP is understood here", url.scheme()));
        }
        let host = url.host_str().unwrap_or("127.0.0.1").trim_matches(['[', ']']);
        let port = url.port().unwrap_or(6379);
        let stream = connect(host, port).map_err(|e| format!("{host}:{port}: {e}"))?;
        let mut connection = Self { stream: BufReader::new(Box::new(stream)) };
        if let Some(password) = url.password() {
            let (user, password) = (decoded(url.username()), decoded(password));
            let mut auth: Vec<&[u8]> = vec![b"AUTH"];
            if !user.is_empty() {
                auth.push(&user);
            }
            auth.push(&password);
            connection.call(&auth)?;
        }
        if let Some(database) = url.path().strip_prefix('/').filter(|database| !database.is_empty()) {
            connection.call(&[b"SELECT", database.as_bytes()])?;
        }
        Ok(connection)
    }

    /// Connects to a server's Unix socket.
    pub(crate) fn open_socket(path: &Path, password: Option<&str>) -> Result<Self, String> {
        let open = || -> io::Result<UnixStream> {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        };
        let stream = open().map_err(|e| format!("{}: {e}", path.display()))?;
        let mut connection = Self { stream: BufReader::new(Box::new(stream)) };
        if let Some(password) = password {
            connection.call(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(connection)
    }

    /// Sends one command and returns its reply: the text of a status, an integer or a string, empty for nil. Errors
    /// of the server are errors here.
    pub(crate) fn call(&mut self, command: &[&[u8]]) -> Result<String, String> {
        let items = self.list(command)?;
        match items.as_slice() {
            [item] => Ok(String::from_utf8_lossy(item).into_owned()),
            _ => Err(format!("a list of {} items instead of one reply", items.len())),
        }
    }

    /// Sends one command and returns every item of its reply, in order, without the lists' structure.
    pub(crate) fn list(&mut self, command: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            request.extend(format!("${}\r\n", part.len()).bytes());
            request.extend_from_slice(part);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).map_err(|e| e.to_string())?;
        let mut items = Vec::new();
        read_reply(&mut self.stream, &mut items)?;
        Ok(items)
    }

    /// One line of a section of `INFO`.
    pub(crate) fn info(&mut self, section: &str, field: &str) -> Result<Option<String>, String> {
        let info = self.call(&[b"INFO", section.as_bytes()])?;
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.map(|value| value.trim().to_owned()))
    }

    /// Deletes every key of the selected database that begins with `prefix`, which must hold no pattern characters.
    pub(crate) fn delete_by_prefix(&mut self, prefix: &str) -> Result<(), String> {
        const STEP: &[u8] = b"local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 1000) \
            if #page[2] > 0 then redis.call('UNLINK', unpack(page[2])) end \
            return page[1]";
        let pattern = format!("{prefix}*");
        let mut cursor = String::from("0");
        loop {
            cursor = self.call(&[b"EVAL", STEP, b"0", cursor.as_bytes(), pattern.as_bytes()])?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match connect_to(address) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Appends the items of one reply. `open` counts the items that are still to come, of whatever list.
fn read_reply(from: &mut impl BufRead, items: &mut Vec<Vec<u8>>) -> Result<(), String> {
    let mut open = 1_usize;
    while open > 0 {
        open -= 1;
        let mut line = String::new();
        from.by_ref().take(4096).read_line(&mut line).map_err(|e| e.to_string())?;
        let Some(text) = line.strip_suffix("\r\n") else {
            return Err("the connection ended in a reply".into());
        };
        let mut kind = text.chars();
        match (kind.next(), kind.as_str()) {
            (Some('+' | ':'), text) => items.push(text.into()),
            (Some('-'), text) => return Err(text.to_owned()),
            (Some('$'), "-1") => items.push(Vec::new()),
            (Some('$'), length) => items.push(read_string(from, length)?),
            (Some('*'), "-1") => {}
            (Some('*'), count) => {
                let count: usize = count.parse().map_err(|_| "a list without a length")?;
                open = open.saturating_add(count);
            }
            _ => return Err("not a Redis reply".into()),
        }
        if items.len().saturating_add(open) > MOST {
            return Err(format!("a reply of more than {MOST} items"));
        }
    }
    Ok(())
}

fn read_string(from: &mut impl BufRead, length: &str) -> Result<Vec<u8>, String> {
    let length: usize = length.parse().map_err(|_| "a string without a length")?;
    if length > LONGEST {
        return Err(format!("a reply of {length} bytes"));
    }
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes).map_err(|e| e.to_string())?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Undoes percent encoding.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| byte == b'%') {
            Some(value) => {
                plain.push(value);
                at += 3;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_is_read() {
        let read = |text: &str| {
            let mut items = Vec::new();
            read_reply(&mut text.as_bytes(), &mut items)?;
            let text = |item| String::from_utf8(item).unwrap();
            Ok::<_, String>(items.into_iter().map(text).collect::<Vec<_>>().join(","))
        };
        assert_eq!(read("+PONG\r\n"), Ok("PONG".into()));
        assert_eq!(read(":42\r\n"), Ok("42".into()));
        assert_eq!(read("$5\r\na\r\nbc\r\n"), Ok("a\r\nbc".into()));
        assert_eq!(read("$-1\r\n"), Ok(String::new()));
        assert_eq!(read("*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n+b\r\n"), Ok("1,a,b".into()));
        assert_eq!(read("*-1\r\n"), Ok(String::new()));
        assert_eq!(read("-LOADING wait\r\n"), Err("LOADING wait".into()));
        for broken in [
            "*2\r\n:1\r\n",
            "*99999999999\r\n",
            "",
            "+PONG",
            "HTTP/1.1 400\r\n",
            "$9\r\nshort\r\n",
            "$x\r\n",
            "$99999999999\r\n",
        ] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn deleting_by_prefix_spares_every_other_key() {
        let server = crate::RedisServer::builder().start().unwrap();
        let mut redis = Connection::open(&format!("{}3", server.url())).unwrap();
        for n in 0..2500 {
            redis.call(&[b"SET", format!("t1x1:{{{n}}}").as_bytes(), b""]).unwrap();
        }
        for spared in ["t1x", "t1x2", "other", "a:t1x1"] {
            redis.call(&[b"SET", spared.as_bytes(), b""]).unwrap();
        }
        redis.delete_by_prefix("t1x1").unwrap();
        assert_eq!(redis.call(&[b"DBSIZE"]), Ok("4".into()));
    }

    #[test]
    fn percent_encoding_is_undone_and_lone_percent_signs_stay() {
        assert_eq!(decoded("a%20b%C3%A9"), "a bé".as_bytes());
        assert_eq!(decoded("50%"), b"50%");
        assert_eq!(decoded("%+1%zz"), b"%+1%zz");
        assert_eq!(decoded("é%2F"), "é/".as_bytes());
    }
}
