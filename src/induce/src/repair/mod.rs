//! Expressions that a site has outrun: which of them are broken, and new ones from the values that they last gave.
//!
//! The site's own past is the teacher. A URL that is read again mostly still says what it said, so the last known values are looked
//! for on the new pages, and where they stand is learned as a person's examples would be ([`crate::learn()`]). What speaks against an
//! answer by chance:
//!
//! - **Evidence** is counted in bits: a long text that is found again says much, "20" says little; the label before a value, and what
//!   names call it, speak for a place when they are those of the old place ([`context`]).
//! - **Two attributes never share a place** that they did not share before.
//! - **Held back pages** decide: what is learned must give the known values of pages that it was not learned from, and values of
//!   the old form ([`profile`]) on pages of which nothing is known. What does not hold is refused, with the reason.

mod check;
mod context;
mod evidence;
mod profile;
mod reworded;
mod verdict;

use std::collections::BTreeSet;

use page::extract::{Attribute, AttributeType, Schema};
use page::xpath::{Fuel, NodeRef, XPath};

use crate::forms::Form;
use crate::learn::{Class, EXAMPLES_MAX, LearnedPath, OTHERS_MAX};
use crate::lesson::{Goal, Wanted};
use crate::places::{Page, Places};
use check::Check;
use context::{CALLED_ANOTHER, Context, words_of_others};
use evidence::{Evidence, Seen};
use profile::Profile;

pub use verdict::Verdict;

/// Of so many pages one may show another value than it did.
const PAGES_PER_ERROR: usize = 4;
/// The share of the examples on which what the others teach must be right, where there are several.
const HELD_OUT_MIN: f64 = 0.6;
/// The share of a list's members that must be found again.
const MEMBERS_MIN: f64 = 0.6;
/// Places that are compared by what stands around them.
const PLACES_MAX: usize = 24;
/// Places whose surroundings are this much less alike than the best are no candidates.
const LIKENESS_MARGIN: f64 = 0.75;

/// A URL that was read before the site changed, and its page now.
#[derive(Clone, Debug)]
pub struct Visit<'a> {
    pub page: Page<'a>,
    /// The page as it was; none where it is not kept.
    pub before: Option<Page<'a>>,
    /// The last known values, by attribute, as texts ([`texts_of`]).
    pub values: Vec<(String, Vec<String>)>,
}

/// What became of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    pub name: String,
    pub verdict: Verdict,
    /// The new expressions, or why there are none. None where nothing is broken.
    pub outcome: Option<Result<Vec<LearnedPath>, Refusal>>,
    /// The share of right values to expect of the new expressions.
    pub confidence: f64,
}

/// Why no expression was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// The last known values stand on none of the new pages.
    NotFound,
    /// What was found could have come about by chance.
    TooLittleEvidence,
    /// Another attribute is found at the same place, which it was not before.
    Ambiguous,
    /// No expression gives the known values of several pages.
    NoAgreement,
    /// What it gives on other pages is not like what the attribute was.
    Implausible,
    /// The attribute is not read by XPaths, or is none that has a place.
    Unsupported,
}

impl Refusal {
    pub fn name(self) -> &'static str {
        match self {
            Refusal::NotFound => "not_found",
            Refusal::TooLittleEvidence => "too_little_evidence",
            Refusal::Ambiguous => "ambiguous",
            Refusal::NoAgreement => "no_agreement",
            Refusal::Implausible => "implausible",
            Refusal::Unsupported => "unsupported",
        }
    }
}

/// A stored value as the texts of which it was made; none for what has no text of its own.
pub fn texts_of(value: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        serde_json::Value::Array(members) => members.iter().filter_map(text).collect(),
        other => text(other).into_iter().collect(),
    }
}

