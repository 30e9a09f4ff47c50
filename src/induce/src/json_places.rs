//! Where the JSON of a page says which known values, and the queries that lead there.

use std::collections::{BTreeSet, HashMap};

use page::extract::AttributeType;
use page::xpath::Fuel;
use serde_json::Value as Json;

use crate::forms::{Form, Reading, texts_of};
use crate::lesson::Goal;
use crate::places::Page;
use crate::scripts::{LINKED_DATA, blocks};

/// Values of one page's JSON that are looked at, and how deep.
const MEMBERS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 24;
/// Members of one array.
const ARRAY_MAX: usize = 400;
/// Places of one value.
const PLACES_MAX: usize = 48;
/// Bytes of a name on the way to a value: what is longer is an address or a text and no name.
const KEY_BYTES_MAX: usize = 60;
/// Members of arrays on the way to a single value that other pages may have at the same place.
const STEADY_MAX: usize = 2;
/// Bytes of the name of a type.
const TYPE_BYTES_MAX: usize = 40;

/// A step down into JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    /// A member of an array by its place, and the type that it says it has.
    Member(usize, Option<String>),
}

/// Where a value stands.
#[derive(Clone, Debug)]
pub struct Place {
    block: usize,
    /// What stands before the `$`.
    name: String,
    steps: Vec<Step>,
}

/// The JSON of a page by the keys of the values that are looked for.
#[derive(Debug, Default)]
pub struct PageData {
    places: Vec<Place>,
    by_key: HashMap<String, Vec<usize>>,
}

/// The keys of known values, as pages or JSON write them.
pub fn goal_of(form: Form, texts: &[String], reading: Reading<'_>) -> Goal {
    let mut goal = Goal::default();
    for text in texts {
        let mut keys = form.label_keys(text, reading);
        keys.extend(form.keys(text, reading));
        keys.dedup();
        if !keys.is_empty() {
            goal.members.push(keys);
            goal.texts.push(text.clone());
        }
    }
    goal
}

impl PageData {
    /// Looks through a page's JSON once for all that is known of its URL.
    pub fn new<'k>(
        page: Page<'_>,
        known: impl Iterator<Item = (Form, &'k [String])> + Clone,
        fuel: &mut Fuel,
    ) -> PageData {
        let reading = Reading { base: page.base, mark: page.mark() };
        let goals = known.clone().map(|(form, texts)| goal_of(form, texts, reading));
        let wanted: BTreeSet<String> = goals.flat_map(|goal| goal.members).flatten().collect();
        let mut forms: Vec<Form> = known.clone().map(|(form, _)| form).collect();
        forms.sort_unstable();
        forms.dedup();
        let longest = known.flat_map(|(_, texts)| texts).map(String::len).max().unwrap_or(0);
        let mut data = PageData::default();
        if wanted.is_empty() {
            return data;
        }
        let blocks = blocks(page.document, fuel);
        let mut walk = Walk {
            reading,
            forms: &forms,
            wanted: &wanted,
            bytes_max: 2 * longest + 64,
            members: MEMBERS_MAX,
            data: &mut data,
            fuel,
        };
        for (at, block) in blocks.into_iter().enumerate() {
            let mut place = Place { block: at, name: block.name, steps: Vec::new() };
            walk.look(&block.json, &mut place);
        }
        data
    }

    /// Where a value of one of these keys stands.
    pub fn of_keys<'d>(&'d self, keys: &'d [String]) -> impl Iterator<Item = &'d Place> {
        let mut found: Vec<usize> =
            keys.iter().filter_map(|key| self.by_key.get(key)).flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|at| &self.places[at])
    }

    /// Whether a value is there; of a list most of its members.
    pub fn shows(&self, kind: AttributeType, goal: &Goal) -> bool {
        let count = goal.members.iter().filter(|keys| self.of_keys(keys).next().is_some()).count();
        if kind.is_list() { 2 * count > goal.members.len() } else { count > 0 }
    }
}

struct Walk<'a> {
    reading: Reading<'a>,
    forms: &'a [Form],
    wanted: &'a BTreeSet<String>,
    bytes_max: usize,
    members: usize,
    data: &'a mut PageData,
    fuel: &'a mut Fuel,
}

impl Walk<'_> {
    fn look(&mut self, json: &Json, place: &mut Place) {
        if self.members == 0 || place.steps.len() > DEPTH_MAX {
            return;
        }
        self.members -= 1;
        match json {
            Json::Object(members) => {
                for (name, member) in members.iter().filter(|(name, _)| name.len() <= KEY_BYTES_MAX) {
                    place.steps.push(Step::Key(name.clone()));
                    self.look(member, place);
                    place.steps.pop();
                }
            }
            Json::Array(members) => {
                for (at, member) in members.iter().enumerate().take(ARRAY_MAX) {
                    place.steps.push(Step::Member(at, type_of(member)));
                    self.look(member, place);
                    place.steps.pop();
                }
            }
            Json::Bool(said) => self.note(if *said { "true" } else { "false" }, place),
            other => texts_of(other).iter().for_each(|text| self.note(text, place)),
        }
    }

    fn note(&mut self, text: &str, place: &Place) {
        if text.len() > self.bytes_max {
            return;
        }
        let units = (1 + text.len() as u64 / 8) * self.forms.len() as u64;
        if self.fuel.spend(units).is_err() {
            self.members = 0;
            return;
        }
        let mut keys: Vec<String> = Vec::new();
        for form in self.forms {
            keys.extend(form.keys(text, self.reading));
            keys.extend(form.label_keys(text, self.reading));
        }
        keys.retain(|key| self.wanted.contains(key));
        if keys.is_empty() {
            return;
        }
        let own = self.data.places.len();
        let mut is_new = false;
        for key in keys {
            let known = self.data.by_key.entry(key).or_default();
            if known.len() < PLACES_MAX && known.last() != Some(&own) {
                known.push(own);
                is_new = true;
            }
        }
        if is_new {
            self.data.places.push(place.clone());
        }
    }
}

