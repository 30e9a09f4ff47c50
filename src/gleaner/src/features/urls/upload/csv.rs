//! CSV as it comes (RFC 4180): records, their line numbers, and what the header makes of their fields.
//!
//! The records are csv-core's. Around it stands what it leaves open: which character separates fields, lines that end in CR
//! alone, records that are too long, a quoted field that never ends, and quotes that hold lines together ([`quotes`]).

mod quotes;

use super::charset::Charset;
use super::line::{Line, Step};
use crate::features::urls::register::NewUrl;
use base::ids::WorkflowId;
use base::limits::UPLOAD_LINE_BYTES_MAX;
use base::terms::PageType;
use base::{Error, Result};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use quotes::QuoteScan;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Fields of a record.
const FIELDS_MAX: usize = 256;
/// Characters of a column's name.
const NAME_CHARS_MAX: usize = 100;
/// What may stand between fields, the likeliest first.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];
/// Where nothing does, because each line is one URL: a byte that no field may have.
const NO_DELIMITER: u8 = 0;

/// What a field of a column is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Url,
    Tags,
    PageType,
    WorkflowId,
    Metadata,
    /// A member of the metadata.
    Member(String),
    /// A column without a name: its fields must be empty.
    Nameless,
}

/// A reader of records.
pub(super) struct CsvReader {
    records: Records,
    columns: Option<Vec<Column>>,
}

impl CsvReader {
    pub(super) fn new() -> CsvReader {
        CsvReader { records: Records::new(), columns: None }
    }

    /// The separator, once it is known.
    pub(super) fn delimiter(&self) -> Option<char> {
        self.records.delimiter().filter(|delimiter| *delimiter != NO_DELIMITER).map(char::from)
    }

    /// The columns that become members of the metadata.
    pub(super) fn members(&self) -> Vec<String> {
        let columns = self.columns.iter().flatten();
        columns
            .filter_map(|column| if let Column::Member(name) = column { Some(name.clone()) } else { None })
            .collect()
    }

    /// Reads one record at most; how many bytes were used, and what became of them.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        is_last: bool,
        charset: &mut Charset,
    ) -> Result<(usize, Step)> {
        let (used, found) = self.records.next(text, is_last);
        if self.columns.is_none() && self.records.delimiter() == Some(NO_DELIMITER) {
            self.columns = Some(vec![Column::Url]);
        }
        let step = match found {
            Found::More => Step::More,
            Found::Wrong(line, reason) if self.columns.is_none() => {
                return Err(Error::invalid("body", format!("line {line}: the header {reason}")));
            }
            Found::Wrong(line, reason) => Step::Line(Line::wrong(line, &self.begun(), reason)),
            Found::Record(line) => self.record(line, charset)?,
        };
        Ok((used, step))
    }

    /// What stands where the URL is to be, of a record that is not read any further.
    fn begun(&self) -> Cow<'_, str> {
        let place = self.columns.iter().flatten().position(|column| *column == Column::Url);
        String::from_utf8_lossy(self.records.field(place.unwrap_or_default()).unwrap_or_default())
    }

    fn record(&mut self, line: usize, charset: &mut Charset) -> Result<Step> {
        let fields: Result<Vec<_>, _> = self.records.fields().map(|field| charset.row(field)).collect();
        let fields = match fields {
            Ok(fields) => fields,
            Err(reason) if self.columns.is_none() => {
                return Err(Error::invalid("body", format!("line {line}: the header {reason}")));
            }
            Err(reason) => return Ok(Step::Line(Line::wrong(line, &self.begun(), reason))),
        };
        let fields: Vec<&str> = fields.iter().map(|field| field.trim()).collect();
        match &self.columns {
            None => {
                let (columns, url_place) = columns(line, &fields)?;
                self.columns = Some(columns);
                self.records.url_stands_at(url_place);
                Ok(Step::Nothing)
            }
            Some(_) if self.records.delimiter() == Some(NO_DELIMITER) && fields.len() > 1 => {
                Ok(Step::Line(Line::wrong(line, fields[0], "has a byte 0")))
            }
            // A line of separators, as spreadsheets write behind the last row.
            Some(_) if fields.iter().all(|field| field.is_empty()) => Ok(Step::Nothing),
            Some(columns) => Ok(Step::Line(entry(line, columns, &fields))),
        }
    }
}

/// What the header says of the columns, and which of them is the URL.
fn columns(line: usize, fields: &[&str]) -> Result<(Vec<Column>, usize)> {
    let wrong = |reason: String| Err(Error::invalid("body", format!("line {line}: {reason}")));
    let columns: Vec<Column> = fields.iter().map(|name| column(name)).collect();
    let Some(url_place) = columns.iter().position(|column| *column == Column::Url) else {
        let names = fields.iter().take(20).map(|name| name.chars().take(40).collect::<String>());
        let names = names.collect::<Vec<_>>().join(", ");
        return wrong(format!("there is no column named url; the first line has: {names}"));
    };
    for (place, column) in columns.iter().enumerate() {
        if let Column::Member(name) = column
            && (name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control))
        {
            let number = place + 1;
            return wrong(format!(
                "the name of column {number} must have at most {NAME_CHARS_MAX} characters, and none that controls"
            ));
        }
        if *column != Column::Nameless && columns[..place].contains(column) {
            let name: String = fields[place].chars().take(NAME_CHARS_MAX).collect();
            return wrong(format!("the column {name} is there twice"));
        }
    }
    Ok((columns, url_place))
}

