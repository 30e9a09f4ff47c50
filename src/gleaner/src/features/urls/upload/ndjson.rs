//! NDJSON as it comes: a URL or an object with a URL on each line.

use super::charset::Charset;
use super::line::{Line, Step};
use crate::features::urls::register::NewUrl;
use base::Error;
use base::limits::UPLOAD_LINE_BYTES_MAX;
use serde_json::Value;
use std::collections::BTreeSet;

/// Names of unknown members that are told.
const UNKNOWN_MAX: usize = 20;
/// Characters of such a name that are told.
const NAME_CHARS_MAX: usize = 100;
/// The members that mean something.
const MEMBERS: [&str; 5] = ["url", "tags", "metadata", "pageType", "workflowId"];

/// A reader of lines.
pub(super) struct LineReader {
    line: usize,
    /// The line is too long and is passed over up to its end.
    is_too_long: bool,
    /// Members that are ignored.
    pub(super) unknown: BTreeSet<String>,
}

impl LineReader {
    pub(super) fn new() -> LineReader {
        LineReader { line: 1, is_too_long: false, unknown: BTreeSet::new() }
    }

    /// Reads one line at most; how many bytes were used, and what became of them.
    pub(super) fn read(&mut self, text: &[u8], is_last: bool, charset: &mut Charset) -> (usize, Step) {
        let end = memchr::memchr(b'\n', text);
        let (whole, used) = match end {
            Some(end) => (&text[..end], end + 1),
            None if is_last && (self.is_too_long || !text.is_empty()) => (text, text.len()),
            None if text.len() > UPLOAD_LINE_BYTES_MAX || self.is_too_long => {
                self.is_too_long = true;
                return (text.len(), Step::More);
            }
            None => return (0, Step::More),
        };
        let line = self.line;
        self.line += 1;
        if std::mem::take(&mut self.is_too_long) || whole.len() > UPLOAD_LINE_BYTES_MAX {
            return (used, Step::Line(Line::wrong(line, "", "is longer than 64 KiB")));
        }
        let whole = whole.trim_ascii();
        if whole.is_empty() {
            return (used, Step::Nothing);
        }
        let read = match charset.row(whole) {
            Ok(text) => self.entry(line, &text),
            Err(reason) => Line::wrong(line, "", reason),
        };
        (used, Step::Line(read))
    }

    fn entry(&mut self, line: usize, text: &str) -> Line {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                let said = error.to_string();
                let reason = said.split(" at line ").next().unwrap_or(&said).to_owned();
                let reason = format!("is not JSON: {reason}, at character {}", error.column());
                return Line::wrong(line, text, reason);
            }
        };
        let url = match &value {
            Value::String(url) => url.clone(),
            other => other["url"].as_str().unwrap_or_default().to_owned(),
        };
        let entry = match &value {
            Value::String(_) => {
                NewUrl { url: url.clone(), tags: None, metadata: None, page_type: None, workflow_id: None }
            }
            Value::Object(members) => {
                for name in members.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
                    if self.unknown.len() < UNKNOWN_MAX {
                        self.unknown.insert(name.chars().take(NAME_CHARS_MAX).collect());
                    }
                }
                match server::input::typed(&value) {
                    Ok(entry) => entry,
                    Err(error) => return Line::wrong(line, &url, reason(&error)),
                }
            }
            _ => return Line::wrong(line, text, "must be a URL or an object with a url"),
        };
        if url.chars().any(char::is_control) {
            return Line::wrong(line, &url, "has a control character in the URL");
        }
        Line::Entry { line, entry }
    }
}

fn reason(error: &Error) -> String {
    error.detail().unwrap_or(error.sentence()).to_owned()
}
