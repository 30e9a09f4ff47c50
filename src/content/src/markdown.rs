//! Content as Markdown: CommonMark with GitHub's tables and strikethrough.
//!
//! Nothing of the page is misread: what Markdown would take for a mark is escaped where it stands, no HTML passes, and a
//! mark that would not be one at its place (CommonMark 6.2 on flanking) is left out.

use crate::escape::{at_line_start, code_span, destination, escape, fence};
use crate::grid::Grid;
use crate::walk::{Mark, Part, Writer};

/// A container that each of its lines begins with.
#[derive(Debug)]
enum Around {
    Quote {
        has_begun: bool,
    },
    /// `width` is that of its marker, once that is written.
    Item {
        width: Option<usize>,
    },
}

impl Around {
    fn has_begun(&self) -> bool {
        matches!(self, Around::Quote { has_begun: true } | Around::Item { width: Some(_) })
    }
}

#[derive(Debug)]
struct List {
    next: Option<u32>,
    bullet: char,
    delimiter: char,
    has_begun: bool,
    /// Its first item would be read as part of what is before it, were there no empty line between.
    is_apart: bool,
}

/// A mark that is open in the current line, and where; `None` if it could not be written there.
#[derive(Debug)]
struct Written {
    mark: Mark,
    at: Option<usize>,
}

/// Writes Markdown, up to a number of bytes.
#[derive(Debug)]
pub struct Markdown {
    out: String,
    bytes_max: usize,
    /// The block that is being written.
    line: String,
    has_space: bool,
    breaks: usize,
    has_rule: bool,
    /// Marks that are open in the page and not yet in the line, those that are in it, and those that end there.
    pending: Vec<Mark>,
    written: Vec<Written>,
    ended: Vec<Written>,
    /// The text of a code span.
    span: Option<String>,
    heading: Option<u8>,
    around: Vec<Around>,
    lists: Vec<List>,
    /// The length of the output when a list ended, and its mark: a list right behind it needs another one.
    list_end: (usize, char),
    code: Option<String>,
    grid: Option<Grid>,
    is_after_item: bool,
}

