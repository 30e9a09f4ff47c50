//! A CSV file that somebody else fetches, read as it comes.

use super::intake::{Declared, Format, Intake};
use super::line::Line;
use super::unpack::Coding;
use base::{Error, Result};
use bytes::Bytes;

/// A CSV file while it comes.
pub struct CsvFile(Intake);

impl CsvFile {
    /// A file that begins so. It may be packed with gzip or zstd, by whoever sends it or by itself.
    pub fn new(begin: &[u8], is_gzip: bool, charset: Option<&str>) -> Result<CsvFile> {
        let coding = if is_gzip { Some(Coding::Gzip) } else { Coding::of_magic(begin) };
        let first = begin.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'<') {
            return Err(Error::invalid("body", "is markup, such as an HTML page, and not CSV"));
        }
        let declared = Declared { coding: coding.unwrap_or(Coding::Plain), format: Some(Format::Csv) };
        Intake::new(declared, charset).map(CsvFile)
    }

    pub fn push(&mut self, part: Bytes) {
        self.0.push(part);
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.0.end();
    }

    /// The next line; none before more has come, or at the end.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        self.0.next()
    }
}
