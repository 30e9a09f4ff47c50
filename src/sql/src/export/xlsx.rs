//! A workbook of one sheet (more, when there are more rows than a sheet holds), written row by row.
//!
//! The least that ECMA-376 asks for: content types, relations, a workbook, styles, and sheets with inline texts, in a ZIP.
//! Numbers that a spreadsheet holds exactly (15 digits) are numbers, times are dates in UTC, everything else is text.
//!
//! An inline text is never run when the file is opened. One that looks like a formula is marked with `quotePrefix` as
//! well, as if it had been typed with an apostrophe, so that editing its cell does not run it either.

use std::fmt::Write as _;
use std::io::{Seek, Write};

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Date32Type};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::text::{is_foreign, looks_like_formula};
use super::{Batches, ExportError};
use crate::spool::json;

/// What a sheet holds, the line of names included, and what a cell does (Excel's "specifications and limits").
const SHEET_ROWS_MAX: u64 = 1_048_576;
const COLUMNS_MAX: usize = 16_384;
const CELL_UNITS_MAX: usize = 32_767;
/// The largest whole number of 15 digits.
const EXACT_MAX: f64 = 999_999_999_999_999.0;
/// A ZIP without its 64-bit extension, which not every spreadsheet reads, has files of less than 4 GiB.
const SHEET_BYTES_MAX: u64 = u32::MAX as u64 - (64 << 20);
/// Level 4 of deflate: near its best size, at a third of the time.
const LEVEL: i64 = 4;

/// Cell styles, by their places in [`STYLES`].
const BOLD: u8 = 1;
const MOMENT: u8 = 2;
const DAY: u8 = 3;
const QUOTED: u8 = 4;

const CONTENT_TYPES: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/>"#;
const RELATIONS: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
const STYLES: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><numFmts count="2"><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd\ hh:mm:ss.000"/><numFmt numFmtId="165" formatCode="yyyy\-mm\-dd"/></numFmts><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="5"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/><xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1" quotePrefix="1"/><xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/><xf numFmtId="165" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0" quotePrefix="1"/></cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>"#;
const SHEET_BEGIN: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><sheetData>"#;
const SHEET_END: &str = "</sheetData></worksheet>";

pub(super) fn workbook(
    mut batches: Batches<'_>,
    target: &mut (impl Write + Seek),
) -> Result<(), ExportError> {
    let schema = batches.schema();
    if schema.fields().len() > COLUMNS_MAX {
        let text = format!(
            "The result has {} columns; a spreadsheet has at most {COLUMNS_MAX}. Export it as csv.",
            schema.fields().len()
        );
        return Err(ExportError::Unsupported(text));
    }
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let foreign: Vec<bool> = schema.fields().iter().map(|field| is_foreign(field.data_type())).collect();
    let mut book =
        WorkbookWriter { zip: ZipWriter::new(target), sheets: 0, rows: 0, bytes: 0, line: String::new() };
    book.begin_sheet(&names)?;
    while let Some(batch) = batches.next()? {
        for row in 0..batch.num_rows() {
            if book.rows == SHEET_ROWS_MAX {
                book.end_sheet()?;
                book.begin_sheet(&names)?;
            }
            book.begin_row();
            for (place, (column, foreign)) in batch.columns().iter().zip(&foreign).enumerate() {
                cell(&mut book.line, place, book.rows, column.as_ref(), row, *foreign);
            }
            book.end_row()?;
        }
    }
    book.end_sheet()?;
    book.finish()
}

/// The file while it is written.
struct WorkbookWriter<W: Write + Seek> {
    zip: ZipWriter<W>,
    sheets: usize,
    /// Rows of the present sheet, and its bytes before compression.
    rows: u64,
    bytes: u64,
    /// The row that is being put together.
    line: String,
}