impl Markdown {
    pub fn new(bytes_max: usize) -> Markdown {
        Markdown {
            out: String::new(),
            bytes_max,
            line: String::new(),
            has_space: false,
            breaks: 0,
            has_rule: false,
            pending: Vec::new(),
            written: Vec::new(),
            ended: Vec::new(),
            span: None,
            heading: None,
            around: Vec::new(),
            lists: Vec::new(),
            list_end: (usize::MAX, ' '),
            code: None,
            grid: None,
            is_after_item: false,
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

    /// Writes what came before a character: ends of marks, a space, beginnings of marks.
    fn before(&mut self, next: char) {
        let after_ended = if self.has_space || self.breaks > 0 { ' ' } else { next };
        for ended in std::mem::take(&mut self.ended) {
            self.write_end(ended, after_ended);
        }
        if self.span.is_some() {
            // Its spaces are in its text.
        } else if self.breaks > 0 && !self.line.is_empty() {
            self.line.push_str(if self.heading.is_some() || self.grid.is_some() { " " } else { "\\\n" });
        } else if self.has_space && !self.line.is_empty() {
            self.line.push(' ');
        }
        (self.has_space, self.breaks) = (false, 0);
        for mark in std::mem::take(&mut self.pending) {
            let at = self.write_beginning(&mark, next);
            self.written.push(Written { mark, at });
        }
    }

    /// True where a mark of emphasis opens at the end of the line: left-flanking.
    fn write_beginning(&mut self, mark: &Mark, next: char) -> Option<usize> {
        let at = self.line.len();
        match mark {
            Mark::Link(_) => self.line.push('['),
            Mark::Code => self.span = Some(String::new()),
            _ => {
                let previous = self.line.chars().next_back().unwrap_or(' ');
                if next.is_whitespace() || (is_punctuation(next) && !stands_apart(previous)) {
                    return None;
                }
                self.line.push_str(sign(mark));
            }
        }
        Some(at)
    }

    fn write_end(&mut self, ended: Written, next: char) {
        let Some(at) = ended.at else { return };
        match &ended.mark {
            Mark::Link(target) => {
                self.line.push_str("](");
                destination(target, &mut self.line);
                self.line.push(')');
            }
            Mark::Code => {
                let text = self.span.take().unwrap_or_default();
                code_span(&text, self.grid.is_some(), &mut self.line);
            }
            mark => {
                let previous = self.line.chars().next_back().unwrap_or(' ');
                if is_punctuation(previous) && !stands_apart(next) {
                    // It would not close here, and so must not have opened.
                    self.line.replace_range(at..at + sign(mark).len(), "");
                } else {
                    self.line.push_str(sign(mark));
                }
            }
        }
    }

    /// Ends the block: marks that are open end with it and begin anew in the next one.
    fn flush(&mut self) {
        for ended in std::mem::take(&mut self.ended) {
            self.write_end(ended, ' ');
        }
        let mut reopened = Vec::new();
        while let Some(written) = self.written.pop() {
            reopened.push(written.mark.clone());
            self.write_end(written, ' ');
        }
        reopened.reverse();
        reopened.append(&mut self.pending);
        self.pending = reopened;
        (self.has_space, self.breaks) = (false, 0);
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        if let Some(grid) = &mut self.grid {
            grid.add(&line);
            return;
        }
        match self.heading {
            Some(level) => {
                let marks = "######".get(..usize::from(level)).unwrap_or("######");
                let text = line.trim_end_matches('#');
                let closers =
                    "\\#".repeat((line.len() - text.len()).min(1)) + &line[text.len()..].replacen('#', "", 1);
                self.write_block(&format!("{marks} {text}{closers}"));
            }
            None => {
                let lines: Vec<String> = line.split('\n').map(at_line_start).collect();
                self.write_block(&lines.join("\n"));
            }
        }
    }

    /// Writes a block behind the others, each line within what stands around it.
    fn write_block(&mut self, block: &str) {
        let begins_item = matches!(self.around.last(), Some(Around::Item { width: None }));
        if self.has_rule && !self.out.is_empty() {
            self.has_rule = false;
            self.separate(false);
            let prefix = self.prefix();
            self.out.push_str(&prefix);
            self.out.push_str("* * *");
            self.is_after_item = false;
        }
        self.has_rule = false;
        let is_apart = self.lists.iter().any(|list| list.is_apart && !list.has_begun);
        self.separate(begins_item && self.is_after_item && !is_apart);
        let first = self.first_prefix();
        let rest = self.prefix();
        for (at, line) in block.split('\n').enumerate() {
            if at > 0 {
                self.out.push('\n');
            }
            let prefix = if at == 0 { &first } else { &rest };
            self.out.push_str(if line.is_empty() { prefix.trim_end() } else { prefix });
            self.out.push_str(line);
        }
        self.is_after_item = self.around.iter().any(|around| matches!(around, Around::Item { .. }));
    }

    fn separate(&mut self, is_tight: bool) {
        if self.out.is_empty() {
            return;
        }
        self.out.push('\n');
        if !is_tight {
            // What has not begun is not around the empty line.
            let open = self.around.iter().take_while(|around| around.has_begun());
            let prefix: String = open.map(prefix_of).collect();
            self.out.push_str(prefix.trim_end());
            self.out.push('\n');
        }
    }

    fn prefix(&self) -> String {
        self.around.iter().map(prefix_of).collect()
    }

    /// What the first line begins with: items that have not begun begin here, with their marker.
    fn first_prefix(&mut self) -> String {
        let mut prefix = String::new();
        // The innermost lists belong to the innermost items.
        let items = self.around.iter().filter(|around| matches!(around, Around::Item { .. })).count();
        let mut list = self.lists.len().saturating_sub(items);
        for around in &mut self.around {
            match around {
                Around::Item { width } => {
                    if let Some(width) = width {
                        prefix.push_str(&" ".repeat(*width));
                    } else {
                        let marker = self.lists.get_mut(list).map_or_else(|| "- ".to_owned(), List::marker);
                        *width = Some(marker.len());
                        prefix.push_str(&marker);
                    }
                    list += 1;
                }
                Around::Quote { has_begun } => {
                    *has_begun = true;
                    prefix.push_str("> ");
                }
            }
        }
        prefix
    }

    fn begin_list(&mut self, first: Option<u32>) {
        // A list right behind another one would go on with it, were their marks alike.
        let is_behind = self.list_end.0 == self.out.len();
        let before = if is_behind { self.list_end.1 } else { ' ' };
        let is_apart = is_behind || first.is_some_and(|first| first != 1);
        let bullet = if before == '-' { '*' } else { '-' };
        let delimiter = if before == '.' { ')' } else { '.' };
        let next = first.map(|first| first.min(999_999));
        self.lists.push(List { next, bullet, delimiter, has_begun: false, is_apart });
    }

    fn end_list(&mut self) {
        if let Some(list) = self.lists.pop() {
            let mark = if list.next.is_some() { list.delimiter } else { list.bullet };
            self.list_end = (self.out.len(), mark);
        }
    }

    fn end_table(&mut self) {
        let Some(grid) = self.grid.take() else { return };
        let room = self.bytes_max.saturating_sub(self.out.len());
        let table = grid.markdown(room);
        if !table.is_empty() {
            self.write_block(&table);
        }
    }
}

impl List {
    fn marker(&mut self) -> String {
        self.has_begun = true;
        match &mut self.next {
            Some(number) => {
                let marker = format!("{number}{} ", self.delimiter);
                *number += 1;
                marker
            }
            None => format!("{} ", self.bullet),
        }
    }
}

fn prefix_of(around: &Around) -> String {
    match around {
        Around::Quote { .. } => "> ".to_owned(),
        Around::Item { width } => " ".repeat(width.unwrap_or(0)),
    }
}

fn sign(mark: &Mark) -> &'static str {
    match mark {
        Mark::Strong => "**",
        Mark::Emphasis => "*",
        Mark::Strike => "~~",
        Mark::Code | Mark::Link(_) => "",
    }
}

/// Punctuation in the sense of CommonMark 6.2, or a symbol.
fn is_punctuation(character: char) -> bool {
    !character.is_alphanumeric() && !character.is_whitespace()
}

fn stands_apart(character: char) -> bool {
    character.is_whitespace() || is_punctuation(character)
}

impl Writer for Markdown {
    fn begin(&mut self, part: &Part) {
        self.flush();
        match part {
            Part::Heading(level) => self.heading = Some(*level),
            Part::List { first } => self.begin_list(*first),
            Part::Item if !self.lists.is_empty() => self.around.push(Around::Item { width: None }),
            Part::Quote => self.around.push(Around::Quote { has_begun: false }),
            Part::Code { .. } => self.code = Some(String::new()),
            Part::Table => self.grid = Some(Grid::default()),
            Part::Row => self.grid.iter_mut().for_each(Grid::begin_row),
            Part::Cell { is_heading, columns, rows } => {
                self.grid.iter_mut().for_each(|grid| grid.begin_cell(*is_heading, *columns, *rows));
            }
            Part::Block | Part::Item | Part::Caption => {}
        }
    }

