//! Attributes of a site without a teacher: its pages' structured data gives the labels.

use page::xpath::Fuel;

use crate::answers::{Answers, Kind, answers};
use crate::forms::Form;
use crate::learn::{Class, EXAMPLES_MAX, Learned, Question};
use crate::lesson::{Goal, Wanted};
use crate::places::{Page, Places};

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
}

/// Finds expressions for all attributes that the pages' structured data has labels for. Without `kind`, the kind of most pages.
///
/// Each attribute is learned once for each page without that page, and kept where that gave the right value on half of them, or
/// where its values differ and one expression is right on all pages; its expressions are learned from all pages. Ends when `fuel` is used up, with what was found until then.
pub fn discover(pages: &[Page<'_>], kind: Option<Kind>, fuel: &mut Fuel) -> Discovery {
    let pages = &pages[..pages.len().min(EXAMPLES_MAX)];
    let said: Vec<Answers> = pages.iter().map(|page| answers(page.document, kind)).collect();
    let count = |kind: Kind| said.iter().filter(|answers| answers.kind == Some(kind)).count();
    let most = Kind::ALL.into_iter().filter(|kind| count(*kind) > 0).rev().max_by_key(|kind| count(*kind));
    let Some(kind) = kind.or(most) else {
        return Discovery { kind: None, page_count: 0, attributes: Vec::new() };
    };
    let of_kind: Vec<(&Page<'_>, &Answers)> =
        pages.iter().zip(&said).filter(|(_, answers)| answers.kind == Some(kind)).collect();
    let labels = || of_kind.iter().flat_map(|(_, answers)| &answers.labels);
    let mut forms: Vec<Form> = labels().map(|label| label.form).collect();
    forms.sort_unstable();
    forms.dedup();
    let text_bytes_max = labels().flat_map(|label| &label.values).map(String::len).max().unwrap_or(0);
    let places = of_kind.iter().map(|(page, _)| Places::new(**page, &forms, text_bytes_max)).collect();
    let class = Class::new(places, &[], PAGES_PER_ERROR);
    let mut attributes = Vec::new();
    for term in kind.terms() {
        let wanted = Wanted { name: term.name.to_owned(), kind: term.kind, form: term.form };
        let goals: Vec<Option<Goal>> = of_kind
            .iter()
            .zip(&class.examples)
            .map(|((_, answers), places)| {
                let label = answers.labels.iter().find(|label| label.name == term.name)?;
                Some(Goal::labelled(term.form, &label.values, places.reading()))
            })
            .map(|goal| goal.filter(|goal| !goal.members.is_empty()))
            .collect();
        let question = Question { wanted: &wanted, goals: &goals, hints: term.hints() };
        let learned = class.learn_said(&question, fuel);
        if !learned.paths.is_empty() {
            attributes.push(learned);
        }
    }
    Discovery { kind: Some(kind), page_count: of_kind.len(), attributes }
}

#[cfg(test)]
mod tests;
