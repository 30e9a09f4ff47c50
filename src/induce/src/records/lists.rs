//! What list pages are, and what they say: their kind, and labels for its attributes.

use std::collections::HashSet;

use super::fields::{List, ListShape, Record};
use super::key::ListKey;
use super::{Wish, is_elsewhere, lists_of};
use crate::annotate::kind_of;
use crate::answers::{Answers, Kind, Label};
use crate::places::Page;

/// The share of a list's records that must have a value for it to be one of the list's.
const FILLED_MIN: f64 = 0.34;
/// Records of a list that says what its page is.
const FIRM_RECORDS_MIN: usize = 5;
/// The share of a page's letters that such a list has.
const FIRM_SHARE_MIN: f64 = 0.25;
/// The share of its records that must be of the kind.
const FIRM_OF_KIND_MIN: f64 = 0.6;
/// Parts of headings above lists of what sells best.
const BESTSELLER_WORDS: [&str; 6] =
    ["bestsell", "best sell", "best-sell", "top seller", "most popular", "meistverkauft"];

/// What a page lists, as labels of a kind of list, and what its records are made of; nothing where it lists nothing.
pub fn list_answers(page: Page<'_>, kind: Kind) -> (Answers, ListShape) {
    let wish = if kind == Kind::Serp { Wish::Results } else { Wish::Goods };
    let Some(list) = lists_of(page, wish).into_iter().next() else { return Default::default() };
    let labels: Vec<Label> = kind
        .terms()
        .iter()
        .filter_map(|term| {
            let values: Vec<String> = list
                .records
                .iter()
                .map(|record| value_of(record, term.name))
                .filter(|v| !v.is_empty())
                .collect();
            let is_filled = values.len() as f64 >= FILLED_MIN * list.records.len() as f64;
            is_filled.then_some(Label { name: term.name, kind: term.kind, form: term.form, values })
        })
        .collect();
    (Answers { kind: Some(kind).filter(|_| !labels.is_empty()), labels }, list.shape)
}

fn value_of(record: &Record, name: &str) -> String {
    let value = match name {
        "names" | "titles" => &record.title,
        "urls" => &record.url,
        "prices" => &record.price,
        "image_urls" => &record.image,
        "ratings" => &record.rating,
        "snippets" => &record.snippet,
        "ranks" => &record.rank,
        _ => return String::new(),
    };
    value.clone()
}

/// What kind of list a page is; none where it is no list, or could be another kind of page.
pub fn list_kind_of(page: Page<'_>) -> Option<Kind> {
    if kind_of(page) == Some(Kind::Product) {
        return None;
    }
    let list = lists_of(page, Wish::Any).into_iter().next().filter(|list| is_firm(list, page))?;
    let share = |test: &dyn Fn(&Record) -> bool| {
        list.records.iter().filter(|record| test(record)).count() as f64 / list.records.len() as f64
    };
    let hosts: HashSet<String> = list
        .records
        .iter()
        .filter(|record| is_elsewhere(page, &record.url))
        .filter_map(|record| page.base.join(&record.url).ok()?.host_str().map(str::to_owned))
        .collect();
    if share(&|record| is_elsewhere(page, &record.url)) >= FIRM_OF_KIND_MIN
        && 2 * hosts.len() >= list.records.len()
        && share(&|record| !record.snippet.is_empty()) >= FIRM_OF_KIND_MIN
    {
        return Some(Kind::Serp);
    }
    let is_goods = share(&|record| !record.price.is_empty()) >= FIRM_OF_KIND_MIN
        || ListKey::of(page).overlap_of_goods(&list, page) >= FIRM_OF_KIND_MIN;
    let is_ranked = share(&|record| !record.rank.is_empty()) >= FIRM_OF_KIND_MIN;
    let title = page.document.title().unwrap_or_default().to_lowercase();
    match is_goods {
        true if is_ranked || BESTSELLER_WORDS.iter().any(|word| title.contains(word)) => {
            Some(Kind::Bestseller)
        }
        true => Some(Kind::ProductList),
        false => None,
    }
}

/// Whether a list is what its page is about.
fn is_firm(list: &List, page: Page<'_>) -> bool {
    let survey = super::Survey::new(page);
    let of_list: u32 = list.spans.iter().map(|span| survey.counts(*span).chars).sum();
    list.records.len() >= FIRM_RECORDS_MIN
        && f64::from(of_list) >= FIRM_SHARE_MIN * f64::from(survey.whole().chars.max(1))
}
