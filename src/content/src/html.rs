//! Content as HTML: the elements of the content, rewritten from what was understood of them. No attribute but addresses, the
//! words of images and the spans of cells, so that it can be shown on any page.

use crate::walk::{Mark, Part, Writer};

/// Writes HTML, up to a number of bytes.
#[derive(Debug)]
pub struct Html {
    out: String,
    bytes_max: usize,
    line: String,
    has_space: bool,
    breaks: usize,
    /// Marks that are open in the page, and how many of them are in the line.
    marks: Vec<Mark>,
    written: usize,
    heading: Option<u8>,
    code: bool,
    /// Cells and items that are open; the first text in one stands in it by itself.
    bare: Vec<bool>,
    tables: usize,
    /// True when a text was too long for the room that was left.
    is_cut: bool,
}

impl Html {
    pub fn new(bytes_max: usize) -> Html {
        Html {
            out: String::new(),
            bytes_max,
            line: String::new(),
            has_space: false,
            breaks: 0,
            marks: Vec::new(),
            written: 0,
            heading: None,
            code: false,
            bare: Vec::new(),
            tables: 0,
            is_cut: false,
        }
    }

    /// What was written, and whether a text was cut.
    pub fn finish(mut self) -> (String, bool) {
        self.flush();
        (self.out, self.is_cut)
    }

    fn before(&mut self) {
        if self.breaks > 0 && !self.line.is_empty() {
            self.line.push_str("<br>");
        } else if self.has_space && !self.line.is_empty() {
            self.line.push(' ');
        }
        (self.has_space, self.breaks) = (false, 0);
        for mark in &self.marks[self.written..] {
            begin_mark(mark, &mut self.line);
        }
        self.written = self.marks.len();
    }

    fn flush(&mut self) {
        (self.has_space, self.breaks) = (false, 0);
        for mark in self.marks[..self.written].iter().rev() {
            end_mark(mark, &mut self.line);
        }
        self.written = 0;
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        if self.code {
            self.out.push_str(&line);
            return;
        }
        let is_bare = self.bare.last().copied().unwrap_or(false);
        if let Some(bare) = self.bare.last_mut() {
            *bare = false;
        }
        match self.heading {
            Some(level) => self.out.push_str(&format!("<h{level}>{line}</h{level}>\n")),
            None if is_bare => self.out.push_str(&line),
            None => self.out.push_str(&format!("<p>{line}</p>\n")),
        }
    }
}

fn begin_mark(mark: &Mark, line: &mut String) {
    match mark {
        Mark::Strong => line.push_str("<strong>"),
        Mark::Emphasis => line.push_str("<em>"),
        Mark::Strike => line.push_str("<del>"),
        Mark::Code => line.push_str("<code>"),
        Mark::Link(target) => {
            line.push_str("<a href=\"");
            escape(target, line);
            line.push_str("\">");
        }
    }
}

fn end_mark(mark: &Mark, line: &mut String) {
    line.push_str(match mark {
        Mark::Strong => "</strong>",
        Mark::Emphasis => "</em>",
        Mark::Strike => "</del>",
        Mark::Code => "</code>",
        Mark::Link(_) => "</a>",
    });
}

fn escape(text: &str, line: &mut String) {
    for character in text.chars() {
        match character {
            '&' => line.push_str("&amp;"),
            '<' => line.push_str("&lt;"),
            '>' => line.push_str("&gt;"),
            '"' => line.push_str("&quot;"),
            other => line.push(other),
        }
    }
}

impl Writer for Html {
    fn begin(&mut self, part: &Part) {
        self.flush();
        match part {
            Part::Heading(level) => self.heading = Some(*level),
            Part::List { first: None } => self.out.push_str("<ul>\n"),
            Part::List { first: Some(1) } => self.out.push_str("<ol>\n"),
            Part::List { first: Some(first) } => self.out.push_str(&format!("<ol start=\"{first}\">\n")),
            Part::Item => {
                self.bare.push(true);
                self.out.push_str("<li>");
            }
            Part::Quote => self.out.push_str("<blockquote>\n"),
            Part::Code { .. } => {
                self.code = true;
                // The first newline in it would be taken as the markup's.
                self.out.push_str("<pre><code>");
            }
            Part::Table => {
                self.tables += 1;
                self.out.push_str("<table>\n");
            }
            Part::Row => self.out.push_str("<tr>"),
            Part::Cell { is_heading, columns, rows } => {
                self.bare.push(true);
                self.out.push_str(if *is_heading { "<th" } else { "<td" });
                for (name, span) in [("colspan", columns), ("rowspan", rows)] {
                    if *span > 1 {
                        self.out.push_str(&format!(" {name}=\"{span}\""));
                    }
                }
                self.out.push('>');
            }
            Part::Block | Part::Caption => {}
        }
    }

    fn end(&mut self, part: &Part) {
        self.flush();
        match part {
            Part::Heading(_) => self.heading = None,
            Part::List { first } => self.out.push_str(if first.is_some() { "</ol>\n" } else { "</ul>\n" }),
            Part::Item => {
                self.bare.pop();
                self.out.push_str("</li>\n");
            }
            Part::Quote => self.out.push_str("</blockquote>\n"),
            Part::Code { .. } => {
                self.code = false;
                self.out.push_str("</code></pre>\n");
            }
            Part::Table => {
                self.tables -= 1;
                self.out.push_str("</table>\n");
            }
            Part::Row => self.out.push_str("</tr>\n"),
            Part::Cell { is_heading, .. } => {
                self.bare.pop();
                self.out.push_str(if *is_heading { "</th>" } else { "</td>" });
            }
            Part::Block | Part::Caption => {}
        }
    }

    fn open(&mut self, mark: &Mark) {
        if !self.code {
            self.marks.push(mark.clone());
        }
    }

    fn close(&mut self, mark: &Mark) {
        if self.code || self.marks.last() != Some(mark) {
            return;
        }
        self.marks.pop();
        if self.written > self.marks.len() {
            end_mark(mark, &mut self.line);
            self.written = self.marks.len();
        }
    }

    fn text(&mut self, text: &str) {
        if self.code {
            let room = self.bytes_max.saturating_sub(self.out.len() + self.line.len());
            let cut = &text[..text.floor_char_boundary(room)];
            self.is_cut |= cut.len() < text.len();
            escape(cut, &mut self.line);
            return;
        }
        for (at, word) in text.split(char::is_whitespace).enumerate() {
            self.has_space |= at > 0;
            if word.is_empty() {
                continue;
            }
            // Text right in a table stands in no cell: it has no place there.
            if self.breaks > 1 && self.heading.is_none() && self.tables == 0 {
                self.flush();
            }
            self.is_cut |= self.is_full() || word.len() > self.bytes_max;
            if self.is_cut {
                return;
            }
            self.before();
            escape(word, &mut self.line);
        }
    }

    fn line_break(&mut self) {
        if self.code {
            self.line.push('\n');
        } else {
            self.breaks += 1;
        }
    }

    fn rule(&mut self) {
        self.flush();
        if self.bare.is_empty() && self.tables == 0 {
            self.out.push_str("<hr>\n");
        }
    }

    fn image(&mut self, source: &str, text: &str) {
        if self.code {
            return;
        }
        self.before();
        self.line.push_str("<img src=\"");
        escape(source, &mut self.line);
        self.line.push_str("\" alt=\"");
        escape(text, &mut self.line);
        self.line.push_str("\">");
    }

    fn is_full(&self) -> bool {
        self.out.len() + self.line.len() > self.bytes_max
    }
}
