//! XPaths that lead to a place, from the most robust to the absolute path.
//!
//! An expression's cost is the robustness prior, lower is better: what each part costs says how often such a thing stays when
//! a site is changed. Names that a site gives for machines (`itemprop`, `data-testid`) cost least, then ids, labels that
//! readers see, classes, tags; positions cost most, and classes with digits in them, which build tools make, are near them.

use page::html::{Document, NodeId};
use page::xpath::NodeRef;

use crate::anchors::{Test, literal, tag, tests};
use crate::places::{Places, label_text};

/// Ancestors that can be anchors.
const ANCESTORS_MAX: usize = 9;
/// Descriptions of one ancestor that are tried.
const ANCHORS_MAX: usize = 3;
/// Elements within a link that it can be found by.
const CONTENTS_MAX: usize = 3;
/// Siblings that are counted for a position.
const SIBLINGS_MAX: usize = 200;
/// Steps of an absolute path.
const ABSOLUTE_STEPS_MAX: usize = 48;
/// Elements above a caption up to one that has the value as well.
const CAPTION_STEPS: usize = 3;
/// Bytes of a caption.
const CAPTION_BYTES_MAX: usize = 32;
/// Texts before a value in which its label is looked for.
const LABELS_MAX: usize = 3;

const COST_LABEL: u32 = 12;
/// What it costs more where the label stands behind the value, as a caption.
const COST_CAPTION: u32 = 8;
/// For each text between a label and the value.
const COST_LABEL_FAR: u32 = 10;
const COST_TAG: u32 = 30;
/// A page has one `h1` and one `title`.
const COST_HEADING: u32 = 9;
/// By `main`, `article`, `figure`.
const COST_REGION: u32 = 18;
/// By standing next to the page's heading, whatever is between.
const COST_NEAR_HEADING: u32 = 34;
/// Of a link, by what it is around.
const COST_HELD: u32 = 14;
const COST_STEP: u32 = 3;
const COST_DESCENDANT: u32 = 4;
const COST_POSITION: u32 = 40;
const COST_ABSOLUTE: u32 = 200;
/// What stands in an attribute that readers hardly see is changed more easily than what they read.
const COST_ATTRIBUTE_TAIL: u32 = 12;

const COST_LAZY_TAIL: u32 = 4;

/// The address of an image that one page has in `src` and another, which loads it late, in `data-src` or the like, with a placeholder in
/// `src`.
const LAZY_TAIL: &str =
    "/@*[substring(name(), string-length(name()) - 2) = 'src'][not(starts-with(., 'data:'))]";

/// An expression and what speaks for it before it has been tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub xpath: String,
    pub cost: u32,
    /// What it hangs on; two expressions that share none break apart from each other.
    pub anchors: Vec<String>,
    /// Whether it reads the structured data itself.
    pub is_markup: bool,
    /// Whether what it hangs on speaks of the attribute.
    pub is_hinted: bool,
}

/// Which of its parent's children of the same name an element is, and whether it is the only one; none among very many.
fn position(document: &Document, element: NodeId) -> Option<(usize, bool)> {
    let name = document.name_id(element);
    let is_same = |node: &NodeId| document.is_element(*node) && document.name_id(*node) == name;
    let before = std::iter::successors(document.prev_sibling(element), |node| document.prev_sibling(*node));
    let mut looked = 0;
    let mut count = 0;
    for node in before {
        looked += 1;
        if looked > SIBLINGS_MAX {
            return None;
        }
        count += usize::from(is_same(&node));
    }
    let after = std::iter::successors(document.next_sibling(element), |node| document.next_sibling(*node));
    let more = after.take(SIBLINGS_MAX).any(|node| is_same(&node));
    Some((count + 1, count == 0 && !more))
}

