//! Where a request on HTTP/1.1 ends: followed only to find a line that ends in a bare line feed.
//!
//! hyper takes a line feed alone for the end of a line, as RFC 9112, 2.2 allows. A proxy before the box need not: for it
//! such a line goes on, so two readers see two different requests, and what one of them checks the other never reads. So
//! the first bare line feed of a head, of a chunk's size or of a trailer becomes a zero byte, which no line may have, and
//! the request is refused like any other that is malformed. Bodies pass untouched.

/// How much of a line is kept, without blanks behind a colon: enough for those that say how long a body is, and what they
/// say. One that is longer in its digits is refused, since another reader may take them for another number.
const LINE_BYTES_KEPT: usize = 96;
/// How HTTP/2 begins, which has no lines (RFC 9113, 3.4).
const HTTP_2: &[u8] = b"PRI * HTTP/2.0";

/// What comes next on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingState {
    FirstLine,
    HeaderLine,
    /// So many bytes of a body.
    Body(u64),
    ChunkSize,
    /// So many bytes of a chunk, and the end of its line.
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// Nobody looks any more: HTTP/2, or what will be refused.
    Unseen,
}

/// The lines of one connection, as its bytes arrive.
#[derive(Debug)]
pub(crate) struct Framing {
    next: FramingState,
    /// The beginning of the present line.
    line: Vec<u8>,
    /// The present line is longer than what is kept of it.
    is_cut: bool,
    /// The byte before.
    last: u8,
    length: u64,
    is_chunked: bool,
}

impl Framing {
    pub(crate) fn new() -> Framing {
        Framing {
            next: FramingState::FirstLine,
            line: Vec::new(),
            is_cut: false,
            last: 0,
            length: 0,
            is_chunked: false,
        }
    }

    /// Looks at the next bytes of the connection.
    pub(crate) fn follow(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.next {
                FramingState::Unseen => return,
                FramingState::Body(left) | FramingState::Chunk(left) => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    *left -= step as u64;
                    let is_over = *left == 0;
                    at += step;
                    if is_over {
                        self.next = match self.next {
                            FramingState::Chunk(_) => FramingState::ChunkEnd,
                            _ => FramingState::FirstLine,
                        };
                    }
                }
                _ => at = self.line(bytes, at),
            }
        }
    }

    /// Reads on in a line from `at`; gives the place after what it has read.
    fn line(&mut self, bytes: &mut [u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let end = memchr::memchr(b'\n', rest);
        let part = &rest[..end.unwrap_or(rest.len())];
        self.keep(part);
        self.last = part.last().copied().unwrap_or(self.last);
        let Some(end) = end else { return bytes.len() };
        if self.last != b'\r' {
            bytes[at + end] = 0;
            self.next = FramingState::Unseen;
            return bytes.len();
        }
        self.last = 0;
        if self.is_uncertain() {
            bytes[at + end] = 0;
            self.next = FramingState::Unseen;
            return bytes.len();
        }
        self.next = self.after_line();
        self.line.clear();
        self.is_cut = false;
        at + end + 1
    }

    /// Keeps the next part of a line, as far as there is room for it.
    fn keep(&mut self, part: &[u8]) {
        for byte in part {
            match byte {
                b' ' | b'\t' if self.line.last() == Some(&b':') => {}
                _ if self.line.len() == LINE_BYTES_KEPT => {
                    self.is_cut = true;
                    return;
                }
                byte => self.line.push(*byte),
            }
        }
    }

    /// Whether the line says how long something is, in more digits than are kept.
    fn is_uncertain(&self) -> bool {
        let number = match self.next {
            FramingState::HeaderLine => value(&self.line, b"content-length"),
            FramingState::ChunkSize => Some(self.line.as_slice()),
            _ => None,
        };
        let ends_in_digits = self.line.last().is_some_and(u8::is_ascii_hexdigit);
        let is_digits = |number: &[u8]| number.iter().all(u8::is_ascii_hexdigit);
        self.is_cut && ends_in_digits && number.is_some_and(is_digits)
    }

    fn after_line(&mut self) -> FramingState {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let is_empty = line.is_empty();
        match self.next {
            // Empty lines before a request are passed over (RFC 9112, 2.2).
            FramingState::FirstLine if is_empty => FramingState::FirstLine,
            FramingState::FirstLine if line.starts_with(HTTP_2) => FramingState::Unseen,
            FramingState::FirstLine => {
                (self.length, self.is_chunked) = (0, false);
                FramingState::HeaderLine
            }
            FramingState::HeaderLine if !is_empty => {
                if let Some(length) = value(line, b"content-length") {
                    // What is no number is refused by whoever reads it.
                    self.length = std::str::from_utf8(length).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
                } else if value(line, b"transfer-encoding").is_some() {
                    self.is_chunked = true;
                }
                FramingState::HeaderLine
            }
            FramingState::HeaderLine if self.is_chunked => FramingState::ChunkSize,
            FramingState::HeaderLine if self.length > 0 => FramingState::Body(self.length),
            FramingState::HeaderLine => FramingState::FirstLine,
            FramingState::ChunkSize => match chunk_size(line) {
                Some(0) => FramingState::Trailer,
                Some(size) => FramingState::Chunk(size),
                None => FramingState::Unseen,
            },
            FramingState::ChunkEnd => FramingState::ChunkSize,
            FramingState::Trailer if is_empty => FramingState::FirstLine,
            other => other,
        }
    }
}

