//! JSONPaths for what pages say in their JSON: linked data, and what frameworks leave in scripts by a name (`__NEXT_DATA__`).
//!
//! Codes, currencies and ids mostly stand nowhere else. Queries over linked data are those that schema.org's shapes allow (an object, a list or a
//! graph, offers that are one or several), so no page makes them; those over other JSON lead to where a page's own value stands. All
//! are tried on all pages with the evaluator that extraction uses, and one that is wrong on any goes.

use std::collections::BTreeMap;

use page::extract::{Attribute, Schema};
use page::xpath::Fuel;
use serde_json::Value as Json;

use crate::answers::{Kind, Term};
use crate::forms::texts_of;
use crate::json_places::PageData;
use crate::lesson::Goal;
use crate::places::{Page, Places};

/// Queries of one attribute that are tried.
const QUERIES_MAX: usize = 160;
/// Attributes of one schema by which they are tried.
const TRIED_AT_ONCE: usize = 80;
/// Queries that are kept.
const KEPT_MAX: usize = 2;
/// Pages on which a query must be right, and the share of those that say a value.
const RIGHT_MIN: usize = 2;
const SHARE_MIN: f64 = 0.5;
/// Places of one page's value.
const PLACES_MAX: usize = 24;
/// Work of reading one page once by all queries.
const PAGE_UNITS_MAX: u64 = 4_000_000;

/// Queries that hold on the pages.
#[derive(Debug, Default)]
pub struct FromData {
    pub json_paths: Vec<String>,
    /// On how many pages the first is right, and how many say a value.
    pub right: usize,
    pub of: usize,
}

/// What is asked.
pub struct Asked<'a> {
    pub kind: Kind,
    pub term: &'a Term,
    pub places: &'a [Places<'a>],
    /// Where the JSON of each page says what.
    pub data: &'a [PageData],
    /// What each page says of the attribute.
    pub goals: &'a [Option<Goal>],
}

/// Learns queries of one attribute; none where nothing holds.
pub fn learn_from_data(asked: &Asked<'_>, fuel: &mut Fuel) -> FromData {
    let mut queries = linked_queries(asked.kind, asked.term);
    for (data, goal) in asked.data.iter().zip(asked.goals) {
        let Some(goal) = goal else { continue };
        for query in script_queries(data, goal, asked.term) {
            if queries.len() < QUERIES_MAX && !queries.contains(&query) {
                queries.push(query);
            }
        }
    }
    let of = asked.goals.iter().flatten().filter(|goal| !goal.members.is_empty()).count();
    let mut right: BTreeMap<usize, usize> = BTreeMap::new();
    let mut wrong = vec![false; queries.len()];
    for (at, chunk) in queries.chunks(TRIED_AT_ONCE).enumerate() {
        let from = at * TRIED_AT_ONCE;
        for (place, is_right) in try_queries(asked, chunk, fuel) {
            match is_right {
                true => *right.entry(from + place).or_default() += 1,
                false => wrong[from + place] = true,
            }
        }
    }
    let holds = |(at, count): &(usize, usize)| {
        !wrong[*at] && *count >= RIGHT_MIN && *count as f64 >= SHARE_MIN * of as f64
    };
    let mut kept: Vec<(usize, usize)> = right.into_iter().filter(holds).collect();
    kept.sort_by_key(|(at, count)| (usize::MAX - count, queries[*at].len(), *at));
    let first = kept.first().map_or(0, |(_, count)| *count);
    let json_paths = kept.into_iter().take(KEPT_MAX).map(|(at, _)| queries[at].clone()).collect();
    FromData { json_paths, right: first, of }
}

