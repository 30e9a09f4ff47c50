//! Documents after the standards, what is expected of each, and what another implementation makes of them.
//!
//! `tests/corpus/*.txt` hold the documents. Each begins with `##### ` and what it is about; then, where it needs them,
//! `document:` (its address), `charset:` (what the transport says) and `encode:` (what is done with its text: an encoding,
//! `bom`, `crlf`, `gzip`, `cut`); then the document, up to a line of five dashes; then what is read of it, written by hand.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use base::web::WebUrl;
use feeds::{Date, Document, Entry, FeedError, Limits, read};

const ADDRESS: &str = "https://feeds.example.org/all.xml";

pub struct Case {
    pub name: String,
    pub document: String,
    charset: Option<String>,
    encode: String,
    text: String,
    expected: String,
}

pub fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "txt") && !file.ends_with("facts.txt"));
    files.sort();
    let parse = |file: &std::path::PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        text.split("##### ").skip(1).map(case).collect::<Vec<_>>()
    };
    files.iter().flat_map(parse).collect()
}

fn case(part: &str) -> Case {
    let (name, mut rest) = part.split_once('\n').unwrap();
    let mut case = Case {
        name: name.to_owned(),
        document: ADDRESS.to_owned(),
        charset: None,
        encode: String::new(),
        text: String::new(),
        expected: String::new(),
    };
    while let Some((line, behind)) = rest.split_once('\n') {
        match line.split_once(": ") {
            Some(("document", value)) => case.document = value.to_owned(),
            Some(("charset", value)) => case.charset = Some(value.to_owned()),
            Some(("encode", value)) => case.encode = value.to_owned(),
            _ => break,
        }
        rest = behind;
    }
    let (text, expected) = rest.split_once("-----\n").unwrap_or_else(|| panic!("{name} has no expectation"));
    case.text = text.strip_suffix('\n').unwrap_or(text).to_owned();
    case.expected = expected.to_owned();
    case
}

impl Case {
    fn bytes(&self) -> Vec<u8> {
        let mut text = self.text.clone();
        let mut packed = None;
        let mut is_cut = false;
        let mut mark = "";
        let mut encoding = "utf-8";
        for word in self.encode.split_whitespace() {
            match word {
                "crlf" => text = text.replace('\n', "\r\n"),
                "gzip" => packed = Some(()),
                "cut" => is_cut = true,
                "bom" => mark = "\u{FEFF}",
                "utf-8-sig" => mark = "\u{FEFF}",
                other => encoding = other,
            }
        }
        let text = format!("{mark}{text}");
        let mut bytes: Vec<u8> = match encoding {
            "utf-16-le" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "utf-16-be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            label => {
                let encoding = encoding_rs::Encoding::for_label(
                    label.replace("cp", "windows-").replace("latin-1", "latin1").as_bytes(),
                );
                let (bytes, _, lost) = encoding.unwrap().encode(&text);
                assert!(!lost, "{}: {label} has no such character", self.name);
                bytes.into_owned()
            }
        };
        if packed.is_some() {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(&bytes).unwrap();
            bytes = gzip.finish().unwrap();
        }
        if is_cut {
            bytes.truncate(bytes.len() - 4);
        }
        bytes
    }

    pub fn read(&self) -> Result<Document, FeedError> {
        let document = WebUrl::parse(&self.document).unwrap();
        read(self.bytes().as_slice(), &document, self.charset.as_deref(), &Limits::default())
    }
}

fn date(date: Option<Date>) -> Option<String> {
    date.map(|date| format!("{} {:?}", date.at, date.precision))
}

fn show_entry(out: &mut String, entry: &Entry) {
    let _ = writeln!(out, "entry: {}", entry.url);
    let categories = Some(entry.categories.join(" | ")).filter(|joined| !joined.is_empty());
    let fields = [
        ("id", entry.id.clone()),
        ("title", entry.title.clone()),
        ("published", date(entry.published)),
        ("updated", date(entry.updated)),
        ("categories", categories),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            let _ = writeln!(out, "  {name}: {value}");
        }
    }
}

fn show(result: &Result<Document, FeedError>) -> String {
    let document = match result {
        Ok(document) => document,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut out = format!("format: {}\n", document.format.name());
    for (name, value) in [
        ("title", document.title.clone()),
        ("next", document.next.as_ref().map(WebUrl::to_string)),
        ("first", document.first.as_ref().map(WebUrl::to_string)),
        ("archive", document.previous_archive.as_ref().map(WebUrl::to_string)),
    ] {
        if let Some(value) = value {
            let _ = writeln!(out, "{name}: {value}");
        }
    }
    document.entries.iter().for_each(|entry| show_entry(&mut out, entry));
    if document.refused > 0 {
        let _ = writeln!(out, "refused: {}", document.refused);
    }
    if document.truncated > 0 {
        let _ = writeln!(out, "truncated: {}", document.truncated);
    }
    if !document.complete {
        out.push_str("incomplete\n");
    }
    document.notes.iter().for_each(|note| _ = writeln!(out, "note: {note}"));
    out
}

#[test]
fn each_document_is_read_as_expected() {
    let cases = cases();
    assert!(cases.len() >= 60, "{} documents", cases.len());
    let mut wrong = String::new();
    for case in &cases {
        let found = show(&case.read());
        if found != case.expected {
            let _ = write!(wrong, "\n##### {}\nexpected:\n{}found:\n{found}", case.name, case.expected);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// How the bytes come must not matter: here one at a time, and in pieces of a prime length.
#[test]
fn documents_may_come_in_pieces() {
    struct Pieces<'a>(&'a [u8], usize);
    impl std::io::Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.1.min(buffer.len()).min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }
    for case in cases() {
        let document = WebUrl::parse(&case.document).unwrap();
        let bytes = case.bytes();
        for length in [1, 7, 1021] {
            // Long enough that what begins the document and what follows come apart.
            let found = read(Pieces(&bytes, length), &document, case.charset.as_deref(), &Limits::default());
            assert_eq!(show(&found), case.expected, "{} in pieces of {length}", case.name);
        }
    }
}

/// Cut anywhere, a document gives a beginning of its entries, or says that it is none.
#[test]
fn documents_may_end_anywhere() {
    for case in cases() {
        let Ok(whole) = case.read() else { continue };
        let document = WebUrl::parse(&case.document).unwrap();
        let bytes = case.bytes();
        for end in 0..bytes.len() {
            let found = read(&bytes[..end], &document, case.charset.as_deref(), &Limits::default());
            let Ok(found) = found else { continue };
            assert!(found.entries.len() <= whole.entries.len(), "{} up to {end}", case.name);
            // The last line of a text may be half of one.
            let sure =
                found.entries.len().saturating_sub(usize::from(found.format == feeds::Format::TextSitemap));
            assert_eq!(found.entries[..sure], whole.entries[..sure], "{} up to {end}", case.name);
        }
    }
}
