//! From pages to expressions: what the kernel makes of them, and whether that beats what there was. Work on bytes in memory, for
//! threads that may be busy.

use crate::features::extraction::{ResultV4, page_of};
use bytes::Bytes;
use induce::{Bound, LESSON_FUEL_MAX, Page, Repair, Verdict, Visit, repair, texts_of};
use page::extract::{Attribute, Schema, page_base};
use page::html::Document;
use page::xpath::{Fuel, XPath};
use serde_json::Value;
use std::collections::BTreeMap;
use url::Url;

/// Expressions that a mended attribute has, the old ones behind the new; and JSONPaths.
const PATHS_MAX: usize = 8;

/// A stored page.
pub struct StoredPage {
    pub row: ResultV4,
    pub bytes: Bytes,
}

/// A URL's page now, and its last one that had what is missed, if that is kept.
pub struct StoredVisit {
    pub now: StoredPage,
    pub before: Option<StoredPage>,
    /// The row with the last known values.
    pub known: ResultV4,
}

/// What came of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Right,
    Absent,
    OtherPage,
    /// It has other expressions now, which do better on the newest pages.
    Mended(Box<Mended>),
    Refused(&'static str),
}

/// An attribute with new expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct Mended {
    pub attribute: Attribute,
    /// The share of right values to expect of them: what pages gave that were held back.
    pub confidence: f64,
}

struct Parsed {
    document: Document,
    base: Url,
}

fn parse(page: &StoredPage) -> Option<Parsed> {
    let url = Url::parse(&page.row.final_url).ok()?;
    let document = page_of(&page.bytes, page.row.content_type.as_deref())?;
    let base = page_base(&document, &url);
    Some(Parsed { document, base })
}

impl Parsed {
    fn page(&self) -> Page<'_> {
        Page { document: &self.document, base: &self.base }
    }
}

/// Looks what became of the attributes that read a site. To mend one it takes `visits_min` URLs with last known values of it.
pub fn look(
    attributes: &[Attribute],
    visits: &[StoredVisit],
    others: &[StoredPage],
    visits_min: usize,
) -> BTreeMap<String, Found> {
    let now: Vec<(Parsed, Option<Parsed>, &StoredVisit)> = visits
        .iter()
        .filter_map(|visit| Some((parse(&visit.now)?, visit.before.as_ref().and_then(parse), visit)))
        .collect();
    if now.is_empty() {
        let nothing = |attribute: &Attribute| (attribute.name.clone(), Found::Refused("too_few_pages"));
        return attributes.iter().map(nothing).collect();
    }
    let others: Vec<Parsed> = others.iter().filter_map(parse).collect();
    let told: Vec<Visit<'_>> = now
        .iter()
        .map(|(now, before, visit)| Visit {
            page: now.page(),
            before: before.as_ref().map(Parsed::page),
            values: known_values(&visit.known),
        })
        .collect();
    let beside: Vec<Page<'_>> = others.iter().map(Parsed::page).collect();
    let mut fuel = Fuel::new(LESSON_FUEL_MAX);
    let repairs = repair(attributes, &told, &beside, &mut fuel);
    let is_out = Bound::of_work(&fuel).is_some();
    let looked = attributes.iter().zip(repairs).map(|(attribute, repair)| {
        let is_known = |visit: &&Visit<'_>| known_of(visit, &attribute.name).is_some();
        let is_enough = told.iter().filter(is_known).count() >= visits_min;
        let found = match judge(attribute, repair, &told, &beside, is_enough) {
            // With more work something might have been found.
            Found::Refused("not_found" | "no_agreement") if is_out => Found::Refused("budget"),
            found => found,
        };
        (attribute.name.clone(), found)
    });
    looked.collect()
}

fn known_of<'a>(visit: &'a Visit<'_>, name: &str) -> Option<&'a Vec<String>> {
    visit.values.iter().find(|(known, _)| known == name).map(|(_, texts)| texts)
}

fn known_values(row: &ResultV4) -> Vec<(String, Vec<String>)> {
    let values = row.values.0.as_object().into_iter().flatten();
    let texts = values.map(|(name, value)| (name.clone(), texts_of(value)));
    texts.filter(|(_, texts)| !texts.is_empty()).collect()
}