/// Which of some queries gives a value on which page, and whether it is what the page says.
fn try_queries(asked: &Asked<'_>, queries: &[String], fuel: &mut Fuel) -> Vec<(usize, bool)> {
    let attribute = |(at, query): (usize, &String)| Attribute {
        name: format!("q{at}"),
        xpaths: Vec::new(),
        json_paths: Some(vec![query.clone()]),
        kind: asked.term.kind,
        description: None,
        anti_patterns: None,
        semantic_type: None,
        validation: None,
    };
    let attributes: Vec<Attribute> = queries.iter().enumerate().map(attribute).collect();
    let Ok(schema) = Schema::compile(&attributes) else { return Vec::new() };
    let mut found = Vec::new();
    for (places, goal) in asked.places.iter().zip(asked.goals) {
        let Some(goal) = goal else { continue };
        let Page { document, base } = places.page;
        let lent = fuel.left().min(PAGE_UNITS_MAX);
        let mut own = Fuel::new(lent);
        let values = schema.extract(document, base, &mut own).values;
        let _ = fuel.spend(lent - own.left());
        for (at, attribute) in attributes.iter().enumerate() {
            if let Some(value) = values.get(&attribute.name) {
                found.push((at, is_right(asked, places, goal, value)));
            }
        }
    }
    found
}

/// Whether a value, or all of a list and as many, is what a page says.
fn is_right(asked: &Asked<'_>, places: &Places<'_>, goal: &Goal, value: &Json) -> bool {
    let said = Goal::labelled(asked.term.form, &texts_of(value), places.reading());
    let is_told =
        |keys: &Vec<String>| goal.members.iter().any(|member| member.iter().any(|key| keys.contains(key)));
    let is_whole = !asked.term.kind.is_list() || said.members.len() >= goal.members.len();
    !said.members.is_empty() && said.members.iter().all(is_told) && is_whole
}

/// The types of items that are what pages of a kind are about.
fn types(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Product => &["Product", "Book"],
        Kind::Article => &["Article", "NewsArticle", "BlogPosting"],
        Kind::JobPosting => &["JobPosting"],
        Kind::Recipe => &["Recipe"],
        // What a list is about is its records, which are found by what they repeat (`records`).
        Kind::ProductList | Kind::Serp | Kind::Bestseller => &[],
    }
}

/// Queries over linked data for the chains of properties of an attribute, the plainest first.
fn linked_queries(kind: Kind, term: &Term) -> Vec<String> {
    let mut roots = vec!["$".to_owned()];
    for front in ["$", "$['@graph']"] {
        roots.extend(types(kind).iter().map(|name| format!("{front}[?@['@type']=='{name}']")));
    }
    let mut queries = Vec::new();
    for chain in term.chains {
        let parts: Vec<&str> = chain.split('.').collect();
        let plain = parts.join(".");
        let listed = format!(
            "{}[*]{}",
            parts[0],
            parts[1..].iter().map(|part| format!(".{part}")).collect::<String>()
        );
        let ends: &[&str] =
            if term.kind.is_list() { &["[*]", "", "[*].text"] } else { &["", ".name", "[0]", "[0].name"] };
        for root in &roots {
            // `$` says nothing of what it leads to: every block has a name.
            if root == "$" && parts.len() == 1 && matches!(parts[0], "name" | "image" | "description") {
                continue;
            }
            for end in ends {
                queries.push(format!("ld+json{root}.{plain}{end}"));
            }
            if parts.len() > 1 {
                queries.push(format!("ld+json{root}.{listed}"));
            }
        }
    }
    queries.truncate(QUERIES_MAX / 2);
    queries
}

/// Queries that lead to a page's value in the JSON that has a name and is no linked data.
fn script_queries(data: &PageData, goal: &Goal, term: &Term) -> Vec<String> {
    let is_list = term.kind.is_list();
    let mut queries: Vec<String> = Vec::new();
    for place in
        goal.members.iter().flat_map(|keys| data.of_keys(keys)).filter(|place| place.is_steady(is_list))
    {
        let query = place.placed_query(is_list);
        if queries.len() < PLACES_MAX && !queries.contains(&query) {
            queries.push(query);
        }
    }
    queries
}
