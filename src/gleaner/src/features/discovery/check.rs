//! The checker: what expressions give on pages, against what is known of them. Whoever has proposed an expression, this decides.
//!
//! It reads pages as extraction does, and compares in the normal forms of `induce`: "12,90 €" is 12.9.

use induce::{Form, Label, Reading};
use page::extract::{Attribute, DecimalMark, Schema};
use page::html::Document;
use page::xpath::Fuel;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use url::Url;

/// Of so many held-back pages an expression may be wrong on one: structured data itself errs.
const PAGES_PER_ERROR: usize = 4;
/// The share of a list's members that must be right, or the list is wrong.
const PRECISION_MIN: f64 = 0.6;
/// The share of values on held-back pages that an attribute must reproduce.
pub const REPRODUCED_MIN: f64 = 0.5;

/// Work on a page with nothing on it.
const EMPTY_PAGE_FUEL: u64 = 100_000;
/// The address of that page.
static NOWHERE: LazyLock<Url> = LazyLock::new(|| Url::parse("https://invalid/").expect("it is an address"));

/// What is known of an attribute on a page.
#[derive(Clone, Debug)]
pub struct Truth {
    pub name: String,
    pub form: Form,
    /// Of a list all members; otherwise each is right.
    pub values: Vec<String>,
}

impl From<&Label> for Truth {
    fn from(label: &Label) -> Truth {
        let (name, values) = (label.name.to_owned(), label.values.clone());
        Truth { name, form: label.form, values }
    }
}

/// A parsed page, and what is known of it.
pub struct KnownPage<'a> {
    pub document: &'a Document,
    pub base: &'a Url,
    pub mark: Option<DecimalMark>,
    pub truths: Vec<Truth>,
}

impl KnownPage<'_> {
    pub fn truth(&self, name: &str) -> Option<&Truth> {
        self.truths.iter().find(|truth| truth.name == name)
    }

    /// How near a value comes to what is known, from 0 to 1. None where nothing is known that it could be held to.
    pub fn score(&self, name: &str, value: Option<&Value>) -> Option<f64> {
        let truth = self.truth(name)?;
        let reading = Reading { base: self.base, mark: self.mark };
        let goal = truth.values.iter().map(|text| truth.form.label_keys(text, reading));
        let goal: Vec<Vec<String>> = goal.filter(|keys| !keys.is_empty()).collect();
        if goal.is_empty() {
            return None;
        }
        Some(value.map_or(0.0, |value| score(value, truth, &goal, reading)))
    }
}

fn score(value: &Value, truth: &Truth, goal: &[Vec<String>], reading: Reading<'_>) -> f64 {
    let keys = |value: &Value| match value {
        Value::String(text) => truth.form.keys(text, reading),
        // A number is written with a point, whatever the page's language.
        Value::Number(number) => truth.form.label_keys(&number.to_string(), reading),
        _ => Vec::new(),
    };
    let Value::Array(members) = value else {
        let keys = keys(value);
        let is_right = goal.iter().any(|member| member.iter().any(|key| keys.contains(key)));
        return if is_right { 1.0 } else { 0.0 };
    };
    let mut hit = vec![false; goal.len()];
    // Of a longer list no more is known.
    let members = &members[..members.len().min(induce::RECORDS_MAX)];
    for member in members {
        let keys = keys(member);
        let is_it = |at: &usize| !hit[*at] && goal[*at].iter().any(|key| keys.contains(key));
        if let Some(at) = (0..hit.len()).find(is_it) {
            hit[at] = true;
        }
    }
    let right = hit.iter().filter(|hit| **hit).count() as f64;
    let (precision, recall) = (right / members.len().max(1) as f64, right / hit.len() as f64);
    if precision < PRECISION_MIN { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
}

/// An attribute that somebody proposes, and what is known in favour of it already.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub attribute: Attribute,
    /// How many values came out right on pages that it was not made from, each while the page was held back.
    pub right: f64,
    /// Of how many.
    pub of: usize,
    pub is_firm: bool,
}

/// An attribute that was checked.
#[derive(Clone, Debug)]
pub struct Checked {
    /// With the expressions that hold; none where none does.
    pub attribute: Attribute,
    pub right: f64,
    pub of: usize,
    /// The share of all pages on which it gives a value.
    pub coverage: f64,
    pub is_firm: bool,
}

impl Checked {
    pub fn reproduced(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.right / self.of as f64 }
    }

    pub fn holds(&self) -> bool {
        let has_any = !self.attribute.xpaths.is_empty() || self.attribute.json_paths.is_some();
        has_any && self.of > 0 && self.reproduced() >= REPRODUCED_MIN
    }
}

