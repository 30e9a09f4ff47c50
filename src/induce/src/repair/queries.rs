//! New JSONPaths from the values that an attribute last had: made where the new pages' JSON says them, tried on all pages, and kept by
//! what expressions are kept by.

use std::collections::{BTreeMap, BTreeSet};

use page::extract::{Attribute, Schema};
use page::xpath::Fuel;

use super::check::Check;
use super::context::{Context, is_named_in};
use super::evidence::{Evidence, Seen};
use super::known::Known;
use super::{Draft, HELD_OUT_MIN, LIKENESS_MARGIN, MEMBERS_MIN, PAGES_PER_ERROR, PLACES_MAX, Refusal};
use crate::forms::texts_of;
use crate::json_places::{PageData, Place, goal_of, names_in};
use crate::lesson::{Goal, judge};
use crate::places::Page;

/// Queries that are tried, and how many of them by one reading of a page.
const TRIED_MAX: usize = 96;
const TRIED_AT_ONCE: usize = 48;
/// Queries that are kept.
const KEPT_MAX: usize = 2;
/// Work of reading one page once.
const PAGE_UNITS_MAX: u64 = 4_000_000;

/// The new pages and what their JSON has of what is known.
pub struct Sources<'a> {
    pub visited: &'a [(Page<'a>, PageData)],
    pub others: &'a [Page<'a>],
}

/// A query, and where it came from.
struct Made {
    query: String,
    likeness: f64,
    /// In which order it was made.
    order: usize,
    /// The names that lead to it, by which others hang on the same.
    names: String,
    /// The visits whose pages it was made for, and the places there.
    places: BTreeMap<usize, BTreeSet<String>>,
}

/// A query that was tried.
struct Tried {
    made: Made,
    /// What it comes to on each visit with a goal: right, or something else.
    outcomes: BTreeMap<usize, (bool, bool)>,
    check: Check,
}

/// Learns queries for one attribute that was read by some. Pages on which the old ones are right teach nothing.
pub fn draft(
    known: &Known,
    sources: &Sources<'_>,
    is_right: &[bool],
    fuel: &mut Fuel,
) -> Draft<String, String> {
    let mut draft = Draft::default();
    if known.json_paths().is_empty() {
        return draft;
    }
    draft.before = vec![known.json_paths().iter().cloned().collect(); sources.visited.len()];
    let old: Vec<Context> = known
        .json_paths()
        .iter()
        .map(|path| names_in(path))
        .map(|names| Context::of_keys(names.iter().map(String::as_str)))
        .collect();
    let mut evidence = Evidence::default();
    let mut made: BTreeMap<String, Made> = BTreeMap::new();
    let mut goals: Vec<Option<Goal>> = Vec::new();
    for (at, (page, data)) in sources.visited.iter().enumerate() {
        let goal = goal(known, at, *page, data).filter(|_| !is_right[at]);
        if let Some(goal) = &goal {
            let seen = make(known, at, goal, data, &old, &mut made);
            evidence.add(known.wanted.form, &known.values[at], goal, &seen);
        }
        goals.push(goal);
    }
    draft.evidence = evidence.bits();
    draft.outcome = match goals.iter().flatten().count() {
        0 => Err(Refusal::NotFound),
        _ if !evidence.is_enough() => Err(Refusal::TooLittleEvidence),
        _ => {
            let tried = try_all(known, sources, made, (&goals, is_right), fuel);
            choose(known, tried, &goals, &evidence, &mut draft)
        }
    };
    draft
}

/// What is to be found in the JSON of a visit's page: the last known values, if it says them.
fn goal(known: &Known, at: usize, page: Page<'_>, data: &PageData) -> Option<Goal> {
    let reading = crate::forms::Reading { base: page.base, mark: page.mark() };
    let goal = goal_of(known.wanted.form, &known.values[at], reading);
    let there = goal.members.iter().filter(|keys| data.of_keys(keys).next().is_some()).count() as f64;
    (there > 0.0 && there >= MEMBERS_MIN * goal.members.len() as f64).then_some(goal)
}

/// Makes queries for the places of a value whose names are most like the old ones; says how much they are.
fn make(
    known: &Known,
    at: usize,
    goal: &Goal,
    data: &PageData,
    old: &[Context],
    made: &mut BTreeMap<String, Made>,
) -> Seen {
    let is_list = known.wanted.kind.is_list();
    let keys = goal.members.iter().find(|keys| data.of_keys(keys).next().is_some());
    let Some(keys) = keys else { return Seen::default() };
    let rate = |place: &Place| known.likeness(&Context::of_keys(place.names()), old);
    let rated: Vec<(&Place, f64)> = data.of_keys(keys).map(|place| (place, rate(place))).collect();
    let best = rated.iter().map(|(_, likeness)| *likeness).fold(0.0, f64::max);
    let like = rated.iter().filter(|(_, likeness)| *likeness >= best - LIKENESS_MARGIN);
    let mut ids = BTreeSet::new();
    for (place, likeness) in like.take(PLACES_MAX) {
        let id = place.id(is_list);
        for (way, query) in place.queries(is_list).into_iter().enumerate() {
            let order = way + if place.is_bare() { 3 } else { 0 };
            let names = names_in(&query).join(" ");
            let known = made.entry(query.clone()).or_insert_with(|| Made {
                query,
                likeness: *likeness,
                order,
                names,
                places: BTreeMap::new(),
            });
            known.likeness = known.likeness.max(*likeness);
            known.places.entry(at).or_default().insert(id.clone());
        }
        ids.insert(id);
    }
    Seen { likeness: best, places: if is_list { 1 } else { ids.len() } }
}