fn column(name: &str) -> Column {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, ' ' | '_' | '-'))
        .flat_map(char::to_lowercase)
        .take(20)
        .collect();
    match plain.as_str() {
        "url" => Column::Url,
        "tags" => Column::Tags,
        "pagetype" => Column::PageType,
        "workflowid" => Column::WorkflowId,
        "metadata" => Column::Metadata,
        "" => Column::Nameless,
        _ => Column::Member(name.to_owned()),
    }
}

/// A record as an entry.
fn entry(line: usize, columns: &[Column], fields: &[&str]) -> Line {
    let url = columns.iter().position(|column| *column == Column::Url).and_then(|at| fields.get(at));
    let url = url.copied().unwrap_or_default();
    match read_entry(url, columns, fields) {
        Ok(entry) => Line::Entry { line, entry },
        Err(reason) => Line::wrong(line, url, reason),
    }
}

fn read_entry(url: &str, columns: &[Column], fields: &[&str]) -> Result<NewUrl, String> {
    if fields.iter().skip(columns.len()).any(|field| !field.is_empty()) {
        return Err(format!("has {} fields, and there are {} columns", fields.len(), columns.len()));
    }
    if fields.iter().any(|field| field.contains('\0')) {
        return Err("has a byte 0".to_owned());
    }
    // The URL Standard leaves them out in silence: two lines that a quote holds together would be one URL.
    if url.chars().any(char::is_control) {
        return Err("has a line end or another control character in the URL".to_owned());
    }
    let mut new =
        NewUrl { url: url.to_owned(), tags: None, metadata: None, page_type: None, workflow_id: None };
    let mut metadata = None::<Map<String, Value>>;
    // Neither of the two is meant more than the other.
    let twice = |name: &str| Err(format!("metadata: has a member {name}, and so has the column {name}"));
    for (column, field) in columns.iter().zip(fields).filter(|(_, field)| !field.is_empty()) {
        match column {
            Column::Url => {}
            Column::Nameless => return Err("has a field in a column without a name".to_owned()),
            Column::Tags => {
                let tags = field.split('|').map(str::trim).filter(|tag| !tag.is_empty());
                new.tags = Some(tags.map(str::to_owned).collect());
            }
            Column::PageType => new.page_type = Some(page_type(field)?),
            Column::WorkflowId => {
                let id = field.parse::<WorkflowId>();
                new.workflow_id = Some(id.map_err(|_| "workflowId: must be a UUID".to_owned())?);
            }
            Column::Metadata => match serde_json::from_str(field) {
                Ok(Value::Object(given)) => {
                    let members = metadata.get_or_insert_default();
                    if let Some(name) = given.keys().find(|name| members.contains_key(*name)) {
                        return twice(name);
                    }
                    members.extend(given);
                }
                Ok(_) => return Err("metadata: must be an object".to_owned()),
                Err(error) => return Err(format!("metadata: is not JSON: {error}")),
            },
            Column::Member(name) => {
                let before = metadata.get_or_insert_default().insert(name.clone(), Value::from(*field));
                if before.is_some() {
                    return twice(name);
                }
            }
        }
    }
    new.metadata = metadata;
    Ok(new)
}

fn page_type(text: &str) -> Result<PageType, String> {
    // Whether the organization has it is asked when the entry is judged.
    PageType::parse(&text.to_ascii_lowercase().replace(['-', ' '], "_")).map_err(|e| format!("pageType: {e}"))
}

/// What a look for a record found.
enum Found {
    /// The line on which it begins; its fields are at hand.
    Record(usize),
    Wrong(usize, Cow<'static, str>),
    /// It needs more text; at the end there is none.
    More,
}

/// Records as csv-core finds them.
struct Records {
    reader: Option<Box<(Reader, QuoteScan)>>,
    output: Vec<u8>,
    ends: Vec<usize>,
    written: usize,
    fields: usize,
    /// The line that is being read, and whether the last one ended in CR.
    line: usize,
    after_return: bool,
    /// The line on which the record begins that is being read.
    begun: Option<usize>,
    too_large: Option<&'static str>,
}

impl Records {
    fn new() -> Records {
        Records {
            reader: None,
            output: vec![0; UPLOAD_LINE_BYTES_MAX],
            ends: vec![0; FIELDS_MAX],
            written: 0,
            fields: 0,
            line: 1,
            after_return: false,
            begun: None,
            too_large: None,
        }
    }

    fn separated_by(&mut self, delimiter: u8) {
        let reader = ReaderBuilder::new().delimiter(delimiter).build();
        self.reader = Some(Box::new((reader, QuoteScan::new(delimiter))));
    }

    fn delimiter(&self) -> Option<u8> {
        self.reader.as_deref().map(|(_, quotes)| quotes.delimiter())
    }

