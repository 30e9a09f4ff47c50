//! Expressions that a site has outrun: which of them are broken, and new ones from the values that they last gave.
//!
//! The site's own past is the teacher. A URL that is read again mostly still says what it said, so the last known values are looked
//! for on the new pages, and where they stand is learned as a person's examples would be ([`crate::learn()`]). What speaks against an
//! answer by chance:
//!
//! - **Evidence** is counted in bits: a long text that is found again says much, "20" says little; the label before a value, and what
//!   names call it, speak for a place when they are those of the old place ([`context`]).
//! - **Two attributes never share a place** that they did not share before.
//! - What was read by JSONPaths is looked for in the new pages' JSON as well ([`queries`]), by the same rules; where that is gone, what the
//!   pages show is as good.
//! - **Booleans** are found by the texts that said them ([`known`]): "true" stands nowhere, "In stock" does. It takes pages of both
//!   answers.
//! - **Held back pages** decide: what is learned must give the known values of pages that it was not learned from, and values of
//!   the old form ([`profile`]) on pages of which nothing is known. What does not hold is refused, with the reason.

mod check;
mod context;
mod evidence;
mod known;
mod profile;
mod queries;
mod reworded;
mod verdict;

use std::collections::BTreeSet;

use page::extract::Attribute;
use page::xpath::{Fuel, NodeRef, XPath};

use crate::forms::Form;
use crate::json_places::PageData;
use crate::learn::{Class, EXAMPLES_MAX, LearnedPath, OTHERS_MAX};
use crate::lesson::Goal;
use crate::places::{Page, Places};
use check::Check;
use context::Context;
use evidence::{Evidence, Seen};
use known::{Known, tell_apart};
use queries::Sources;

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
    /// The last known values, by attribute, as texts ([`crate::texts_of`]).
    pub values: Vec<(String, Vec<String>)>,
}

/// What became of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    pub name: String,
    pub verdict: Verdict,
    /// The new expressions, or why there are neither these nor JSONPaths. None where nothing is broken, and no expressions where only
    /// JSONPaths were found.
    pub outcome: Option<Result<Vec<LearnedPath>, Refusal>>,
    /// The new JSONPaths, of an attribute that had some. They are tried behind the expressions.
    pub json_paths: Vec<String>,
    /// The share of right values to expect of the new expressions, or of the JSONPaths where there are no others.
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
    /// The attribute was read by nothing that could be learned anew.
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
    let new = |attribute: &Attribute| Known::new(attribute, visits, fuel);
    let mut known: Vec<Known> = attributes.iter().map(new).collect();
    tell_apart(&mut known);
    let visited = with_data(&known, visits, fuel);
    let (verdicts, is_right) = verdict::verdicts(&known, visits, &visited, fuel);
    let mut lesson = Lesson::new(&known, visits, others);
    let (mut drafts, mut data_drafts) = (Vec::new(), Vec::new());
    let sources = Sources { visited: &visited, others };
    for ((known, verdict), is_right) in known.iter().zip(&verdicts).zip(&is_right) {
        let (draft, from_data) = match verdict {
            Verdict::Broken => lesson.mend(known, &sources, is_right, fuel),
            _ => Default::default(),
        };
        drafts.push(draft);
        data_drafts.push(from_data);
    }
    refuse_shared(&known, &mut drafts);
    refuse_shared(&known, &mut data_drafts);
    let drafts = drafts.into_iter().zip(data_drafts);
    let repairs = known.iter().zip(verdicts).zip(drafts).map(|((known, verdict), (draft, from_data))| {
        let json_paths = from_data.outcome.clone().unwrap_or_default();
        let confidence = if draft.outcome.is_ok() { draft.confidence } else { from_data.confidence };
        let outcome = match (draft.outcome, from_data.outcome) {
            (Err(_), Ok(_)) => Ok(Vec::new()),
            (Err(Refusal::NotFound), Err(why)) => Err(why),
            (outcome, _) => outcome,
        };
        Repair {
            name: known.wanted.name.clone(),
            verdict,
            outcome: (verdict == Verdict::Broken).then_some(outcome),
            json_paths,
            confidence,
        }
    });
    repairs.collect()
}

/// The pages with their JSON, which is looked through where something was read from it.
fn with_data<'a>(known: &[Known], visits: &[Visit<'a>], fuel: &mut Fuel) -> Vec<(Page<'a>, PageData)> {
    let from_data: Vec<&Known> = known.iter().filter(|known| !known.json_paths().is_empty()).collect();
    let read = |(at, visit): (usize, &Visit<'a>)| {
        let told = from_data.iter().map(|known| (known.wanted.form, known.values[at].as_slice()));
        (visit.page, PageData::new(visit.page, told, fuel))
    };
    visits.iter().enumerate().map(read).collect()
}

