//! What another implementation reads of the same documents (`tests/corpus/facts.py` made the facts), and where we differ.

use std::path::Path;

use base::web::WebUrl;
use feeds::{Date, Document, Entry};
use serde_json::Value;

use crate::corpus::{Case, cases};

/// Where we differ, and why: the document, what of it (its title, or the number of an entry and a field), the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "a prefix that means something else deeper down",
        "entries",
        "feedparser goes by the prefix, not by what it is bound to",
    ),
    (
        "xml:base at three levels",
        "5 url",
        "a base that is no web address leaves the one around it in force here, the document's there",
    ),
    (
        "which link",
        "entries",
        "an id need not be an address (RFC 4287, section 4.2.6), so it is never taken for one; of alternates the first",
    ),
    (
        "an entry that came from elsewhere, and a feed as content",
        "entries",
        "what stands in an entry's content is content",
    ),
    (
        "one entry that is the document",
        "1 id",
        "feedparser resolves ids as addresses; they are compared as they are written",
    ),
    (
        "guids that are no links",
        "1 id",
        "feedparser resolves ids as addresses; they are compared as they are written",
    ),
    (
        "names of characters that XML does not know",
        "1 url",
        "a name needs its semicolon, in an address above all",
    ),
    (
        "names of characters that XML does not know",
        "1 title",
        "feedparser's forgiving parser writes a semicolon behind a bare ampersand's word",
    ),
    (
        "names of characters that XML does not know",
        "2 url",
        "feedparser's forgiving parser takes a semicolon away",
    ),
    (
        "prefixes that nobody declared",
        "1 published",
        "dc:date is taken as when the item was published; feedparser takes it as the update",
    ),
    (
        "prefixes that nobody declared",
        "1 updated",
        "dc:date is taken as when the item was published; feedparser takes it as the update",
    ),
    (
        "breaks off within an item",
        "entries",
        "an item that was cut may lack its better half; the next run has it whole",
    ),
    (
        "attributes without quotes, twice, or broken",
        "2 url",
        "of an attribute that stands twice the first holds, as in HTML",
    ),
    (
        "attributes without quotes, twice, or broken",
        "4 title",
        "a tag that was left open stays open up to its element's end",
    ),
    ("entities of its own are not expanded", "title", "nothing that a document declares is expanded"),
    ("entities of its own are not expanded", "1 title", "nothing that a document declares is expanded"),
    ("called UTF-16, and is UTF-8", "title", "feedparser believes the declaration and reads nothing"),
    (
        "references to characters that windows-1252 has elsewhere",
        "all",
        "feedparser fails on half of a surrogate pair",
    ),
    ("RSS 1.0 with Dublin Core", "entries", "without a link, rdf:about has the address"),
    ("clicks that are counted elsewhere", "2 url", "feedparser does not know Pheedo"),
    ("dates as people write them", "7 published", "feedparser does not know the dates of RFC 850"),
    ("dates as people write them", "8 published", "feedparser does not know a month in front"),
];

/// To the second, without a zone.
fn date(date: Option<Date>) -> Option<String> {
    date.map(|date| date.at.to_string()[..19].to_owned())
}

/// A field of an entry, as both sides have it.
type Field = (&'static str, fn(&Entry) -> Value);

const FIELDS: [Field; 6] = [
    ("url", |entry| Value::from(entry.url.as_str())),
    ("id", |entry| Value::from(entry.id.clone())),
    ("title", |entry| Value::from(entry.title.clone())),
    ("published", |entry| Value::from(date(entry.published))),
    ("updated", |entry| Value::from(date(entry.updated))),
    ("categories", |entry| Value::from(entry.categories.clone())),
];

/// Their entries with an address that we would fetch, in our form.
fn comparable(case: &Case, facts: &Value) -> Vec<Value> {
    let document = WebUrl::parse(&case.document).unwrap();
    let in_our_form = |entry: &Value| {
        let url = document.join(entry["url"].as_str()?).ok()?;
        let mut entry = entry.clone();
        entry["url"] = Value::from(url.as_str());
        Some(entry)
    };
    facts["entries"].as_array().unwrap().iter().filter_map(in_our_form).collect()
}

/// What differs: where, ours, theirs.
fn differences(case: &Case, ours: &Document, facts: &Value) -> Vec<(String, Value, Value)> {
    let mut found = Vec::new();
    if !ours.format.is_sitemap() && Value::from(ours.title.clone()) != facts["title"] {
        found.push(("title".to_owned(), Value::from(ours.title.clone()), facts["title"].clone()));
    }
    let theirs = comparable(case, facts);
    if theirs.len() != ours.entries.len() {
        let urls = theirs.iter().map(|entry| entry["url"].clone()).collect();
        let own = ours.entries.iter().map(|entry| Value::from(entry.url.as_str())).collect();
        found.push(("entries".to_owned(), own, urls));
        return found;
    }
    for (number, (own, their)) in ours.entries.iter().zip(&theirs).enumerate() {
        for (name, value) in FIELDS {
            // Of a sitemap's entry only two of them were asked.
            if let Some(theirs) = their.get(name).filter(|theirs| **theirs != value(own)) {
                found.push((format!("{} {name}", number + 1), value(own), theirs.clone()));
            }
        }
    }
    found
}

#[test]
fn what_another_implementation_reads() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/facts.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let cases = cases();
    let (mut unlisted, mut seen, mut compared) = (String::new(), Vec::new(), 0);
    for line in text.lines() {
        let facts: Value = serde_json::from_str(line).unwrap();
        let name = facts["name"].as_str().unwrap();
        let case =
            cases.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no document {name}"));
        let ours = case.read().unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = match facts["failed"].as_str() {
            Some(failed) => vec![("all".to_owned(), Value::Null, Value::from(failed))],
            None => differences(case, &ours, &facts),
        };
        for (place, own, theirs) in found {
            let is_listed =
                |(document, differs, _): &&(&str, &str, &str)| *document == name && *differs == place;
            match DIFFERENT.iter().position(|listed| is_listed(&listed)) {
                Some(at) => seen.push(at),
                None => unlisted.push_str(&format!("\n{name} | {place} | {own} | {theirs}")),
            }
        }
        compared += 1;
    }
    assert!(unlisted.is_empty(), "differences that are not listed:{unlisted}");
    assert!(compared >= 60, "{compared} documents");
    let gone: Vec<_> = (0..DIFFERENT.len()).filter(|at| !seen.contains(at)).map(|at| DIFFERENT[at]).collect();
    assert!(gone.is_empty(), "listed, and no longer different: {gone:?}");
}