impl<W: Write + Seek> WorkbookWriter<W> {
    fn file(&mut self, name: &str) -> Result<(), ExportError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL));
        self.zip.start_file(name, options).map_err(failed)
    }

    fn put(&mut self, text: &str) -> Result<(), ExportError> {
        self.bytes += text.len() as u64;
        if self.bytes > SHEET_BYTES_MAX {
            let text = "The result is larger than a spreadsheet file can be. Export it as csv.";
            return Err(ExportError::Unsupported(text.to_owned()));
        }
        Ok(self.zip.write_all(text.as_bytes())?)
    }

    fn begin_sheet(&mut self, names: &[&str]) -> Result<(), ExportError> {
        self.sheets += 1;
        (self.rows, self.bytes) = (0, 0);
        self.file(&format!("xl/worksheets/sheet{}.xml", self.sheets))?;
        self.put(SHEET_BEGIN)?;
        self.begin_row();
        for (place, name) in names.iter().enumerate() {
            text_cell(&mut self.line, place, self.rows, BOLD, name);
        }
        self.end_row()
    }

    fn begin_row(&mut self) {
        self.rows += 1;
        // Writing to a string cannot fail.
        let _ = write!(self.line, "<row r=\"{}\">", self.rows);
    }

    fn end_row(&mut self) -> Result<(), ExportError> {
        let mut line = std::mem::take(&mut self.line);
        line.push_str("</row>");
        self.put(&line)?;
        line.clear();
        self.line = line;
        Ok(())
    }

    fn end_sheet(&mut self) -> Result<(), ExportError> {
        self.put(SHEET_END)
    }

    /// Writes what names the sheets, which is known only now.
    fn finish(mut self) -> Result<(), ExportError> {
        let mut types = CONTENT_TYPES.to_owned();
        let mut sheets = String::new();
        let mut relations = String::new();
        for sheet in 1..=self.sheets {
            let name = if sheet == 1 { "Result".to_owned() } else { format!("Result {sheet}") };
            let _ = write!(
                types,
                "<Override PartName=\"/xl/worksheets/sheet{sheet}.xml\" ContentType=\"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml\"/>"
            );
            let _ = write!(sheets, "<sheet name=\"{name}\" sheetId=\"{sheet}\" r:id=\"rId{sheet}\"/>");
            let _ = write!(
                relations,
                "<Relationship Id=\"rId{sheet}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" Target=\"worksheets/sheet{sheet}.xml\"/>"
            );
        }
        types.push_str("</Types>");
        let styles = self.sheets + 1;
        let workbook = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets>{sheets}</sheets></workbook>"
        );
        let relations = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{relations}<Relationship Id=\"rId{styles}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles\" Target=\"styles.xml\"/></Relationships>"
        );
        for (name, text) in [
            ("xl/workbook.xml", workbook.as_str()),
            ("xl/_rels/workbook.xml.rels", &relations),
            ("xl/styles.xml", STYLES),
            ("_rels/.rels", RELATIONS),
            ("[Content_Types].xml", &types),
        ] {
            self.bytes = 0;
            self.file(name)?;
            self.put(text)?;
        }
        self.zip.finish().map_err(failed)?;
        Ok(())
    }
}

fn failed(error: zip::result::ZipError) -> ExportError {
    match error {
        zip::result::ZipError::Io(error) => error.into(),
        other => std::io::Error::other(other).into(),
    }
}

/// One value; a NULL is no cell at all.
fn cell(line: &mut String, place: usize, row_number: u64, column: &dyn Array, row: usize, foreign: bool) {
    if column.is_null(row) {
        return;
    }
    if let Some((serial, style)) = serial(column, row) {
        return number_cell(line, place, row_number, style, serial);
    }
    match json::value(column, row) {
        Value::Null => {}
        Value::Bool(value) => {
            let _ =
                write!(line, "<c r=\"{}\" t=\"b\"><v>{}</v></c>", name(place, row_number), u8::from(value));
        }
        Value::Number(number) => match number.as_f64() {
            Some(value) if value.fract() != 0.0 || value.abs() <= EXACT_MAX || is_float(column) => {
                number_cell(line, place, row_number, 0, value);
            }
            _ => text_cell(line, place, row_number, 0, &number.to_string()),
        },
        Value::String(text) if !foreign => match short_decimal(column, &text) {
            Some(value) => number_cell(line, place, row_number, 0, value),
            None => text_cell(line, place, row_number, 0, &text),
        },
        Value::String(text) => {
            let style = if looks_like_formula(&text) { QUOTED } else { 0 };
            text_cell(line, place, row_number, style, &text);
        }
        nested => text_cell(line, place, row_number, 0, &nested.to_string()),
    }
}

