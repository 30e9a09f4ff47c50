//! The documents with which the W3C tests its feed validator, most of them wrong in one way, against another implementation.
//!
//! They are not ours, so they stand in nobody's checkout: `GLEANER_W3C_FEEDS` names their folder (`tests/corpus/w3c.py` says
//! where it comes from). What is kept here are facts: which addresses and dates feedparser found in each.

use std::path::{Path, PathBuf};

use base::web::WebUrl;
use feeds::{Date, Document, Limits, read};
use serde_json::Value;

const ADDRESS: &str = "https://feeds.example.org/all.xml";
const FIRST: &str = "of what stands twice and may stand once the first holds; feedparser takes the last";
const ID: &str = "an id need not be an address (RFC 4287, section 4.2.6), so it is never taken for one";
const NO_ADDRESS: &str =
    "there is no whole address in it; feedparser resolves what there is against the feed's";
const CONTENT: &str = "the source of its content is an entry's last address; feedparser gives none";
const DUBLIN: &str = "dc:date is when it was published; feedparser takes it as the update";
const ABOUT: &str = "without a link, rdf:about has the address";
/// Documents (a star: whatever stands there) in which we read other entries or dates than feedparser, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("atom/1.2/wrong-namespace.xml", "a namespace that is not Atom's makes no feed"),
    ("atom/3.3/published_bad_*", "a day, hour or minute that there is not is no date; feedparser counts on"),
    ("atom/3.3/published_extra_spaces*", "spaces stand in no date"),
    ("atom/3.3/published_no_colons.xml", "a time needs its colons"),
    ("atom/3.3/updated-past.xml", "the same year, written with four digits"),
    ("atom/4.1.1.1/content-src.xml", CONTENT),
    ("atom/4.1.2/link-same-rel-*", FIRST),
    ("atom/4.1.2/multiple-*", FIRST),
    ("atom/4.1.3.2/content-src-*", CONTENT),
    ("atom/4.2.11/missing-self.xml", CONTENT),
    ("atom/4.2.11/source-entry.xml", CONTENT),
    ("atom/4.2.7.1/link-no-href.xml", NO_ADDRESS),
    (
        "atom/4.2.7.2/link-rel-iana.xml",
        "`rel` may name the relation by its address (RFC 4287, section 4.2.7.2)",
    ),
    ("atom/4.2.7.3/link-type-*", "a link's type does not keep it from being the entry's"),
    ("atom/must/entry_id_*", ID),
    ("atom/must/entry_link_href_missing.xml", NO_ADDRESS),
    ("atom/must/entry_link_multiple*", FIRST),
    ("atom/must/entry_link_*", NO_ADDRESS),
    ("atom/must/valid_dc_all.xml", DUBLIN),
    ("atom/should/canonical_uri.xml", ID),
    ("atom/should/noncanonical_uri_*", ID),
    ("ext/feedburner/dup-entry-origLink.xml", FIRST),
    ("rss/must/invalid_item_rdf_about.xml", ABOUT),
    ("rss/must/rss10_*", ABOUT),
    ("rss/must/valid_dc_all*", DUBLIN),
    ("rss/should/duplicate_item_*", FIRST),
    ("rss/should/modwiki-*", DUBLIN),
    ("rss11/must/neg-anyarss.xml", "an item is an item, whatever else is wrong with it"),
    ("rss11/must/pos-*", DUBLIN),
    ("rss20/element-channel-item-guid/*", NO_ADDRESS),
];

/// Where the list has a document.
fn listed(path: &str) -> Option<usize> {
    DIFFERENT.iter().position(|(pattern, _)| match pattern.split_once('*') {
        None => *pattern == path,
        Some((head, tail)) => path.starts_with(head) && path[head.len()..].ends_with(tail),
    })
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("GLEANER_W3C_FEEDS").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: GLEANER_W3C_FEEDS does not name the validator's testcases");
    }
    folder
}

/// To the second, without a zone.
fn date(date: Option<Date>) -> Value {
    Value::from(date.map(|date| date.at.to_string()[..19].to_owned()))
}

fn ours(document: &Document) -> Vec<Value> {
    let entry = |entry: &feeds::Entry| {
        Value::from(vec![Value::from(entry.url.as_str()), date(entry.published), date(entry.updated)])
    };
    document.entries.iter().map(entry).collect()
}

/// Theirs with an address that we would fetch, in our form.
fn theirs(facts: &Value) -> Vec<Value> {
    let base = WebUrl::parse(ADDRESS).unwrap();
    let comparable = |entry: &Value| {
        let url = base.join(entry[0].as_str()?).ok()?;
        Some(Value::from(vec![Value::from(url.as_str()), entry[1].clone(), entry[2].clone()]))
    };
    facts["entries"].as_array().into_iter().flatten().filter_map(comparable).collect()
}

#[test]
fn documents_of_the_w3c_are_read_as_another_implementation_reads_them() {
    let Some(folder) = folder() else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/w3c.facts");
    let base = WebUrl::parse(ADDRESS).unwrap();
    let (mut unlisted, mut same, mut seen, mut entries) = (String::new(), 0, Vec::new(), 0);
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let facts: Value = serde_json::from_str(line).unwrap();
        let path = facts["path"].as_str().unwrap();
        let bytes = std::fs::read(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let document = read(bytes.as_slice(), &base, None, &Limits::default());
        let own = document.as_ref().map(ours).unwrap_or_default();
        let their = theirs(&facts);
        if own == their {
            same += 1;
            entries += own.len();
        } else if let Some(at) = listed(path) {
            seen.push(at);
        } else {
            let said = document.err().map(|error| error.to_string()).unwrap_or_default();
            unlisted.push_str(&format!("\n{path} | {} | {} | {said}", Value::from(own), Value::from(their)));
        }
    }
    println!("{same} documents with {entries} entries are read alike, {} differ with a reason", seen.len());
    assert!(unlisted.is_empty(), "differences that are not listed:{unlisted}");
    assert!(same > 1_700 && entries > 900, "{same} documents, {entries} entries");
    let gone: Vec<_> = (0..DIFFERENT.len()).filter(|at| !seen.contains(at)).map(|at| DIFFERENT[at]).collect();
    assert!(gone.is_empty(), "listed, and no longer different: {gone:?}");
}
