//! The tree while it is being made: linked rows that may be moved, then one preorder walk into columns.
//!
//! Rows are numbered by creation. Moving (adoption agency, foster parenting) only changes links; nodes that were taken out
//! of the tree are never reached by the final walk. Adjacent text is one node: a piece that continues the source range of
//! the node before it extends that range, any other is noted and concatenated once at the end, so that text which
//! alternates between two places stays linear.

use std::ops::Range;

use super::names::{self, NameTable};
use super::{
    AttrId, Budget, DoctypeIds, Document, FLAG_IMPLIED_TBODY, NAMESPACE_SHIFT, NONE, NameId, Namespace,
    NodeKind, QuirksMode, Span, pack, resolve, unpack_kind,
};

/// One attribute of an element under construction.
#[derive(Clone, Copy, Debug)]
pub struct AttributeRow {
    pub name: NameId,
    /// Range of the value in the shared address space (source, then side buffer).
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    tag: u8,
    /// Text with noted pieces: its range is rebuilt at the end.
    pieced: bool,
    /// Whether a formatting element is on the parser's stack; asked at every text, so it is not searched for.
    open: bool,
    name: NameId,
    parent: u32,
    previous: u32,
    next: u32,
    first: u32,
    last: u32,
    span: Span,
}

/// A further piece of a text node, or a further attribute of an element.
#[derive(Clone, Copy, Debug)]
struct Late<T> {
    row: u32,
    item: T,
}

/// A document under construction. Rows are plain numbers; the document is row 0.
#[derive(Debug)]
pub struct Builder {
    pub names: NameTable,
    pub quirks: QuirksMode,
    pub truncated: Option<Budget>,
    rows: Vec<Row>,
    attributes: Vec<AttributeRow>,
    /// Attribute rows of the finished document, if every row created so far stays in it.
    attribute_total: usize,
    pieces: Vec<Late<Span>>,
    /// Set when a node was taken from between two texts.
    texts_may_touch: bool,
    late_attributes: Vec<Late<AttributeRow>>,
    doctype: Option<DoctypeIds>,
    side: String,
    side_base: u32,
}