    fn url_stands_at(&mut self, place: usize) {
        if let Some((_, quotes)) = self.reader.as_deref_mut() {
            quotes.url_stands_at(place);
        }
    }

    fn field(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.fields].get(place)?;
        let begin = if place == 0 { 0 } else { self.ends[place - 1] };
        self.output.get(begin..end)
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields).filter_map(|place| self.field(place))
    }

    /// Reads one record at most; how many bytes were used, and what they are.
    fn next(&mut self, text: &[u8], is_last: bool) -> (usize, Found) {
        let mut used = 0;
        if self.begun.is_none() {
            used = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.count_lines(&text[..used]);
            if used == text.len() {
                return (used, Found::More);
            }
        }
        if self.reader.is_none() {
            let Some(delimiter) = delimiter(&text[used..], is_last) else { return (used, Found::More) };
            self.separated_by(delimiter);
        }
        if self.begun.is_none() {
            self.begun = Some(self.line);
            if let Some((_, quotes)) = self.reader.as_deref_mut() {
                quotes.begin(self.line);
            }
            (self.written, self.fields, self.too_large) = (0, 0, None);
        }
        while used < text.len() {
            let (result, count) = self.step(&text[used..]);
            let read = &text[used..used + count];
            self.count_lines(read);
            if let Some((_, quotes)) = self.reader.as_deref_mut() {
                quotes.look(read, result == ReadRecordResult::Record);
            }
            used += count;
            if result == ReadRecordResult::Record {
                return (used, self.found(None));
            }
        }
        if !is_last {
            return (used, Found::More);
        }
        // The last line need not end in a line end. Where one more does not end the record, it is inside of a quoted field.
        loop {
            match self.step(b"\n") {
                (ReadRecordResult::Record, _) => return (used, self.found(None)),
                (_, 0) => {}
                _ => return (used, self.found(Some("begins a quoted field that does not end"))),
            }
        }
    }

    fn found(&mut self, wrong: Option<&'static str>) -> Found {
        let line = self.begun.take().unwrap_or(self.line);
        let too_large = self.too_large.take();
        let quotes = self.reader.as_deref().and_then(|(_, quotes)| quotes.wrong());
        // Where lines are held together, that is why the record is too long or does not end.
        match quotes.map(Cow::Owned).or(wrong.or(too_large).map(Cow::Borrowed)) {
            None => Found::Record(line),
            Some(reason) => Found::Wrong(line, reason),
        }
    }

    fn step(&mut self, text: &[u8]) -> (ReadRecordResult, usize) {
        let Some((reader, _)) = self.reader.as_deref_mut() else {
            return (ReadRecordResult::End, text.len());
        };
        let (output, ends) = (&mut self.output[self.written..], &mut self.ends[self.fields..]);
        let (result, used, written, fields) = reader.read_record(text, output, ends);
        self.written += written;
        self.fields += fields;
        match result {
            // What is too large is read to its end all the same, over what was kept of it.
            ReadRecordResult::OutputFull => {
                self.too_large = Some("is longer than 64 KiB");
                self.written = 0;
                self.fields = 0;
            }
            ReadRecordResult::OutputEndsFull => {
                self.too_large = Some("has more than 256 fields");
                self.fields = 0;
            }
            _ => {}
        }
        (result, used)
    }

    /// A line ends in LF, in CR LF or in CR.
    fn count_lines(&mut self, text: &[u8]) {
        for at in memchr::memchr2_iter(b'\r', b'\n', text) {
            let before = if at == 0 { self.after_return } else { text[at - 1] == b'\r' };
            self.line += usize::from(text[at] == b'\r' || !before);
        }
        if let Some(last) = text.last() {
            self.after_return = *last == b'\r';
        }
    }
}

/// What separates the fields of the first line: that with which one of them is `url`; nothing where it is a URL itself, of which
/// a `,` or `;` may be a part; else that which is there most often. None while the line has not ended.
fn delimiter(text: &[u8], is_last: bool) -> Option<u8> {
    let mut is_quoted = false;
    let end = text.iter().position(|byte| {
        is_quoted ^= *byte == b'"';
        !is_quoted && matches!(byte, b'\r' | b'\n')
    });
    let line = match end {
        Some(end) => &text[..end],
        None if is_last || text.len() >= UPLOAD_LINE_BYTES_MAX => text,
        None => return None,
    };
    let rank = |delimiter: u8| {
        let names = line.split(|byte| *byte == delimiter);
        let has_url = names.clone().any(|name| {
            let name = name.trim_ascii();
            let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
            name.trim_ascii().eq_ignore_ascii_case(b"url")
        });
        (has_url, names.count())
    };
    let begin = line.trim_ascii_start();
    let begin = begin.strip_prefix(b"\"").unwrap_or(begin).trim_ascii_start().to_ascii_lowercase();
    let is_url = begin.starts_with(b"http://") || begin.starts_with(b"https://");
    if is_url && !DELIMITERS.into_iter().any(|delimiter| rank(delimiter).0) {
        return Some(NO_DELIMITER);
    }
    // Of equals the first one.
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| rank(*delimiter))
}

#[cfg(test)]
mod tests;
