//! Which blocks of a page are its content.
//!
//! Four steps, each linear in the page:
//!
//! 1. *Cutting* ([`mod@crate::cut`]). What its names or tags call navigation, comments, a sidebar, a notice … is taken off,
//!    unless it holds so much of the page's prose that the name must mean something else.
//! 2. *Weighing* ([`crate::sums`]). Every block has a value: prose is worth its letters, less those in links; links and
//!    scraps cost. What tells prose is what Kohlschütter, Fankhauser and Nejdl measured ("Boilerplate Detection using
//!    Shallow Text Features", WSDM 2010): length and density of links are nearly all there is to know.
//! 3. *Choosing.* The content is the element whose blocks are worth most together: the maximum subsequence of Pasternack
//!    and Roth ("Extracting Article Text from the Web with Maximum Subsequence Segmentation", WWW 2009), over subtrees
//!    instead of over the token sequence, so that it begins and ends where the author's elements do.
//! 4. *Trimming.* Within it, prose stays, and of the rest what stands among prose: headings that something follows,
//!    short paragraphs beside others, lists and tables; lists of links and what stands in boxes of its own go.
//!
//! Pages that are not mostly prose (lists, products, forms) have no such element. Of them everything stays that step 1
//! leaves in the region that holds most of the text.

use page::html::names;
use page::html::{Document, NodeId};

use crate::about::{self, Genre};
use crate::cut::{Named, read_names};
use crate::layout::{Block, Kind, Layout, heading_level, is_block_level};
use crate::sums::{Role, Sums};

/// Letters of prose in the chosen element below which a page is no article.
const ARTICLE_WEIGHT_MIN: i64 = 250;
/// Share of the page's letters outside of links, in hundredths, that it must have: less of it is one part of a page that
/// has others, such as the notes below a film's or a product's data.
const ARTICLE_SHARE_MIN: i64 = 40;
/// Letters for an element that its author calls the body of an article.
const BODY_WEIGHT_MIN: i64 = 100;
/// Share of what was found, in hundredths, that an element called the body must be worth if it is around it, and have of
/// its prose if it is in it or somewhere else.
const AROUND_SHARE: i64 = 70;
const INSIDE_SHARE: i64 = 70;
const ELSEWHERE_SHARE: i64 = 25;
/// Letters of the longest teaser.
const TEASER_WEIGHT_MAX: u32 = 350;
/// Letters outside of links from which a paragraph that is mostly links is one of the text all the same.
const LINKED_PROSE_WEIGHT_MIN: u32 = 40;
/// Share of links, in hundredths, from which a table is a list of them.
const LINKED_TABLE_SHARE: i64 = 80;
/// The same for a list.
const LINKED_LIST_SHARE: i64 = 60;
/// Lists within lists, and what is in them, that are looked out of.
const PARTS_MAX: usize = 16;
/// Blocks of content, from its beginning, among which its title may stand.
const TITLE_AMONG: usize = 20;

/// What is content.
#[derive(Debug)]
pub struct Selection {
    pub root: NodeId,
    /// True where prose was found and what stands among it, false where it is all of a region.
    pub is_article: bool,
    /// For each block of the layout.
    pub is_kept: Vec<bool>,
    /// Elements that were cut, in document order; none is inside of another.
    pub cut: Vec<u32>,
    /// Elements that hold the words under a picture, in document order.
    pub captions: Vec<u32>,
}

/// Finds the content of a page.
pub fn select(document: &Document, layout: &Layout) -> Selection {
    let mut sums = Sums::new(document, &layout.blocks);
    let Named { cut, bodies, captions } = read_names(document, &sums);
    for caption in &captions {
        let range = sums.range(NodeId(*caption));
        sums.roles[range].fill(Role::Caption);
    }
    find_teasers(&mut sums, &bodies);
    sums.add(&cut);
    let best = best_element(&sums, &cut);
    let body = named_body(&sums, best, &bodies);
    let is_product = about::genre(document) == Genre::Product;
    let prose = sums.prose(best);
    let is_article =
        prose >= ARTICLE_WEIGHT_MIN && prose * 100 >= sums.own(Document::ROOT) * ARTICLE_SHARE_MIN;
    if let Some(root) = body.or(is_article.then_some(best)).filter(|_| !is_product) {
        let is_kept = trim(&sums, layout, root, &cut);
        return Selection { root, is_article: true, is_kept, cut, captions };
    }
    let root = region(&sums, &cut, &bodies);
    let is_kept = keep_all(&sums, root, &cut);
    if is_kept.contains(&true) {
        return Selection { root, is_article: false, is_kept, cut, captions };
    }
    // Whatever its names say, a page that has text has content.
    let is_kept = vec![true; layout.blocks.len()];
    Selection { root: Document::ROOT, is_article: false, is_kept, cut: Vec::new(), captions }
}

