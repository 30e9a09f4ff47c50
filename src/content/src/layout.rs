//! A page as the blocks of text that a reader sees, in one walk.
//!
//! A block is what stands between two borders of block-level elements: a paragraph, a heading, an item, a cell. Numbers of
//! nodes are document order, so a block is a range of them, and whatever is counted over blocks is known for every element
//! from sums over prefixes.

use page::html::names::{self, NameId};
use page::html::{Document, Namespace, NodeId};

use crate::hints::is_never_content;
use crate::tables::Shapes;

/// What kind of element a block stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Paragraph,
    Heading(u8),
    Item,
    Cell,
    Caption,
    Code,
    /// Text that stands in a division of its own or beside other blocks.
    Loose,
}

/// A run of text between two borders.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub start: u32,
    pub end: u32,
    /// The block-level element that it stands in.
    pub owner: NodeId,
    pub kind: Kind,
    /// Letters; those of scripts that need few for a word count twice.
    pub weight: u32,
    /// Of them, in links.
    pub link_weight: u32,
    /// Commas and ends of sentences.
    pub marks: u32,
}

impl Block {
    /// The part of the text that is links, in hundredths.
    pub fn link_share(&self) -> u32 {
        (u64::from(self.link_weight) * 100 / u64::from(self.weight.max(1))) as u32
    }
}

/// The blocks of a page, and the elements that are left out of it whatever is chosen.
#[derive(Debug)]
pub struct Layout {
    pub blocks: Vec<Block>,
    pub shapes: Shapes,
}

/// True for elements whose borders end a block.
pub fn is_block_level(name: NameId) -> bool {
    matches!(
        name,
        names::ADDRESS
            | names::ARTICLE
            | names::ASIDE
            | names::BLOCKQUOTE
            | names::BODY
            | names::CENTER
            | names::DD
            | names::DETAILS
            | names::DIALOG
            | names::DIR
            | names::DIV
            | names::DL
            | names::DT
            | names::FIELDSET
            | names::FIGCAPTION
            | names::FIGURE
            | names::FOOTER
            | names::FORM
            | names::H1
            | names::H2
            | names::H3
            | names::H4
            | names::H5
            | names::H6
            | names::HEADER
            | names::HGROUP
            | names::HR
            | names::HTML
            | names::LEGEND
            | names::LI
            | names::LISTING
            | names::MAIN
            | names::MENU
            | names::NAV
            | names::OL
            | names::P
            | names::PRE
            | names::SEARCH
            | names::SECTION
            | names::SUMMARY
            | names::TABLE
            | names::CAPTION
            | names::TBODY
            | names::TD
            | names::TFOOT
            | names::TH
            | names::THEAD
            | names::TR
            | names::UL
            | names::XMP
    )
}

/// The level of a heading.
pub fn heading_level(name: NameId) -> Option<u8> {
    match name {
        names::H1 => Some(1),
        names::H2 => Some(2),
        names::H3 => Some(3),
        names::H4 => Some(4),
        names::H5 => Some(5),
        names::H6 => Some(6),
        _ => None,
    }
}

fn kind_of(name: NameId) -> Kind {
    if let Some(level) = heading_level(name) {
        return Kind::Heading(level);
    }
    match name {
        names::P => Kind::Paragraph,
        names::LI | names::DD | names::DT => Kind::Item,
        names::TD | names::TH => Kind::Cell,
        names::FIGCAPTION | names::CAPTION | names::FIGURE | names::LEGEND => Kind::Caption,
        names::PRE | names::LISTING | names::XMP => Kind::Code,
        _ => Kind::Loose,
    }
}

/// True for an element that is shown as text, or holds such: HTML that is not code, a control or another document.
pub fn is_readable(document: &Document, element: NodeId) -> bool {
    match document.namespace(element) {
        Namespace::Html => !is_never_content(document.name_id(element)),
        Namespace::Svg => false,
        Namespace::MathMl => document.name_id(element) != names::ANNOTATION_XML,
    }
}