    fn end(&mut self, part: &Part) {
        if let Some(code) = self.code.take_if(|_| matches!(part, Part::Code { .. })) {
            self.line.clear();
            let Part::Code { language } = part else { return };
            let text = code.trim_matches('\n').trim_end();
            if !text.is_empty() && self.grid.is_none() {
                let fence = fence(text);
                self.write_block(&format!("{fence}{language}\n{text}\n{fence}"));
            }
            return;
        }
        self.flush();
        match part {
            Part::Heading(_) => self.heading = None,
            Part::List { .. } => self.end_list(),
            Part::Item => {
                if matches!(self.around.last(), Some(Around::Item { .. })) {
                    self.around.pop();
                }
            }
            Part::Quote => {
                self.around.pop();
            }
            Part::Table => self.end_table(),
            _ => {}
        }
    }

    fn open(&mut self, mark: &Mark) {
        if self.code.is_some() {
            return;
        }
        let goes_on =
            self.ended.last().is_some_and(|ended| ended.mark == *mark && !matches!(mark, Mark::Code));
        if goes_on && !self.has_space && self.breaks == 0 && self.pending.is_empty() {
            self.written.extend(self.ended.pop());
        } else {
            self.pending.push(mark.clone());
        }
    }

    fn close(&mut self, mark: &Mark) {
        if self.code.is_some() {
            return;
        }
        if self.pending.last() == Some(mark) {
            self.pending.pop();
        } else if self.written.last().is_some_and(|written| written.mark == *mark) {
            self.ended.extend(self.written.pop());
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(code) = &mut self.code {
            code.push_str(text);
            return;
        }
        for (at, word) in text.split(char::is_whitespace).enumerate() {
            self.has_space |= at > 0;
            let Some(first) = word.chars().next() else { continue };
            if self.breaks > 1 && self.heading.is_none() && self.grid.is_none() {
                self.flush();
            }
            let had_space = (self.has_space || self.breaks > 0) && self.span.is_some();
            self.before(first);
            if let Some(span) = &mut self.span {
                if had_space && !span.is_empty() {
                    span.push(' ');
                }
                span.push_str(word);
            } else {
                escape(word, self.grid.is_some(), &mut self.line);
            }
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
        self.has_rule = self.grid.is_none() && self.around.is_empty();
    }

    fn image(&mut self, source: &str, text: &str) {
        if self.span.is_some() || self.code.is_some() {
            return;
        }
        self.before('!');
        self.line.push_str("![");
        escape(text, self.grid.is_some(), &mut self.line);
        self.line.push_str("](");
        destination(source, &mut self.line);
        self.line.push(')');
    }

    fn is_full(&self) -> bool {
        let code = self.code.as_ref().map_or(0, String::len);
        let grid = self.grid.as_ref().map_or(0, Grid::len);
        self.out.len() + self.line.len() + code + grid > self.bytes_max
    }
}
