//! From the rows of a builder to the columns of a document.
//!
//! A page without misnested markup is created in document order: then the numbers of its rows are the numbers of its
//! nodes, and what is left to find are the ends of the subtrees. Any other page is walked once in preorder, and its columns
//! are gathered one by one. Attributes are handed over likewise where no tag was thrown away and no element got its
//! attributes twice.

use super::builder::{Builder, RowColumns, TAG_KEPT};
use super::names;
use super::{
    AttrId, Document, NAMESPACE_SHIFT, NONE, NameId, Namespace, NodeKind, Span, pack, resolve, unpack_kind,
};

/// Rows in document order, with the links of the nodes they become.
struct DocumentOrder {
    /// The row of each node.
    rows: Vec<u32>,
    parents: Vec<u32>,
    ends: Vec<u32>,
    previous: Vec<u32>,
    lasts: Vec<u32>,
}

impl Builder {
    /// Writes the columns. `source` is the text that the ranges speak of. The tree below `root` becomes the document:
    /// 0 for a whole page, the root element for a fragment (whose children then are the document's).
    pub fn finish(mut self, source: String, root: u32) -> Document {
        self.join_pieces(&source);
        if self.texts_may_touch {
            self.join_touching_texts(&source);
        }
        self.late_attributes.sort_by_key(|late| late.row);
        let mut document = Document::default();
        let order = if root == 0 && self.close_in_order() {
            self.hand_over(&mut document);
            None
        } else {
            Some(self.gather(&mut document, root))
        };
        if self.attributes_in_order(&document) {
            self.hand_over_attributes(&mut document);
        } else {
            self.gather_attributes(&mut document, order.as_deref());
        }
        document.base = if self.has_base { base(&document) } else { None };
        document.source = source;
        document.side = self.side;
        document.names = self.names;
        document.doctype = self.doctype;
        document.quirks = self.quirks;
        document.truncated = self.truncated;
        document
    }

    /// If the rows are in document order, replaces their first children by the ends of their subtrees.
    ///
    /// From the last row to the first: a subtree ends where that of its last child does. The order holds if every first
    /// child follows its parent, every further sibling the end of the one before it, and the document's end is the end of
    /// all rows (so none was taken out of the tree).
    fn close_in_order(&mut self) -> bool {
        let RowColumns { firsts, next, lasts, .. } = &mut self.rows;
        let count = firsts.len();
        for row in (0..count).rev() {
            let (first, last, after) = (firsts[row], lasts[row], next[row]);
            let own = row as u32 + 1;
            let end = match last {
                NONE => own,
                last if last >= own && first == own => firsts[last as usize],
                _ => return self.reopen(row + 1),
            };
            if after != NONE && after != end {
                return self.reopen(row + 1);
            }
            firsts[row] = end;
        }
        if firsts.first() == Some(&(count as u32)) { true } else { self.reopen(0) }
    }

    /// Puts back the first children of the rows from `from` on, which were found to be in order; false, for the caller.
    fn reopen(&mut self, from: usize) -> bool {
        for row in from..self.rows.len() {
            self.rows.firsts[row] = if self.rows.lasts[row] == NONE { NONE } else { row as u32 + 1 };
        }
        false
    }

    /// Gives the columns to the document as they are; `firsts` holds the ends of the subtrees.
    fn hand_over(&mut self, document: &mut Document) {
        let rows = std::mem::take(&mut self.rows);
        // The two that nobody needs any more are given back first: shrinking may have to copy.
        drop(rows.next);
        document.ends = shrunk(rows.firsts);
        document.tags = shrunk(rows.tags);
        document.tags.iter_mut().for_each(|tag| *tag &= TAG_KEPT);
        document.node_names = shrunk(rows.names);
        document.parents = shrunk(rows.parents);
        document.previous = shrunk(rows.previous);
        document.lasts = shrunk(rows.lasts);
        document.spans = shrunk(rows.spans);
    }

    /// Walks the tree and writes the columns in its order, each old one given back before the next is written. Gives the
    /// row of each node.
    fn gather(&mut self, document: &mut Document, root: u32) -> Vec<u32> {
        let rows = std::mem::take(&mut self.rows);
        let walked = DocumentOrder::preorder(&rows, root);
        let RowColumns { tags, names, parents, previous, lasts, spans, next, firsts } = rows;
        drop((parents, previous, lasts, next, firsts));
        document.parents = walked.parents;
        document.ends = walked.ends;
        document.previous = walked.previous;
        document.lasts = walked.lasts;
        document.spans = gathered(spans, &walked.rows);
        document.node_names = gathered(names, &walked.rows);
        document.tags = gathered(tags, &walked.rows);
        document.tags.iter_mut().for_each(|tag| *tag &= TAG_KEPT);
        // The root of a fragment stands for the document.
        document.tags[0] = pack(NodeKind::Document, Namespace::Html);
        document.node_names[0] = NameId::NONE;
        document.spans[0] = Span::default();
        walked.rows
    }

    /// Whether the attributes of the elements follow one another without a gap.
    fn attributes_in_order(&self, document: &Document) -> bool {
        let mut at = 0;
        self.late_attributes.is_empty()
            && element_spans(document).all(|span| {
                let follows = span.start == at;
                at = span.end;
                follows
            })
            && at as usize == self.attribute_names.len()
    }

    fn hand_over_attributes(&mut self, document: &mut Document) {
        document.attribute_names = shrunk(std::mem::take(&mut self.attribute_names));
        document.attribute_spans = shrunk(std::mem::take(&mut self.attribute_spans));
        let mut owners = Vec::with_capacity(document.attribute_names.len());
        for (node, span) in document.spans.iter().enumerate() {
            if unpack_kind(document.tags[node]) == NodeKind::Element {
                owners.resize(span.end as usize, node as u32);
            }
        }
        document.attribute_owners = owners;
    }

