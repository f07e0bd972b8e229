//! Server-sent events, as they come: where one ends, and what its data is. Bytes are passed on as they were sent, so events are cut
//! out of the stream and not rebuilt.
//!
//! The rules are those of the HTML standard, section 9.2.6: a line ends with LF, CR or CRLF, an event with an empty line.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

/// An event longer than the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts a stream into events, wherever its chunks end.
#[derive(Debug)]
pub(crate) struct Events {
    buffer: BytesMut,
    /// Where the line begins whose end is looked for.
    line: usize,
    /// What was looked through.
    seen: usize,
    most: usize,
}

impl Events {
    /// Events of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { buffer: BytesMut::new(), line: 0, seen: 0, most }
    }

    /// Adds what came.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event, its empty line included.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when it did not end within the bound, however much of it came at once.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        while let Some(end) = self.line_end() {
            if let Some(event) = self.line_ends(end) {
                return if event.len() > self.most { Err(TooLong) } else { Ok(Some(event)) };
            }
        }
        if self.buffer.len() > self.most { Err(TooLong) } else { Ok(None) }
    }

    /// What is left when the stream has ended: an event whose last line end was a lone CR. Anything else is no event.
    pub(crate) fn last(&mut self) -> Option<Bytes> {
        let whole = self.line + 1 == self.buffer.len() && self.buffer[self.line] == b'\r';
        whole.then(|| self.buffer.split().freeze())
    }

    /// Start and end of the next line's end; `None` when it has not come whole: after a CR an LF may follow.
    fn line_end(&mut self) -> Option<(usize, usize)> {
        let rest = &self.buffer[self.seen..];
        let Some(found) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.seen = self.buffer.len();
            return None;
        };
        let start = self.seen + found;
        if self.buffer[start] == b'\n' {
            return Some((start, start + 1));
        }
        self.seen = start;
        let next = self.buffer.get(start + 1)?;
        Some((start, start + 1 + usize::from(*next == b'\n')))
    }

    fn line_ends(&mut self, (start, end): (usize, usize)) -> Option<Bytes> {
        if start > self.line {
            (self.line, self.seen) = (end, end);
            return None;
        }
        (self.line, self.seen) = (0, 0);
        Some(self.buffer.split_to(end).freeze())
    }
}

/// The data of an event: its `data` lines, joined by LF. `None` when it has none: a comment that keeps a connection alive, or
/// an empty line.
pub(crate) fn data(event: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut lines = event.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(|line| {
        let value = line.strip_prefix(b"data")?;
        match value.split_first() {
            None => Some(value),
            Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
            Some(_) => None,
        }
    });
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Some(Cow::Borrowed(first)) };
    let mut joined = first.to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.push(b'\n');
        joined.extend_from_slice(line);
    }
    Some(Cow::Owned(joined))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut events = Events::new(1 << 20);
        let mut found = Vec::new();
        for chunk in chunks {
            events.push(chunk);
            while let Some(event) = events.next().unwrap() {
                found.push(event.to_vec());
            }
        }
        found.extend(events.last().map(|event| event.to_vec()));
        found
    }

    /// Line by line over the whole text, as the standard tells it.
    fn reference(text: &[u8]) -> Vec<Vec<u8>> {
        let (mut found, mut event, mut at, mut line) = (Vec::new(), Vec::new(), 0, 0);
        while at < text.len() {
            let end = match &text[at..] {
                [b'\r', b'\n', ..] => 2,
                [b'\r' | b'\n', ..] => 1,
                _ => {
                    event.push(text[at]);
                    (at, line) = (at + 1, line + 1);
                    continue;
                }
            };
            event.extend_from_slice(&text[at..at + end]);
            at += end;
            if line == 0 {
                found.push(std::mem::take(&mut event));
            }
            line = 0;
        }
        found
    }

    #[test]
    fn events_are_cut_at_empty_lines_of_any_kind() {
        let text = b"data: a\n\ndata: b\r\n\r\n: ping\r\rdata: c\n\ndata: half";
        let expected: [&[u8]; 4] = [b"data: a\n\n", b"data: b\r\n\r\n", b": ping\r\r", b"data: c\n\n"];
        assert_eq!(cut(&[text]), expected);
    }

    #[test]
    fn an_event_that_never_ends_is_refused() {
        let mut events = Events::new(10);
        events.push(b"data: 0123456789");
        assert_eq!(events.next(), Err(TooLong));
    }

    #[test]
    fn an_event_beyond_the_bound_is_refused_although_its_end_came_with_it() {
        let mut events = Events::new(10);
        events.push(b"data: 012345\n\n");
        assert_eq!(events.next(), Err(TooLong));
    }

    #[test]
    fn data_is_that_of_the_data_lines() {
        let text =
            |event: &str| data(event.as_bytes()).map(|data| String::from_utf8(data.into_owned()).unwrap());
        assert_eq!(text("data: {}\n\n").as_deref(), Some("{}"));
        assert_eq!(text("event: x\ndata:a\ndata:  b\r\ndata\nid: 1\n\n").as_deref(), Some("a\n b\n"));
        assert_eq!(text(": data: x\n\n"), None);
        assert_eq!(text("database: x\n\n"), None);
        assert_eq!(text("\n"), None);
    }

    proptest! {
        #[test]
        fn where_chunks_end_changes_nothing(
            text in prop::collection::vec(prop::sample::select(b"da:\r\n \xff".to_vec()), 0..60),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(cut(&chunks), reference(&text));
        }
    }
}