/// The value of a header line, if it has this name.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (given, rest) = line.split_at_checked(name.len())?;
    let rest = rest.strip_prefix(b":")?;
    given.eq_ignore_ascii_case(name).then(|| rest.trim_ascii())
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a zero byte was put, whatever pieces the bytes come in.
    fn poisoned(text: &str) -> Option<usize> {
        let mut all = Vec::new();
        for size in [1, 2, 3, 7, text.len()] {
            let mut framing = Framing::new();
            let mut bytes = text.as_bytes().to_vec();
            bytes.chunks_mut(size).for_each(|piece| framing.follow(piece));
            all.push(bytes.iter().position(|byte| *byte == 0));
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{text:?}: {all:?}");
        all[0]
    }

    #[test]
    fn a_bare_line_feed_is_found_wherever_a_line_ends() {
        let (long, blanks, zeros) = ("x".repeat(500), " \t".repeat(50), "0".repeat(100));
        for text in [
            "GET / HTTP/1.1\n",
            "GET / HTTP/1.1\r\nHost: x\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\n",
            "\n",
            &format!("GET / HTTP/1.1\r\nX: {long}\n"),
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\na\nbGET / HTTP/1.1\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\na\nb\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\nX: y\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\n",
            // What looks like a head within a body hides nothing that comes after it.
            &format!(
                "POST / HTTP/1.1\r\nContent-Length:{blanks}38\r\n\r\nGET / HTTP/1.1\r\nContent-Length: 99\r\n\r\nGET /\n"
            ),
            // More digits than are kept: the number is refused, whatever it is.
            &format!("POST / HTTP/1.1\r\nContent-Length: {zeros}5\r\n"),
            &format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{zeros}5\r\n"),
        ] {
            assert_eq!(poisoned(text), Some(text.len() - 1), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_line_passes() {
        let (blanks, long) = (" \t".repeat(50), "x".repeat(500));
        for text in [
            &format!(
                "POST / HTTP/1.1\r\nContent-Length:{blanks}5{blanks}\r\n\r\n\n\n\n\n\nGET / HTTP/1.1\r\n\r\n"
            ),
            &format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding:{blanks}chunked\r\n\r\n1;{long}\r\n\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
            ),
            "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nCONTENT-LENGTH:  5 \r\n\r\n\n\n\n\n\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\na\r\n\n\n\n\n\n\n\n\n\n\n\r\n0\r\nX: y\r\n\r\nGET /\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n\n",
        ] {
            assert_eq!(poisoned(text), None, "{text:?}");
        }
    }
}