impl Builder {
    /// An empty document over a source of `source_bytes` bytes (below 2 GiB).
    pub fn new(source_bytes: usize) -> Builder {
        let mut builder = Builder {
            names: NameTable::default(),
            quirks: QuirksMode::NoQuirks,
            truncated: None,
            rows: Vec::with_capacity(source_bytes / 32 + 16),
            attributes: Vec::with_capacity(source_bytes / 64 + 16),
            attribute_total: 0,
            pieces: Vec::new(),
            texts_may_touch: false,
            late_attributes: Vec::new(),
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
        let row = self.rows.len() as u32;
        let tag = pack(kind, namespace);
        let links = Row {
            tag,
            pieced: false,
            open: false,
            name,
            parent: NONE,
            previous: NONE,
            next: NONE,
            first: NONE,
            last: NONE,
            span,
        };
        if self.rows.len() == self.rows.capacity() {
            // By a half and not to the double: most pages that are denser than was reckoned with are so by little.
            self.rows.reserve_exact(self.rows.len() / 2);
        }
        self.rows.push(links);
        row
    }

    /// A detached element with the attributes in `attributes` (a range from [`Builder::push_attribute`]).
    #[inline]
    pub fn create_element(&mut self, name: NameId, namespace: Namespace, attributes: Range<u32>) -> u32 {
        self.attribute_total += attributes.len();
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
        self.rows[row as usize].tag |= FLAG_IMPLIED_TBODY;
    }

    #[inline]
    pub fn is_open(&self, row: u32) -> bool {
        self.rows[row as usize].open
    }

    #[inline]
    pub fn set_open(&mut self, row: u32, open: bool) {
        self.rows[row as usize].open = open;
    }

    /// The number that the next attribute will get: the start of an element's range.
    #[inline]
    pub fn attribute_mark(&self) -> u32 {
        self.attributes.len() as u32
    }

    #[inline]
    pub fn push_attribute(&mut self, attribute: AttributeRow) {
        self.attributes.push(attribute);
    }

    /// Forgets the attributes from `mark` on (those of an end tag, or of a tag that was never finished).
    #[inline]
    pub fn drop_attributes(&mut self, mark: u32) {
        self.attributes.truncate(mark as usize);
    }

    #[inline]
    pub fn attribute_rows(&self, range: Range<u32>) -> &[AttributeRow] {
        &self.attributes[range.start as usize..range.end as usize]
    }

    pub fn attribute_rows_mut(&mut self, range: Range<u32>) -> &mut [AttributeRow] {
        &mut self.attributes[range.start as usize..range.end as usize]
    }

    /// The attributes an element was created with.
    pub fn element_attributes(&self, row: u32) -> Range<u32> {
        let span = self.rows[row as usize].span;
        span.start..span.end
    }

    /// Adds an attribute to an element that exists already; the caller knows that it has none of this name.
    pub fn add_late_attribute(&mut self, row: u32, attribute: AttributeRow) {
        self.attribute_total += 1;
        self.late_attributes.push(Late { row, item: attribute });
    }

    #[inline]
    pub fn name(&self, row: u32) -> NameId {
        self.rows[row as usize].name
    }

    pub fn parent(&self, row: u32) -> Option<u32> {
        let parent = self.rows[row as usize].parent;
        (parent != NONE).then_some(parent)
    }

    pub fn has_children(&self, row: u32) -> bool {
        self.rows[row as usize].first != NONE
    }

    #[inline]
    pub fn append(&mut self, parent: u32, child: u32) {
        let last = self.rows[parent as usize].last;
        self.rows[parent as usize].last = child;
        match last {
            NONE => self.rows[parent as usize].first = child,
            last => self.rows[last as usize].next = child,
        }
        let row = &mut self.rows[child as usize];
        row.parent = parent;
        row.previous = last;
        row.next = NONE;
    }

    /// Puts `child` before `sibling`, which must have a parent.
    pub fn insert_before(&mut self, sibling: u32, child: u32) {
        let Row { parent, previous, .. } = self.rows[sibling as usize];
        match previous {
            NONE => self.rows[parent as usize].first = child,
            previous => self.rows[previous as usize].next = child,
        }
        self.rows[sibling as usize].previous = child;
        let row = &mut self.rows[child as usize];
        row.parent = parent;
        row.previous = previous;
        row.next = sibling;
    }

    /// Takes a row, with all below it, out of the tree.
    pub fn detach(&mut self, child: u32) {
        let Row { parent, previous, next, .. } = self.rows[child as usize];
        if parent == NONE {
            return;
        }
        match previous {
            NONE => self.rows[parent as usize].first = next,
            previous => self.rows[previous as usize].next = next,
        }
        match next {
            NONE => self.rows[parent as usize].last = previous,
            next => self.rows[next as usize].previous = previous,
        }
        if previous != NONE && next != NONE && self.is_text(previous) && self.is_text(next) {
            self.texts_may_touch = true;
        }
        let row = &mut self.rows[child as usize];
        (row.parent, row.previous, row.next) = (NONE, NONE, NONE);
    }

    /// Moves every child of `from` to the end of `to`. Linear in the children moved.
    pub fn move_children(&mut self, from: u32, to: u32) {
        let mut child = self.rows[from as usize].first;
        let last = self.rows[to as usize].last;
        if child != NONE && last != NONE && self.is_text(child) && self.is_text(last) {
            self.texts_may_touch = true;
        }
        (self.rows[from as usize].first, self.rows[from as usize].last) = (NONE, NONE);
        while child != NONE {
            let next = self.rows[child as usize].next;
            self.append(to, child);
            child = next;
        }
    }

    /// Appends text to `parent`, joining the text node that ends it, if one does.
    #[inline]
    pub fn append_text(&mut self, parent: u32, start: u32, end: u32) {
        let last = self.rows[parent as usize].last;
        if last != NONE && self.is_text(last) {
            return self.extend_text(last, Span { start, end });
        }
        let text = self.create(NodeKind::Text, Namespace::Html, NameId::NONE, Span { start, end });
        self.append(parent, text);
    }

    /// Puts text before `sibling`, joining a text node that stands there.
    pub fn insert_text_before(&mut self, sibling: u32, start: u32, end: u32) {
        let previous = self.rows[sibling as usize].previous;
        if previous != NONE && self.is_text(previous) {
            return self.extend_text(previous, Span { start, end });
        }
        let text = self.create(NodeKind::Text, Namespace::Html, NameId::NONE, Span { start, end });
        self.insert_before(sibling, text);
    }

    #[inline]
    fn is_text(&self, row: u32) -> bool {
        unpack_kind(self.rows[row as usize].tag) == NodeKind::Text
    }

    fn extend_text(&mut self, row: u32, piece: Span) {
        let text = &mut self.rows[row as usize];
        if !text.pieced && text.span.end == piece.start {
            text.span.end = piece.end;
        } else {
            text.pieced = true;
            self.pieces.push(Late { row, item: piece });
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

    /// Writes the columns. `source` is the text that the ranges speak of. The tree below `root` becomes the document:
    /// 0 for a whole page, the root element for a fragment (whose children then are the document's).
    pub fn finish(mut self, source: String, root: u32) -> Document {
        self.join_pieces(&source);
        if self.texts_may_touch {
            self.join_touching_texts(&source);
        }
        self.late_attributes.sort_by_key(|late| late.row);
        // From here on rows and columns exist side by side: this is where a page takes the most memory.
        self.rows.shrink_to_fit();
        self.attributes.shrink_to_fit();
        let count = self.rows.len();
        let mut columns = Columns {
            document: Document {
                tags: Vec::with_capacity(count),
                node_names: Vec::with_capacity(count),
                parents: Vec::with_capacity(count),
                ends: Vec::with_capacity(count),
                previous: Vec::with_capacity(count),
                lasts: Vec::with_capacity(count),
                spans: Vec::with_capacity(count),
                attribute_names: Vec::with_capacity(self.attribute_total),
                attribute_spans: Vec::with_capacity(self.attribute_total),
                attribute_owners: Vec::with_capacity(self.attribute_total),
                ..Document::default()
            },
            builder: &self,
        };
        columns.walk(root);
        let mut document = columns.document;
        document.source = source;
        document.side = self.side;
        document.names = self.names;
        document.doctype = self.doctype;
        document.quirks = self.quirks;
        document.truncated = self.truncated;
        document
    }

    fn join_pieces(&mut self, source: &str) {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.sort_by_key(|piece| piece.row);
        let mut joined = String::new();
        for group in pieces.chunk_by(|a, b| a.row == b.row) {
            let row = group[0].row;
            joined.clear();
            let first = self.rows[row as usize].span;
            joined.push_str(resolve(source, &self.side, first));
            for piece in group {
                joined.push_str(resolve(source, &self.side, piece.item));
            }
            let start = self.side_end();
            self.side.push_str(&joined);
            self.rows[row as usize].span = Span { start, end: self.side_end() };
        }
    }

    /// Makes one node of texts that became neighbours when what stood between them was moved away.
    fn join_touching_texts(&mut self, source: &str) {
        for row in 0..self.rows.len() as u32 {
            let Row { previous, mut next, .. } = self.rows[row as usize];
            let starts_run = self.is_text(row) && next != NONE && self.is_text(next);
            if !starts_run || (previous != NONE && self.is_text(previous)) {
                continue;
            }
            let mut joined = resolve(source, &self.side, self.rows[row as usize].span).to_owned();
            while next != NONE && self.is_text(next) {
                joined.push_str(resolve(source, &self.side, self.rows[next as usize].span));
                self.detach(next);
                next = self.rows[row as usize].next;
            }
            let start = self.side_end();
            self.side.push_str(&joined);
            self.rows[row as usize].span = Span { start, end: self.side_end() };
        }
    }
}

/// The preorder walk from links to columns.
struct Columns<'b> {
    document: Document,
    builder: &'b Builder,
}

impl Columns<'_> {
    fn walk(&mut self, root: u32) {
        let rows = &self.builder.rows;
        let mut row = root;
        let mut parent = NONE;
        let mut previous = NONE;
        loop {
            let mut node = self.write(row, parent, previous);
            let first = rows[row as usize].first;
            if first != NONE {
                (row, parent, previous) = (first, node, NONE);
                continue;
            }
            // Climb until a sibling follows, closing what ends here.
            loop {
                self.document.ends[node as usize] = self.document.tags.len() as u32;
                if parent == NONE {
                    return;
                }
                let next = rows[row as usize].next;
                if next != NONE {
                    (row, previous) = (next, node);
                    break;
                }
                self.document.lasts[parent as usize] = node;
                node = parent;
                row = rows[row as usize].parent;
                parent = self.document.parents[node as usize];
            }
        }
    }

    #[inline]
    fn write(&mut self, row: u32, parent: u32, previous: u32) -> u32 {
        let Row { mut tag, name, mut span, .. } = self.builder.rows[row as usize];
        let document = &mut self.document;
        let node = document.tags.len() as u32;
        if node == 0 {
            // The root of a fragment stands for the document.
            (tag, span) = (pack(NodeKind::Document, Namespace::Html), Span::default());
        }
        if unpack_kind(tag) == NodeKind::Element {
            span = self.write_attributes(row, node, span);
            let is_base = name == names::BASE && tag >> NAMESPACE_SHIFT & 0b11 == Namespace::Html as u8;
            if is_base && self.document.base.is_none() {
                let href = (span.start..span.end)
                    .find(|at| self.document.attribute_names[*at as usize] == names::HREF);
                self.document.base = href.map(AttrId);
            }
        }
        let document = &mut self.document;
        document.tags.push(tag);
        document.node_names.push(if node == 0 { NameId::NONE } else { name });
        document.parents.push(parent);
        document.ends.push(node + 1);
        document.previous.push(previous);
        document.lasts.push(NONE);
        document.spans.push(span);
        node
    }

    #[inline]
    fn write_attributes(&mut self, row: u32, node: u32, span: Span) -> Span {
        let start = self.document.attribute_names.len() as u32;
        for attribute in self.builder.attribute_rows(span.start..span.end) {
            self.write_attribute(attribute, node);
        }
        let late = &self.builder.late_attributes;
        if !late.is_empty() {
            let from = late.partition_point(|late| late.row < row);
            for late in late[from..].iter().take_while(|late| late.row == row) {
                self.write_attribute(&late.item, node);
            }
        }
        let end = self.document.attribute_names.len() as u32;
        Span { start, end }
    }

    #[inline]
    fn write_attribute(&mut self, attribute: &AttributeRow, node: u32) {
        self.document.attribute_names.push(attribute.name);
        self.document.attribute_spans.push(Span { start: attribute.start, end: attribute.end });
        self.document.attribute_owners.push(node);
    }
}
