//! Which blocks of a page are its content.
//!
//! Four steps, each linear in the page:
//!
//! 1. *Cutting.* What its names or tags call navigation, comments, a sidebar, a notice … is taken off, unless it holds so
//!    much of the page's prose that the name must mean something else ([`crate::hints`]).
//! 2. *Weighing.* Every block has a value: prose is worth its letters, less those in links; links and scraps cost. What
//!    tells prose is what Kohlschütter, Fankhauser and Nejdl measured ("Boilerplate Detection using Shallow Text Features",
//!    WSDM 2010): length and density of links are nearly all there is to know.
//! 3. *Choosing.* The content is the element whose blocks are worth most together: the maximum subsequence of Pasternack
//!    and Roth ("Extracting Article Text from the Web with Maximum Subsequence Segmentation", WWW 2009), over subtrees
//!    instead of over the token sequence, so that it begins and ends where the author's elements do.
//! 4. *Trimming.* Within it, prose stays, and of the rest what stands among prose: headings that something follows,
//!    short paragraphs beside others, lists and tables; lists of links and what stands in boxes of its own go.
//!
//! Pages without prose to speak of (lists, products, forms) have no such element. Of them everything stays that step 1
//! leaves in the region that holds most of the text.

use page::html::names::{self, NameId};
use page::html::{Document, NodeId};

use crate::about::{self, Genre};
use crate::hints::{Hints, is_chrome_element};
use crate::layout::{Block, Kind, Layout, is_readable};

/// Letters from which a text with a mark in it is prose, and from which one without is.
const PROSE_WEIGHT_MIN: u32 = 60;
const LONG_WEIGHT_MIN: u32 = 140;
/// Share of links, in hundredths, from which a block is a list of them.
const LINKS_SHARE_MIN: u32 = 50;
/// Share of links, in hundredths, up to which a text is prose.
const PROSE_LINKS_SHARE_MAX: u32 = 40;
/// Letters of prose in the chosen element below which a page is no article.
const ARTICLE_WEIGHT_MIN: i64 = 250;

/// Blocks of content, from its beginning, among which its title may stand.
const TITLE_AMONG: usize = 20;

/// What is content.
#[derive(Debug)]
pub struct Selection {
    pub root: NodeId,
    /// For each block of the layout.
    pub is_kept: Vec<bool>,
    /// Elements that were cut, in document order; none is inside of another.
    pub cut: Vec<u32>,
}

/// True for blocks that are sentences.
fn is_prose(block: &Block) -> bool {
    if matches!(block.kind, Kind::Heading(_) | Kind::Caption) {
        return false;
    }
    let links = block.link_share();
    let is_long = block.weight >= LONG_WEIGHT_MIN && links <= LINKS_SHARE_MIN;
    is_long || (block.weight >= PROSE_WEIGHT_MIN && block.marks > 0 && links <= PROSE_LINKS_SHARE_MAX)
}

/// What a block adds to the elements around it.
fn value(block: &Block) -> i64 {
    let weight = i64::from(block.weight);
    let links = i64::from(block.link_share());
    if is_prose(block) {
        return weight * (100 - links) / 100;
    }
    if block.link_share() >= LINKS_SHARE_MIN {
        return -(weight.min(60) / 2 + 8);
    }
    match block.kind {
        Kind::Item | Kind::Cell | Kind::Code | Kind::Heading(_) => 0,
        Kind::Paragraph => -2,
        Kind::Caption | Kind::Loose => -8,
    }
}

/// Sums over the blocks of any element.
struct Sums<'a> {
    document: &'a Document,
    blocks: &'a [Block],
    /// How many blocks begin before a node.
    before: Vec<u32>,
    prose: Vec<i64>,
    value: Vec<i64>,
    weight: Vec<i64>,
}

impl<'a> Sums<'a> {
    fn new(document: &'a Document, blocks: &'a [Block]) -> Sums<'a> {
        let mut before = Vec::with_capacity(document.node_count() + 1);
        for (at, block) in blocks.iter().enumerate() {
            before.resize(block.start as usize + 1, at as u32);
        }
        before.resize(document.node_count() + 1, blocks.len() as u32);
        let mut sums =
            Sums { document, blocks, before, prose: Vec::new(), value: Vec::new(), weight: Vec::new() };
        sums.add(&[]);
        sums
    }

    /// Sums anew, without what is cut.
    fn add(&mut self, cut: &[u32]) {
        for sums in [&mut self.prose, &mut self.value, &mut self.weight] {
            sums.clear();
            sums.push(0);
        }
        let (mut prose, mut total, mut weight) = (0, 0, 0);
        let mut cuts = cut.iter().map(|node| self.document.subtree_end(NodeId(*node)).0).zip(cut).peekable();
        for block in self.blocks {
            while cuts.next_if(|(end, _)| *end <= block.start).is_some() {}
            if cuts.peek().is_none_or(|(_, start)| **start > block.start) {
                if is_prose(block) {
                    prose += value(block);
                }
                total += value(block);
                weight += i64::from(block.weight);
            }
            self.prose.push(prose);
            self.value.push(total);
            self.weight.push(weight);
        }
    }

    /// The blocks that begin in an element.
    fn range(&self, element: NodeId) -> std::ops::Range<usize> {
        let end = self.document.subtree_end(element).0;
        self.before[element.0 as usize] as usize..self.before[end as usize] as usize
    }

    fn of(&self, sums: &[i64], element: NodeId) -> i64 {
        let range = self.range(element);
        sums[range.end] - sums[range.start]
    }

    fn prose(&self, element: NodeId) -> i64 {
        self.of(&self.prose, element)
    }
}

