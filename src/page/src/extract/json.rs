//! The JSON that a page carries: the page itself, or what stands in its scripts.
//!
//! A JSONPath of a schema says in which JSON it looks by what stands before its `$`: nothing is the page itself where that is
//! JSON, else the largest JSON in its scripts; `ld+json` is every block of that media type, in order; any other word is the `id` of a script
//! element, or the name to which a script assigns (`__NEXT_DATA__`, `window.__STATE__`).

use serde_json::{Deserializer, Value as Json};

use crate::html::{Document, NodeId};
use crate::jsonpath::{JsonPath, JsonPathError};
use crate::xpath::{EvalError, Fuel};

/// Scripts of a page that are looked at.
const SCRIPTS_MAX: usize = 500;
/// Places of a page at which a script may assign JSON.
const ASSIGNMENTS_MAX: usize = 200;
/// Values that are held of a page's scripts, each some 70 bytes: a page may be read as many times as it has names.
const VALUES_MAX: usize = 1_000_000;
/// Characters of a name before the `$`.
const NAME_CHARACTERS_MAX: usize = 128;
const LINKED_DATA: &str = "ld+json";

/// A query, and in which JSON it looks.
#[derive(Debug)]
pub(super) struct PlacedPath {
    place: Place,
    path: JsonPath,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The page, or the largest.
    Main,
    LinkedData,
    Named(String),
}

impl PlacedPath {
    pub(super) fn compile(text: &str) -> Result<PlacedPath, JsonPathError> {
        let text = text.trim();
        let (name, query) = text.split_at(text.find('$').unwrap_or(0));
        let name = name.trim();
        let characters = text[..text.len() - query.len()].chars().count();
        let path = JsonPath::compile(query).map_err(|error| JsonPathError {
            position: error.position + characters,
            message: error.message,
        })?;
        if name.chars().count() > NAME_CHARACTERS_MAX || name.contains(char::is_whitespace) {
            let message =
                format!("what stands before `$` is a name of up to {NAME_CHARACTERS_MAX} characters");
            return Err(JsonPathError { position: 1, message });
        }
        let place = match name {
            "" => Place::Main,
            LINKED_DATA | "application/ld+json" => Place::LinkedData,
            name => Place::Named(name.to_owned()),
        };
        Ok(PlacedPath { place, path })
    }
}

/// What a page has of JSON, read when an attribute first asks for it.
pub(super) struct PageJson<'p> {
    document: &'p Document,
    /// The page, where it is JSON as a whole.
    whole: Option<&'p Json>,
    linked_data: Option<Vec<Json>>,
    /// None inside where there is no JSON.
    largest: Option<Option<Json>>,
    named: Vec<(String, Option<Json>)>,
    /// How many more values may be held.
    room: usize,
}

impl<'p> PageJson<'p> {
    pub(super) fn new(document: &'p Document, whole: Option<&'p Json>) -> PageJson<'p> {
        PageJson { document, whole, linked_data: None, largest: None, named: Vec::new(), room: VALUES_MAX }
    }

    /// The nodes that a path names.
    pub(super) fn select(&mut self, path: &PlacedPath, fuel: &mut Fuel) -> Result<Vec<&Json>, EvalError> {
        let mut found = Vec::new();
        for json in self.at(&path.place, fuel)? {
            found.extend(path.path.select(json, fuel)?);
        }
        Ok(found)
    }

    fn at(&mut self, place: &Place, fuel: &mut Fuel) -> Result<Vec<&Json>, EvalError> {
        match place {
            Place::Main if self.whole.is_some() => Ok(self.whole.into_iter().collect()),
            Place::Main => {
                if self.largest.is_none() {
                    self.check_room()?;
                    let found = self.hold(largest(self.document, fuel)?)?;
                    self.largest = Some(found);
                }
                Ok(self.largest.iter().flatten().collect())
            }
            Place::LinkedData => {
                if self.linked_data.is_none() {
                    self.check_room()?;
                    let found = self.hold(linked_data(self.document, fuel)?)?;
                    self.linked_data = Some(found);
                }
                Ok(self.linked_data.iter().flatten().collect())
            }
            Place::Named(name) => {
                if !self.named.iter().any(|(known, _)| known == name) {
                    self.check_room()?;
                    let found = self.hold(named(self.document, name, fuel)?)?;
                    self.named.push((name.clone(), found));
                }
                let known = self.named.iter().find(|(known, _)| known == name);
                Ok(known.and_then(|(_, json)| json.as_ref()).into_iter().collect())
            }
        }
    }
}

impl PageJson<'_> {
    /// Where nothing more can be held, nothing more is read; what is held goes on being asked.
    fn check_room(&self) -> Result<(), EvalError> {
        if self.room == 0 { Err(EvalError::BudgetExceeded) } else { Ok(()) }
    }

    /// Takes what was read into what is held, or gives it up, and all that would come behind it.
    fn hold<J>(&mut self, found: J) -> Result<J, EvalError>
    where
        for<'j> &'j J: IntoIterator<Item = &'j Json>,
    {
        let values = (&found).into_iter().map(values).sum();
        let room = self.room.checked_sub(values);
        self.room = room.unwrap_or_default();
        room.map(|_| found).ok_or(EvalError::BudgetExceeded)
    }
}

