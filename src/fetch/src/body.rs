//! Reading a response body, and inflating it, under limits.
//!
//! Two limits and a ratio, because each catches what the others let pass: bytes on the wire (an endless body), bytes
//! after inflating (a bomb), and how many bytes one received byte may become (a bomb small enough for the second
//! limit, sent over and over). `Content-Length` is not believed for any of them; the bytes are counted as they come.
//! At most two encodings in a row are undone, one buffer after the other, so memory stays within three limits' worth.
//!
//! Sources: RFC 9110, section 8.4 (encodings, `x-gzip`); RFC 1950 and 1951 (servers send either for `deflate`);
//! RFC 9659 (a zstd window is at most 8 MB on the web).

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Read};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// What `Accept-Encoding` offers: all that [`inflate`] can undo.
pub const ACCEPT_ENCODING: &str = "gzip, br, zstd, deflate";
/// How many encodings may lie over each other. Two happen by a doubly configured proxy; more only by malice.
const ENCODINGS_MAX: usize = 2;
/// A body may grow to this size whatever it weighed; beyond it the ratio counts.
const RATIO_FREE_BYTES: usize = 1_000_000;
/// How many bytes one received byte may become. Real pages stay under 30.
const RATIO_MAX: usize = 100;
/// The zstd window that a web server may ask for, as a power of two (RFC 9659: 8 MB).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// How much is inflated between two looks at the limits.
const CHUNK_BYTES: usize = 32 * 1024;

/// What is done with a body that passes its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    Refuse,
    /// Keep what fits. For robots.txt, of which RFC 9309 lets a crawler read only the first 500 KiB.
    Truncate,
}

/// How large a body may be.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    pub received_bytes_max: usize,
    pub inflated_bytes_max: usize,
    pub overflow: Overflow,
}

/// Why a body was not taken.
#[derive(Debug)]
pub enum BodyError {
    TooLarge {
        max: usize,
    },
    InflatedTooLarge {
        max: usize,
    },
    Ratio,
    UnknownEncoding(String),
    TooManyEncodings,
    Corrupt {
        encoding: Encoding,
        source: io::Error,
    },
    /// The connection ended before the body did.
    Interrupted(hyper::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max } => write!(f, "body larger than {}, which is the limit", ByteCount(*max)),
            Self::InflatedTooLarge { max } => {
                write!(f, "body larger than {} once decompressed, which is the limit", ByteCount(*max))
            }
            Self::Ratio => write!(f, "body grows more than {RATIO_MAX} times when decompressed"),
            Self::UnknownEncoding(name) => write!(f, "answered with an unknown content encoding ({name})"),
            Self::TooManyEncodings => {
                write!(f, "answered with more than {ENCODINGS_MAX} content encodings in a row")
            }
            Self::Corrupt { encoding, .. } => write!(f, "body is not valid {encoding}"),
            Self::Interrupted(_) => f.write_str("the connection ended before the body was complete"),
        }
    }
}

impl Error for BodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Corrupt { source, .. } => Some(source),
            Self::Interrupted(source) => Some(source),
            _ => None,
        }
    }
}

/// A number of bytes in the unit that suits it.
struct ByteCount(usize);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 && n.is_multiple_of(100_000) => write!(f, "{} MB", n as f64 / 1e6),
            n if n >= 1_000 && n.is_multiple_of(100) => write!(f, "{} kB", n as f64 / 1e3),
            n => write!(f, "{n} bytes"),
        }
    }
}

/// A content encoding that can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Gzip,
    Brotli,
    Zstd,
    Deflate,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Brotli => "brotli",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
        })
    }
}

/// The encodings of a body in the order in which the server applied them.
pub fn encodings(headers: &HeaderMap) -> Result<Vec<Encoding>, BodyError> {
    let mut found = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        for name in value.as_bytes().split(|b| *b == b',') {
            let name = name.trim_ascii().to_ascii_lowercase();
            let encoding = match name.as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Encoding::Gzip,
                b"br" => Encoding::Brotli,
                b"zstd" => Encoding::Zstd,
                b"deflate" => Encoding::Deflate,
                other => {
                    let shown =
                        String::from_utf8_lossy(other).chars().filter(|c| !c.is_control()).take(40).collect();
                    return Err(BodyError::UnknownEncoding(shown));
                }
            };
            if found.len() == ENCODINGS_MAX {
                return Err(BodyError::TooManyEncodings);
            }
            found.push(encoding);
        }
    }
    Ok(found)
}

