//! What is content, told to a writer in document order.
//!
//! The walk knows HTML and the writers do not: they are told of paragraphs, headings, lists, tables and marks within a
//! line, each begun and ended properly and nested no deeper than a reader follows.

use page::html::names::{self, NameId};
use page::html::{AttrId, Document, NodeId};

use crate::layout::{Block, Layout, heading_level, is_block_level, is_readable};
use crate::links::Links;
use crate::select::Selection;

/// Lists and quotes within one another; deeper ones are flattened.
const NESTING_MAX: usize = 8;
/// Marks (bold, links …) around one text; deeper ones are left out.
const MARKS_MAX: usize = 6;
/// Bytes of an image's text, and of a code block's language.
const ALT_BYTES_MAX: usize = 500;
const LANGUAGE_BYTES_MAX: usize = 30;

/// How a piece of a line is marked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    Strong,
    Emphasis,
    Strike,
    Code,
    Link(String),
}

/// A piece of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A paragraph, or any division: what is in it shares no line with what is around.
    Block,
    Heading(u8),
    /// `first` is the number of an ordered list's first item.
    List {
        first: Option<u32>,
    },
    Item,
    Quote,
    /// Text whose spaces and lines count.
    Code {
        language: String,
    },
    Table,
    Row,
    Cell {
        is_heading: bool,
        columns: usize,
        rows: usize,
    },
    /// The words under a picture.
    Caption,
}

/// Takes content down in some form.
pub trait Writer {
    fn begin(&mut self, part: &Part);
    fn end(&mut self, part: &Part);
    fn open(&mut self, mark: &Mark);
    fn close(&mut self, mark: &Mark);
    /// Text as in the source; in anything but code its white space is still to be collapsed.
    fn text(&mut self, text: &str);
    fn line_break(&mut self);
    fn rule(&mut self);
    fn image(&mut self, source: &str, text: &str);
    /// True when it has no room for more.
    fn is_full(&self) -> bool;
}

enum Open {
    Part(Part),
    Mark(Mark),
}

struct Walk<'a, W> {
    document: &'a Document,
    is_article: bool,
    links: Links,
    writer: &'a mut W,
    open: Vec<(u32, Open)>,
    nesting: usize,
    /// Lists that are open, and items: a list has one open item at most.
    lists: usize,
    items: usize,
    marks: usize,
    headings: usize,
    /// End of the code block or data table that is being read.
    code_end: u32,
    table_end: u32,
}

/// Tells a writer what was selected. False if the writer was full before the end.
pub fn walk<W: Writer>(
    document: &Document,
    layout: &Layout,
    selection: &Selection,
    links: Links,
    writer: &mut W,
) -> bool {
    let kept: Vec<&Block> = layout
        .blocks
        .iter()
        .zip(&selection.is_kept)
        .filter(|(_, is_kept)| **is_kept)
        .map(|(block, _)| block)
        .collect();
    let content_end = kept.last().map_or(0, |block| block.end);
    let mut kept = kept.into_iter().peekable();
    let mut all = layout.blocks.iter().peekable();
    let mut cut = selection.cut.iter().peekable();
    let mut captions = selection.captions.iter().peekable();
    let mut walk = Walk::new(document, selection.is_article, links, writer);
    let mut at = selection.root.0;
    while cut.next_if(|node| **node < at).is_some() {}
    while at < content_end && !walk.writer.is_full() {
        walk.leave(at);
        let node = NodeId(at);
        if cut.next_if(|node| **node == at).is_some() {
            at = document.subtree_end(node).0;
            continue;
        }
        while kept.next_if(|block| block.end <= at).is_some() {}
        let is_kept = kept.peek().is_some_and(|block| block.start <= at);
        if document.is_text(node) {
            if is_kept || at < walk.code_end {
                walk.writer.text(document.text(node));
            }
        } else if document.is_element(node) {
            let end = document.subtree_end(node).0;
            if !is_readable(document, node) {
                at = end;
                continue;
            }
            while all.next_if(|block| block.start < at).is_some() {}
            let holds_content = kept.peek().is_some_and(|block| block.start < end);
            let holds_text = all.peek().is_some_and(|block| block.start < end);
            while captions.next_if(|caption| **caption < at).is_some() {}
            if holds_content && captions.next_if(|caption| **caption == at).is_some() {
                walk.begin(Part::Caption, end);
            } else if holds_content || is_empty_element(document.name_id(node)) {
                walk.enter(node, end, layout);
            } else if holds_text {
                // Its text is no content, and neither are its images. What has no text at all may hold one that is.
                at = end;
                continue;
            }
        }
        at += 1;
    }
    let is_whole = at >= content_end;
    walk.leave(u32::MAX);
    is_whole
}