/// Tries those that were made for most pages on all.
fn try_all(
    known: &Known,
    sources: &Sources<'_>,
    made: BTreeMap<String, Made>,
    (goals, is_right): (&[Option<Goal>], &[bool]),
    fuel: &mut Fuel,
) -> Vec<Tried> {
    let mut made: Vec<Made> = made.into_values().collect();
    made.sort_by(|a, b| {
        let key = |made: &Made| (usize::MAX - made.places.len(), made.order, made.query.len());
        let likeness = b.likeness.total_cmp(&a.likeness);
        key(a).0.cmp(&key(b).0).then(likeness).then(key(a).cmp(&key(b))).then_with(|| a.query.cmp(&b.query))
    });
    made.truncate(TRIED_MAX);
    let new = |made| Tried { made, outcomes: BTreeMap::new(), check: Check::default() };
    let mut tried: Vec<Tried> = made.into_iter().map(new).collect();
    let visited = sources.visited.iter().map(|(page, _)| *page).enumerate();
    let visited = visited.filter(|(at, _)| !is_right[*at]).map(|(at, page)| (Some(at), page));
    let pages: Vec<_> = visited.chain(sources.others.iter().map(|page| (None, *page))).collect();
    for chunk in tried.chunks_mut(TRIED_AT_ONCE) {
        let attributes: Vec<Attribute> =
            chunk.iter().enumerate().map(|(at, one)| attribute(known, at, &one.made.query)).collect();
        let Ok(schema) = Schema::compile(&attributes) else { continue };
        for (at, page) in &pages {
            let lent = fuel.left().min(PAGE_UNITS_MAX);
            let mut own = Fuel::new(lent);
            let values = schema.extract(page.document, page.base, &mut own).values;
            let _ = fuel.spend(lent - own.left());
            let reading = crate::forms::Reading { base: page.base, mark: page.mark() };
            let goal = at.and_then(|at| goals[at].as_ref());
            for (own, one) in attributes.iter().zip(chunk.iter_mut()) {
                let texts = values.get(&own.name).map(texts_of).unwrap_or_default();
                if let (Some(at), Some(goal)) = (at, goal) {
                    let outcome = judge(&known.wanted, goal, &texts, MEMBERS_MIN, reading);
                    one.outcomes.insert(*at, (outcome.score > 0.0, outcome.is_wrong));
                }
                one.check.add(known, goal, texts, reading);
            }
        }
    }
    tried
}

/// A query as an attribute.
fn attribute(known: &Known, at: usize, query: &str) -> Attribute {
    Attribute {
        name: format!("q{at}"),
        xpaths: Vec::new(),
        json_paths: Some(vec![query.to_owned()]),
        kind: known.wanted.kind,
        description: None,
        anti_patterns: None,
        semantic_type: None,
        validation: None,
    }
}

/// Of these visits, on how many a query is right and on how many it is wrong.
fn count(one: &Tried, left_out: Option<usize>) -> (usize, usize) {
    let of = one.outcomes.iter().filter(|(at, _)| Some(**at) != left_out);
    of.fold((0, 0), |(right, wrong), (_, (is_right, is_wrong))| {
        (right + usize::from(*is_right), wrong + usize::from(*is_wrong))
    })
}

/// Keeps the queries that hold on every page that can say something.
fn choose(
    known: &Known,
    mut tried: Vec<Tried>,
    goals: &[Option<Goal>],
    evidence: &Evidence,
    draft: &mut Draft<String, String>,
) -> Result<Vec<String>, Refusal> {
    // They are sorted by what speaks for them before they are tried, so the first of those that are equally right is the best.
    tried.sort_by_key(|one| usize::MAX - count(one, None).0);
    let told: Vec<usize> = (0..goals.len()).filter(|at| goals[*at].is_some()).collect();
    let held_out = told.iter().filter(|held| holds_without(&tried, **held)).count();
    if told.len() > 1 && (held_out as f64) < HELD_OUT_MIN * told.len() as f64 {
        return Err(Refusal::NoAgreement);
    }
    let mut refusal = Refusal::NoAgreement;
    let mut kept: Vec<&Tried> = Vec::new();
    for one in &tried {
        let is_named = is_named_in(&one.made.query, &known.wanted.name);
        let stands_behind = |kept: &[&Tried]| {
            kept.first().is_none_or(|first| one.check.may_stand_behind(&first.check))
                && kept.iter().all(|known| known.made.names != one.made.names)
        };
        match one.check.refusal(&known.profile, evidence, is_named) {
            None if kept.len() < KEPT_MAX && stands_behind(&kept) => kept.push(one),
            None => {}
            Some(why) => refusal = why,
        }
    }
    let Some(first) = kept.first() else { return Err(refusal) };
    let places = (0..goals.len()).map(|at| first.made.places.get(&at).cloned().unwrap_or_default());
    draft.places = places.collect();
    draft.confidence = (held_out as f64 + 1.0) / (told.len() as f64 + 2.0);
    Ok(kept.into_iter().map(|one| one.made.query.clone()).collect())
}

/// Whether what the other visits teach is right on this one.
fn holds_without(tried: &[Tried], held: usize) -> bool {
    let is_known = |one: &&Tried| one.made.places.keys().any(|at| *at != held);
    let is_fit = |one: &&Tried| {
        let (right, wrong) = count(one, Some(held));
        right > 0 && wrong * PAGES_PER_ERROR <= right + wrong
    };
    let fit = tried.iter().filter(is_known).filter(is_fit);
    // The first of those with most: `max_by_key` would take the last.
    let best = fit.rev().max_by_key(|one| count(one, Some(held)).0);
    best.is_some_and(|best| best.outcomes.get(&held).is_some_and(|(is_right, _)| *is_right))
}