/// How many values there are; as deep as the parser lets it nest.
fn values(json: &Json) -> usize {
    1 + match json {
        Json::Array(members) => members.iter().map(values).sum(),
        Json::Object(members) => members.values().map(values).sum::<usize>(),
        _ => 0,
    }
}

fn scripts(document: &Document) -> impl Iterator<Item = NodeId> + '_ {
    let name = document.lookup_name("script");
    name.into_iter().flat_map(|name| document.elements_named(name)).take(SCRIPTS_MAX)
}

/// The media type of a script, without parameters.
fn media(document: &Document, script: NodeId) -> String {
    let kind = document.attribute_named(script, "type").unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn linked_data(document: &Document, fuel: &mut Fuel) -> Result<Vec<Json>, EvalError> {
    let mut blocks = Vec::new();
    for script in scripts(document) {
        if media(document, script) == "application/ld+json" {
            blocks.extend(block(document.string_value(script), fuel)?);
        }
    }
    Ok(blocks)
}

fn named(document: &Document, name: &str, fuel: &mut Fuel) -> Result<Option<Json>, EvalError> {
    for script in scripts(document) {
        let text = document.string_value(script);
        if document.attribute_named(script, "id") == Some(name)
            && let Some(json) = block(text, fuel)?
        {
            return Ok(Some(json));
        }
        fuel.spend(text.len() as u64 / 64)?;
        for at in memchr::memmem::find_iter(text.as_bytes(), name).take(ASSIGNMENTS_MAX) {
            // `__STATE__` is meant by `window.__STATE__ = {`, and not by `MY__STATE__ = {`.
            let is_whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'));
            let value = text[at + name.len()..].trim_start_matches(['\'', '"', ']']).trim_start();
            let value = value.strip_prefix('=').map(str::trim_start).filter(|_| is_whole);
            if let Some((json, _)) = value.map(|value| beginning(value, fuel)).transpose()?.flatten() {
                return Ok(Some(json));
            }
        }
    }
    Ok(None)
}

/// The largest of what stands in scripts, by its bytes; linked data counts where there is nothing else.
fn largest(document: &Document, fuel: &mut Fuel) -> Result<Option<Json>, EvalError> {
    let mut best: Option<(bool, usize, Json)> = None;
    let mut take = |is_data: bool, bytes: usize, json: Json| {
        if best.as_ref().is_none_or(|(was_data, size, _)| (is_data, bytes) > (*was_data, *size)) {
            best = Some((is_data, bytes, json));
        }
    };
    let mut assignments = 0;
    for script in scripts(document) {
        let (media, text) = (media(document, script), document.string_value(script));
        if media.ends_with("json") {
            if let Some(json) = block(text, fuel)? {
                take(!media.ends_with(LINKED_DATA), text.len(), json);
            }
            continue;
        }
        fuel.spend(text.len() as u64 / 64)?;
        let mut behind = 0;
        for at in memchr::memchr_iter(b'=', text.as_bytes()) {
            let value = text[at + 1..].trim_start();
            if at < behind || !value.starts_with(['{', '[']) || assignments == ASSIGNMENTS_MAX {
                continue;
            }
            assignments += 1;
            if let Some((json, bytes)) = beginning(value, fuel)? {
                behind = text.len() - value.len() + bytes;
                take(true, bytes, json);
            }
        }
    }
    Ok(best.map(|(.., json)| json))
}

/// What a script holds that is JSON as a whole. Line ends within texts, which JSON forbids and many sites write, are spaces.
fn block(text: &str, fuel: &mut Fuel) -> Result<Option<Json>, EvalError> {
    fuel.spend(1 + text.len() as u64 / 8)?;
    let text = text.trim();
    let text = text.strip_prefix("<!--").unwrap_or(text);
    let text = text.trim_start_matches("//").trim_start().strip_prefix("<![CDATA[").unwrap_or(text);
    let text = text.trim_end_matches("-->").trim_end_matches("]]>").trim_end().trim_end_matches("//");
    let text = text.trim().trim_end_matches(';');
    if let Ok(json) = serde_json::from_str(text) {
        return Ok(Some(json));
    }
    if !text.bytes().any(|byte| byte < b' ') {
        return Ok(None);
    }
    fuel.spend(text.len() as u64 / 8)?;
    let spaced: String = text.chars().map(|c| if c < ' ' { ' ' } else { c }).collect();
    Ok(serde_json::from_str(&spaced).ok())
}

/// The JSON with which a text begins, and its bytes.
fn beginning(text: &str, fuel: &mut Fuel) -> Result<Option<(Json, usize)>, EvalError> {
    if !text.starts_with(['{', '[']) {
        return Ok(None);
    }
    let mut values = Deserializer::from_str(text).into_iter::<Json>();
    let read = values.next();
    // Of what is no JSON the reader does not say how far it came; where it was whole it is paid for by its length.
    let bytes = match &read {
        Some(Err(error)) if error.line() == 1 => error.column(),
        Some(Err(_)) => text.len(),
        _ => values.byte_offset(),
    };
    fuel.spend(1 + bytes.min(text.len()) as u64 / 8)?;
    Ok(read.and_then(Result::ok).map(|json| (json, bytes)))
}