/// Tells the first words of other pages: a short text of its own with a link before it and one behind.
fn find_teasers(sums: &mut Sums<'_>, bodies: &[NodeId]) {
    let homes: Vec<NodeId> = sums.blocks.iter().map(|block| container(sums.document, block)).collect();
    let mut last_links = None;
    for at in 0..sums.blocks.len() {
        let is_alone =
            at > 0 && homes[at - 1] != homes[at] && homes.get(at + 1).is_none_or(|next| *next != homes[at]);
        let next_links = sums.roles.get(at + 1).is_none_or(|role| *role == Role::Links);
        if sums.roles[at] == Role::Prose
            && sums.blocks[at].weight <= TEASER_WEIGHT_MAX
            && is_alone
            && bodies.binary_search(&homes[at]).is_err()
            && last_links == Some(at - 1)
            && next_links
        {
            sums.roles[at] = Role::Teaser;
        }
        if sums.roles[at] == Role::Links {
            last_links = Some(at);
        }
    }
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
fn best_element(sums: &Sums<'_>, cut: &[u32]) -> NodeId {
    let (mut best, mut most) = (Document::ROOT, i64::MIN);
    each_element(sums.document, cut, |element| {
        let worth = sums.value(element);
        if worth >= most {
            (best, most) = (element, worth);
        }
    });
    division_of(sums.document, best)
}

/// The element that its author calls the body of an article, where it has most of the prose that was found, or where what
/// was found is somewhere else and no longer by much.
fn named_body(sums: &Sums<'_>, best: NodeId, bodies: &[NodeId]) -> Option<NodeId> {
    let fullest = bodies.iter().copied().max_by_key(|body| (sums.prose(*body), body.0))?;
    let is_in = |inner: NodeId, outer: NodeId| outer <= inner && inner < sums.document.subtree_end(outer);
    let prose = sums.prose(fullest);
    let is_it = if is_in(best, fullest) {
        // It begins earlier or ends later than what was found, as its author has it.
        sums.value(fullest) * 100 >= sums.value(best) * AROUND_SHARE
    } else {
        let share = if is_in(fullest, best) { INSIDE_SHARE } else { ELSEWHERE_SHARE };
        prose * 100 >= sums.prose(best) * share
    };
    (prose >= BODY_WEIGHT_MIN && is_it).then_some(fullest)
}

/// Where no prose shows the way: what its author calls the body or the main part, else the innermost element that has
/// nearly all of what is left of the page's text.
fn region(sums: &Sums<'_>, cut: &[u32], bodies: &[NodeId]) -> NodeId {
    let document = sums.document;
    let total = sums.weight(Document::ROOT);
    let body = bodies.iter().copied().max_by_key(|body| (sums.weight(*body), body.0));
    let main = document.elements_named(names::MAIN).next();
    if let Some(named) =
        [body, main].into_iter().flatten().find(|named| sums.weight(*named) * 100 >= total * 30)
    {
        return named;
    }
    let mut innermost = Document::ROOT;
    each_element(document, cut, |element| {
        if sums.weight(element) * 100 >= total * 80 {
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

/// The element that a block is laid out in.
fn container(document: &Document, block: &Block) -> NodeId {
    division_of(document, block.owner)
}

/// The division that an element is laid out in: a paragraph's, an item's list's.
fn division_of(document: &Document, mut element: NodeId) -> NodeId {
    for _ in 0..PARTS_MAX {
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
        ) || heading_level(name).is_some()
            || !is_block_level(name);
        match document.parent(element) {
            Some(parent) if is_part => element = parent,
            _ => break,
        }
    }
    element
}

/// The table that a cell stands in.
fn table_of(document: &Document, cell: NodeId) -> Option<NodeId> {
    let mut element = cell;
    for _ in 0..4 {
        if document.name_id(element) == names::TABLE {
            return Some(element);
        }
        element = document.parent(element)?;
    }
    None
}

/// Keeps what is prose or stands among it.
fn trim(sums: &Sums<'_>, layout: &Layout, root: NodeId, cut: &[u32]) -> Vec<bool> {
    let (document, blocks) = (sums.document, sums.blocks);
    let mut is_kept = vec![false; blocks.len()];
    let candidates: Vec<usize> = uncut(sums, root, cut).collect();
    let mut homes: Vec<NodeId> = Vec::new();
    for at in &candidates {
        if sums.roles[*at] == Role::Prose {
            is_kept[*at] = true;
            homes.push(container(document, &blocks[*at]));
        }
    }
    homes.push(root);
    homes.sort_unstable();
    homes.dedup();
    let first = candidates.iter().position(|at| is_kept[*at]).unwrap_or(0);
    let last = candidates.iter().rposition(|at| is_kept[*at]).unwrap_or(0);
    for (place, at) in candidates.iter().enumerate() {
        let block = &blocks[*at];
        let is_among = (first..=last).contains(&place);
        let is_home = homes.binary_search(&container(document, block)).is_ok();
        let table = table_of(document, block.owner).filter(|table| layout.shapes.holds_data(*table));
        let is_data = table.is_some_and(|table| sums.link_share(table) < LINKED_TABLE_SHARE);
        is_kept[*at] |= match sums.roles[*at] {
            Role::Prose => true,
            Role::Teaser => false,
            Role::Caption => is_among,
            _ if is_data => is_among || is_home,
            Role::Links if block.kind == Kind::Item => {
                // A link is an item of a list as well, if the others are not all links.
                let list = document.parent(block.owner).unwrap_or(block.owner);
                sums.link_share(list) < LINKED_LIST_SHARE && (is_among || is_home)
            }
            Role::Links => {
                let own = block.weight - block.link_weight;
                block.kind == Kind::Paragraph && is_home && own >= LINKED_PROSE_WEIGHT_MIN && block.marks > 0
            }
            Role::Short => match block.kind {
                Kind::Loose => is_among && is_home,
                Kind::Cell | Kind::Item | Kind::Code | Kind::Heading(_) => is_among || is_home,
                _ => is_home,
            },
        };
    }
    drop_idle_headings(blocks, &candidates, &mut is_kept);
    is_kept
}

/// A heading that nothing follows before the next one of its rank, or a higher one, is that of something that was cut.
fn drop_idle_headings(blocks: &[Block], candidates: &[usize], is_kept: &mut [bool]) {
    // The rank of the heading that comes next, `None` for a text; what ends the content ranks above all.
    let mut next = Some(0);
    for at in candidates.iter().rev().copied() {
        if !is_kept[at] {
            continue;
        }
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