/// Looks which attributes the new pages still answer to, and learns anew those that are broken. `others` are new pages of the
/// site of which nothing is known. Ends when `fuel` is used up, with what was found until then.
pub fn repair(
    attributes: &[Attribute],
    visits: &[Visit<'_>],
    others: &[Page<'_>],
    fuel: &mut Fuel,
) -> Vec<Repair> {
    let visits = &visits[..visits.len().min(EXAMPLES_MAX)];
    let others = &others[..others.len().min(OTHERS_MAX)];
    let mut known: Vec<Known> = attributes.iter().map(|attribute| Known::new(attribute, visits)).collect();
    tell_apart(&mut known);
    let (verdicts, is_right) = verdict::verdicts(&known, visits, fuel);
    let mut lesson = Lesson::new(&known, visits, others);
    let mut drafts: Vec<Draft> = known
        .iter()
        .zip(&verdicts)
        .zip(&is_right)
        .map(|((known, verdict), is_right)| match verdict {
            Verdict::Broken => lesson.draft(known, is_right, fuel),
            _ => Draft::default(),
        })
        .collect();
    refuse_shared(&known, &mut drafts);
    let repairs = known.iter().zip(verdicts).zip(drafts).map(|((known, verdict), draft)| Repair {
        name: known.wanted.name.clone(),
        verdict,
        outcome: (verdict == Verdict::Broken).then_some(draft.outcome),
        confidence: draft.confidence,
    });
    repairs.collect()
}

/// An attribute and its past.
struct Known {
    wanted: Wanted,
    xpaths: Vec<XPath>,
    /// By which what is extracted is compared with the past.
    schema: Option<Schema>,
    /// The last known values of each visit.
    values: Vec<Vec<String>>,
    profile: Profile,
    /// What others of its form are called.
    others: BTreeSet<String>,
}

impl Known {
    fn new(attribute: &Attribute, visits: &[Visit<'_>]) -> Known {
        let of = |visit: &Visit<'_>| {
            let known = visit.values.iter().find(|(name, _)| *name == attribute.name);
            known.map(|(_, texts)| texts.clone()).unwrap_or_default()
        };
        let values: Vec<Vec<String>> = visits.iter().map(of).collect();
        let form = form_of(attribute.kind, &values);
        Known {
            wanted: Wanted { name: attribute.name.clone(), kind: attribute.kind, form },
            xpaths: attribute.xpaths.iter().filter_map(|xpath| XPath::compile(xpath).ok()).collect(),
            schema: Schema::compile(std::slice::from_ref(attribute)).ok(),
            profile: Profile::of(attribute.kind, form, &values),
            values,
            others: BTreeSet::new(),
        }
    }

    fn is_supported(&self) -> bool {
        !self.xpaths.is_empty() && self.wanted.kind != AttributeType::Boolean
    }
}

/// Notes of each length of time, number or day what the others of its form are called: they are taken for one another most easily.
fn tell_apart(known: &mut [Known]) {
    for at in 0..known.len() {
        let form = known[at].wanted.form;
        if matches!(form, Form::Duration | Form::Number | Form::Date) {
            let others = known.iter().filter(|other| other.wanted.form == form);
            let names = others.map(|other| other.wanted.name.as_str());
            known[at].others = words_of_others(&known[at].wanted.name, names);
        }
    }
}

/// By which form values of an attribute are the same: by its type, and of texts by what all of them can be read as.
fn form_of(kind: AttributeType, values: &[Vec<String>]) -> Form {
    let base = url::Url::parse("http://localhost/");
    let all = |form: Form, bytes_max: usize| {
        let texts: Vec<&String> = values.iter().flatten().collect();
        let Ok(base) = &base else { return false };
        let reading = crate::forms::Reading { base, mark: None };
        !texts.is_empty()
            && texts.iter().all(|text| text.len() <= bytes_max && !form.keys(text, reading).is_empty())
    };
    let is_image = |text: &String| {
        let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        [".jpg", ".jpeg", ".png", ".webp", ".gif", ".avif"].iter().any(|end| path.ends_with(end))
    };
    match kind {
        AttributeType::Number => Form::Number,
        AttributeType::Url | AttributeType::UrlList => {
            let mut texts = values.iter().flatten().peekable();
            match texts.peek().is_some() && texts.all(is_image) {
                true => Form::Image,
                false => Form::Link,
            }
        }
        AttributeType::Text if all(Form::Duration, 40) => Form::Duration,
        AttributeType::Text if all(Form::Date, 48) => Form::Date,
        _ => Form::Text,
    }
}

/// What may become the expressions of an attribute.
struct Draft {
    outcome: Result<Vec<LearnedPath>, Refusal>,
    confidence: f64,
    /// What the first expression reads on each visit's page, and what the old ones read on the page before.
    nodes: Vec<BTreeSet<NodeRef>>,
    nodes_before: Vec<BTreeSet<NodeRef>>,
    evidence: f64,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            outcome: Err(Refusal::NotFound),
            confidence: 0.0,
            nodes: Vec::new(),
            nodes_before: Vec::new(),
            evidence: 0.0,
        }
    }
}

