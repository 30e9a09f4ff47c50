//! The tree while it is being made: linked rows that may be moved, kept as columns from the start.
//!
//! Rows are numbered by creation. Moving (adoption agency, foster parenting) only changes links; nodes that were taken out
//! of the tree are never reached by the final walk. Adjacent text is one node: a piece that continues the source range of
//! the node before it extends that range, any other is noted and concatenated once at the end, so that text which
//! alternates between two places stays linear.
//!
//! The columns are those of the finished document, with two links more: most pages are created in document order, and of
//! those `finish.rs` hands the columns over as they are. So the densest page needs 33 bytes a node while it is parsed,
//! where rows and columns beside each other took 65.

use std::ops::Range;

use super::names::{self, NameTable};
use super::{
    Budget, DoctypeIds, FLAG_IMPLIED_TBODY, NONE, NameId, Namespace, NodeKind, QuirksMode, Span, pack,
    resolve, unpack_kind,
};

/// One attribute of an element under construction.
#[derive(Clone, Copy, Debug)]
pub struct AttributeRow {
    pub name: NameId,
    /// Range of the value in the shared address space (source, then side buffer).
    pub start: u32,
    pub end: u32,
}

/// A further piece of a text node, or a further attribute of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatePart<T> {
    pub(super) row: u32,
    pub(super) item: T,
}

/// Whether a formatting element is on the parser's stack; asked at every text, so it is not searched for.
const FLAG_OPEN: u8 = 1 << 6;
/// Text with noted pieces: its range is rebuilt at the end.
const FLAG_PIECED: u8 = 1 << 7;
/// What of a tag stays in the finished document.
pub(super) const TAG_KEPT: u8 = !(FLAG_OPEN | FLAG_PIECED);

/// What is known of every row: a column each. The first five become the document's.
#[derive(Debug, Default)]
pub(super) struct RowColumns {
    pub(super) tags: Vec<u8>,
    pub(super) names: Vec<NameId>,
    pub(super) parents: Vec<u32>,
    pub(super) previous: Vec<u32>,
    pub(super) lasts: Vec<u32>,
    pub(super) spans: Vec<Span>,
    pub(super) next: Vec<u32>,
    pub(super) firsts: Vec<u32>,
}

impl RowColumns {
    fn with_capacity(rows: usize) -> RowColumns {
        let mut made = RowColumns::default();
        made.reserve(rows);
        made
    }

    fn reserve(&mut self, more: usize) {
        self.tags.reserve_exact(more);
        self.names.reserve_exact(more);
        self.parents.reserve_exact(more);
        self.previous.reserve_exact(more);
        self.lasts.reserve_exact(more);
        self.spans.reserve_exact(more);
        self.next.reserve_exact(more);
        self.firsts.reserve_exact(more);
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    #[inline]
    fn push(&mut self, tag: u8, name: NameId, span: Span) -> u32 {
        let row = self.len();
        if row == self.tags.capacity() {
            // By a half and not to the double: most pages that are denser than was reckoned with are so by little.
            self.reserve(row / 2 + 16);
        }
        self.tags.push(tag);
        self.names.push(name);
        self.parents.push(NONE);
        self.previous.push(NONE);
        self.lasts.push(NONE);
        self.spans.push(span);
        self.next.push(NONE);
        self.firsts.push(NONE);
        row as u32
    }
}

/// A document under construction. Rows are plain numbers; the document is row 0.
#[derive(Debug)]
pub struct Builder {
    pub names: NameTable,
    pub quirks: QuirksMode,
    pub truncated: Option<Budget>,
    pub(super) rows: RowColumns,
    pub(super) attribute_names: Vec<NameId>,
    pub(super) attribute_spans: Vec<Span>,
    /// Attribute rows of the finished document, if every row created so far stays in it.
    pub(super) attribute_total: usize,
    pub(super) pieces: Vec<LatePart<Span>>,
    /// Set when a node was taken from between two texts.
    pub(super) texts_may_touch: bool,
    pub(super) late_attributes: Vec<LatePart<AttributeRow>>,
    /// Whether an HTML `<base>` was created.
    pub(super) has_base: bool,
    pub(super) doctype: Option<DoctypeIds>,
    pub(super) side: String,
    side_base: u32,
}

impl Builder {
    /// An empty document over a source of `source_bytes` bytes (below 2 GiB).
    pub fn new(source_bytes: usize) -> Builder {
        let mut builder = Builder {
            names: NameTable::default(),
            quirks: QuirksMode::NoQuirks,
            truncated: None,
            rows: RowColumns::with_capacity(source_bytes / 32 + 16),
            attribute_names: Vec::with_capacity(source_bytes / 64 + 16),
            attribute_spans: Vec::with_capacity(source_bytes / 64 + 16),
            attribute_total: 0,
            pieces: Vec::new(),
            texts_may_touch: false,
            late_attributes: Vec::new(),
            has_base: false,
            doctype: None,
            side: String::new(),
            side_base: source_bytes as u32 + 1,
        };
        builder.create(NodeKind::Document, Namespace::Html, NameId::NONE, Span::default());
        builder
    }

