//! A table as rows and columns: cells that span several leave empty ones, so that every value stays in its column.

use crate::tables::COLUMNS_MAX;

#[derive(Debug, Default)]
pub struct Grid {
    rows: Vec<Vec<String>>,
    /// True for a first row of headings only.
    has_header: bool,
    /// For each column, how many rows a cell from above still reaches down.
    held: Vec<usize>,
    bytes: usize,
    /// Cells of the same span that stand behind the current one.
    pending: (usize, usize),
    has_cell: bool,
}

impl Grid {
    /// Bytes of the cells.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn begin_row(&mut self) {
        self.end_cell();
        self.held.iter_mut().for_each(|held| *held = held.saturating_sub(1));
        self.rows.push(Vec::new());
        // An empty cell has its cost in the output as well.
        self.bytes += 4;
    }

    pub fn begin_cell(&mut self, is_heading: bool, columns: usize, rows: usize) {
        if self.rows.is_empty() {
            self.begin_row();
        }
        self.end_cell();
        self.skip_held();
        let is_first_row = self.rows.len() == 1;
        let Some(row) = self.rows.last_mut() else { return };
        if row.len() >= COLUMNS_MAX {
            return;
        }
        if is_first_row {
            self.has_header = is_heading && (row.is_empty() || self.has_header);
        }
        row.push(String::new());
        self.bytes += 3;
        self.has_cell = true;
        self.pending = (columns, rows);
    }

    /// Adds text to the current cell.
    pub fn add(&mut self, text: &str) {
        if !self.has_cell {
            // Text of a caption or of a row itself: a row of its own.
            self.begin_row();
            self.begin_cell(false, 1, 1);
        }
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(text);
            self.bytes += text.len() + 1;
        }
    }

    fn end_cell(&mut self) {
        if !self.has_cell {
            return;
        }
        self.has_cell = false;
        let (columns, rows) = self.pending;
        let Some(row) = self.rows.last_mut() else { return };
        let start = row.len().saturating_sub(1);
        let end = (start + columns).min(COLUMNS_MAX);
        row.resize(end.max(row.len()), String::new());
        if rows > 1 {
            self.held.resize(self.held.len().max(end), 0);
            self.held[start..end].iter_mut().for_each(|held| *held = rows);
        }
        self.bytes += columns * 3;
    }

    /// Leaves empty what cells from above reach into.
    fn skip_held(&mut self) {
        let Some(row) = self.rows.last_mut() else { return };
        while self.held.get(row.len()).is_some_and(|held| *held > 0) && row.len() < COLUMNS_MAX {
            row.push(String::new());
        }
    }

    fn close(mut self) -> (Vec<Vec<String>>, bool) {
        self.end_cell();
        self.rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
        // Headings that stay while one scrolls stand twice.
        if self.has_header && self.rows.len() > 1 && self.rows[0] == self.rows[1] {
            self.rows.remove(1);
        }
        (self.rows, self.has_header)
    }

    /// Rows of GitHub's Markdown, as many as there is room for.
    pub fn markdown(self, room: usize) -> String {
        let (rows, has_header) = self.close();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut table = String::new();
        let mut add = |row: &[String]| {
            table.push('|');
            for column in 0..columns {
                let cell = row.get(column).map_or("", String::as_str);
                table.push(' ');
                table.push_str(cell);
                table.push_str(if cell.is_empty() { "|" } else { " |" });
            }
            table.push('\n');
            table.len() <= room
        };
        let mut rows = rows.iter();
        let header = if has_header { rows.next() } else { None };
        if columns == 0 || !add(header.map_or(&[], Vec::as_slice)) || !add(&vec!["---".to_owned(); columns]) {
            return String::new();
        }
        // A row that is begun is ended: the last one may be too much.
        for row in rows {
            if !add(row) {
                break;
            }
        }
        table.truncate(table.trim_end_matches('\n').len());
        table
    }

    /// A row a line, a tab between cells.
    pub fn text(self) -> String {
        let (rows, _) = self.close();
        let lines: Vec<String> = rows.iter().map(|row| row.join("\t").trim_end().to_owned()).collect();
        lines.join("\n")
    }
}