fn is_float(column: &dyn Array) -> bool {
    column.data_type().is_floating()
}

/// A decimal of few enough digits that a spreadsheet keeps them all.
fn short_decimal(column: &dyn Array, text: &str) -> Option<f64> {
    let is_decimal = column.data_type().is_numeric() && !is_float(column);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    (is_decimal && digits <= 15).then(|| text.parse().ok()).flatten()
}

/// A time as days since 1899-12-30, from March 1900 on: before, spreadsheets count a day that never was.
fn serial(column: &dyn Array, row: usize) -> Option<(f64, u8)> {
    const FIRST: f64 = 61.0;
    const UNIX_EPOCH_DAYS: f64 = 25_569.0;
    const MS_PER_DAY: f64 = 86_400_000.0;
    const LAST: f64 = 2_958_466.0;
    let (ms, style) = match column.data_type() {
        DataType::Timestamp(..) => (json::timestamp_ms(column, row)?, MOMENT),
        DataType::Date32 => (i64::from(column.as_primitive::<Date32Type>().value(row)) * 86_400_000, DAY),
        _ => return None,
    };
    let serial = UNIX_EPOCH_DAYS + ms as f64 / MS_PER_DAY;
    (FIRST..LAST).contains(&serial).then_some((serial, style))
}

fn number_cell(line: &mut String, place: usize, row: u64, style: u8, value: f64) {
    let _ = match style {
        0 => write!(line, "<c r=\"{}\"><v>{value:?}</v></c>", name(place, row)),
        style => write!(line, "<c r=\"{}\" s=\"{style}\"><v>{value:?}</v></c>", name(place, row)),
    };
}

fn text_cell(line: &mut String, place: usize, row: u64, style: u8, text: &str) {
    let _ = write!(
        line,
        "<c r=\"{}\" s=\"{style}\" t=\"inlineStr\"><is><t xml:space=\"preserve\">",
        name(place, row)
    );
    match cut(text) {
        None => escape(line, text),
        Some(kept) => {
            escape(line, kept);
            let _ = write!(line, "{}", cut_mark(text));
        }
    }
    line.push_str("</t></is></c>");
}

/// What a cell is too small for is cut, and says so.
fn cut_mark(text: &str) -> String {
    format!(" … [cut, {} characters]", text.chars().count())
}

/// The beginning of a text that is too long for a cell.
fn cut(text: &str) -> Option<&str> {
    // Every character of UTF-8 takes at least as many bytes as units of UTF-16.
    if text.len() <= CELL_UNITS_MAX || text.encode_utf16().count() <= CELL_UNITS_MAX {
        return None;
    }
    let room = CELL_UNITS_MAX - cut_mark(text).encode_utf16().count();
    let mut units = 0;
    let end = text.char_indices().find(|(_, character)| {
        units += character.len_utf16();
        units > room
    });
    Some(&text[..end.map_or(text.len(), |(at, _)| at)])
}

/// XML's own signs, and `_xHHHH_` for characters that XML cannot carry (ECMA-376, ST_Xstring).
fn escape(line: &mut String, text: &str) {
    for (at, character) in text.char_indices() {
        match character {
            '&' => line.push_str("&amp;"),
            '<' => line.push_str("&lt;"),
            '>' => line.push_str("&gt;"),
            '_' if is_escape(&text[at..]) => line.push_str("_x005F_"),
            '\t' | '\n' => line.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(line, "_x{:04X}_", u32::from(character));
            }
            plain => line.push(plain),
        }
    }
}

/// Whether the text would itself be read as such an escape.
fn is_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 7 && bytes[1] == b'x' && bytes[6] == b'_' && bytes[2..6].iter().all(u8::is_ascii_hexdigit)
}

/// A cell's name: `A1`, `AB17`.
pub(super) fn name(place: usize, row: u64) -> String {
    let mut letters = Vec::new();
    let mut rest = place + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or(0)));
        rest /= 26;
    }
    format!("{}{row}", letters.iter().rev().collect::<String>())
}