    /// How many rows were created, the document included.
    #[inline]
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// How many attribute rows the created elements have in all.
    #[inline]
    pub fn attribute_total(&self) -> usize {
        self.attribute_total
    }

    #[inline]
    fn create(&mut self, kind: NodeKind, namespace: Namespace, name: NameId, span: Span) -> u32 {
        self.rows.push(pack(kind, namespace), name, span)
    }

    /// A detached element with the attributes in `attributes` (a range from [`Builder::push_attribute`]).
    #[inline]
    pub fn create_element(&mut self, name: NameId, namespace: Namespace, attributes: Range<u32>) -> u32 {
        self.attribute_total += attributes.len();
        self.has_base |= name == names::BASE && namespace == Namespace::Html;
        let span = Span { start: attributes.start, end: attributes.end };
        self.create(NodeKind::Element, namespace, name, span)
    }

    pub fn create_comment(&mut self, start: u32, end: u32) -> u32 {
        self.create(NodeKind::Comment, Namespace::Html, NameId::NONE, Span { start, end })
    }

    pub fn create_pi(&mut self, target: NameId, start: u32, end: u32) -> u32 {
        self.create(NodeKind::Pi, Namespace::Html, target, Span { start, end })
    }

    /// The document's doctype; a document has one at most.
    pub fn create_doctype(&mut self, name: NameId, ids: DoctypeIds) -> u32 {
        self.doctype = Some(ids);
        self.create(NodeKind::Doctype, Namespace::Html, name, Span::default())
    }

    /// Marks a `<tbody>` as the parser's own.
    pub fn mark_implied(&mut self, row: u32) {
        self.rows.tags[row as usize] |= FLAG_IMPLIED_TBODY;
    }

    #[inline]
    pub fn is_open(&self, row: u32) -> bool {
        self.rows.tags[row as usize] & FLAG_OPEN != 0
    }

    #[inline]
    pub fn set_open(&mut self, row: u32, open: bool) {
        let tag = &mut self.rows.tags[row as usize];
        *tag = if open { *tag | FLAG_OPEN } else { *tag & !FLAG_OPEN };
    }

    /// The number that the next attribute will get: the start of an element's range.
    #[inline]
    pub fn attribute_mark(&self) -> u32 {
        self.attribute_names.len() as u32
    }

    #[inline]
    pub fn push_attribute(&mut self, attribute: AttributeRow) {
        self.attribute_names.push(attribute.name);
        self.attribute_spans.push(Span { start: attribute.start, end: attribute.end });
    }

    /// Forgets the attributes from `mark` on (those of an end tag, or of a tag that was never finished).
    #[inline]
    pub fn drop_attributes(&mut self, mark: u32) {
        self.attribute_names.truncate(mark as usize);
        self.attribute_spans.truncate(mark as usize);
    }

    #[inline]
    pub fn attribute(&self, at: u32) -> AttributeRow {
        let Span { start, end } = self.attribute_spans[at as usize];
        AttributeRow { name: self.attribute_names[at as usize], start, end }
    }

    pub fn attributes(&self, range: Range<u32>) -> impl Iterator<Item = AttributeRow> + '_ {
        range.map(|at| self.attribute(at))
    }

    pub fn rename_attribute(&mut self, at: u32, name: NameId) {
        self.attribute_names[at as usize] = name;
    }

    /// The attributes an element was created with.
    pub fn element_attributes(&self, row: u32) -> Range<u32> {
        let span = self.rows.spans[row as usize];
        span.start..span.end
    }

    /// Adds an attribute to an element that exists already; the caller knows that it has none of this name.
    pub fn add_late_attribute(&mut self, row: u32, attribute: AttributeRow) {
        self.attribute_total += 1;
        self.late_attributes.push(LatePart { row, item: attribute });
    }

    #[inline]
    pub fn name(&self, row: u32) -> NameId {
        self.rows.names[row as usize]
    }

    pub fn parent(&self, row: u32) -> Option<u32> {
        let parent = self.rows.parents[row as usize];
        (parent != NONE).then_some(parent)
    }

