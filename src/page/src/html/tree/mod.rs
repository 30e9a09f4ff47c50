//! Tree construction: the WHATWG's section 13.2.6, scripting off.
//!
//! [`Parser`] is tokenizer and tree builder in one: a token is a function call, never a value that is stored. The files
//! beside this one hold the rules by insertion mode (`head`, `body`, `table`, `frames`), foreign content, and the list of
//! active formatting elements; `../tokenizer` reads the source.
//!
//! What differs from the standard, on purpose: searches on the stack of open elements end after [`OPEN_SCAN_MAX`] entries
//! and at most [`FORMATTING_MAX`] formatting elements are active at once, so that hostile nesting stays linear; copies of
//! formatting elements have a budget, after which none are made; a tree that outgrows its budget ends where it is. Template content is plain children of the template.

mod body;
mod body_end;
mod foreign;
mod formatting;
mod frames;
mod head;
mod insert;
mod stack;
mod table;
pub(super) mod tags;

use std::collections::HashSet;

use super::dom::names::{self, NameId, STATIC_COUNT};
use super::dom::{Budget, Builder, DoctypeIds, Namespace, QuirksMode};
use super::tokenizer::TextMode;
use formatting::FormattingEntry;
use tags::Flags;

/// How many open elements a search looks at. Browsers nest no deeper than 512 themselves.
pub(super) const OPEN_SCAN_MAX: usize = 512;
/// How many formatting elements may be active since the last marker.
pub(super) const FORMATTING_MAX: usize = 512;
/// Nodes (and copied attributes) that any page may have, above one for each byte of its source.
pub(super) const NODES_BASE: usize = 16_384;
/// How often any page may have formatting elements reopened, above once for [`COPY_BYTES`] of its source. Unclosed
/// formatting makes every paragraph reopen up to [`FORMATTING_MAX`] elements: without a bound of their own, copies would
/// use up the whole budget of nodes (5 million for the longest page, 0.45 s).
pub(super) const COPIES_BASE: usize = 8_192;
pub(super) const COPY_BYTES: usize = 8;

/// The insertion modes. "In table text" is not among them: pending text is flushed by whatever token follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InsertionMode {
    Initial,
    BeforeHtml,
    BeforeHead,
    InHead,
    InHeadNoscript,
    AfterHead,
    InBody,
    Text,
    InTable,
    InCaption,
    InColumnGroup,
    InTableBody,
    InRow,
    InCell,
    InTemplate,
    AfterBody,
    InFrameset,
    AfterFrameset,
    AfterAfterBody,
    AfterAfterFrameset,
}

/// Whether a token is dealt with, or is to be processed again in the mode that the parser is in now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Done,
    Again,
}

/// An entry of the stack of open elements. `key` is the name for HTML elements and matches no HTML name for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenElement {
    pub(super) row: u32,
    pub(super) key: u32,
    pub(super) flags: Flags,
}

const SVG_KEY: u32 = 1 << 30;
const MATHML_KEY: u32 = 1 << 31;

impl OpenElement {
    fn new(row: u32, name: NameId, namespace: Namespace, flags: Flags) -> OpenElement {
        let bits = match namespace {
            Namespace::Html => 0,
            Namespace::Svg => SVG_KEY,
            Namespace::MathMl => MATHML_KEY,
        };
        OpenElement { row, key: name.0 | bits, flags }
    }

    #[inline]
    pub(super) fn is(self, name: NameId) -> bool {
        self.key == name.0
    }

    /// The HTML name, or one that no rule knows.
    #[inline]
    pub(super) fn html_name(self) -> NameId {
        NameId(self.key)
    }

    fn name(self) -> NameId {
        NameId(self.key & !(SVG_KEY | MATHML_KEY))
    }

    pub(super) fn namespace(self) -> Namespace {
        match self.key & (SVG_KEY | MATHML_KEY) {
            0 => Namespace::Html,
            SVG_KEY => Namespace::Svg,
            _ => Namespace::MathMl,
        }
    }
}

/// A start tag; its attributes are a range of the builder's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) name: NameId,
    pub(super) self_closing: bool,
    pub(super) attributes_start: u32,
    pub(super) attributes_end: u32,
}

impl Tag {
    pub(super) fn bare(name: NameId) -> Tag {
        Tag { name, self_closing: false, attributes_start: 0, attributes_end: 0 }
    }

    fn attributes(&self) -> std::ops::Range<u32> {
        self.attributes_start..self.attributes_end
    }
}

/// Where a node goes.
#[derive(Clone, Copy)]
pub(super) enum InsertionLocation {
    Append(u32),
    Before(u32),
}

