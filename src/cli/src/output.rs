//! What is printed: JSON lines, or tables that fit the terminal. Data go to standard output, and nothing else does.

use crate::failure::{Failure, Outcome};
use base::printable::is_hidden;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Rows that the widths of a table are taken from; those behind them fit in, or stand out.
const ROWS_LOOKED_AT: usize = 1_000;
/// What a column keeps where there is no room.
const COLUMN_WIDTH_MIN: usize = 6;
/// Between two columns.
const GAP: &str = "  ";

/// Where data go: standard output, or a file that is there when it is whole.
pub struct Sink {
    out: Box<dyn Write>,
    file: Option<(PathBuf, PathBuf)>,
}

impl Sink {
    /// Standard output where `file` is none or `-`.
    pub fn open(file: Option<&Path>) -> Outcome<Sink> {
        let Some(file) = file.filter(|file| *file != Path::new("-")) else {
            return Ok(Sink { out: Box::new(BufWriter::new(io::stdout())), file: None });
        };
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let made = File::create(&part)
            .map_err(|e| Failure::usage("--output", format!("{}: {e}", part.display())))?;
        Ok(Sink { out: Box::new(BufWriter::new(made)), file: Some((part, file.to_owned())) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.out.write_all(bytes).map_err(|e| Failure::of_output(&e))
    }

    pub fn line(&mut self, line: &str) -> Outcome<()> {
        self.write(line.as_bytes())?;
        self.write(b"\n")
    }

    pub fn flush(&mut self) -> Outcome<()> {
        self.out.flush().map_err(|e| Failure::of_output(&e))
    }

    /// Everything is written.
    pub fn end(mut self) -> Outcome<()> {
        self.flush()?;
        if let Some((part, file)) = self.file.take() {
            std::fs::rename(&part, &file)
                .map_err(|e| Failure::failed(format!("{} cannot be written: {e}", file.display())))?;
        }
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // What is not whole is not left behind.
        if let Some((part, _)) = &self.file {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Says something that is no data; where standard error is closed, nobody listens.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The columns of standard output's terminal; none off a terminal.
pub fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0))
}

/// A column of a table: its heading, and where in a row of JSON its value is (`/quality/composite`).
pub type Column = (&'static str, &'static str);

/// A value as a cell shows it. What comes from pages may carry orders to a terminal: none of them gets there.
pub fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        }
        Some(other) => other.to_string(),
    };
    visible(&text)
}

/// The text without control characters and what else is not seen.
pub fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() || is_hidden(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Rows under headings.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
    limit: Option<usize>,
}

impl Table {
    pub fn new(headings: impl IntoIterator<Item = String>, limit: Option<usize>) -> Table {
        Table { headings: headings.into_iter().collect(), rows: Vec::new(), widths: Vec::new(), limit }
    }

    pub fn row(&mut self, cells: Vec<String>, sink: &mut Sink) -> Outcome<()> {
        self.rows.push(cells);
        if self.rows.len() >= ROWS_LOOKED_AT {
            self.print(sink)?;
        }
        Ok(())
    }

    /// Prints what is left; the headings at least.
    pub fn end(mut self, sink: &mut Sink) -> Outcome<()> {
        self.print(sink)
    }

    fn print(&mut self, sink: &mut Sink) -> Outcome<()> {
        if self.widths.is_empty() {
            self.widths = fitting(&self.headings, &self.rows, self.limit);
            let headings = self.headings.clone();
            self.line(&headings, sink)?;
        }
        for row in std::mem::take(&mut self.rows) {
            self.line(&row, sink)?;
        }
        Ok(())
    }

    fn line(&self, cells: &[String], sink: &mut Sink) -> Outcome<()> {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let cell = match self.limit {
                Some(_) => shortened(cell, *width),
                None => cell.clone(),
            };
            let room = width.saturating_sub(cell.width());
            if at > 0 {
                line.push_str(GAP);
            }
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', room));
        }
        sink.line(line.trim_end())
    }
}

/// How wide each column is, so that all of them fit into `limit`: the widest give first.
fn fitting(headings: &[String], rows: &[Vec<String>], limit: Option<usize>) -> Vec<usize> {
    let column = |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(|cell| cell.width()).max();
    let mut widths: Vec<_> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| heading.width().max(column(at).unwrap_or(0)))
        .collect();
    let Some(limit) = limit else { return widths };
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let room = limit.saturating_sub(gaps);
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max() else { break };
        if *widest <= COLUMN_WIDTH_MIN {
            break;
        }
        *widest -= 1;
    }
    widths
}

/// A text that is at most `width` wide, with `…` where it was cut.
fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_table_fits_the_terminal_and_is_whole_off_one() {
        let headings = texts(&["ID", "URL", "STATUS"]);
        let rows = vec![texts(&["1", &"x".repeat(200), "succeeded"])];
        let widths = fitting(&headings, &rows, Some(40));
        assert_eq!(widths.iter().sum::<usize>() + 4, 40);
        assert_eq!(widths[2], 9, "a column that is narrow keeps its width");
        assert_eq!(fitting(&headings, &rows, None), [2, 200, 9]);
        let narrow = fitting(&headings, &rows, Some(5));
        assert!(narrow.iter().all(|width| *width <= COLUMN_WIDTH_MIN));
    }

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(shortened("日本語日本語", 6), "日本…");
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "ab…");
    }

    #[test]
    fn cells_hold_no_orders_to_a_terminal() {
        assert_eq!(cell(Some(&json!("a\u{1b}[31mb\nc"))), "a\u{fffd}[31mb c");
        assert_eq!(cell(Some(&json!(["a", "b"]))), "a,b");
        assert_eq!(cell(Some(&json!({"a": 1}))), "{\"a\":1}");
        assert_eq!((cell(None).as_str(), cell(Some(&json!(null))).as_str()), ("", ""));
    }

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("out.csv");
        let mut sink = Sink::open(Some(&file)).unwrap();
        sink.line("a").unwrap();
        assert!(!file.exists());
        drop(sink);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut sink = Sink::open(Some(&file)).unwrap();
        sink.line("a").unwrap();
        sink.end().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n");
    }
}