/// Finds the content of a page.
pub fn select(document: &Document, layout: &Layout) -> Selection {
    let mut sums = Sums::new(document, &layout.blocks);
    let (cut, bodies) = cut(document, &sums);
    sums.add(&cut);
    let genre = about::genre(document);
    let best = best_element(document, &sums, &cut);
    let is_article = sums.prose(best) >= ARTICLE_WEIGHT_MIN && genre != Genre::Product;
    let root = if is_article { named_body(&sums, best, &bodies) } else { region(document, &sums, &cut) };
    let is_kept =
        if is_article { trim(document, layout, &sums, root, &cut) } else { keep_all(&sums, root, &cut) };
    Selection { root, is_kept, cut }
}

/// Decides what is cut. Gives the cut elements, and those that their author calls the body of an article.
fn cut(document: &Document, sums: &Sums<'_>) -> (Vec<u32>, Vec<NodeId>) {
    let (mut cut, mut bodies) = (Vec::new(), Vec::new());
    let total = sums.prose(Document::ROOT).max(1);
    let heading = document.elements_named(names::H1).next();
    let main = document.elements_named(names::MAIN).next();
    let mut at = 0;
    while (at as usize) < document.node_count() {
        let node = NodeId(at);
        at += 1;
        if !document.is_element(node) {
            continue;
        }
        let end = document.subtree_end(node).0;
        if !is_readable(document, node) {
            at = end;
            continue;
        }
        let name = document.name_id(node);
        if matches!(name, names::HTML | names::BODY | names::MAIN) || is_phrasing(name) {
            continue;
        }
        let hints = Hints::of(document, node);
        let holds = |other: Option<NodeId>| other.is_some_and(|other| node < other && other.0 < end);
        let share = sums.prose(node) * 100 / total;
        let is_frame = holds(main) || (holds(heading) && share >= 20);
        let is_chrome = (hints.is_chrome && !hints.is_body) || is_chrome_element(name);
        let is_about = hints.is_about && !hints.is_body;
        let goes = (hints.is_hidden && share < 50)
            || (hints.is_comments && share < 95)
            || (is_chrome && share < 40)
            || (is_about && share < 20);
        if goes && !is_frame {
            cut.push(node.0);
            at = end;
        } else if hints.is_body {
            bodies.push(node);
        }
    }
    (cut, bodies)
}

/// Elements within a sentence: their names say how it looks.
fn is_phrasing(name: NameId) -> bool {
    matches!(
        name,
        names::A
            | names::B
            | names::I
            | names::EM
            | names::STRONG
            | names::CODE
            | names::IMG
            | names::BR
            | names::SUB
            | names::SUP
            | names::MARK
            | names::ABBR
            | names::Q
            | names::U
            | names::S
            | names::FONT
    )
}

/// The elements that are not cut.
fn each_element(document: &Document, cut: &[u32], mut visit: impl FnMut(NodeId)) {
    let mut cuts = cut.iter().peekable();
    let mut at = 0;
    while (at as usize) < document.node_count() {
        if cuts.next_if(|node| **node == at).is_some() {
            at = document.subtree_end(NodeId(at)).0;
            continue;
        }
        if document.is_element(NodeId(at)) {
            visit(NodeId(at));
        }
        at += 1;
    }
}

/// The element whose blocks are worth most; of equals the innermost.
fn best_element(document: &Document, sums: &Sums<'_>, cut: &[u32]) -> NodeId {
    let (mut best, mut most) = (Document::ROOT, i64::MIN);
    each_element(document, cut, |element| {
        let worth = sums.of(&sums.value, element);
        if worth >= most {
            (best, most) = (element, worth);
        }
    });
    best
}

