//! What is taken off a page by its names and tags, before anything is weighed.

use page::html::names::{self, NameId};
use page::html::{Document, NodeId};

use crate::hints::{Hints, is_chrome_element};
use crate::layout::is_readable;
use crate::sums::Sums;

/// Shares of the page's prose, in hundredths, from which an element of such a name is not what the name says.
const COMMENTS_SHARE: i64 = 95;
const CHROME_SHARE: i64 = 60;
const HIDDEN_SHARE: i64 = 50;
const ABOUT_SHARE: i64 = 20;
/// Share of the page's prose from which an element that also holds the first heading is a frame of the page.
const FRAME_SHARE: i64 = 20;

/// Letters of prose from which a page's shares are those of its prose.
const PROSE_MIN: i64 = 250;

/// What names say of a page's elements.
#[derive(Debug, Default)]
pub struct Named {
    /// Elements that are cut, in document order; none is inside of another.
    pub cut: Vec<u32>,
    /// Elements that their author calls the body of an article.
    pub bodies: Vec<NodeId>,
    /// Elements that hold the words under a picture, in document order.
    pub captions: Vec<u32>,
}

/// Reads the names of all elements.
pub fn read_names(document: &Document, sums: &Sums<'_>) -> Named {
    let mut named = Named::default();
    // Of a page without prose, what counts is its letters outside of links.
    let has_prose = sums.prose(Document::ROOT) >= PROSE_MIN;
    let mass = |element| if has_prose { sums.prose(element) } else { sums.own(element) };
    let total = mass(Document::ROOT).max(1);
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
        let share = mass(node) * 100 / total;
        let is_frame = holds(main) || (holds(heading) && share >= FRAME_SHARE);
        if !is_frame && is_cut(name, hints, share) {
            named.cut.push(node.0);
            at = end;
            continue;
        }
        if hints.is_body {
            named.bodies.push(node);
        }
        if hints.is_caption && share < ABOUT_SHARE {
            named.captions.push(node.0);
        }
    }
    named
}

fn is_cut(name: NameId, hints: Hints, share: i64) -> bool {
    let is_chrome = hints.is_chrome || is_chrome_element(name);
    (hints.is_hidden && share < HIDDEN_SHARE)
        || (hints.is_comments && share < COMMENTS_SHARE)
        || (is_chrome && !hints.is_body && share < CHROME_SHARE)
        || (hints.is_about && !hints.is_body && share < ABOUT_SHARE)
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