/// What is read of an element: itself, one of its texts or an attribute. Several ways for a text among others.
fn tails(document: &Document, place: NodeRef) -> Vec<(String, u32)> {
    if let Some(attribute) = place.attribute() {
        let name = document.attr_name(attribute);
        let is_own = matches!(name, "content" | "href" | "src" | "datetime");
        let mut found = vec![(format!("/@{name}"), if is_own { 0 } else { COST_ATTRIBUTE_TAIL })];
        if name.ends_with("src") {
            found.push((LAZY_TAIL.to_owned(), COST_LAZY_TAIL));
        }
        return found;
    }
    if !document.is_text(place.node()) {
        return vec![(String::new(), 0)];
    }
    let parent = document.parent(place.node()).unwrap_or(Document::ROOT);
    let is_shown = |node: &NodeId| document.is_text(*node) && !document.text(*node).trim().is_empty();
    let shown: Vec<NodeId> = document.children(parent).take(SIBLINGS_MAX).filter(is_shown).collect();
    let at = shown.iter().position(|node| *node == place.node());
    match at {
        Some(0) if shown.len() == 1 => vec![("/text()[normalize-space()]".to_owned(), 2)],
        Some(at) => {
            let mut found = vec![(format!("/text()[normalize-space()][{}]", at + 1), 10 + 8 * at as u32)];
            if at > 0 && at + 1 == shown.len() {
                found.push(("/text()[normalize-space()][last()]".to_owned(), 16));
            }
            found.push(("/text()[normalize-space()]".to_owned(), 4));
            found
        }
        None => Vec::new(),
    }
}

/// The element that a place belongs to.
pub fn carrier(document: &Document, place: NodeRef) -> NodeId {
    let node = place.node();
    if document.is_text(node) { document.parent(node).unwrap_or(node) } else { node }
}

/// All expressions for a place. `is_label` tells which texts are labels on other pages as well.
pub fn candidates(places: &Places<'_>, place: NodeRef, is_label: &dyn Fn(&str) -> bool) -> Vec<Candidate> {
    let document = places.page.document;
    let element = carrier(document, place);
    let mut maker = Maker { document, out: Vec::new() };
    for (tail, cost) in tails(document, place) {
        maker.own(element, &tail, cost);
        // What is in the head has its names and no neighbourhood.
        if matches!(document.name(element), "meta" | "link") {
            continue;
        }
        maker.below_ancestors(element, &tail, cost);
        maker.labelled(places, place, element, &tail, cost, is_label);
        maker.captioned(places, place, element, cost, is_label);
        maker.near_heading(places.heading, element, &tail, cost);
    }
    if !matches!(document.name(element), "meta" | "link") {
        maker.absolute(place, element);
    }
    maker.out
}

/// What an element is told by whose name alone says what part of a page it is.
fn region(name: &str) -> Option<Test> {
    let is_region = matches!(name, "main" | "article" | "header" | "figure" | "address" | "picture" | "dl");
    is_region.then(|| Test {
        text: String::new(),
        cost: COST_REGION,
        anchor: name.to_owned(),
        is_markup: false,
    })
}

struct Maker<'a> {
    document: &'a Document,
    out: Vec<Candidate>,
}