/// Tokenizer and tree builder of one page.
pub(super) struct Parser<'s> {
    pub(super) source: &'s str,
    pub(super) position: usize,
    pub(super) has_nul: bool,
    pub(super) raw: TextMode,
    /// The element whose end tag ends raw text.
    pub(super) raw_name: NameId,
    /// Attribute names seen in the tag whose number is `epoch`.
    pub(super) epoch: u32,
    pub(super) seen: Vec<u32>,
    pub(super) scratch: String,
    pub(super) builder: Builder,
    pub(super) stopped: bool,
    pub(super) ignore_line_feed: bool,
    rows_max: usize,
    mode: InsertionMode,
    original_mode: InsertionMode,
    template_modes: Vec<InsertionMode>,
    stack: Vec<OpenElement>,
    counts: [u32; STATIC_COUNT],
    formats: Vec<FormattingEntry>,
    /// Copies of formatting elements that may still be made.
    copies_left: usize,
    head: Option<u32>,
    form: Option<u32>,
    frameset_ok: bool,
    fostering: bool,
    /// Characters met directly in a table, waiting for the token that tells where they go.
    pending: Vec<(u32, u32)>,
    pending_visible: bool,
    context: Option<OpenElement>,
    /// Attribute names that `<html>` and `<body>` already have, filled when a second tag adds to them.
    merged: [Option<HashSet<NameId>>; 2],
}

impl<'s> Parser<'s> {
    pub(super) fn new(source: &'s str) -> Parser<'s> {
        Parser {
            source,
            position: 0,
            has_nul: memchr::memchr(0, source.as_bytes()).is_some(),
            raw: TextMode::Data,
            raw_name: NameId::NONE,
            epoch: 0,
            seen: vec![0; STATIC_COUNT * 2],
            scratch: String::new(),
            builder: Builder::new(source.len()),
            stopped: false,
            ignore_line_feed: false,
            rows_max: source.len() + NODES_BASE,
            mode: InsertionMode::Initial,
            original_mode: InsertionMode::InBody,
            template_modes: Vec::new(),
            stack: Vec::with_capacity(64),
            counts: [0; STATIC_COUNT],
            formats: Vec::new(),
            copies_left: source.len() / COPY_BYTES + COPIES_BASE,
            head: None,
            form: None,
            frameset_ok: true,
            fostering: false,
            pending: Vec::new(),
            pending_visible: false,
            context: None,
            merged: [None, None],
        }
    }

    /// Reads the whole source as a page; gives the builder with its tree below row 0.
    pub(super) fn page(mut self) -> Builder {
        self.run();
        if !self.stopped {
            self.end_of_file();
        }
        self.builder
    }

    /// Reads the whole source as the content of an element; gives the builder and the row whose children are the result.
    pub(super) fn fragment(mut self, context: &str, namespace: Namespace) -> (Builder, u32) {
        let name = self.builder.names.intern(context);
        self.mode = InsertionMode::BeforeHtml;
        self.create_root(Tag::bare(names::HTML));
        let root = self.stack[0].row;
        if namespace == Namespace::Html {
            self.raw = match name {
                names::TITLE | names::TEXTAREA => TextMode::Rcdata,
                names::STYLE | names::XMP | names::IFRAME | names::NOEMBED | names::NOFRAMES => {
                    TextMode::Rawtext
                }
                names::SCRIPT => TextMode::Script,
                names::PLAINTEXT => TextMode::Plaintext,
                _ => TextMode::Data,
            };
            match name {
                names::TEMPLATE => self.template_modes.push(InsertionMode::InTemplate),
                // The context itself is no node of ours; the document stands in for "some form around this".
                names::FORM => self.form = Some(0),
                _ => {}
            }
        }
        self.context = Some(OpenElement::new(0, name, namespace, tags::flags(name, namespace)));
        self.reset_mode();
        self.run();
        if !self.stopped {
            self.end_of_file();
        }
        (self.builder, root)
    }

    /// Ends parsing where it is when the tree has outgrown its budget.
    #[inline]
    pub(super) fn check_budget(&mut self) {
        if self.builder.row_count() > self.rows_max {
            self.builder.truncated = Some(Budget::Nodes);
            self.stopped = true;
        } else if self.builder.attribute_total() > self.rows_max {
            self.builder.truncated = Some(Budget::Attributes);
            self.stopped = true;
        }
    }
}

/// Tokens, dispatched by mode.
impl Parser<'_> {
    pub(super) fn start_tag(&mut self, mut tag: Tag) {
        self.ignore_line_feed = false;
        if !self.pending.is_empty() {
            self.flush_pending();
        }
        if self.is_foreign_for_start(tag.name) {
            return self.foreign_start(tag);
        }
        while self.start_by_mode(&mut tag) == Flow::Again {}
    }