    /// Writes the attributes in the order of the document. `rows` has the row of each node where it is not its number.
    fn gather_attributes(&mut self, document: &mut Document, rows: Option<&[u32]>) {
        let (names, spans) =
            (std::mem::take(&mut self.attribute_names), std::mem::take(&mut self.attribute_spans));
        document.attribute_names.reserve_exact(self.attribute_total);
        document.attribute_spans.reserve_exact(self.attribute_total);
        document.attribute_owners.reserve_exact(self.attribute_total);
        for node in 0..document.tags.len() {
            if unpack_kind(document.tags[node]) != NodeKind::Element {
                continue;
            }
            let Span { start, end } = document.spans[node];
            let begun = document.attribute_names.len() as u32;
            document.attribute_names.extend_from_slice(&names[start as usize..end as usize]);
            document.attribute_spans.extend_from_slice(&spans[start as usize..end as usize]);
            if !self.late_attributes.is_empty() {
                let row = rows.map_or(node as u32, |rows| rows[node]);
                let from = self.late_attributes.partition_point(|late| late.row < row);
                for late in self.late_attributes[from..].iter().take_while(|late| late.row == row) {
                    document.attribute_names.push(late.item.name);
                    document.attribute_spans.push(Span { start: late.item.start, end: late.item.end });
                }
            }
            let end = document.attribute_names.len() as u32;
            document.spans[node] = Span { start: begun, end };
            document.attribute_owners.resize(end as usize, node as u32);
        }
    }

    fn join_pieces(&mut self, source: &str) {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.sort_by_key(|piece| piece.row);
        let mut joined = String::new();
        for group in pieces.chunk_by(|a, b| a.row == b.row) {
            let row = group[0].row as usize;
            joined.clear();
            joined.push_str(resolve(source, &self.side, self.rows.spans[row]));
            for piece in group {
                joined.push_str(resolve(source, &self.side, piece.item));
            }
            self.replace_text(row, &joined);
        }
    }

    /// Makes one node of texts that became neighbours when what stood between them was moved away.
    fn join_touching_texts(&mut self, source: &str) {
        for row in 0..self.rows.len() {
            let (previous, mut next) = (self.rows.previous[row], self.rows.next[row]);
            let starts_run = self.is_text(row as u32) && next != NONE && self.is_text(next);
            if !starts_run || (previous != NONE && self.is_text(previous)) {
                continue;
            }
            let mut joined = resolve(source, &self.side, self.rows.spans[row]).to_owned();
            while next != NONE && self.is_text(next) {
                joined.push_str(resolve(source, &self.side, self.rows.spans[next as usize]));
                self.detach(next);
                next = self.rows.next[row];
            }
            self.replace_text(row, &joined);
        }
    }

    fn replace_text(&mut self, row: usize, text: &str) {
        let start = self.side_end();
        self.side.push_str(text);
        self.rows.spans[row] = Span { start, end: self.side_end() };
    }
}

impl DocumentOrder {
    fn preorder(rows: &RowColumns, root: u32) -> DocumentOrder {
        let count = rows.len();
        let mut walked = DocumentOrder {
            rows: Vec::with_capacity(count),
            parents: Vec::with_capacity(count),
            ends: Vec::with_capacity(count),
            previous: Vec::with_capacity(count),
            lasts: Vec::with_capacity(count),
        };
        let (mut row, mut parent, mut previous) = (root, NONE, NONE);
        loop {
            let mut node = walked.write(row, parent, previous);
            let first = rows.firsts[row as usize];
            if first != NONE {
                (row, parent, previous) = (first, node, NONE);
                continue;
            }
            // Climb until a sibling follows, closing what ends here.
            loop {
                walked.ends[node as usize] = walked.rows.len() as u32;
                if parent == NONE {
                    return walked;
                }
                let next = rows.next[row as usize];
                if next != NONE {
                    (row, previous) = (next, node);
                    break;
                }
                walked.lasts[parent as usize] = node;
                node = parent;
                row = rows.parents[row as usize];
                parent = walked.parents[node as usize];
            }
        }
    }

    #[inline]
    fn write(&mut self, row: u32, parent: u32, previous: u32) -> u32 {
        let node = self.rows.len() as u32;
        self.rows.push(row);
        self.parents.push(parent);
        self.ends.push(node + 1);
        self.previous.push(previous);
        self.lasts.push(NONE);
        node
    }
}

fn shrunk<T>(mut column: Vec<T>) -> Vec<T> {
    column.shrink_to_fit();
    column
}

fn gathered<T: Copy>(column: Vec<T>, order: &[u32]) -> Vec<T> {
    order.iter().map(|row| column[*row as usize]).collect()
}

fn element_spans(document: &Document) -> impl Iterator<Item = Span> + '_ {
    let elements = document.tags.iter().zip(&document.spans);
    elements.filter(|(tag, _)| unpack_kind(**tag) == NodeKind::Element).map(|(_, span)| *span)
}

/// The first `href` of a `<base>`.
fn base(document: &Document) -> Option<AttrId> {
    let is_base = |node: &usize| {
        let tag = document.tags[*node];
        document.node_names[*node] == names::BASE
            && unpack_kind(tag) == NodeKind::Element
            && tag >> NAMESPACE_SHIFT & 0b11 == Namespace::Html as u8
    };
    (0..document.tags.len()).filter(is_base).find_map(|node| {
        let Span { start, end } = document.spans[node];
        (start..end).find(|at| document.attribute_names[*at as usize] == names::HREF).map(AttrId)
    })
}
