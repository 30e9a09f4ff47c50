//! Attributes of a site without a teacher: its pages' structured data gives the labels, and annotators those that it leaves out;
//! of pages that list things their repeated structure does.

use page::xpath::Fuel;

use crate::annotate::{annotate, kind_of};
use crate::answers::{Answers, Kind, Label, Term, answers};
use crate::bounds::Bound;
use crate::data::{Asked, FromData, learn_from_data};
use crate::forms::Form;
use crate::json_places::PageData;
use crate::learn::{Class, EXAMPLES_MAX, Learned, Question, is_constant};
use crate::lesson::{Goal, Wanted};
use crate::places::{Page, Places};
use crate::records::{list_answers, list_kind_of};

/// Of so many pages one may show another value than its structured data says.
const PAGES_PER_ERROR: usize = 4;

/// What was found out about a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// What kind of pages they are; none where they do not say it.
    pub kind: Option<Kind>,
    /// How many of the pages are of the kind.
    pub page_count: usize,
    /// Only attributes that hold; their confidence says what held-back pages gave.
    pub attributes: Vec<Learned>,
    /// Limits that were reached: there may be more to learn than was.
    pub bounds: Vec<Bound>,
}

/// The share of held-back pages on which what annotators taught must be right.
const SEEN_HELD_OUT_MIN: f64 = 0.6;
/// What annotators taught is trusted so much less than what pages say of themselves.
const SEEN_TRUST: f64 = 0.6;
/// Attributes of which many pages of a site have the same value.
const CONSTANT: [&str; 4] = ["availability", "currency", "company", "ranks"];

/// What is told of a page, and by whom.
struct Told {
    said: Answers,
    /// What annotators see.
    seen: Vec<Label>,
}

impl Told {
    /// What a page says of itself, by the forms.
    fn texts(&self) -> impl Iterator<Item = (Form, &[String])> + Clone {
        self.said.labels.iter().map(|label| (label.form, label.values.as_slice()))
    }
}

