//! Streams of server-sent events, cut anywhere.

use bytes::Bytes;
use gateway::fuzzing::{data, events};

/// The first byte says how many bytes an event may have, the second how the rest is cut into chunks: the events are those
/// that the standard's line by line reading finds, whatever the chunks, and none is longer than the bound.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let [bound, cut, stream @ ..] = bytes else { return };
    let most = usize::from(*bound) + 1;
    let expected = reference(stream, most);
    for size in [stream.len().max(1), 1, usize::from(*cut) + 1] {
        assert_eq!(events(stream.chunks(size), most), expected, "in chunks of {size}");
    }
    for event in &expected.0 {
        assert_eq!(data(event), reference_data(event));
    }
    // Nothing is lost and nothing invented: the events are the stream's beginning.
    let joined: Vec<u8> = expected.0.iter().flatten().copied().collect();
    assert!(stream.starts_with(&joined));
}

/// Line by line over the whole stream.
fn reference(stream: &[u8], most: usize) -> (Vec<Bytes>, bool) {
    let (mut found, mut begin, mut at, mut line) = (Vec::new(), 0, 0, 0);
    while at < stream.len() {
        let end = match &stream[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => {
                (at, line) = (at + 1, line + 1);
                continue;
            }
        };
        at += end;
        if line == 0 {
            if at - begin > most {
                return (found, true);
            }
            found.push(Bytes::copy_from_slice(&stream[begin..at]));
            begin = at;
        }
        line = 0;
    }
    let rest = stream.len() - begin;
    (found, rest > most)
}

/// The data of an event as the standard puts it together: a line feed behind each data line, the last one taken off.
fn reference_data(event: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = event.to_vec();
    let mut buffer = Vec::new();
    let mut any = false;
    for line in text.split(|byte| *byte == b'\n' || *byte == b'\r') {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            None => (line, &b""[..]),
            Some(at) => (&line[..at], &line[at + 1..]),
        };
        if name == b"data" {
            any = true;
            buffer.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            buffer.push(b'\n');
        }
    }
    buffer.pop();
    any.then_some(buffer)
}