/// The element inside that its author calls the body, where it has most of the prose.
fn named_body(sums: &Sums<'_>, best: NodeId, bodies: &[NodeId]) -> NodeId {
    let end = sums.document.subtree_end(best);
    let inside = bodies.iter().filter(|body| best < **body && **body < end);
    let fullest = inside.max_by_key(|body| (sums.prose(**body), body.0));
    fullest.copied().filter(|body| sums.prose(*body) * 100 >= sums.prose(best) * 70).unwrap_or(best)
}

/// Where no prose shows the way: the innermost element that has nearly all of what is left of the page's text.
fn region(document: &Document, sums: &Sums<'_>, cut: &[u32]) -> NodeId {
    let total = sums.of(&sums.weight, Document::ROOT);
    let main = document.elements_named(names::MAIN).next();
    if let Some(main) = main.filter(|main| sums.of(&sums.weight, *main) * 100 >= total * 30) {
        return main;
    }
    let mut innermost = Document::ROOT;
    each_element(document, cut, |element| {
        if sums.of(&sums.weight, element) * 100 >= total * 80 {
            innermost = element;
        }
    });
    innermost
}

/// The blocks of an element that are not in what is cut.
fn uncut<'a>(sums: &'a Sums<'_>, root: NodeId, cut: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    sums.range(root).filter(move |at| {
        let start = sums.blocks[*at].start;
        let near = cut.partition_point(|node| *node <= start);
        near == 0 || sums.document.subtree_end(NodeId(cut[near - 1])).0 <= start
    })
}

fn keep_all(sums: &Sums<'_>, root: NodeId, cut: &[u32]) -> Vec<bool> {
    let mut is_kept = vec![false; sums.blocks.len()];
    for at in uncut(sums, root, cut) {
        is_kept[at] = true;
    }
    is_kept
}

/// The element that a block is laid out in: a paragraph's division, an item's list's.
fn container(document: &Document, block: &Block) -> NodeId {
    let mut element = block.owner;
    for _ in 0..4 {
        let name = document.name_id(element);
        let is_part = matches!(
            name,
            names::P
                | names::LI
                | names::DD
                | names::DT
                | names::UL
                | names::OL
                | names::DL
                | names::BLOCKQUOTE
        ) || crate::layout::heading_level(name).is_some();
        match document.parent(element) {
            Some(parent) if is_part => element = parent,
            _ => break,
        }
    }
    element
}

/// Keeps what is prose or stands among it.
fn trim(document: &Document, layout: &Layout, sums: &Sums<'_>, root: NodeId, cut: &[u32]) -> Vec<bool> {
    let blocks = &layout.blocks;
    let mut is_kept = vec![false; blocks.len()];
    let candidates: Vec<usize> = uncut(sums, root, cut).collect();
    let mut homes: Vec<NodeId> = Vec::new();
    for at in &candidates {
        if is_prose(&blocks[*at]) {
            is_kept[*at] = true;
            homes.push(container(document, &blocks[*at]));
        }
    }
    homes.sort_unstable();
    homes.dedup();
    let first = candidates.iter().position(|at| is_kept[*at]).unwrap_or(0);
    let last = candidates.iter().rposition(|at| is_kept[*at]).unwrap_or(0);
    for (place, at) in candidates.iter().enumerate() {
        let block = &blocks[*at];
        if is_kept[*at] || block.link_share() >= LINKS_SHARE_MIN {
            continue;
        }
        let is_home = homes.binary_search(&container(document, block)).is_ok();
        let is_among = (first..=last).contains(&place);
        is_kept[*at] = match block.kind {
            Kind::Caption => is_among,
            Kind::Loose => is_among && is_home,
            Kind::Cell => is_among || is_home,
            _ => is_home,
        };
    }
    drop_idle_headings(blocks, &candidates, &mut is_kept);
    is_kept
}

/// A heading that nothing follows before the next one of its rank, or a higher one, is that of something that was cut.
fn drop_idle_headings(blocks: &[Block], candidates: &[usize], is_kept: &mut [bool]) {
    // The rank of the heading that comes next, `None` for a text; what ends the content ranks above all.
    let mut next = Some(0);
    for at in candidates.iter().rev().filter(|at| is_kept[**at]).copied().collect::<Vec<_>>() {
        let Kind::Heading(level) = blocks[at].kind else {
            next = None;
            continue;
        };
        if next.is_some_and(|next| next <= level) {
            is_kept[at] = false;
        } else {
            next = Some(level);
        }
    }
}

impl Selection {
    /// Takes out the heading that is the title, which is given beside the content.
    pub fn drop_title(&mut self, document: &Document, layout: &Layout, title: &str) {
        let headings = layout.blocks.iter().zip(&mut self.is_kept).filter(|(_, is_kept)| **is_kept);
        for (block, is_kept) in headings.take(TITLE_AMONG) {
            if matches!(block.kind, Kind::Heading(1..=2)) && about::text_of(document, block.owner) == title {
                *is_kept = false;
                return;
            }
        }
    }
}