    #[inline]
    pub(super) fn start_by_mode(&mut self, tag: &mut Tag) -> Flow {
        match self.mode {
            InsertionMode::InBody | InsertionMode::Text => self.body_start(tag),
            InsertionMode::InCell => self.cell_start(tag),
            InsertionMode::InTable => self.table_start(tag),
            InsertionMode::InTableBody => self.table_body_start(tag),
            InsertionMode::InRow => self.row_start(tag),
            InsertionMode::InCaption => self.caption_start(tag),
            InsertionMode::InColumnGroup => self.column_group_start(tag),
            InsertionMode::InTemplate => self.template_start(tag),
            InsertionMode::InHead => self.head_start(tag),
            InsertionMode::InHeadNoscript => self.head_noscript_start(tag),
            InsertionMode::AfterHead => self.after_head_start(tag),
            InsertionMode::Initial | InsertionMode::BeforeHtml | InsertionMode::BeforeHead => {
                self.before_start(tag)
            }
            InsertionMode::AfterBody | InsertionMode::AfterAfterBody => self.after_body_start(tag),
            InsertionMode::InFrameset | InsertionMode::AfterFrameset | InsertionMode::AfterAfterFrameset => {
                self.frameset_start(tag)
            }
        }
    }

    pub(super) fn end_tag(&mut self, name: NameId) {
        self.ignore_line_feed = false;
        if !self.pending.is_empty() {
            self.flush_pending();
        }
        if self.is_foreign() && self.foreign_end(name) {
            return;
        }
        while self.end_by_mode(name) == Flow::Again {}
    }

    #[inline]
    fn end_by_mode(&mut self, name: NameId) -> Flow {
        match self.mode {
            InsertionMode::InBody => self.body_end(name),
            InsertionMode::Text => {
                self.pop();
                self.mode = self.original_mode;
                Flow::Done
            }
            InsertionMode::InCell => self.cell_end(name),
            InsertionMode::InTable => self.table_end(name),
            InsertionMode::InTableBody => self.table_body_end(name),
            InsertionMode::InRow => self.row_end(name),
            InsertionMode::InCaption => self.caption_end(name),
            InsertionMode::InColumnGroup => self.column_group_end(name),
            InsertionMode::InTemplate if name == names::TEMPLATE => self.template_end(),
            InsertionMode::InTemplate => Flow::Done,
            InsertionMode::InHead => self.head_end(name),
            InsertionMode::InHeadNoscript => self.head_noscript_end(name),
            InsertionMode::AfterHead => self.after_head_end(name),
            InsertionMode::Initial | InsertionMode::BeforeHtml | InsertionMode::BeforeHead => {
                self.before_end(name)
            }
            InsertionMode::AfterBody | InsertionMode::AfterAfterBody => self.after_body_end(name),
            InsertionMode::InFrameset | InsertionMode::AfterFrameset | InsertionMode::AfterAfterFrameset => {
                self.frameset_end(name)
            }
        }
    }

    /// Where a comment or processing instruction goes: both follow the same rules.
    fn insert_aside(&mut self, row: u32) {
        if self.is_foreign() {
            return self.insert(row);
        }
        match self.mode {
            InsertionMode::Initial
            | InsertionMode::BeforeHtml
            | InsertionMode::AfterAfterBody
            | InsertionMode::AfterAfterFrameset => {
                self.builder.append(0, row);
            }
            InsertionMode::AfterBody => {
                let html = self.stack[0].row;
                self.builder.append(html, row);
            }
            _ => self.insert(row),
        }
    }

    pub(super) fn comment(&mut self, start: u32, end: u32) {
        self.ignore_line_feed = false;
        self.flush_pending();
        let row = self.builder.create_comment(start, end);
        self.insert_aside(row);
    }

    pub(super) fn processing_instruction(&mut self, target: NameId, start: u32, end: u32) {
        self.ignore_line_feed = false;
        self.flush_pending();
        let row = self.builder.create_pi(target, start, end);
        self.insert_aside(row);
    }

    pub(super) fn doctype(&mut self, name: NameId, ids: DoctypeIds, quirks: QuirksMode) {
        self.ignore_line_feed = false;
        self.flush_pending();
        if self.mode == InsertionMode::Initial {
            self.builder.quirks = quirks;
            let row = self.builder.create_doctype(name, ids);
            self.builder.append(0, row);
            self.mode = InsertionMode::BeforeHtml;
        }
    }

    fn end_of_file(&mut self) {
        self.flush_pending();
        loop {
            match self.mode {
                InsertionMode::Text => {
                    self.pop();
                    self.mode = self.original_mode;
                }
                InsertionMode::Initial => {
                    self.builder.quirks = QuirksMode::Quirks;
                    self.mode = InsertionMode::BeforeHtml;
                }
                InsertionMode::BeforeHtml => self.create_root(Tag::bare(names::HTML)),
                InsertionMode::BeforeHead => self.create_head(Tag::bare(names::HEAD)),
                InsertionMode::InHead => self.leave_head(),
                InsertionMode::InHeadNoscript => self.leave_noscript(),
                InsertionMode::AfterHead => self.create_body(),
                // A template left open in the head, say, must be closed for the body to be made.
                _ if self.has_template() => self.close_template(),
                _ => return,
            }
        }
    }
}
