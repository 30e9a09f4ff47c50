//! JSONPaths for what pages say in their JSON: linked data, and what frameworks leave in scripts with an id (`__NEXT_DATA__`).
//!
//! Codes, currencies and ids mostly stand nowhere else. Queries over linked data are those that schema.org's shapes allow (an object, a list or a
//! graph, offers that are one or several), so no page makes them; those over other JSON lead to where a page's own value stands. All
//! are tried on all pages with the evaluator that extraction uses, and one that is wrong on any goes.

use std::collections::BTreeMap;

use page::extract::{Attribute, Schema};
use page::html::{Document, NodeId};
use page::xpath::Fuel;
use serde_json::Value as Json;

use crate::answers::{Kind, Term};
use crate::lesson::Goal;
use crate::places::{Page, Places};
use crate::repair::texts_of;

/// Queries of one attribute that are tried.
const QUERIES_MAX: usize = 160;
/// Attributes of one schema by which they are tried.
const TRIED_AT_ONCE: usize = 80;
/// Queries that are kept.
const KEPT_MAX: usize = 2;
/// Pages on which a query must be right, and the share of those that say a value.
const RIGHT_MIN: usize = 2;
const SHARE_MIN: f64 = 0.5;
/// Bytes of the scripts of one page that are read, members of their JSON that are looked at, and how deep.
const SCRIPT_BYTES_MAX: usize = 2 << 20;
const MEMBERS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 24;
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
    /// What each page says of the attribute.
    pub goals: &'a [Option<Goal>],
}

/// Learns queries of one attribute; none where nothing holds.
pub fn learn_from_data(asked: &Asked<'_>, fuel: &mut Fuel) -> FromData {
    let mut queries = linked_queries(asked.kind, asked.term);
    for (places, goal) in asked.places.iter().zip(asked.goals) {
        let Some(goal) = goal else { continue };
        for query in script_queries(places, goal, asked.term, fuel) {
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

/// Queries that lead to a page's value in the JSON of its scripts with an id.
fn script_queries(places: &Places<'_>, goal: &Goal, term: &Term, fuel: &mut Fuel) -> Vec<String> {
    let document = places.page.document;
    let scripts = document.lookup_name("script").into_iter().flat_map(|name| document.elements_named(name));
    let mut walk = Walk { places, goal, term, found: Vec::new(), members: MEMBERS_MAX };
    let mut room = SCRIPT_BYTES_MAX;
    for script in scripts.take(200) {
        let Some(id) = data_id(document, script) else { continue };
        let text = document.string_value(script);
        let Some(left) = room.checked_sub(text.len()) else { continue };
        room = left;
        if fuel.spend(text.len() as u64 / 8).is_err() {
            break;
        }
        if let Ok(json) = serde_json::from_str::<Json>(text.trim()) {
            walk.look(&json, &format!("{id}$"), 0);
        }
    }
    walk.found
}

/// The id of a script that holds JSON and no linked data.
fn data_id(document: &Document, script: NodeId) -> Option<&str> {
    let media = document.attribute_named(script, "type").unwrap_or_default();
    let id = document.attribute_named(script, "id")?;
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (media == "application/json" && is_plain).then_some(id)
}

struct Walk<'a> {
    places: &'a Places<'a>,
    goal: &'a Goal,
    term: &'a Term,
    found: Vec<String>,
    members: usize,
}

impl Walk<'_> {
    fn look(&mut self, json: &Json, path: &str, depth: usize) {
        if self.members == 0 || depth > DEPTH_MAX || self.found.len() == PLACES_MAX {
            return;
        }
        self.members -= 1;
        match json {
            Json::Object(members) => {
                for (name, member) in members {
                    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                    // What is called by a number is this page's own.
                    if is_plain {
                        self.look(member, &format!("{path}.{name}"), depth + 1);
                    }
                }
            }
            Json::Array(members) => {
                for (at, member) in members.iter().enumerate().take(2) {
                    self.look(member, &format!("{path}[{at}]"), depth + 1);
                }
            }
            Json::String(_) | Json::Number(_) if !self.term.kind.is_list() => {
                let keys = Goal::labelled(self.term.form, &texts_of(json), self.places.reading());
                let is_told =
                    |member: &Vec<String>| keys.members.iter().flatten().any(|key| member.contains(key));
                if self.goal.members.iter().any(is_told) {
                    self.found.push(path.to_owned());
                }
            }
            _ => {}
        }
    }
}