fn judge(
    attribute: &Attribute,
    repair: Repair,
    visits: &[Visit<'_>],
    others: &[Page<'_>],
    is_enough: bool,
) -> Found {
    let paths = match (repair.verdict, repair.outcome) {
        (Verdict::Right, _) => return Found::Right,
        (Verdict::Absent, _) => return Found::Absent,
        (Verdict::OtherPage, _) => return Found::OtherPage,
        (Verdict::Broken, Some(Ok(paths))) => paths,
        (Verdict::Broken, Some(Err(refusal))) => return Found::Refused(refusal.name()),
        (Verdict::Broken, None) => return Found::Refused("not_found"),
    };
    if !is_enough {
        return Found::Refused("too_few_pages");
    }
    let pages: Vec<Page<'_>> = visits.iter().map(|visit| visit.page).chain(others.iter().copied()).collect();
    let new = paths.into_iter().map(|path| path.xpath).collect();
    let xpaths = before_silent(new, &attribute.xpaths, |xpath| is_silent(xpath, &pages));
    let silent_in_data = |path: &String| is_silent_in_data(attribute, path, &pages);
    let old = attribute.json_paths.as_ref();
    let json_paths = old.map(|old| before_silent(repair.json_paths, old, silent_in_data));
    let json_paths = json_paths.filter(|paths| !paths.is_empty());
    let mended = Attribute { xpaths, json_paths, ..attribute.clone() };
    match score(&mended, visits, others) > score(attribute, visits, others) {
        true => Found::Mended(Box::new(Mended { attribute: mended, confidence: repair.confidence })),
        false => Found::Refused("not_better"),
    }
}

/// New expressions, and behind them the old ones that say nothing on the new pages: those of the old template are still about, in the
/// store and perhaps on the site.
fn before_silent(new: Vec<String>, old: &[String], is_silent: impl Fn(&String) -> bool) -> Vec<String> {
    let behind: Vec<String> =
        old.iter().filter(|one| !new.contains(one) && is_silent(one)).cloned().collect();
    let mut all = new;
    all.extend(behind);
    all.truncate(PATHS_MAX);
    all
}

/// Whether a JSONPath alone gives nothing on the new pages.
fn is_silent_in_data(attribute: &Attribute, path: &str, pages: &[Page<'_>]) -> bool {
    let alone =
        Attribute { xpaths: Vec::new(), json_paths: Some(vec![path.to_owned()]), ..attribute.clone() };
    score(&alone, &[], pages).1 == 0
}

/// Whether an expression gives nothing on the new pages, so that it cannot give what is wrong there.
fn is_silent(xpath: &str, pages: &[Page<'_>]) -> bool {
    let Ok(xpath) = XPath::compile(xpath) else { return false };
    pages.iter().all(|page| {
        let root = page::extract::root_context(page.document);
        let value = xpath.evaluate(page.document, root, &mut Fuel::for_page());
        matches!(value, Ok(page::xpath::Value::Nodes(nodes)) if nodes.is_empty())
    })
}

/// On how many pages an attribute gives what is known, and on how many it gives a valid value.
fn score(attribute: &Attribute, visits: &[Visit<'_>], others: &[Page<'_>]) -> (usize, usize) {
    let Ok(schema) = Schema::compile(std::slice::from_ref(attribute)) else { return (0, 0) };
    let read = |page: &Page<'_>| {
        let mut read = schema.extract(page.document, page.base, &mut Fuel::for_page());
        read.values.shift_remove(&attribute.name).filter(|_| read.errors.is_empty())
    };
    let given: Vec<_> = visits.iter().map(|visit| read(&visit.page)).collect();
    let is_right = |(given, visit): &(&Option<Value>, &Visit<'_>)| {
        let given = given.as_ref().map(texts_of);
        given.is_some() && given.as_ref() == known_of(visit, &attribute.name)
    };
    let right = given.iter().zip(visits).filter(is_right).count();
    let found = given.iter().flatten().count() + others.iter().filter_map(read).count();
    (right, found)
}
