//! From the bytes of an upload to its lines: unpacked, made letters of, read as CSV or NDJSON. What comes is pushed in, and
//! lines are taken out until there is none before more has come; a few times a line's most are held, however large the body.

use super::charset::Charset;
use super::csv::CsvReader;
use super::line::{Line, Step};
use super::ndjson::LineReader;
use super::unpack::{Coding, Unpacked, Unpacker};
use base::{Code, Error, Result};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes that are unpacked at a time.
const CHUNK_BYTES: usize = 32 << 10;

/// What an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "UploadFormat")]
pub(super) enum Format {
    Csv,
    Ndjson,
}

/// What the head of a request says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub coding: Coding,
    /// None where the body itself has to tell.
    pub format: Option<Format>,
}

impl Declared {
    /// From the media type, the coding of the content and what the query says.
    pub(super) fn of(media: Option<&str>, coding: Option<&str>, asked: Option<Format>) -> Result<Declared> {
        let refused = |message: String| Error::new(Code::UnsupportedMediaType).message(message);
        let by_coding = match coding {
            None => Coding::Plain,
            Some(name) => Coding::named(name).ok_or_else(|| {
                let shown: String = name.chars().take(40).collect();
                refused(format!("Content-Encoding {shown} is not read; gzip, zstd and the plain form are."))
                    .header("accept-encoding", "gzip, zstd, identity")
            })?,
        };
        let (format, by_media) = match media
            .filter(|media| !media.is_empty())
            .unwrap_or("application/octet-stream")
        {
            "text/csv"
            | "application/csv"
            | "text/comma-separated-values"
            | "application/vnd.ms-excel"
            | "text/tab-separated-values" => (Some(Format::Csv), None),
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/jsonlines" => (Some(Format::Ndjson), None),
            "application/octet-stream" | "text/plain" => (None, None),
            other => match other.strip_prefix("application/").and_then(Coding::named) {
                Some(coding) => (None, Some(coding)),
                None => {
                    let shown: String = other.chars().take(100).collect();
                    return Err(refused(format!(
                        "The body is {shown}; text/csv, application/x-ndjson, application/gzip or application/zstd is \
                         expected, and no form around it. JSON is for POST /api/v1/urls."
                    )));
                }
            },
        };
        let coding = match by_media {
            Some(_) if by_coding != Coding::Plain => {
                return Err(refused("The body is packed twice; once is read.".to_owned()));
            }
            Some(by_media) => by_media,
            None => by_coding,
        };
        Ok(Declared { coding, format: asked.or(format) })
    }
}

/// An upload while it comes.
pub(super) struct Intake {
    coding: Coding,
    unpacker: Unpacker,
    charset: Charset,
    chunk: Vec<u8>,
    /// What was unpacked, and how much of it is used.
    text: Vec<u8>,
    used: usize,
    is_text_whole: bool,
    is_begun: bool,
    reader: Option<FormatReader>,
    format: Option<Format>,
    is_over: bool,
}

enum FormatReader {
    Csv(CsvReader),
    Ndjson(LineReader),
}

impl Intake {
    pub(super) fn new(declared: Declared, charset: Option<&str>) -> Result<Intake> {
        Ok(Intake {
            coding: declared.coding,
            unpacker: Unpacker::new(declared.coding)?,
            charset: Charset::new(charset)?,
            chunk: vec![0; CHUNK_BYTES],
            text: Vec::new(),
            used: 0,
            is_text_whole: false,
            is_begun: false,
            reader: None,
            format: declared.format,
            is_over: false,
        })
    }

    pub(super) fn push(&mut self, part: Bytes) {
        self.unpacker.push(part);
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.unpacker.end();
    }

    /// Whether every line was taken.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn format(&self) -> Option<Format> {
        self.format
    }

    pub(super) fn charset(&self) -> String {
        self.charset.name()
    }

    pub(super) fn delimiter(&self) -> Option<char> {
        match &self.reader {
            Some(FormatReader::Csv(reader)) => reader.delimiter(),
            _ => None,
        }
    }

    /// Columns that became members of the metadata.
    pub(super) fn metadata_columns(&self) -> Vec<String> {
        match &self.reader {
            Some(FormatReader::Csv(reader)) => reader.members(),
            _ => Vec::new(),
        }
    }

    /// Members of objects that mean nothing here.
    pub(super) fn ignored_members(&self) -> Vec<String> {
        match &self.reader {
            Some(FormatReader::Ndjson(reader)) => reader.unknown.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// What a user should know of how the body was read.
    pub(super) fn notes(&self) -> Vec<String> {
        let ignored = |bytes| {
            format!(
                "Behind the end of the {} are {bytes} bytes that are not of it; they were not read.",
                self.coding.name()
            )
        };
        Some(self.unpacker.ignored()).filter(|bytes| *bytes > 0).map(ignored).into_iter().collect()
    }

    /// The next line; none before more has come, or at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line>> {
        loop {
            let text = &self.text[self.used..];
            let reader = match &mut self.reader {
                Some(reader) => Some(reader),
                None => match self.format.or_else(|| sniffed(text)) {
                    None => None,
                    Some(format) => {
                        self.format = Some(format);
                        Some(self.reader.insert(match format {
                            Format::Csv => FormatReader::Csv(CsvReader::new()),
                            Format::Ndjson => FormatReader::Ndjson(LineReader::new()),
                        }))
                    }
                },
            };
            let (used, step) = match reader {
                None => (0, Step::More),
                Some(FormatReader::Csv(reader)) => {
                    reader.read(text, self.is_text_whole, &mut self.charset)?
                }
                Some(FormatReader::Ndjson(reader)) => {
                    reader.read(text, self.is_text_whole, &mut self.charset)
                }
            };
            self.used += used;
            match step {
                Step::Line(line) => return Ok(Some(line)),
                Step::Nothing => {}
                Step::More if self.is_text_whole => {
                    self.is_over = true;
                    return Ok(None);
                }
                Step::More => {
                    if !self.unpack()? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Unpacks some more; whether there was any.
    fn unpack(&mut self) -> Result<bool> {
        self.text.drain(..self.used);
        self.used = 0;
        match self.unpacker.read(&mut self.chunk)? {
            Unpacked::Starved => return Ok(false),
            Unpacked::End => {
                self.is_text_whole = true;
                self.charset.decode(&[], true, &mut self.text)?;
            }
            Unpacked::Bytes(count) => {
                let bytes = &self.chunk[..count];
                if !std::mem::replace(&mut self.is_begun, true)
                    && let Some(coding) = Coding::of_magic(bytes)
                {
                    let name = coding.name();
                    let again = if self.coding == Coding::Plain { "" } else { " once more" };
                    let reason =
                        format!("is packed with {name}{again}; say so with Content-Encoding: {name}");
                    return Err(Error::invalid("body", reason));
                }
                self.charset.decode(bytes, false, &mut self.text)?;
            }
        }
        Ok(true)
    }
}

/// What a text is by its first letter.
fn sniffed(text: &[u8]) -> Option<Format> {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace())?;
    Some(if *first == b'{' { Format::Ndjson } else { Format::Csv })
}