/// Finds expressions for all attributes that the pages' structured data has labels for; for the others where annotators agree over
/// the pages. Without `kind`, the kind of most pages.
///
/// Each attribute is learned once for each page without that page, and kept where that gave the right value on half of them, or
/// where its values differ and one expression is right on all pages; its expressions are learned from all pages. On those that do not
/// say it the expressions vote, and what most places contradict comes last. Ends when `fuel` is used up, with what was found until
/// then.
pub fn discover(pages: &[Page<'_>], kind: Option<Kind>, fuel: &mut Fuel) -> Discovery {
    let pages = &pages[..pages.len().min(EXAMPLES_MAX)];
    let mut said: Vec<Answers> = pages.iter().map(|page| answers(page.document, kind)).collect();
    if kind.is_none() && said.iter().all(|answers| answers.kind.is_none()) {
        for (answers, page) in said.iter_mut().zip(pages) {
            answers.kind = kind_of(*page).or_else(|| list_kind_of(*page));
        }
    }
    let count = |kind: Kind| said.iter().filter(|answers| answers.kind == Some(kind)).count();
    let most = Kind::ALL
        .into_iter()
        .chain(Kind::LISTS)
        .filter(|kind| count(*kind) > 0)
        .rev()
        .max_by_key(|kind| count(*kind));
    let Some(kind) = kind.or(most) else {
        return Discovery { kind: None, page_count: 0, attributes: Vec::new(), bounds: Vec::new() };
    };
    let of_kind: Vec<(Page<'_>, Told)> = pages
        .iter()
        .zip(said)
        .filter(|(_, answers)| answers.kind == Some(kind))
        .map(|(page, said)| {
            // What says that it is something else is not looked at as if it said nothing.
            let is_other = || answers(page.document, None).kind.is_some_and(|own| own != kind);
            let seen = match kind.is_list() {
                true => list_answers(*page, kind).0.labels,
                false if is_other() => Vec::new(),
                false => annotate(*page, kind),
            };
            (*page, Told { said, seen })
        })
        .collect();
    let labels = || of_kind.iter().flat_map(|(_, told)| told.said.labels.iter().chain(&told.seen));
    let mut forms: Vec<Form> = labels().map(|label| label.form).collect();
    forms.sort_unstable();
    forms.dedup();
    let text_bytes_max = labels().flat_map(|label| &label.values).map(String::len).max().unwrap_or(0);
    let places = of_kind.iter().map(|(page, _)| Places::new(*page, &forms, text_bytes_max)).collect();
    let class = Class::new(places, &[], PAGES_PER_ERROR);
    let domain = Domain {
        kind,
        class,
        told: of_kind.iter().map(|(_, told)| told).collect(),
        data: of_kind.iter().map(|(page, told)| PageData::new(*page, told.texts(), fuel)).collect(),
    };
    let attributes = kind.terms().iter().filter_map(|term| attribute(&domain, term, fuel)).collect();
    let bounds = domain.class.bounds(fuel);
    Discovery { kind: Some(kind), page_count: of_kind.len(), attributes, bounds }
}

/// The pages of a kind, and what is told of them.
struct Domain<'a> {
    kind: Kind,
    class: Class<'a>,
    told: Vec<&'a Told>,
    /// Where the JSON of each page says what it says of itself.
    data: Vec<PageData>,
}

/// Learns one attribute from what pages say, or else from what annotators see.
fn attribute(domain: &Domain<'_>, term: &Term, fuel: &mut Fuel) -> Option<Learned> {
    let Domain { kind, class, told, data } = domain;
    let wanted = Wanted { name: term.name.to_owned(), kind: term.kind, form: term.form, is_told_list: false };
    let is_own = |label: &&Label| label.name == term.name;
    let is_said = told.iter().any(|told| told.said.labels.iter().any(|label| is_own(&label)));
    let goals = told.iter().zip(&class.examples).map(|(told, places)| {
        let labels = if is_said { &told.said.labels } else { &told.seen };
        let label = labels.iter().find(is_own)?;
        let goal = Goal::labelled(term.form, &label.values, places.reading());
        Some(goal).filter(|goal| !goal.members.is_empty())
    });
    let goals: Vec<Option<Goal>> = goals.collect();
    goals.iter().flatten().next()?;
    let question =
        Question { wanted: &wanted, goals: &goals, hints: term.hints(), contrary: term.contrary() };
    let mut learned = class.learn_said(&question, fuel);
    if !is_said {
        learned.confidence *= SEEN_TRUST;
        let is_right = learned.held_out_right >= SEEN_HELD_OUT_MIN * goals.len() as f64;
        let may_be = !is_constant(&goals, term.kind.is_list()) || CONSTANT.contains(&term.name);
        if !(is_right && may_be && learned.example_count > 1) {
            return None;
        }
    } else {
        let asked = Asked { kind: *kind, term, places: &class.examples, data, goals: &goals };
        add_from_data(&mut learned, &asked, fuel);
    }
    Some(learned).filter(|learned| !learned.paths.is_empty() || !learned.json_paths.is_empty())
}

/// Adds what reads the JSON of the pages. Where nothing else was found, it alone speaks for the attribute.
fn add_from_data(learned: &mut Learned, asked: &Asked<'_>, fuel: &mut Fuel) {
    let FromData { json_paths, right, of } = learn_from_data(asked, fuel);
    if learned.paths.is_empty() && !json_paths.is_empty() {
        learned.example_count = of;
        learned.held_out_right = right as f64;
        learned.is_firm = !is_constant(asked.goals, asked.term.kind.is_list());
        learned.confidence = (right as f64 + 1.0) / (of as f64 + 2.0);
    }
    learned.json_paths = json_paths;
}

#[cfg(test)]
mod tests;