    pub fn has_children(&self, row: u32) -> bool {
        self.rows.firsts[row as usize] != NONE
    }

    #[inline]
    pub fn append(&mut self, parent: u32, child: u32) {
        let rows = &mut self.rows;
        let last = std::mem::replace(&mut rows.lasts[parent as usize], child);
        match last {
            NONE => rows.firsts[parent as usize] = child,
            last => rows.next[last as usize] = child,
        }
        rows.parents[child as usize] = parent;
        rows.previous[child as usize] = last;
        rows.next[child as usize] = NONE;
    }

    /// Puts `child` before `sibling`, which must have a parent.
    pub fn insert_before(&mut self, sibling: u32, child: u32) {
        let rows = &mut self.rows;
        let parent = rows.parents[sibling as usize];
        let previous = std::mem::replace(&mut rows.previous[sibling as usize], child);
        match previous {
            NONE => rows.firsts[parent as usize] = child,
            previous => rows.next[previous as usize] = child,
        }
        rows.parents[child as usize] = parent;
        rows.previous[child as usize] = previous;
        rows.next[child as usize] = sibling;
    }

    /// Takes a row, with all below it, out of the tree.
    pub fn detach(&mut self, child: u32) {
        let rows = &mut self.rows;
        let parent = rows.parents[child as usize];
        if parent == NONE {
            return;
        }
        let (previous, next) = (rows.previous[child as usize], rows.next[child as usize]);
        match previous {
            NONE => rows.firsts[parent as usize] = next,
            previous => rows.next[previous as usize] = next,
        }
        match next {
            NONE => rows.lasts[parent as usize] = previous,
            next => rows.previous[next as usize] = previous,
        }
        rows.parents[child as usize] = NONE;
        rows.previous[child as usize] = NONE;
        rows.next[child as usize] = NONE;
        if previous != NONE && next != NONE && self.is_text(previous) && self.is_text(next) {
            self.texts_may_touch = true;
        }
    }

    /// Moves every child of `from` to the end of `to`. Linear in the children moved.
    pub fn move_children(&mut self, from: u32, to: u32) {
        let mut child = self.rows.firsts[from as usize];
        let last = self.rows.lasts[to as usize];
        if child != NONE && last != NONE && self.is_text(child) && self.is_text(last) {
            self.texts_may_touch = true;
        }
        (self.rows.firsts[from as usize], self.rows.lasts[from as usize]) = (NONE, NONE);
        while child != NONE {
            let next = self.rows.next[child as usize];
            self.append(to, child);
            child = next;
        }
    }

    /// Appends text to `parent`, joining the text node that ends it, if one does.
    #[inline]
    pub fn append_text(&mut self, parent: u32, start: u32, end: u32) {
        let last = self.rows.lasts[parent as usize];
        if last != NONE && self.is_text(last) {
            return self.extend_text(last, Span { start, end });
        }
        let text = self.create(NodeKind::Text, Namespace::Html, NameId::NONE, Span { start, end });
        self.append(parent, text);
    }

    /// Puts text before `sibling`, joining a text node that stands there.
    pub fn insert_text_before(&mut self, sibling: u32, start: u32, end: u32) {
        let previous = self.rows.previous[sibling as usize];
        if previous != NONE && self.is_text(previous) {
            return self.extend_text(previous, Span { start, end });
        }
        let text = self.create(NodeKind::Text, Namespace::Html, NameId::NONE, Span { start, end });
        self.insert_before(sibling, text);
    }

    #[inline]
    pub(super) fn is_text(&self, row: u32) -> bool {
        unpack_kind(self.rows.tags[row as usize]) == NodeKind::Text
    }

    fn extend_text(&mut self, row: u32, piece: Span) {
        let tag = &mut self.rows.tags[row as usize];
        let span = &mut self.rows.spans[row as usize];
        if *tag & FLAG_PIECED == 0 && span.end == piece.start {
            span.end = piece.end;
        } else {
            *tag |= FLAG_PIECED;
            self.pieces.push(LatePart { row, item: piece });
        }
    }

    /// Writes into the side buffer; [`Builder::side_end`] before and after gives the range.
    #[inline]
    pub fn side_mut(&mut self) -> &mut String {
        &mut self.side
    }

    /// The address that the next byte of the side buffer will have.
    #[inline]
    pub fn side_end(&self) -> u32 {
        self.side_base + self.side.len() as u32
    }

    /// The text at an address range.
    #[inline]
    pub fn text<'a>(&'a self, source: &'a str, start: u32, end: u32) -> &'a str {
        resolve(source, &self.side, Span { start, end })
    }
}