/// The new pages, looked through once for all attributes.
struct Lesson<'a> {
    class: Class<'a>,
    before: Vec<Option<Places<'a>>>,
}

impl<'a> Lesson<'a> {
    fn new(known: &[Known], visits: &'a [Visit<'a>], others: &[Page<'a>]) -> Lesson<'a> {
        let mut forms: Vec<Form> = known.iter().map(|known| known.wanted.form).collect();
        forms.sort_unstable();
        forms.dedup();
        let texts = known.iter().flat_map(|known| &known.values).flatten();
        let text_bytes_max = texts.map(String::len).max().unwrap_or(0);
        let places = visits.iter().map(|visit| Places::new(visit.page, &forms, text_bytes_max)).collect();
        // Of the pages before only the texts around known nodes are asked for.
        let before = visits.iter().map(|visit| visit.before.map(|page| Places::new(page, &[], 0))).collect();
        Lesson { class: Class::new(places, others, PAGES_PER_ERROR), before }
    }

    /// Learns one attribute from where its last known values stand now. Pages on which the old expressions are right teach nothing.
    fn draft(&mut self, known: &Known, is_right: &[bool], fuel: &mut Fuel) -> Draft {
        let mut draft = Draft::default();
        if !known.is_supported() {
            draft.outcome = Err(Refusal::Unsupported);
            return draft;
        }
        let mut goals: Vec<Option<Goal>> = Vec::new();
        let mut evidence = Evidence::default();
        let mut swapped = Vec::new();
        for (at, is_right) in is_right.iter().enumerate() {
            let (nodes_before, old) = self.context_before(known, at, fuel);
            draft.nodes_before.push(nodes_before);
            let goal = self.goal(known, at).filter(|_| !is_right);
            if let Some(goal) = &goal {
                let seen = self.narrow(known, at, goal, old.as_ref(), &mut swapped);
                evidence.add(known.wanted.form, &known.values[at], goal, &seen);
            }
            goals.push(goal);
        }
        draft.outcome = match goals.iter().flatten().count() {
            0 => Err(Refusal::NotFound),
            _ if !evidence.is_enough() => Err(Refusal::TooLittleEvidence),
            _ => self.learn(known, &goals, is_right, &evidence, &mut draft, fuel),
        };
        draft.evidence = evidence.bits();
        for (at, key, places) in swapped.into_iter().rev() {
            self.class.examples[at].swap(key, places);
        }
        draft
    }

    /// Where an attribute was on a page before, and what stood around it, if it said what is known.
    fn context_before(
        &self,
        known: &Known,
        at: usize,
        fuel: &mut Fuel,
    ) -> (BTreeSet<NodeRef>, Option<Context>) {
        let Some(places) = &self.before[at] else { return Default::default() };
        for xpath in &known.xpaths {
            let nodes = verdict::nodes(xpath, places, fuel);
            if let Some(first) = nodes.first() {
                let context = Context::of(places, *first);
                return (nodes, Some(context));
            }
        }
        Default::default()
    }

    /// What is to be found on a visit's page: its last known values, if the page shows them.
    fn goal(&self, known: &Known, at: usize) -> Option<Goal> {
        let places = &self.class.examples[at];
        let mut goal = Goal::labelled(known.wanted.form, &known.values[at], places.reading());
        if known.wanted.kind.is_list() && known.wanted.form == Form::Text {
            reworded::add(&mut goal, places);
        }
        if known.wanted.form == Form::Link && goal.members.iter().any(|keys| places.is_own_address(keys)) {
            return None;
        }
        let is_there = |keys: &&Vec<String>| !places.of_keys(keys).is_empty();
        let there = goal.members.iter().filter(is_there).count() as f64;
        (there > 0.0 && there >= MEMBERS_MIN * goal.members.len() as f64).then_some(goal)
    }

    /// Leaves of the places of a single value those whose surroundings are most like the old ones; gives how much they are. What was
    /// taken away goes into `swapped`.
    fn narrow(
        &mut self,
        known: &Known,
        at: usize,
        goal: &Goal,
        old: Option<&Context>,
        swapped: &mut Vec<(usize, String, Vec<NodeRef>)>,
    ) -> Seen {
        let places = &self.class.examples[at];
        let keys = match known.wanted.kind.is_list() {
            true => goal.members.iter().find(|keys| !places.of_keys(keys).is_empty()),
            false => goal.members.first(),
        };
        let Some(keys) = keys else { return Seen::default() };
        let likeness = |place: &NodeRef| {
            let context = Context::of(places, *place);
            let alike = context.names(&known.wanted.name) + old.map_or(0.0, |old| context.likeness(old));
            match context.calls_another(&known.wanted.name, &known.others, old) {
                true => (alike - CALLED_ANOTHER).max(0.0),
                false => alike,
            }
        };
        let rated = places.of_keys(keys).into_iter().take(PLACES_MAX);
        let rated: Vec<(NodeRef, f64)> = rated.map(|place| (place, likeness(&place))).collect();
        let best = rated.iter().map(|(_, likeness)| *likeness).fold(0.0, f64::max);
        if known.wanted.kind.is_list() {
            return Seen { likeness: best, places: 1 };
        }
        let kept = |places: Vec<NodeRef>| -> Vec<NodeRef> {
            let is_like = |place: &NodeRef| {
                rated.iter().any(|(one, likeness)| one == place && *likeness >= best - LIKENESS_MARGIN)
            };
            places.into_iter().filter(is_like).collect()
        };
        for key in keys.clone() {
            let all = self.class.examples[at].of_keys(std::slice::from_ref(&key));
            let less = kept(all);
            let before = self.class.examples[at].swap(key.clone(), less);
            swapped.push((at, key, before));
        }
        let places = rated.iter().filter(|(_, likeness)| *likeness >= best - LIKENESS_MARGIN).count();
        Seen { likeness: best, places }
    }

    /// Learns expressions and keeps those that hold on every page that can say something.
    fn learn(
        &self,
        known: &Known,
        goals: &[Option<Goal>],
        is_right: &[bool],
        evidence: &Evidence,
        draft: &mut Draft,
        fuel: &mut Fuel,
    ) -> Result<Vec<LearnedPath>, Refusal> {
        let learned = self.class.learn(&known.wanted, goals, fuel);
        let several = learned.example_count > 1;
        if several && !learned.is_firm && learned.held_out_right < HELD_OUT_MIN * learned.example_count as f64
        {
            return Err(Refusal::NoAgreement);
        }
        let mut kept: Vec<(LearnedPath, XPath, Check)> = Vec::new();
        let mut refusal = Refusal::NoAgreement;
        for path in learned.paths {
            let Ok(xpath) = XPath::compile(&path.xpath) else { continue };
            let check = Check::of(known, &self.class, goals, is_right, &xpath, fuel);
            let is_named = context::is_named_in(&path.xpath, &known.wanted.name);
            match check.refusal(&known.profile, evidence, is_named) {
                None if kept.first().is_none_or(|(.., first)| check.may_stand_behind(first)) => {
                    kept.push((path, xpath, check));
                }
                None => {}
                Some(why) => refusal = why,
            }
        }
        let Some((_, first, _)) = kept.first() else { return Err(refusal) };
        let visited = self.class.examples.iter();
        draft.nodes = visited.map(|places| verdict::nodes(first, places, fuel)).collect();
        draft.confidence = learned.confidence;
        Ok(kept.into_iter().map(|(path, ..)| path).collect())
    }
}

/// Of attributes that are found at one place, which they were not before, the one with more evidence is kept.
fn refuse_shared(known: &[Known], drafts: &mut [Draft]) {
    for one in 0..drafts.len() {
        for other in one + 1..drafts.len() {
            if drafts[one].outcome.is_err() || drafts[other].outcome.is_err() {
                continue;
            }
            let share = |a: &[BTreeSet<NodeRef>], b: &[BTreeSet<NodeRef>]| {
                a.iter().zip(b).any(|(a, b)| !a.is_disjoint(b))
            };
            let were_shared = share(&drafts[one].nodes_before, &drafts[other].nodes_before);
            if were_shared || !share(&drafts[one].nodes, &drafts[other].nodes) {
                continue;
            }
            let less = if drafts[one].evidence < drafts[other].evidence { one } else { other };
            // What says the same on every page cannot be told apart by anybody.
            let is_same = known[one].values == known[other].values
                && (drafts[one].evidence - drafts[other].evidence).abs() < 1.0;
            drafts[less].outcome = Err(Refusal::Ambiguous);
            if is_same {
                drafts[one].outcome = Err(Refusal::Ambiguous);
                drafts[other].outcome = Err(Refusal::Ambiguous);
            }
        }
    }
}

#[cfg(test)]
mod tests;
