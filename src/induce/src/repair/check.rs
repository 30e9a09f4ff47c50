//! What an expression gives on all new pages, and whether that may be the attribute.

use page::xpath::{Fuel, XPath};

use super::evidence::Evidence;
use super::known::Known;
use super::profile::Profile;
use super::{MEMBERS_MIN, PAGES_PER_ERROR, Refusal};
use crate::forms::{Reading, fold};
use crate::learn::Class;
use crate::lesson::{Goal, judge, read};

/// How near to the known list a repaired expression must come.
const SCORE_MIN: f64 = 0.7;
/// The share of the pages of which nothing is known on which a repaired expression must find something plausible.
const PLAUSIBLE_MIN: f64 = 0.5;

/// An expression's answers.
#[derive(Debug, Default)]
pub struct Check {
    /// Pages on which it gives the known values, and something else.
    right: usize,
    wrong: usize,
    /// Pages of which nothing is known: all, those where it gives a value of the old form, and another.
    asked: usize,
    plausible: usize,
    strange: usize,
    /// Pages on which it selects several different values where there should be one.
    ambiguous: usize,
    /// What it gives on each page, to be compared.
    answers: Vec<Option<String>>,
}

impl Check {
    /// Asks all pages but those that are `left_out`, of which the examples come first.
    pub fn of(
        known: &Known,
        class: &Class<'_>,
        goals: &[Option<Goal>],
        left_out: &[bool],
        xpath: &XPath,
        fuel: &mut Fuel,
    ) -> Check {
        let mut check = Check::default();
        let goals = goals.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let left_out = left_out.iter().copied().chain(std::iter::repeat(false));
        for ((places, goal), _) in class.pages().zip(goals).zip(left_out).filter(|(_, left_out)| !left_out) {
            let texts = read(xpath, places, fuel).unwrap_or_default();
            check.add(known, goal, texts, places.reading());
        }
        check
    }

    /// Adds what was read on a page.
    pub fn add(&mut self, known: &Known, goal: Option<&Goal>, mut texts: Vec<String>, reading: Reading<'_>) {
        if !known.wanted.kind.is_list() {
            // An image in two sizes is one image.
            let key = |text: &String| known.wanted.form.keys(text, reading).into_iter().next();
            let first = texts.first().and_then(key);
            self.ambiguous += usize::from(texts.iter().any(|text| key(text) != first));
            texts.truncate(1);
        }
        match goal {
            Some(goal) => {
                let outcome = judge(&known.wanted, goal, &texts, MEMBERS_MIN, reading);
                self.right += usize::from(outcome.score >= SCORE_MIN);
                self.wrong += usize::from(outcome.is_wrong);
            }
            None => {
                self.asked += 1;
                match texts.is_empty() {
                    true => {}
                    false if known.profile.fits(&texts, reading) => self.plausible += 1,
                    false => self.strange += 1,
                }
            }
        }
        let folded: Vec<String> = texts.iter().filter_map(|text| fold(text)).collect();
        self.answers.push((!folded.is_empty()).then(|| folded.join("\n")));
    }

    /// Why the expression is not kept; none where it is. `is_named` says that it is called by the attribute's name.
    pub fn refusal(&self, profile: &Profile, evidence: &Evidence, is_named: bool) -> Option<Refusal> {
        let is_telling = evidence.says_enough();
        if self.right == 0 || self.wrong * PAGES_PER_ERROR > self.right + self.wrong {
            return Some(Refusal::NoAgreement);
        }
        // One page alone says little: then the others must not speak against it in any way.
        let is_alone = self.right == 1;
        // Where very much speaks for it, pages on which it finds nothing are of another template.
        let finds_enough = self.plausible as f64 >= PLAUSIBLE_MIN * self.asked as f64 || evidence.says_much();
        // The first of several images that are called so is the one that was meant.
        let is_ambiguous = self.ambiguous > 0 && !(profile.is_image() && is_named && is_telling);
        let is_strange = match is_alone {
            true => {
                let says_little = !is_telling && self.is_constant();
                self.strange > 0 || is_ambiguous || !finds_enough || says_little
            }
            false => self.strange * PAGES_PER_ERROR > self.plausible + self.strange,
        };
        (is_strange || profile.is_too_constant(&self.answers)).then_some(Refusal::Implausible)
    }

    /// Whether it may be tried where the first finds nothing: it contradicts that nowhere, and is not the same everywhere where that is not.
    pub fn may_stand_behind(&self, first: &Check) -> bool {
        let both = || self.answers.iter().zip(&first.answers);
        let contradicts = both().any(|(own, other)| own.is_some() && other.is_some() && own != other);
        !contradicts && (first.is_constant() || !self.is_constant())
    }

    /// Whether it says one thing on several pages.
    fn is_constant(&self) -> bool {
        let mut said = self.answers.iter().flatten();
        let first = said.next();
        let mut rest = said.peekable();
        rest.peek().is_some() && rest.all(|other| Some(other) == first)
    }
}