/// The type of a member, where a query can ask for it.
fn type_of(member: &Json) -> Option<String> {
    let name = member.get("@type")?.as_str()?;
    let is_plain = name.len() <= TYPE_BYTES_MAX && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain.then(|| name.to_owned())
}

impl Place {
    /// The keys that lead there.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.steps.iter().filter_map(|step| match step {
            Step::Key(name) => Some(name.as_str()),
            Step::Member(..) => None,
        })
    }

    /// What two places of a page are told apart by. Of a list all members are one place.
    pub fn id(&self, is_list: bool) -> String {
        let steps = self.steps.iter().rev().enumerate().map(|(back, step)| match step {
            Step::Member(..) if is_list && self.is_last_member(self.steps.len() - 1 - back) => "*".to_owned(),
            Step::Member(at, _) => at.to_string(),
            Step::Key(name) => name.clone(),
        });
        format!("{} {}", self.block, steps.collect::<Vec<_>>().join("/"))
    }

    fn is_last_member(&self, at: usize) -> bool {
        self.steps[at + 1..].iter().all(|step| matches!(step, Step::Key(_)))
    }

    /// Queries that lead here, those that say most of the way first: a member of an array by its type, by its place, or the first that
    /// has such a value.
    pub fn queries(&self, is_list: bool) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for way in [Way::Typed, Way::Placed, Way::Any] {
            let query = self.query(way, is_list);
            if !found.contains(&query) {
                found.push(query);
            }
        }
        found
    }

    /// The query that leads there by the places of members.
    pub fn placed_query(&self, is_list: bool) -> String {
        self.query(Way::Placed, is_list)
    }

    fn query(&self, way: Way, is_list: bool) -> String {
        let mut query = format!("{}$", self.name);
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key(name) => query.push_str(&key(name)),
                Step::Member(..) if is_list && self.is_last_member(at) => query.push_str("[*]"),
                Step::Member(_, Some(name)) if matches!(way, Way::Typed) => {
                    query.push_str(&format!("[?@['@type']=='{name}']"));
                }
                Step::Member(at, _) if !matches!(way, Way::Any) => query.push_str(&format!("[{at}]")),
                Step::Member(..) => query.push_str("[*]"),
            }
        }
        query
    }

    /// Whether other pages may have it there as well: it stands in JSON of a name that is no linked data, no key is a page's own, and
    /// no member is far down its array.
    pub fn is_steady(&self, is_list: bool) -> bool {
        let is_steady = |(at, step): (usize, &Step)| match step {
            Step::Key(name) => is_word(name),
            Step::Member(member, _) => *member < STEADY_MAX || is_list && self.is_last_member(at),
        };
        let is_named = !self.name.is_empty() && self.name != LINKED_DATA;
        is_named && self.steps.iter().enumerate().all(is_steady)
    }

    /// Whether the way from the root of linked data says nothing but the value's own name, which every block may have.
    pub fn is_bare(&self) -> bool {
        self.name == LINKED_DATA && self.steps.len() == 1
    }
}

#[derive(Clone, Copy)]
enum Way {
    Typed,
    Placed,
    Any,
}

fn is_word(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// A step by a name, quoted where a bare one would be something else.
fn key(name: &str) -> String {
    match is_word(name) {
        true => format!(".{name}"),
        false => {
            let mut quoted = String::new();
            for c in name.chars() {
                match c {
                    '\\' | '\'' => quoted.extend(['\\', c]),
                    c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
                    c => quoted.push(c),
                }
            }
            format!("['{quoted}']")
        }
    }
}

/// The names by which a query goes: what it asks of members on the way is none of them.
pub fn names_in(query: &str) -> Vec<String> {
    let path = query.find('$').map_or("", |at| &query[at + 1..]);
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    let mut filter = None;
    let mut characters = path.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '[' => {
                depth += 1;
                if characters.peek() == Some(&'?') {
                    filter.get_or_insert(depth);
                }
            }
            ']' => {
                filter = filter.filter(|opened| *opened != depth);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        let is_part = character.is_alphanumeric() || matches!(character, '_' | '-');
        match names.last_mut() {
            Some(last) if is_part && filter.is_none() => last.push(character),
            Some(last) if !last.is_empty() => names.push(String::new()),
            _ => {}
        }
    }
    names.retain(|name| name.contains(char::is_alphabetic));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_out_of_queries() {
        let names = |query: &str| names_in(query).join(" ");
        assert_eq!(names("ld+json$['@graph'][?@['@type']=='Product'].offers[0].price"), "graph offers price");
        assert_eq!(names("__NEXT_DATA__$.props.page-data[*].skuCode"), "props page-data skuCode");
        assert_eq!(names("$"), "");
    }
}