/// Reads a body as it is on the wire, adding each piece's length to `bytes_received` as it comes.
pub async fn receive(
    mut body: Incoming,
    headers: &HeaderMap,
    limits: BodyLimits,
    bytes_received: &mut u64,
) -> Result<Bytes, BodyError> {
    let max = limits.received_bytes_max;
    // An announced length is a reason to refuse early, and to reserve; it is never a reason to trust.
    let announced = body.size_hint().lower().try_into().unwrap_or(usize::MAX);
    if announced > max && limits.overflow == Overflow::Refuse {
        return Err(BodyError::TooLarge { max });
    }
    // Without a length or chunks the end of the connection is the end of the body, and many servers end it without
    // TLS's closing alert; browsers take such a page, and so does this.
    let until_close = !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING);
    let mut whole = BytesMut::with_capacity(announced.min(max).min(256 * 1024));
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => match frame.into_data() {
                Ok(data) => data,
                Err(_trailers) => continue,
            },
            Err(error) if until_close && !whole.is_empty() && is_unexpected_eof(&error) => break,
            Err(error) => return Err(BodyError::Interrupted(error)),
        };
        *bytes_received += data.len() as u64;
        let room = max - whole.len();
        if data.len() > room {
            if limits.overflow == Overflow::Refuse {
                return Err(BodyError::TooLarge { max });
            }
            whole.extend_from_slice(&data[..room]);
            break;
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

pub(crate) fn is_unexpected_eof(error: &hyper::Error) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Undoes `encodings` (last applied first). Work without I/O, up to tens of milliseconds at the limits: large bodies
/// belong on the blocking pool.
pub fn inflate(body: Bytes, encodings: &[Encoding], limits: BodyLimits) -> Result<Bytes, BodyError> {
    let received = body.len();
    let mut body = body;
    for encoding in encodings.iter().rev() {
        // An empty body is sent with an encoding's name by servers that set the header for every answer.
        if body.is_empty() {
            break;
        }
        body = inflate_once(&body, *encoding, received, limits)?.into();
    }
    if body.len() > limits.inflated_bytes_max {
        // Reached only by a body without encodings: the decoders stop at the limit themselves.
        return match limits.overflow {
            Overflow::Refuse => Err(BodyError::InflatedTooLarge { max: limits.inflated_bytes_max }),
            Overflow::Truncate => Ok(body.slice(..limits.inflated_bytes_max)),
        };
    }
    Ok(body)
}

fn inflate_once(
    input: &[u8],
    encoding: Encoding,
    received: usize,
    limits: BodyLimits,
) -> Result<Vec<u8>, BodyError> {
    let mut output = InflatedOutput { bytes: Vec::new(), received, limits };
    let result = match encoding {
        Encoding::Gzip => inflate_gzip(input, &mut output),
        Encoding::Brotli => output.drain(&mut brotli::Decompressor::new(input, CHUNK_BYTES)),
        Encoding::Zstd => inflate_zstd(input, &mut output),
        Encoding::Deflate if is_zlib(input) => output.drain(&mut flate2::bufread::ZlibDecoder::new(input)),
        Encoding::Deflate => output.drain(&mut flate2::bufread::DeflateDecoder::new(input)),
    };
    match result {
        Ok(()) | Err(DecodeStop::Full) => Ok(output.bytes),
        // A truncated input cannot end well, and what came before its end is what was wanted.
        Err(DecodeStop::Corrupt(_)) if limits.overflow == Overflow::Truncate && !output.bytes.is_empty() => {
            Ok(output.bytes)
        }
        Err(DecodeStop::Corrupt(source)) => Err(BodyError::Corrupt { encoding, source }),
        Err(DecodeStop::Refused(error)) => Err(error),
    }
}

/// One member after another (RFC 1952 allows several); whatever else follows the last is ignored, as browsers do.
fn inflate_gzip(input: &[u8], output: &mut InflatedOutput) -> Result<(), DecodeStop> {
    let mut rest = input;
    loop {
        let mut decoder = flate2::bufread::GzDecoder::new(rest);
        output.drain(&mut decoder)?;
        rest = decoder.into_inner();
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return Ok(());
        }
    }
}

