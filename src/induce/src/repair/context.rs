//! What stands around a place: the labels before it, and the words of the names that its elements have.
//!
//! When a site is made anew, ids and classes mostly change, but what they are made of ("prep-time", "recipe__prepTime") and what
//! readers see before a value ("Prep time:") often stay.

use std::collections::BTreeSet;

use page::html::{AttrId, Document, NodeId};
use page::xpath::NodeRef;

use crate::candidates::carrier;
use crate::forms::fold;
use crate::places::{Places, label_text};

/// Elements above a place whose names are looked at, itself included.
const ELEMENTS_MAX: usize = 4;
/// Texts before a place that are labels.
const LABELS_MAX: usize = 2;
/// Words of one place.
const WORDS_MAX: usize = 48;

/// What an equal nearest label, another shared label, all words shared, and the same tag say.
const SAME_LABEL: f64 = 3.0;
const SHARED_LABEL: f64 = 1.5;
const SAME_WORDS: f64 = 2.0;
const SAME_TAG: f64 = 1.0;
/// What a word of the attribute's name says that stands in the label, or in the names.
const NAMED_LABEL: f64 = 1.5;
const NAMED_WORD: f64 = 0.75;
/// What it takes off that a place is called by another attribute's name.
pub const CALLED_ANOTHER: f64 = 2.0;

/// The surroundings of a place.
#[derive(Clone, Debug)]
pub struct Context {
    labels: Vec<String>,
    words: BTreeSet<String>,
    /// The element's name and the attribute's.
    tag: String,
}

impl Context {
    pub fn of(places: &Places<'_>, place: NodeRef) -> Context {
        let document = places.page.document;
        let before = places.texts_before(place.node()).take(LABELS_MAX);
        let labels = before.filter_map(|text| fold(&label_text(document, text)?)).collect();
        let element = carrier(document, place);
        let attribute = place.attribute().map(|attribute| document.attr_name(attribute)).unwrap_or_default();
        let mut words = BTreeSet::new();
        let above = std::iter::successors(Some(element), |node| document.parent(*node));
        for element in above.take(ELEMENTS_MAX).filter(|node| document.is_element(*node)) {
            names(document, element, &mut words);
        }
        Context { labels, words, tag: format!("{}@{attribute}", document.name(element)) }
    }

    /// Of a value in JSON: the keys that lead to it are its names, and the last is its label.
    pub fn of_keys<'k>(keys: impl DoubleEndedIterator<Item = &'k str> + Clone) -> Context {
        let mut found = BTreeSet::new();
        keys.clone().for_each(|key| words(key, &mut found));
        let labels = keys.rev().take(LABELS_MAX).filter_map(fold).collect();
        Context { labels, words: found, tag: String::new() }
    }

    /// How much two surroundings are alike, from 0 to 6.
    pub fn likeness(&self, old: &Context) -> f64 {
        let labels = match (self.labels.first(), old.labels.first()) {
            (Some(own), Some(other)) if own == other => SAME_LABEL,
            _ if self.labels.iter().any(|label| old.labels.contains(label)) => SHARED_LABEL,
            _ => 0.0,
        };
        let shared = self.words.intersection(&old.words).count() as f64;
        let least = self.words.len().min(old.words.len()).max(2) as f64;
        let is_same_tag = self.tag == old.tag && !self.tag.is_empty();
        labels + SAME_WORDS * shared / least + if is_same_tag { SAME_TAG } else { 0.0 }
    }

    /// How much they call what stands there by an attribute's name ("prep" of `prep_time`).
    pub fn names(&self, name: &str) -> f64 {
        let mut said = 0.0;
        let mut own = BTreeSet::new();
        words(name, &mut own);
        for word in own {
            if self.labels.iter().any(|label| label.contains(&word)) {
                said += NAMED_LABEL;
            } else if self.words.contains(&word) {
                said += NAMED_WORD;
            }
        }
        said
    }
}

impl Context {
    /// Whether it is called by the name of something else and not by this one's, unless it always was.
    pub fn calls_another(&self, name: &str, others: &BTreeSet<String>, old: &[Context]) -> bool {
        let calls = |context: &Context| {
            let in_labels = |word: &String| context.labels.iter().any(|label| label.contains(word));
            others.iter().any(|word| context.words.contains(word) || in_labels(word))
        };
        calls(self) && self.names(name) < f64::EPSILON && !old.iter().any(calls)
    }
}

/// Whether an expression has a word of an attribute's name ("image" of `image_url`).
pub fn is_named_in(xpath: &str, name: &str) -> bool {
    let (mut own, mut there) = (BTreeSet::new(), BTreeSet::new());
    words(name, &mut own);
    words(xpath, &mut there);
    !own.is_disjoint(&there)
}

/// Words that other attributes of the same form have in their names and this one has not ("cook" and "total" beside `prep_time`).
pub fn words_of_others<'n>(name: &str, others: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let (mut own, mut found) = (BTreeSet::new(), BTreeSet::new());
    words(name, &mut own);
    others.for_each(|other| words(other, &mut found));
    found.difference(&own).cloned().collect()
}

/// The words of an element's names.
fn names(document: &Document, element: NodeId, found: &mut BTreeSet<String>) {
    for attribute in document.attributes(element).take(16).map(AttrId) {
        let name = document.attr_name(attribute);
        let is_name =
            matches!(name, "class" | "id" | "itemprop" | "property" | "name" | "rel" | "aria-label")
                || name.starts_with("data-") && (name.contains("test") || name.contains("name"));
        if is_name {
            words(document.attr_value(attribute), found);
        }
    }
}

/// The words of a name: cut at what is no letter and where a capital begins, three letters or more, without a plural's end.
fn words(text: &str, found: &mut BTreeSet<String>) {
    let mut word = String::new();
    let mut was_lower = false;
    for character in text.chars().take(400).chain([' ']) {
        let is_cut = !character.is_alphabetic() || character.is_uppercase() && was_lower;
        if is_cut {
            let whole = std::mem::take(&mut word);
            let whole = whole.strip_suffix('s').unwrap_or(&whole);
            if whole.chars().count() > 2 && found.len() < WORDS_MAX {
                found.insert(whole.to_owned());
            }
        }
        if character.is_alphabetic() {
            word.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_words() {
        let mut found = BTreeSet::new();
        words("recipe-prepTime__items x css-9", &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["item", "prep", "recipe", "time"]);
    }
}
