//! Expressions for the places of a value on one page.

use page::html::{Document, NodeId};
use page::xpath::NodeRef;

use super::{Class, Question};
use crate::candidates::{Candidate, candidates, carrier};
use crate::cuts::Cut;
use crate::forms::Form;
use crate::lesson::Goal;
use crate::places::Places;

/// Places of a value on one page that expressions are made for.
const PLACES_MAX: usize = 16;
/// What is added to a cost at most for text beside the value.
const EXCESS_MAX: usize = 30;
/// What a name or label that speaks of the attribute takes off a cost.
const HINT_BONUS: u32 = 8;
/// What a name or label that speaks of something else adds to it.
const CONTRARY_COST: u32 = 16;
/// Bytes of a text that is a label because it speaks of the attribute: a longer one tells of something else with that word in it.
const HINT_LABEL_BYTES_MAX: usize = 24;
/// Elements above a place that are compared with those of another page.
const TEMPLATE_STEPS: usize = 6;

impl Class<'_> {
    /// Expressions for what one example is told to have, for each of its places.
    pub(super) fn made_for(
        &self,
        question: &Question<'_>,
        goal: &Goal,
        places: &Places<'_>,
        is_constant: bool,
    ) -> Vec<Candidate> {
        let wanted = question.wanted;
        let pages = self.examples.len() + self.others.len();
        // Where one page alone has a value, what speaks of the attribute is its label although no other page has it.
        let told = question.goals.iter().flatten().filter(|goal| !goal.members.is_empty()).count();
        let speaks = |text: &str| {
            let folded = text.to_lowercase();
            told == 1
                && text.len() <= HINT_LABEL_BYTES_MAX
                && question.hints.iter().any(|hint| folded.contains(hint))
        };
        let is_label =
            |text: &str| pages < 2 || self.labels.get(text).is_some_and(|count| *count > 1) || speaks(text);
        let mut found = Vec::new();
        let mut all_places = Vec::new();
        for member in asked_members(wanted.kind.is_list(), goal) {
            if !wanted.kind.is_list() && !all_places.is_empty() {
                break;
            }
            let there = places.of_keys(&goal.members[member]).into_iter();
            let there = there.filter(|place| !is_constant || is_read(places.page.document, *place));
            let is_list = wanted.kind.is_list();
            let there = there.filter(|place| {
                is_list || !self.is_of_template(question, &goal.members[member], places, *place)
            });
            let mut there: Vec<NodeRef> = there.take(PLACES_MAX).collect();
            if wanted.is_told_list && goal.members.len() == 1 {
                innermost(places.page.document, &mut there);
            }
            let length = |place: &NodeRef| place.string_value(places.page.document).trim().len();
            let shortest = there.iter().map(length).min().unwrap_or(0);
            for place in there {
                if !all_places.contains(&place) {
                    all_places.push(place);
                    // "12.90" in a box of its own rather than in the box around it, whose first number it is.
                    let excess = (length(&place) - shortest).min(EXCESS_MAX) as u32;
                    let cut = Cut::of(places.page.document, place);
                    let made = candidates(places, place, &is_label).into_iter();
                    let made = made.filter_map(|one| match &cut {
                        Some(cut) => cut_out(one, cut),
                        None => Some(one),
                    });
                    found.extend(made.map(|one| Candidate { cost: one.cost + excess, ..one }));
                }
            }
        }
        if all_places.is_empty() && wanted.form == Form::Text && !wanted.kind.is_list() {
            for (place, cut) in places.within_more(&goal.texts[0]) {
                let whole = candidates(places, place, &is_label);
                found.extend(whole.into_iter().filter_map(|candidate| cut_out(candidate, &cut)));
            }
        }
        found.into_iter().map(|candidate| hinted(candidate, question)).collect()
    }

    /// Whether a place is a part of all pages, as a menu is: the same stands there on one that is told to have another value.
    fn is_of_template(
        &self,
        question: &Question<'_>,
        keys: &[String],
        places: &Places<'_>,
        place: NodeRef,
    ) -> bool {
        let mut own = None;
        self.examples.iter().zip(question.goals).any(|(other, goal)| {
            let has_other = goal.as_ref().is_some_and(|goal| {
                !goal.members.is_empty() && !goal.members.iter().flatten().any(|key| keys.contains(key))
            });
            has_other && {
                let own = own.get_or_insert_with(|| chain(places.page.document, place));
                let document = other.page.document;
                other.of_keys(keys).iter().any(|there| chain(document, *there) == *own)
            }
        })
    }
}