/// What may become the paths of an attribute.
struct Draft<P, I> {
    outcome: Result<Vec<P>, Refusal>,
    confidence: f64,
    /// What the first reads on each visit's page, and what the old ones read on the page before.
    places: Vec<BTreeSet<I>>,
    before: Vec<BTreeSet<I>>,
    evidence: f64,
}

impl<P, I> Default for Draft<P, I> {
    fn default() -> Draft<P, I> {
        Draft {
            outcome: Err(Refusal::NotFound),
            confidence: 0.0,
            places: Vec::new(),
            before: Vec::new(),
            evidence: 0.0,
        }
    }
}

/// XPaths and the nodes that they select.
type Expressions = Draft<LearnedPath, NodeRef>;
/// JSONPaths and the places in JSON that they lead to.
type Queries = Draft<String, String>;

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

    /// Learns one attribute anew: by expressions, and by queries where it was read by some. What was read by queries alone is read by
    /// what the pages show only where their JSON teaches nothing.
    fn mend(
        &mut self,
        known: &Known,
        sources: &Sources<'_>,
        is_right: &[bool],
        fuel: &mut Fuel,
    ) -> (Expressions, Queries) {
        let refused = |why: Refusal| Draft { outcome: Err(why), ..Draft::default() };
        if !known.is_supported() {
            return (refused(Refusal::Unsupported), Draft::default());
        }
        let told = (0..is_right.len()).filter(|at| !is_right[*at]);
        if known.is_boolean() && !known.tells_both(told.clone()) {
            return (refused(Refusal::TooLittleEvidence), Draft::default());
        }
        let pages: Vec<(usize, Page<'_>)> = told.map(|at| (at, sources.visited[at].0)).collect();
        let mut from_data = queries::draft(known, sources, is_right, fuel);
        if let Ok(queries) = &from_data.outcome
            && !known.gives_both((Vec::new(), queries.clone()), &pages, fuel)
        {
            from_data.outcome = Err(Refusal::TooLittleEvidence);
        }
        if known.xpaths.is_empty() && from_data.outcome.is_ok() {
            return (Draft::default(), from_data);
        }
        let mut draft = self.draft(known, is_right, fuel);
        if let Ok(paths) = &draft.outcome {
            let xpaths = paths.iter().map(|path| path.xpath.clone()).collect();
            if !known.gives_both((xpaths, Vec::new()), &pages, fuel) {
                draft.outcome = Err(Refusal::TooLittleEvidence);
            }
        }
        (draft, from_data)
    }

    /// Learns one attribute from where its last known values stand now. Pages on which the old expressions are right teach nothing.
    fn draft(&mut self, known: &Known, is_right: &[bool], fuel: &mut Fuel) -> Expressions {
        let mut draft = Draft::default();
        let mut goals: Vec<Option<Goal>> = Vec::new();
        let mut evidence = Evidence::default();
        let mut swapped = Vec::new();
        for (at, is_right) in is_right.iter().enumerate() {
            let (nodes_before, old) = self.context_before(known, at, fuel);
            draft.before.push(nodes_before);
            let goal = self.goal(known, at).filter(|_| !is_right);
            if let Some(goal) = &goal {
                let seen = self.narrow(known, at, goal, old.as_slice(), &mut swapped);
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
        old: &[Context],
        swapped: &mut Vec<(usize, String, Vec<NodeRef>)>,
    ) -> Seen {
        let places = &self.class.examples[at];
        let keys = match known.wanted.kind.is_list() {
            true => goal.members.iter().find(|keys| !places.of_keys(keys).is_empty()),
            false => goal.members.first(),
        };
        let Some(keys) = keys else { return Seen::default() };
        let likeness = |place: &NodeRef| known.likeness(&Context::of(places, *place), old);
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
        draft: &mut Expressions,
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
        draft.places = visited.map(|places| verdict::nodes(first, places, fuel)).collect();
        draft.confidence = learned.confidence;
        Ok(kept.into_iter().map(|(path, ..)| path).collect())
    }
}

/// Of attributes that are found at one place, which they were not before, the one with more evidence is kept.
fn refuse_shared<P, I: Ord>(known: &[Known], drafts: &mut [Draft<P, I>]) {
    for one in 0..drafts.len() {
        for other in one + 1..drafts.len() {
            if drafts[one].outcome.is_err() || drafts[other].outcome.is_err() {
                continue;
            }
            let share =
                |a: &[BTreeSet<I>], b: &[BTreeSet<I>]| a.iter().zip(b).any(|(a, b)| !a.is_disjoint(b));
            let were_shared = share(&drafts[one].before, &drafts[other].before);
            if were_shared || !share(&drafts[one].places, &drafts[other].places) {
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
