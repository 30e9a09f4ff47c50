//! Content as plain text: a block a paragraph, an item or a row a line, no images and no words under them.

use crate::grid::Grid;
use crate::walk::{Mark, Part, Writer};

/// Writes plain text, up to a number of bytes.
#[derive(Debug)]
pub struct Text {
    out: String,
    bytes_max: usize,
    line: String,
    has_space: bool,
    breaks: usize,
    code: Option<String>,
    grid: Option<Grid>,
    captions: usize,
    lists: usize,
    is_after_item: bool,
    begins_item: bool,
}

impl Text {
    pub fn new(bytes_max: usize) -> Text {
        Text {
            out: String::new(),
            bytes_max,
            line: String::new(),
            has_space: false,
            breaks: 0,
            code: None,
            grid: None,
            captions: 0,
            lists: 0,
            is_after_item: false,
            begins_item: false,
        }
    }

    /// What was written.
    pub fn finish(mut self) -> String {
        self.flush();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    fn flush(&mut self) {
        (self.has_space, self.breaks) = (false, 0);
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        match &mut self.grid {
            Some(grid) => grid.add(&line),
            None => self.write_block(&line),
        }
    }

    fn write_block(&mut self, block: &str) {
        if !self.out.is_empty() {
            self.out.push_str(if self.is_after_item && self.begins_item { "\n" } else { "\n\n" });
        }
        self.out.push_str(block);
        self.is_after_item = self.lists > 0;
        self.begins_item = false;
    }
}

impl Writer for Text {
    fn begin(&mut self, part: &Part) {
        self.flush();
        match part {
            Part::Code { .. } => self.code = Some(String::new()),
            Part::Table => self.grid = Some(Grid::default()),
            Part::Row => self.grid.iter_mut().for_each(Grid::begin_row),
            Part::Cell { is_heading, columns, rows } => {
                self.grid.iter_mut().for_each(|grid| grid.begin_cell(*is_heading, *columns, *rows));
            }
            Part::Caption => self.captions += 1,
            Part::List { .. } => self.lists += 1,
            Part::Item => self.begins_item = true,
            Part::Block | Part::Heading(_) | Part::Quote => {}
        }
    }

    fn end(&mut self, part: &Part) {
        if let Some(code) = self.code.take_if(|_| matches!(part, Part::Code { .. })) {
            let text = code.trim_matches('\n').trim_end();
            if !text.is_empty() && self.grid.is_none() {
                self.write_block(text);
            }
            return;
        }
        self.flush();
        match part {
            Part::Caption => self.captions -= 1,
            Part::List { .. } => self.lists -= 1,
            Part::Table => {
                let table = self.grid.take().map(Grid::text).unwrap_or_default();
                if !table.is_empty() {
                    self.write_block(&table);
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, _mark: &Mark) {}

    fn close(&mut self, _mark: &Mark) {}

    fn text(&mut self, text: &str) {
        if self.captions > 0 {
            return;
        }
        if let Some(code) = &mut self.code {
            code.push_str(text);
            return;
        }
        for (at, word) in text.split(char::is_whitespace).enumerate() {
            self.has_space |= at > 0;
            if word.is_empty() {
                continue;
            }
            if self.breaks > 1 && self.grid.is_none() {
                self.flush();
            }
            if !self.line.is_empty() {
                match (self.breaks, self.has_space) {
                    (1, _) if self.grid.is_none() => self.line.push('\n'),
                    (0, false) => {}
                    _ => self.line.push(' '),
                }
            }
            (self.has_space, self.breaks) = (false, 0);
            self.line.push_str(word);
        }
    }

    fn line_break(&mut self) {
        match &mut self.code {
            Some(code) => code.push('\n'),
            None => self.breaks += 1,
        }
    }

    fn rule(&mut self) {
        self.flush();
    }

    fn image(&mut self, _source: &str, _text: &str) {}

    fn is_full(&self) -> bool {
        let code = self.code.as_ref().map_or(0, String::len);
        let grid = self.grid.as_ref().map_or(0, Grid::len);
        self.out.len() + self.line.len() + code + grid > self.bytes_max
    }
}