/// Leaves out what is around another: where each page has one member of a list, the list itself has the same text.
fn innermost(document: &Document, places: &mut Vec<NodeRef>) {
    let is_element = |place: &NodeRef| place.attribute().is_none() && document.is_element(place.node());
    let elements: Vec<NodeId> =
        places.iter().filter(|place| is_element(place)).map(|place| place.node()).collect();
    let is_around = |place: &NodeRef| {
        let node = place.node();
        elements.iter().any(|inner| *inner > node && *inner < document.subtree_end(node))
    };
    places.retain(|place| !is_element(place) || !is_around(place));
}

/// The names and classes of an element and of those above it.
fn chain(document: &Document, place: NodeRef) -> Vec<(&str, &str)> {
    let above = std::iter::successors(Some(carrier(document, place)), |node| document.parent(*node));
    let elements = above.filter(|node| document.is_element(*node)).take(TEMPLATE_STEPS);
    let class = |node| document.attribute_named(node, "class").unwrap_or_default();
    elements.map(|node| (document.name(node), class(node))).collect()
}

/// The values of an example that expressions are made for: some of a list; of a single value that is written in several ways the
/// longest first, which says most: "8" stands everywhere.
fn asked_members(is_list: bool, goal: &Goal) -> Vec<usize> {
    let last = goal.members.len() - 1;
    let mut members = match is_list {
        true => vec![0, 1.min(last), last / 2, last],
        false => (0..=last.min(3)).collect(),
    };
    members.dedup();
    if !is_list {
        members.sort_by_key(|member| std::cmp::Reverse(goal.texts[*member].len()));
    }
    members
}

/// Less cost for what hangs on a name or label that speaks of the attribute, more where it speaks of another.
fn hinted(mut candidate: Candidate, question: &Question<'_>) -> Candidate {
    let speak = |candidate: &Candidate, parts: &[&str]| {
        let mut anchors = candidate.anchors.iter().map(|anchor| anchor.to_lowercase());
        anchors.any(|anchor| parts.iter().any(|part| anchor.contains(part)))
    };
    if speak(&candidate, question.contrary) {
        candidate.cost += CONTRARY_COST;
    } else if speak(&candidate, question.hints) {
        candidate.is_hinted = true;
        candidate.cost = candidate.cost.saturating_sub(HINT_BONUS);
    }
    candidate
}

/// An expression for the part of a longer text.
fn cut_out(mut candidate: Candidate, cut: &Cut) -> Option<Candidate> {
    let (xpath, cost) = cut.expression(&candidate.xpath)?;
    if let Cut::Behind(text) | Cut::Before(text) = cut {
        candidate.anchors.push(format!("\"{text}\""));
    }
    Some(Candidate { xpath, cost: candidate.cost + cost, ..candidate })
}

/// Whether all examples have the same value, so that anything which is the same on all pages may be taken for it.
///
/// A list is the same where all its members are: that two pages list one thing is common.
pub fn is_constant(goals: &[Option<Goal>], is_list: bool) -> bool {
    let mut told = goals.iter().flatten().filter(|goal| !goal.members.is_empty());
    let Some(first) = told.next() else { return false };
    let mut rest = told.peekable();
    rest.peek().is_some()
        && rest.all(|goal| {
            let is_shared = |key: &String| first.members.iter().flatten().any(|own| own == key);
            match is_list {
                true => goal.members.iter().all(|member| member.iter().any(is_shared)),
                false => goal.members.iter().flatten().any(is_shared),
            }
        })
}

/// Whether a place is a text, or an attribute that is about the page or leads somewhere.
fn is_read(document: &Document, place: NodeRef) -> bool {
    let name = place.attribute().map(|attribute| document.attr_name(attribute));
    name.is_none_or(|name| matches!(name, "content" | "href" | "src" | "datetime"))
}