impl Maker<'_> {
    fn push(&mut self, xpath: String, cost: u32, tests: &[&Test]) {
        let anchors = tests.iter().map(|test| test.anchor.clone()).collect();
        let is_markup = tests.iter().any(|test| test.is_markup);
        self.out.push(Candidate { xpath, cost, anchors, is_markup, is_hinted: false });
    }

    /// By what the element itself has.
    fn own(&mut self, element: NodeId, tail: &str, cost: u32) {
        let name = tag(self.document, element);
        let tests = tests(self.document, element);
        for test in tests.iter().take(6) {
            self.push(format!("//{name}{}{tail}", test.text), cost + test.cost, &[test]);
        }
        for (at, first) in tests.iter().take(3).enumerate() {
            for second in tests.iter().take(4).skip(at + 1) {
                let both = format!("//{name}{}{}{tail}", first.text, second.text);
                self.push(both, cost + first.cost + second.cost / 2, &[first, second]);
            }
        }
        self.by_content(element, tail, cost);
        let bare = if matches!(name, "h1" | "title") { COST_HEADING } else { COST_TAG };
        let anchor = Test { text: String::new(), cost: bare, anchor: name.to_owned(), is_markup: false };
        self.push(format!("//{name}{tail}"), cost + bare, &[&anchor]);
    }

    /// A link by the heading or the named element that it is around: a card that leads somewhere as a whole.
    fn by_content(&mut self, element: NodeId, tail: &str, cost: u32) {
        let document = self.document;
        if document.name(element) != "a" || tail.is_empty() {
            return;
        }
        let inner = document.children(element).filter(|child| document.is_element(*child));
        for child in inner.take(CONTENTS_MAX) {
            let name = tag(document, child);
            if matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6") {
                let anchor = Test { text: String::new(), cost: 0, anchor: name.to_owned(), is_markup: false };
                self.push(format!("//a[{name}]{tail}"), cost + COST_HELD, &[&anchor]);
            }
            for test in tests(document, child).iter().take(2) {
                self.push(
                    format!("//a[{name}{}]{tail}", test.text),
                    cost + COST_HELD / 2 + test.cost,
                    &[test],
                );
            }
        }
    }

    /// By something that an ancestor has, and the way down from there.
    fn below_ancestors(&mut self, element: NodeId, tail: &str, cost: u32) {
        let document = self.document;
        let name = tag(document, element);
        let own = tests(document, element);
        let (mut plain, mut placed, mut positions) = (String::new(), String::new(), 0);
        let mut at = element;
        for distance in 1..=ANCESTORS_MAX as u32 {
            let Some(parent) = document.parent(at).filter(|parent| document.is_element(*parent)) else {
                break;
            };
            plain = format!("/{}{plain}", tag(document, at));
            let Some((number, is_only)) = position(document, at) else { break };
            let step = tag(document, at);
            placed = if is_only { format!("/{step}{placed}") } else { format!("/{step}[{number}]{placed}") };
            positions += u32::from(!is_only);
            at = parent;
            let above = tag(document, parent);
            let of_tag = region(above);
            for test in tests(document, parent).iter().take(ANCHORS_MAX).chain(&of_tag) {
                let anchor = format!("//{above}{}", test.text);
                let base = cost + test.cost;
                if distance <= 5 {
                    self.push(format!("{anchor}{plain}{tail}"), base + COST_STEP * distance, &[test]);
                }
                if positions > 0 && distance <= 6 {
                    let position_cost = COST_POSITION * positions + COST_STEP * distance;
                    self.push(format!("{anchor}{placed}{tail}"), base + position_cost, &[test]);
                }
                if distance > 1 {
                    self.push(
                        format!("{anchor}//{name}{tail}"),
                        base + COST_TAG / 2 + COST_DESCENDANT,
                        &[test],
                    );
                }
                for inner in own.iter().take(ANCHORS_MAX) {
                    let both = format!("{anchor}//{name}{}{tail}", inner.text);
                    self.push(both, base / 2 + inner.cost + COST_DESCENDANT, &[test, inner]);
                }
            }
        }
    }

    /// The first of its name behind the page's heading, or the last before it.
    fn near_heading(&mut self, heading: Option<NodeId>, element: NodeId, tail: &str, cost: u32) {
        let document = self.document;
        let Some(heading) = heading else { return };
        let name = tag(document, element);
        let is_within = |inner: NodeId, outer: NodeId| inner >= outer && inner < document.subtree_end(outer);
        if is_within(element, heading) || is_within(heading, element) || name == "*" {
            return;
        }
        let way = if element > heading { "following" } else { "preceding" };
        let anchor = |text: String| Test { text, cost: 0, anchor: "h1".to_owned(), is_markup: false };
        let bare = anchor(String::new());
        self.push(format!("//h1/{way}::{name}[1]{tail}"), cost + COST_NEAR_HEADING, &[&bare]);
        for test in tests(document, element).iter().take(2) {
            let own = format!("//h1/{way}::{name}{}[1]{tail}", test.text);
            self.push(own, cost + COST_NEAR_HEADING / 2 + test.cost, &[&bare, test]);
        }
    }

    /// By a text before the place that stands on other pages as well ("ISBN:").
    fn labelled(
        &mut self,
        places: &Places<'_>,
        place: NodeRef,
        element: NodeId,
        tail: &str,
        cost: u32,
        is_label: &dyn Fn(&str) -> bool,
    ) {
        let document = self.document;
        for (rank, text) in places.texts_before(place.node()).take(LABELS_MAX).enumerate() {
            let Some(said) = label_text(document, text).filter(|said| is_label(said)) else { continue };
            let (Some(quoted), Some(holder)) = (literal(&said), document.parent(text)) else { continue };
            let label = Label {
                text,
                holder,
                quoted,
                cost: cost + COST_LABEL + COST_LABEL_FAR * rank as u32,
                anchor: said,
            };
            self.beside_label(&label, place, element, tail);
            if rank == 0
                && place.attribute().is_none()
                && first_text(document, place.node())
                    .is_some_and(|first| is_whole(document, first, place.node()))
            {
                let next = format!(
                    "//text()[normalize-space()={}]/following::text()[normalize-space()][1]",
                    label.quoted
                );
                self.push_label(next, label.cost + 14, &label);
            }
        }
    }

    /// By a text behind the place, where boxes have a number above what it counts.
    fn captioned(
        &mut self,
        places: &Places<'_>,
        place: NodeRef,
        element: NodeId,
        cost: u32,
        is_label: &dyn Fn(&str) -> bool,
    ) {
        let document = self.document;
        let is_element = place.attribute().is_none() && place.node() == element;
        let Some(text) = places.text_behind(element).filter(|_| is_element) else { return };
        let Some(said) = label_text(document, text).filter(|said| said.len() <= CAPTION_BYTES_MAX) else {
            return;
        };
        let (Some(quoted), Some(holder)) = (literal(&said), document.parent(text)) else { return };
        let is_alone = document.string_value(holder).trim().len() == document.text(text).trim().len();
        if !is_alone || !is_label(&said) {
            return;
        }
        let mut way = format!("//{}[normalize-space()={quoted}]", tag(document, holder));
        let mut from = holder;
        for up in 0..CAPTION_STEPS as u32 {
            let Some(parent) = document.parent(from) else { return };
            if element > parent && element < document.subtree_end(parent) {
                let Some((top, down)) = self.way_down(parent, element) else { return };
                // What a caption stands behind is right before it, and looks otherwise: members of a list say nothing of one another,
                // nor do rows. It ends its box: what is followed by something is the label of that.
                let look = |node| (document.name(node), document.attribute_named(node, "class"));
                let is_next = siblings_before(document, from, top) == siblings_before(document, top, top) + 1;
                let is_member = matches!(document.name(top), "li" | "tr" | "a") || look(top) == look(from);
                let is_last = is_whole(document, text, from)
                    && places.text_behind(from).is_none_or(|next| next >= document.subtree_end(parent));
                if !is_next || is_member || !is_last {
                    return;
                }
                let name = tag(document, top);
                let steps = COST_STEP * (up + 1 + down.matches('/').count() as u32);
                let label = Label { text, holder, quoted, cost: cost + COST_LABEL, anchor: said };
                let xpath = format!("{way}/preceding-sibling::{name}[1]{down}");
                self.push_label(xpath, label.cost + COST_CAPTION + steps, &label);
                return;
            }
            way.push_str("/..");
            from = parent;
        }
    }

    /// The child of an element that has another below it, and the way down from there to that.
    fn way_down(&self, parent: NodeId, element: NodeId) -> Option<(NodeId, String)> {
        let mut down = String::new();
        let mut at = element;
        for _ in 0..=CAPTION_STEPS {
            let above = self.document.parent(at)?;
            if above == parent {
                return Some((at, down));
            }
            down = format!("/{}{down}", tag(self.document, at));
            at = above;
        }
        None
    }

    fn push_label(&mut self, xpath: String, cost: u32, label: &Label) {
        let anchors = vec![format!("\"{}\"", label.anchor)];
        self.out.push(Candidate { xpath, cost, anchors, is_markup: false, is_hinted: false });
    }

    /// From the label up to where the two ways part, on to a later sibling, and down.
    fn beside_label(&mut self, label: &Label, place: NodeRef, element: NodeId, tail: &str) {
        let document = self.document;
        let holder = label.holder;
        let is_alone = document.string_value(holder).trim().len() == document.text(label.text).trim().len();
        let start = match is_alone {
            true => format!("//{}[normalize-space()={}]", tag(document, holder), label.quoted),
            false => format!("//text()[normalize-space()={}]", label.quoted),
        };
        let mut from = if is_alone { holder } else { label.text };
        let mut way = start;
        for up in 0..4_u32 {
            let Some(parent) = document.parent(from) else { break };
            let is_beside = document.is_text(place.node()) && document.parent(place.node()) == Some(parent);
            if is_beside && place.node() > from {
                let beside = format!("{way}/following-sibling::text()[normalize-space()][1]");
                self.push_label(beside, label.cost + COST_STEP * (up + 1), label);
                break;
            }
            if element > parent && element < document.subtree_end(parent) {
                self.down_from(&way, from, parent, element, tail, label.cost + COST_STEP * up, label);
                break;
            }
            way.push_str("/..");
            from = parent;
        }
    }

    /// `way` leads to `from`, a child of `parent`, which has `element` below a later child.
    #[allow(clippy::too_many_arguments)]
    fn down_from(
        &mut self,
        way: &str,
        from: NodeId,
        parent: NodeId,
        element: NodeId,
        tail: &str,
        cost: u32,
        label: &Label,
    ) {
        let document = self.document;
        let mut down = String::new();
        let mut steps = 0;
        let mut at = element;
        while let Some(above) = document.parent(at).filter(|_| at != parent) {
            if above == parent {
                break;
            }
            down = format!("/{}{down}", tag(document, at));
            at = above;
            steps += 1;
            if steps > 4 {
                return;
            }
        }
        if at <= from {
            return;
        }
        let name = tag(document, at);
        let (Some((own, _)), true) = (position(document, at), document.is_element(at)) else { return };
        let same = document.is_element(from) && document.name_id(from) == document.name_id(at);
        let before = match (same, position(document, from)) {
            (true, Some((number, _))) => number,
            _ => siblings_before(document, from, at),
        };
        let nth = own.saturating_sub(before).max(1);
        let cost = cost + COST_STEP * (steps + 1) + if nth > 1 { COST_POSITION } else { 0 };
        self.push_label(format!("{way}/following-sibling::{name}[{nth}]{down}{tail}"), cost, label);
        self.push_label(format!("{way}/following-sibling::{name}{down}{tail}"), cost + 2, label);
        for test in tests(document, element).iter().take(2) {
            let inner = if at == element {
                format!("{way}/following-sibling::{name}{}{tail}", test.text)
            } else {
                format!("{way}/following-sibling::{name}//{}{}{tail}", tag(document, element), test.text)
            };
            self.push_label(inner, label.cost + test.cost / 2 + COST_STEP, label);
        }
    }

    /// The way from the root by positions alone, for what nothing else leads to.
    fn absolute(&mut self, place: NodeRef, element: NodeId) {
        let document = self.document;
        let mut path = String::new();
        let mut at = element;
        for _ in 0..ABSOLUTE_STEPS_MAX {
            let Some(parent) = document.parent(at) else { return };
            let Some((number, is_only)) = position(document, at) else { return };
            let step = tag(document, at);
            path = if is_only { format!("/{step}{path}") } else { format!("/{step}[{number}]{path}") };
            if parent == Document::ROOT {
                for (tail, cost) in tails(document, place).into_iter().take(1) {
                    let anchors = vec!["/".to_owned()];
                    let xpath = format!("{path}{tail}");
                    self.out.push(Candidate {
                        xpath,
                        cost: COST_ABSOLUTE + cost,
                        anchors,
                        is_markup: false,
                        is_hinted: false,
                    });
                }
                return;
            }
            at = parent;
        }
    }
}

/// A text before a value that says what the value is.
struct Label {
    text: NodeId,
    holder: NodeId,
    quoted: String,
    cost: u32,
    anchor: String,
}

/// How many siblings of the name of `at` stand before `from`.
fn siblings_before(document: &Document, from: NodeId, at: NodeId) -> usize {
    let before = std::iter::successors(document.prev_sibling(from), |node| document.prev_sibling(*node));
    let is_same =
        |node: &NodeId| document.is_element(*node) && document.name_id(*node) == document.name_id(at);
    before.take(SIBLINGS_MAX).filter(is_same).count()
}

/// The first visible text at or below a node.
fn first_text(document: &Document, node: NodeId) -> Option<NodeId> {
    let below = (node.0..document.subtree_end(node).0).map(NodeId);
    below.take(SIBLINGS_MAX).find(|node| document.is_text(*node) && !document.text(*node).trim().is_empty())
}

/// Whether a text is all that a node shows.
fn is_whole(document: &Document, text: NodeId, node: NodeId) -> bool {
    document.text(text).trim().len() == document.string_value(node).trim().len()
}
