//! What each block is, by its own letters, and what the blocks of any element come to.

use page::html::{Document, NodeId};

use crate::layout::{Block, Kind};

/// Letters from which a text with a mark in it is prose, and from which one without is.
const PROSE_WEIGHT_MIN: u32 = 60;
const LONG_WEIGHT_MIN: u32 = 140;
/// Share of links, in hundredths, from which a block is a list of them.
const LINKS_SHARE_MIN: u32 = 50;
/// Share of links, in hundredths, up to which a text is prose.
const PROSE_LINKS_SHARE_MAX: u32 = 40;

/// What a block is for its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sentences.
    Prose,
    /// Links, and little else.
    Links,
    /// The words under a picture.
    Caption,
    /// The first words of another page, among links to others.
    Teaser,
    /// Too short to say.
    Short,
}

/// What a block is, as far as its own letters tell.
fn role(block: &Block) -> Role {
    let links = block.link_share();
    let is_long = block.weight >= LONG_WEIGHT_MIN && links <= LINKS_SHARE_MIN;
    let is_sentence = block.weight >= PROSE_WEIGHT_MIN && block.marks > 0 && links <= PROSE_LINKS_SHARE_MAX;
    match block.kind {
        Kind::Caption => Role::Caption,
        Kind::Heading(_) if links < LINKS_SHARE_MIN => Role::Short,
        Kind::Heading(_) => Role::Links,
        _ if is_long || is_sentence => Role::Prose,
        _ if links >= LINKS_SHARE_MIN => Role::Links,
        _ => Role::Short,
    }
}

/// What a block adds to the elements around it.
fn value(block: &Block, role: Role) -> i64 {
    let weight = i64::from(block.weight);
    let links = i64::from(block.link_share());
    match role {
        Role::Prose => weight * (100 - links) / 100,
        Role::Links => -(weight.min(60) / 2 + 8),
        Role::Teaser => -weight,
        Role::Caption => 0,
        Role::Short => match block.kind {
            Kind::Item | Kind::Cell | Kind::Code | Kind::Heading(_) => 0,
            Kind::Paragraph => -2,
            Kind::Caption | Kind::Loose => -8,
        },
    }
}

/// Sums over the blocks of any element.
#[derive(Debug)]
pub struct Sums<'a> {
    pub document: &'a Document,
    pub blocks: &'a [Block],
    pub roles: Vec<Role>,
    /// How many blocks begin before a node.
    before: Vec<u32>,
    totals: Vec<Total>,
}

/// What the blocks up to some place come to.
#[derive(Clone, Copy, Default, Debug)]
struct Total {
    prose: i64,
    value: i64,
    weight: i64,
    links: i64,
}

impl<'a> Sums<'a> {
    pub fn new(document: &'a Document, blocks: &'a [Block]) -> Sums<'a> {
        let mut before = Vec::with_capacity(document.node_count() + 1);
        for (at, block) in blocks.iter().enumerate() {
            before.resize(block.start as usize + 1, at as u32);
        }
        before.resize(document.node_count() + 1, blocks.len() as u32);
        let roles = blocks.iter().map(role).collect();
        let mut sums = Sums { document, blocks, roles, before, totals: Vec::new() };
        sums.add(&[]);
        sums
    }

    /// Sums anew, without what is cut.
    pub fn add(&mut self, cut: &[u32]) {
        self.totals.clear();
        self.totals.push(Total::default());
        let mut total = Total::default();
        let mut cuts = cut.iter().map(|node| (*node, self.document.subtree_end(NodeId(*node)).0)).peekable();
        for (block, role) in self.blocks.iter().zip(&self.roles) {
            while cuts.next_if(|(_, end)| *end <= block.start).is_some() {}
            if cuts.peek().is_none_or(|(start, _)| *start > block.start) {
                let value = value(block, *role);
                total.prose += if *role == Role::Prose { value } else { 0 };
                total.value += value;
                total.weight += i64::from(block.weight);
                total.links += i64::from(block.link_weight);
            }
            self.totals.push(total);
        }
    }

    /// The blocks that begin in an element.
    pub fn range(&self, element: NodeId) -> std::ops::Range<usize> {
        let end = self.document.subtree_end(element).0;
        self.before[element.0 as usize] as usize..self.before[end as usize] as usize
    }

    fn of(&self, element: NodeId, part: impl Fn(&Total) -> i64) -> i64 {
        let range = self.range(element);
        part(&self.totals[range.end]) - part(&self.totals[range.start])
    }

    /// Letters of prose that are in no link.
    pub fn prose(&self, element: NodeId) -> i64 {
        self.of(element, |total| total.prose)
    }

    /// Prose, less what links and scraps cost.
    pub fn value(&self, element: NodeId) -> i64 {
        self.of(element, |total| total.value)
    }

    /// All letters.
    pub fn weight(&self, element: NodeId) -> i64 {
        self.of(element, |total| total.weight)
    }

    /// Letters that are in no link.
    pub fn own(&self, element: NodeId) -> i64 {
        self.of(element, |total| total.weight - total.links)
    }

    /// The part of the letters that is links, in hundredths.
    pub fn link_share(&self, element: NodeId) -> i64 {
        self.of(element, |total| total.links) * 100 / self.weight(element).max(1)
    }
}