fn inflate_zstd(input: &[u8], output: &mut InflatedOutput) -> Result<(), DecodeStop> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(DecodeStop::Corrupt)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(DecodeStop::Corrupt)?;
    output.drain(&mut decoder)
}

/// Whether a `deflate` body has the zlib header it should have (RFC 1950, section 2.2).
fn is_zlib(input: &[u8]) -> bool {
    matches!(input, [cmf, flg, ..] if cmf & 0x0f == 8 && (u16::from(*cmf) << 8 | u16::from(*flg)).is_multiple_of(31))
}

/// Why a decoder was stopped.
enum DecodeStop {
    Corrupt(io::Error),
    Refused(BodyError),
    /// The limit is reached, and the rest is not wanted.
    Full,
}

/// Inflated bytes, counted while they come.
struct InflatedOutput {
    bytes: Vec<u8>,
    received: usize,
    limits: BodyLimits,
}

impl InflatedOutput {
    fn drain(&mut self, decoder: &mut dyn Read) -> Result<(), DecodeStop> {
        let max = self.limits.inflated_bytes_max;
        let ratio_max = self.received.saturating_mul(RATIO_MAX).max(RATIO_FREE_BYTES);
        let mut chunk = io::BufReader::with_capacity(CHUNK_BYTES, decoder);
        loop {
            let data = chunk.fill_buf().map_err(DecodeStop::Corrupt)?;
            if data.is_empty() {
                return Ok(());
            }
            let (length, room) = (data.len(), max - self.bytes.len());
            self.bytes.extend_from_slice(&data[..length.min(room)]);
            if length > room {
                return Err(match self.limits.overflow {
                    Overflow::Refuse => DecodeStop::Refused(BodyError::InflatedTooLarge { max }),
                    Overflow::Truncate => DecodeStop::Full,
                });
            }
            if self.bytes.len() > ratio_max {
                return Err(DecodeStop::Refused(BodyError::Ratio));
            }
            chunk.consume(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http::HeaderValue;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits {
        received_bytes_max: 5_000_000,
        inflated_bytes_max: 5_000_000,
        overflow: Overflow::Refuse,
    };

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn raw_deflate(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::CompressorWriter::new(&mut out, 4096, 5, 22).write_all(data).unwrap();
        out
    }

    /// Text that does not compress into a bomb.
    fn text(bytes: usize) -> Vec<u8> {
        (0u64..)
            .flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string().into_bytes())
            .take(bytes)
            .collect()
    }

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|v| (CONTENT_ENCODING, HeaderValue::from_str(v).unwrap())).collect()
    }

    #[test]
    fn undoes_every_encoding() {
        let page = text(100_000);
        for (encoded, names) in [
            (page.clone(), &[] as &[&str]),
            (gzip(&page), &["gzip"]),
            (gzip(&page), &["X-GZIP"]),
            (brotli(&page), &["br"]),
            (zstd::encode_all(&page[..], 3).unwrap(), &["zstd"]),
            (zlib(&page), &["deflate"]),
            (raw_deflate(&page), &["deflate"]),
            (brotli(&gzip(&page)), &["gzip, br"]),
            (gzip(&zlib(&page)), &["deflate", "identity", "gzip"]),
        ] {
            let encodings = encodings(&headers(names)).unwrap();
            assert_eq!(inflate(encoded.into(), &encodings, LIMITS).unwrap(), page, "{names:?}");
        }
    }