/// Takes off the expressions that are wrong on held-back pages (all from `held_back` on), and counts what the others reproduce there.
/// Expressions go as well that do not compile, or say something of their own: a schema gives what stands on pages.
pub fn check(
    proposals: Vec<Proposal>,
    pages: &[KnownPage<'_>],
    held_back: usize,
    fuel: &mut Fuel,
) -> Vec<Checked> {
    let alone = each_alone(&proposals);
    let tried: BTreeSet<Place> = alone.iter().map(|one| one.place).collect();
    let values = values_by_place(&alone, pages, fuel);
    let check_one = |(at, proposal): (usize, Proposal)| {
        let Proposal { mut attribute, mut right, mut of, is_firm } = proposal;
        let given = |page: usize, path: usize| values[page].get(&(at, path));
        let held = || pages.iter().enumerate().skip(held_back);
        let holds = |path: &usize| {
            let scores = held().filter_map(|(number, page)| {
                let value = given(number, *path)?;
                page.score(&attribute.name, Some(value))
            });
            let scores: Vec<f64> = scores.collect();
            let wrong = scores.iter().filter(|score| **score == 0.0).count();
            wrong * PAGES_PER_ERROR <= scores.len()
        };
        let xpath_count = attribute.xpaths.len();
        let json_paths = attribute.json_paths.take().unwrap_or_default();
        let all = 0..xpath_count + json_paths.len();
        let kept: Vec<usize> = all.filter(|path| tried.contains(&(at, *path)) && holds(path)).collect();
        let value = |page: usize| kept.iter().find_map(|path| given(page, *path));
        let is_proven = of > 0;
        let mut values: BTreeSet<String> = BTreeSet::new();
        for (number, page) in held() {
            if let Some(score) = page.score(&attribute.name, value(number)) {
                right += score;
                of += 1;
                values.extend(value(number).map(Value::to_string));
            }
        }
        // Of what nobody has proven before, different values that are all right do: one that is the same everywhere may be anything.
        let is_firm = is_firm || !is_proven && values.len() > 1 && right >= of as f64;
        let covered = (0..pages.len()).filter(|page| value(*page).is_some()).count();
        let coverage = covered as f64 / pages.len().max(1) as f64;
        let (xpaths, of_json): (Vec<usize>, Vec<usize>) = kept.iter().partition(|path| **path < xpath_count);
        attribute.xpaths = xpaths.into_iter().map(|path| attribute.xpaths[path].clone()).collect();
        let of_json: Vec<String> =
            of_json.into_iter().map(|path| json_paths[path - xpath_count].clone()).collect();
        attribute.json_paths = (!of_json.is_empty()).then_some(of_json);
        Checked { attribute, right, of, coverage, is_firm }
    };
    proposals.into_iter().enumerate().map(check_one).collect()
}

/// Where an expression stands: the proposal, and the expression in it.
type Place = (usize, usize);

/// An expression by itself.
struct Alone {
    place: Place,
    name: String,
    schema: Schema,
}

/// Each expression that can be tried.
fn each_alone(proposals: &[Proposal]) -> Vec<Alone> {
    let nothing = Document::parse(String::new());
    let mut alone = Vec::new();
    for (at, proposal) in proposals.iter().enumerate() {
        let xpaths = proposal.attribute.xpaths.iter().map(|xpath| (vec![xpath.clone()], None));
        let json_paths = proposal.attribute.json_paths.iter().flatten();
        let json_paths = json_paths.map(|path| (Vec::new(), Some(vec![path.clone()])));
        for (path, (xpaths, json_paths)) in xpaths.chain(json_paths).enumerate() {
            let name = format!("a{at}_{path}");
            let one = Attribute { name, xpaths, json_paths, ..proposal.attribute.clone() };
            let Ok(schema) = Schema::compile(std::slice::from_ref(&one)) else { continue };
            let one = Alone { place: (at, path), name: one.name, schema };
            if one.value(&nothing, &NOWHERE, &mut Fuel::new(EMPTY_PAGE_FUEL)).is_none() {
                alone.push(one);
            }
        }
    }
    alone
}

impl Alone {
    fn value(&self, document: &Document, base: &Url, fuel: &mut Fuel) -> Option<Value> {
        self.schema.extract(document, base, fuel).values.remove(&self.name)
    }
}

/// What each expression gives on each page.
fn values_by_place(alone: &[Alone], pages: &[KnownPage<'_>], fuel: &mut Fuel) -> Vec<BTreeMap<Place, Value>> {
    let mut read = |page: &KnownPage<'_>| {
        let values = alone.iter().map(|one| (one.place, one.value(page.document, page.base, fuel)));
        values.filter_map(|(place, value)| Some((place, value?))).collect()
    };
    pages.iter().map(&mut read).collect()
}

/// How many values each attribute of a schema gets right on the pages, by name, and on how many pages it gives one.
pub fn standing(
    attributes: &[Attribute],
    pages: &[KnownPage<'_>],
    fuel: &mut Fuel,
) -> BTreeMap<String, Standing> {
    let mut standing: BTreeMap<String, Standing> = BTreeMap::new();
    let Ok(schema) = Schema::compile(attributes) else { return standing };
    for page in pages {
        let values = schema.extract(page.document, page.base, fuel).values;
        for attribute in attributes {
            let value = values.get(&attribute.name);
            let own = standing.entry(attribute.name.clone()).or_default();
            own.given += usize::from(value.is_some());
            if let Some(score) = page.score(&attribute.name, value) {
                own.right += score;
                own.of += 1;
            }
        }
    }
    standing
}

/// How an attribute stands on pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    pub right: f64,
    pub of: usize,
    /// Pages on which it gives a value.
    pub given: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use induce::answers;
    use page::extract::AttributeType;

    fn proposal(name: &str, kind: AttributeType, xpaths: &[&str]) -> Proposal {
        let attribute = Attribute {
            name: name.to_owned(),
            xpaths: xpaths.iter().map(|xpath| (*xpath).to_owned()).collect(),
            json_paths: None,
            kind,
            description: None,
            anti_patterns: None,
            semantic_type: None,
            validation: None,
        };
        Proposal { attribute, right: 0.0, of: 0, is_firm: false }
    }

    fn product(name: &str, price: &str) -> Document {
        Document::parse(format!(
            r#"<html lang=de><script type="application/ld+json">{{"@type":"Product","name":"{name}","offers":{{"price":"{price}","priceCurrency":"EUR"}}}}</script>
            <h1>{name}</h1><p class=price>{} €</p><i>1,00 €</i>"#,
            price.replace('.', ",")
        ))
    }

    #[test]
    fn what_is_wrong_on_held_back_pages_goes_whoever_proposes_it() {
        let documents = [product("Plane", "189.50"), product("Saw", "61.20"), product("Vice", "12.90")];
        let base = Url::parse("https://shop.example/").unwrap();
        let known = |document| {
            let page = induce::Page { document, base: &base };
            let truths = answers(document, None).labels.iter().map(Truth::from).collect();
            KnownPage { document, base: &base, mark: page.mark(), truths }
        };
        let pages: Vec<KnownPage<'_>> = documents.iter().map(known).collect();
        let proposals = vec![
            proposal("price", AttributeType::Number, &["//i", "//p[", "//p[@class='price']"]),
            proposal("name", AttributeType::Text, &["//i"]),
            proposal("brand", AttributeType::Text, &["//h1"]),
            proposal("currency", AttributeType::Text, &["'EUR'", "concat('E', 'UR', //none)"]),
        ];
        let checked = check(proposals, &pages, 1, &mut Fuel::for_page());
        assert_eq!(checked[0].attribute.xpaths, ["//p[@class='price']"]);
        assert_eq!((checked[0].right, checked[0].of, checked[0].coverage), (2.0, 2, 1.0));
        assert!(checked[0].holds() && checked[1].attribute.xpaths.is_empty() && !checked[1].holds());
        // Of what nothing is known nothing is reproduced.
        assert_eq!((checked[2].of, checked[2].holds(), checked[3].holds()), (0, false, false));
    }

    #[test]
    fn a_schema_stands_as_its_attributes_do() {
        let document = product("Plane", "189.50");
        let base = Url::parse("https://shop.example/").unwrap();
        let truths = answers(&document, None).labels.iter().map(Truth::from).collect();
        let mark = induce::Page { document: &document, base: &base }.mark();
        let page = KnownPage { document: &document, base: &base, mark, truths };
        let attributes = [
            proposal("price", AttributeType::Number, &["//i"]).attribute,
            proposal("name", AttributeType::Text, &["//h1"]).attribute,
            proposal("extra", AttributeType::Text, &["//i"]).attribute,
        ];
        let standing = standing(&attributes, &[page], &mut Fuel::for_page());
        let own = |right, of, given| Standing { right, of, given };
        assert_eq!(standing["price"], own(0.0, 1, 1));
        assert_eq!(standing["name"], own(1.0, 1, 1));
        assert_eq!(standing["extra"], own(0.0, 0, 1));
    }
}