fn is_empty_element(name: NameId) -> bool {
    matches!(name, names::BR | names::HR | names::IMG)
}

impl<'a, W: Writer> Walk<'a, W> {
    fn new(document: &'a Document, is_article: bool, links: Links, writer: &'a mut W) -> Walk<'a, W> {
        Walk {
            document,
            is_article,
            links,
            writer,
            open: Vec::new(),
            nesting: 0,
            lists: 0,
            items: 0,
            marks: 0,
            headings: 0,
            code_end: 0,
            table_end: 0,
        }
    }

    /// Ends what ends at a node.
    fn leave(&mut self, at: u32) {
        while let Some((_, open)) = self.open.pop_if(|(end, _)| *end <= at) {
            match open {
                Open::Part(part) => {
                    match part {
                        Part::Quote => self.nesting -= 1,
                        Part::List { .. } => {
                            self.nesting -= 1;
                            self.lists -= 1;
                        }
                        Part::Item => self.items -= 1,
                        Part::Heading(_) => self.headings -= 1,
                        _ => {}
                    }
                    self.writer.end(&part);
                }
                Open::Mark(mark) => {
                    self.marks -= 1;
                    self.writer.close(&mark);
                }
            }
        }
    }

    fn enter(&mut self, node: NodeId, end: u32, layout: &Layout) {
        let name = self.document.name_id(node);
        if node.0 < self.code_end {
            if name == names::BR {
                self.writer.text("\n");
            }
            return;
        }
        match name {
            names::BR => self.writer.line_break(),
            names::HR => self.writer.rule(),
            names::IMG => self.image(node),
            _ if is_block_level(name) => {
                let part = self.part(node, name, layout);
                self.begin(part, end);
            }
            _ => self.mark(node, name, end),
        }
    }

    fn begin(&mut self, part: Part, end: u32) {
        match part {
            Part::Quote => self.nesting += 1,
            Part::List { .. } => {
                self.nesting += 1;
                self.lists += 1;
            }
            Part::Item => self.items += 1,
            Part::Heading(_) => self.headings += 1,
            Part::Code { .. } => self.code_end = end,
            Part::Table => self.table_end = end,
            _ => {}
        }
        self.writer.begin(&part);
        self.open.push((end, Open::Part(part)));
    }

    fn part(&self, node: NodeId, name: NameId, layout: &Layout) -> Part {
        let is_deep = self.nesting >= NESTING_MAX;
        if node.0 < self.table_end {
            return match name {
                names::TR => Part::Row,
                names::TD | names::TH => Part::Cell {
                    is_heading: name == names::TH,
                    columns: self.span(node, names::COLSPAN),
                    rows: self.span(node, names::ROWSPAN),
                },
                _ => Part::Block,
            };
        }
        if let Some(level) = heading_level(name) {
            return Part::Heading(level);
        }
        match name {
            names::UL | names::OL | names::MENU | names::DIR if !is_deep => {
                let first =
                    self.document.attribute_named(node, "start").and_then(|text| text.trim().parse().ok());
                Part::List { first: (name == names::OL).then(|| first.unwrap_or(1)) }
            }
            names::LI if self.items < self.lists => Part::Item,
            names::BLOCKQUOTE if !is_deep => Part::Quote,
            names::PRE | names::LISTING | names::XMP => Part::Code { language: self.language(node) },
            names::TABLE if layout.shapes.holds_data(node) => Part::Table,
            names::FIGCAPTION => Part::Caption,
            _ => Part::Block,
        }
    }

    fn span(&self, node: NodeId, name: NameId) -> usize {
        let value = self.document.attribute(node, name).and_then(|text| text.trim().parse().ok());
        value.unwrap_or(1).clamp(1, crate::tables::COLUMNS_MAX)
    }

    /// `language-rust` or `lang-rust` among the classes of the block or of the code in it.
    fn language(&self, node: NodeId) -> String {
        let inner = self.document.children(node).find(|child| self.document.name_id(*child) == names::CODE);
        let classes = [Some(node), inner].into_iter().flatten();
        let classes = classes.filter_map(|element| self.document.attribute(element, names::CLASS));
        let mut names = classes.flat_map(|names| names.split_ascii_whitespace().take(NESTING_MAX));
        let language =
            names.find_map(|name| name.strip_prefix("language-").or_else(|| name.strip_prefix("lang-")));
        let is_plain = |name: &&str| {
            name.len() <= LANGUAGE_BYTES_MAX
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#-".contains(&byte))
        };
        language.filter(is_plain).unwrap_or_default().to_owned()
    }

    fn mark(&mut self, node: NodeId, name: NameId, end: u32) {
        let mark = match name {
            names::STRONG | names::B if self.headings == 0 => Mark::Strong,
            names::EM | names::I => Mark::Emphasis,
            names::S | names::DEL | names::STRIKE => Mark::Strike,
            names::CODE | names::TT | names::KBD | names::SAMP => Mark::Code,
            names::A => {
                let target =
                    self.document.attribute(node, names::HREF).and_then(|href| self.links.resolve(href));
                let Some(target) = target else { return };
                Mark::Link(target)
            }
            _ => return,
        };
        let is_same = |open: &(u32, Open)| match (&open.1, &mark) {
            (Open::Mark(Mark::Link(_)), Mark::Link(_)) => true,
            (Open::Mark(open), mark) => open == mark,
            _ => false,
        };
        // What is open around is looked through only as far as marks reach.
        if self.marks >= MARKS_MAX || self.open.iter().rev().take(MARKS_MAX * 4).any(is_same) {
            return;
        }
        self.marks += 1;
        self.writer.open(&mark);
        self.open.push((end, Open::Mark(mark)));
    }

    fn image(&mut self, node: NodeId) {
        let document = self.document;
        let is_dot = |name: NameId| {
            let size = document.attribute(node, name).and_then(|text| text.trim().parse::<u32>().ok());
            size.is_some_and(|size| size <= 2)
        };
        if is_dot(names::WIDTH) || is_dot(names::HEIGHT) {
            return;
        }
        let candidates = document.attributes(node).filter_map(|row| {
            let attribute = AttrId(row);
            let value = document.attr_value(attribute);
            let value = match document.attr_name(attribute) {
                // A page that loads its images late has a placeholder in `src`.
                "data-src" | "data-lazy-src" | "data-original" => (0, value),
                "src" => (1, value),
                "srcset" | "data-srcset" => (2, value.trim().split([' ', ',']).next().unwrap_or_default()),
                _ => return None,
            };
            Some(value)
        });
        let mut candidates: Vec<(u8, &str)> = candidates.collect();
        candidates.sort_by_key(|(rank, _)| *rank);
        let source = candidates.into_iter().find_map(|(_, source)| self.links.resolve_image(source));
        let Some(source) = source else { return };
        let text = document.attribute(node, names::ALT).unwrap_or_default();
        let text = crate::about::collapse(&text[..text.floor_char_boundary(ALT_BYTES_MAX)]);
        // Among prose an image is part of it; on other pages one without words is a button or a line.
        if self.is_article || !text.is_empty() {
            self.writer.image(&source, &text);
        }
    }
}
