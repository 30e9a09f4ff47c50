//! Rows of a statement, written as they come.

use crate::commands::RowFormat;
use crate::failure::Outcome;
use crate::output::{Sink, Table, cell, visible, width};
use serde_json::Value;

/// Writes rows in a format; their columns are those of the first.
pub struct Writer {
    format: RowFormat,
    to_file: bool,
    columns: Vec<String>,
    table: Option<Table>,
    rows: u64,
}

impl Writer {
    pub fn new(format: RowFormat, to_file: bool) -> Writer {
        Writer { format, to_file, columns: Vec::new(), table: None, rows: 0 }
    }

    pub fn row(&mut self, row: &Value, sink: &mut Sink) -> Outcome<()> {
        if self.rows == 0 {
            self.columns = row.as_object().map(|row| row.keys().cloned().collect()).unwrap_or_default();
            self.begin(sink)?;
        }
        self.rows += 1;
        let values = || self.columns.iter().map(|column| row.get(column.as_str()));
        match self.format {
            RowFormat::Csv => {
                let fields: Vec<_> = values().map(csv_field).collect();
                sink.write(format!("{}\r\n", fields.join(",")).as_bytes())
            }
            RowFormat::Json => {
                sink.write(if self.rows == 1 { b"[\n" } else { b",\n" })?;
                sink.write(row.to_string().as_bytes())
            }
            RowFormat::Table => {
                let cells = values().map(cell).collect();
                match &mut self.table {
                    Some(table) => table.row(cells, sink),
                    None => Ok(()),
                }
            }
            _ => sink.line(&row.to_string()),
        }
    }

    fn begin(&mut self, sink: &mut Sink) -> Outcome<()> {
        match self.format {
            RowFormat::Csv => {
                let names: Vec<_> = self.columns.iter().map(|name| quoted(name)).collect();
                sink.write(format!("{}\r\n", names.join(",")).as_bytes())
            }
            RowFormat::Table => {
                let headings = self.columns.iter().map(|name| visible(name));
                self.table = Some(Table::new(headings, width().filter(|_| !self.to_file)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub fn end(mut self, sink: &mut Sink) -> Outcome<()> {
        match (self.format, self.rows) {
            (RowFormat::Json, 0) => sink.line("[]"),
            (RowFormat::Json, _) => sink.line("\n]"),
            (RowFormat::Table, 0) => {
                crate::output::say("gleaner: no rows");
                Ok(())
            }
            _ => match self.table.take() {
                Some(table) => table.end(sink),
                None => Ok(()),
            },
        }
    }
}

/// A field of CSV (RFC 4180). What is null is an empty field, and an empty text is one in quotes.
fn csv_field(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
        Some(Value::String(text)) => quoted(text),
        Some(other) => quoted(&other.to_string()),
    }
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(format: RowFormat, rows: &[Value]) -> String {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("rows");
        let mut sink = Sink::open(Some(&file)).unwrap();
        let mut writer = Writer::new(format, true);
        for row in rows {
            writer.row(row, &mut sink).unwrap();
        }
        writer.end(&mut sink).unwrap();
        sink.end().unwrap();
        std::fs::read_to_string(&file).unwrap()
    }

    #[test]
    fn each_format_is_what_its_readers_take() {
        let rows = [json!({ "b": "x,\"y\"\nz", "a": null }), json!({ "b": "", "a": 1.5 })];
        assert_eq!(written(RowFormat::Csv, &rows), "b,a\r\n\"x,\"\"y\"\"\nz\",\r\n\"\",1.5\r\n");
        assert_eq!(written(RowFormat::Table, &rows), "b        a\nx,\"y\" z\n         1.5\n");
        let document: Value = serde_json::from_str(&written(RowFormat::Json, &rows)).unwrap();
        assert_eq!(document, json!(rows));
        let lines: Vec<Value> = written(RowFormat::Jsonl, &rows)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(json!(lines), json!(rows));
        for (format, nothing) in
            [(RowFormat::Json, "[]\n"), (RowFormat::Jsonl, ""), (RowFormat::Csv, ""), (RowFormat::Table, "")]
        {
            assert_eq!(written(format, &[]), nothing, "{format:?}");
        }
    }
}