struct Walk<'a> {
    document: &'a Document,
    /// Block-level elements around the current node.
    around: Vec<(u32, NodeId)>,
    /// The end of the innermost link's outermost ancestor link; links do not nest, but hostile trees have them so.
    link_end: u32,
    open: Option<Block>,
    blocks: Vec<Block>,
}

impl Walk<'_> {
    fn close(&mut self, at: u32) {
        if let Some(mut block) = self.open.take()
            && block.weight > 0
        {
            block.end = at;
            self.blocks.push(block);
        }
    }

    /// Adds a text to the open block; gives its letters.
    fn text(&mut self, node: NodeId) -> u32 {
        let (weight, marks) = weigh(self.document.text(node));
        if weight == 0 {
            return 0;
        }
        let owner = self.around.last().map_or(Document::ROOT, |(_, owner)| *owner);
        let kind = kind_of(self.document.name_id(owner));
        let is_link = node.0 < self.link_end;
        let block = self.open.get_or_insert(Block {
            start: node.0,
            end: node.0,
            owner,
            kind,
            weight: 0,
            link_weight: 0,
            marks: 0,
        });
        block.weight += weight;
        block.marks += marks;
        if is_link {
            block.link_weight += weight;
        }
        weight
    }

    fn element(&mut self, node: NodeId, end: u32) {
        let name = self.document.name_id(node);
        if name == names::A {
            let href = self.document.attribute(node, names::HREF).map(str::trim);
            // A note or a heading of the same page is no way off it; `#` alone is a button.
            let leads_off = href.is_some_and(|href| !href.starts_with('#') || href.len() == 1);
            self.link_end = if leads_off { self.link_end.max(end) } else { self.link_end };
        }
        if self.document.namespace(node) == Namespace::Html && is_block_level(name) {
            self.close(node.0);
            self.around.push((end, node));
        }
    }
}

/// Cuts a page into blocks.
pub fn lay_out(document: &Document) -> Layout {
    let count = document.node_count() as u32;
    let mut shapes = Shapes::default();
    let mut walk = Walk { document, around: Vec::new(), link_end: 0, open: None, blocks: Vec::new() };
    let mut at = 0;
    while at < count {
        while walk.around.last().is_some_and(|(end, _)| *end <= at) {
            walk.close(at);
            walk.around.pop();
        }
        let node = NodeId(at);
        if document.is_element(node) {
            let end = document.subtree_end(node).0;
            if !is_readable(document, node) {
                at = end;
                continue;
            }
            walk.element(node, end);
            shapes.element(document, node);
        } else if document.is_text(node) {
            let weight = walk.text(node);
            shapes.text(node, weight);
        }
        at += 1;
    }
    walk.close(count);
    shapes.finish();
    Layout { blocks: walk.blocks, shapes }
}

/// Letters of a text, and its commas and ends of sentences. Chinese, Japanese and Korean letters count twice: they need
/// about half as many for as much.
pub fn weigh(text: &str) -> (u32, u32) {
    let bytes = text.as_bytes();
    let (mut weight, mut marks) = (0_u32, 0_u32);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b' ' | b'\n' | b'\t' | b'\r' | 0x0C | 0x80..=0xBF => {}
            b',' | b'.' | b'!' | b'?' | b';' | b':' => {
                weight += 1;
                let ends =
                    bytes.get(at + 1).is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'/');
                marks += u32::from(ends);
            }
            0xE3..=0xED => weight += 2,
            0xEF => {
                // Full-width punctuation (U+FF01 to U+FF1F) and the like.
                weight += 2;
                marks += u32::from(bytes.get(at + 1) == Some(&0xBC));
            }
            // U+00A0, the no-break space, is no letter.
            0xC2 if bytes.get(at + 1) == Some(&0xA0) => {}
            _ => weight += 1,
        }
        // U+3001 and U+3002, the ideographic comma and full stop.
        if *byte == 0xE3 && bytes.get(at + 1) == Some(&0x80) && matches!(bytes.get(at + 2), Some(0x81 | 0x82))
        {
            marks += 1;
        }
    }
    (weight, marks)
}