    #[test]
    fn takes_several_gzip_members_and_ignores_what_follows() {
        let body = [gzip(b"one "), gzip(b"two"), b"\0\0padding".to_vec()].concat();
        assert_eq!(inflate(body.into(), &[Encoding::Gzip], LIMITS).unwrap(), "one two");
        assert_eq!(inflate(Bytes::new(), &[Encoding::Gzip], LIMITS).unwrap(), "");
    }

    #[test]
    fn refuses_bombs() {
        let zeros = vec![0u8; 6_000_000];
        for (body, encoding) in [
            (gzip(&zeros), Encoding::Gzip),
            (brotli(&zeros), Encoding::Brotli),
            (zstd::encode_all(&zeros[..], 3).unwrap(), Encoding::Zstd),
            (zlib(&zeros), Encoding::Deflate),
        ] {
            let error = inflate(body.into(), &[encoding], LIMITS).unwrap_err();
            assert!(
                matches!(error, BodyError::Ratio | BodyError::InflatedTooLarge { .. }),
                "{encoding}: {error}"
            );
        }
        // Small enough for the size limit, and still out of all proportion.
        let error = inflate(gzip(&zeros[..4_000_000]).into(), &[Encoding::Gzip], LIMITS).unwrap_err();
        assert_eq!(error.to_string(), "body grows more than 100 times when decompressed");
        // In proportion, and still too large.
        let error = inflate(gzip(&text(5_100_000)).into(), &[Encoding::Gzip], LIMITS).unwrap_err();
        assert_eq!(error.to_string(), "body larger than 5 MB once decompressed, which is the limit");
        // A bomb inside a bomb.
        let error =
            inflate(gzip(&gzip(&zeros)).into(), &[Encoding::Gzip, Encoding::Gzip], LIMITS).unwrap_err();
        assert!(matches!(error, BodyError::Ratio | BodyError::InflatedTooLarge { .. }), "{error}");
        // Half a megabyte of zeros is a small page, whatever its ratio.
        assert_eq!(
            inflate(gzip(&zeros[..500_000]).into(), &[Encoding::Gzip], LIMITS).unwrap().len(),
            500_000
        );
    }

    #[test]
    fn refuses_a_zstd_window_larger_than_the_web_allows() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&text(100_000)).unwrap();
        let body = encoder.finish().unwrap();
        let error = inflate(body.into(), &[Encoding::Zstd], LIMITS).unwrap_err();
        assert_eq!(error.to_string(), "body is not valid zstd");
    }

    #[test]
    fn names_what_is_wrong_with_an_encoding() {
        let say = |values: &[&str]| encodings(&headers(values)).unwrap_err().to_string();
        assert_eq!(say(&["compress"]), "answered with an unknown content encoding (compress)");
        assert_eq!(say(&["gzip, gzip, gzip"]), "answered with more than 2 content encodings in a row");
        let mut half = gzip(&text(10_000));
        half.truncate(2_000);
        let error = inflate(half.into(), &[Encoding::Gzip], LIMITS).unwrap_err();
        assert_eq!(error.to_string(), "body is not valid gzip");
        assert!(error.source().is_some());
        assert!(inflate("plain text".into(), &[Encoding::Brotli], LIMITS).is_err());
    }

    #[test]
    fn truncates_when_told_to() {
        let limits =
            BodyLimits { received_bytes_max: 1_000, inflated_bytes_max: 1_000, overflow: Overflow::Truncate };
        let page = text(50_000);
        assert_eq!(inflate(gzip(&page).into(), &[Encoding::Gzip], limits).unwrap(), page[..1_000]);
        assert_eq!(inflate(page.clone().into(), &[], limits).unwrap(), page[..1_000]);
        let mut half = gzip(&page);
        half.truncate(1_000);
        let kept = inflate(half.into(), &[Encoding::Gzip], limits).unwrap();
        assert!(!kept.is_empty() && page.starts_with(&kept));
    }

    #[test]
    fn writes_sizes() {
        for (bytes, text) in [
            (5_000_000, "5 MB"),
            (1_500_000, "1.5 MB"),
            (2_000, "2 kB"),
            (512_000, "512 kB"),
            (999, "999 bytes"),
        ] {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
    }
}
