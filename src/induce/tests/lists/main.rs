//! Lists that the crate finds on real pages, against records that were labelled by hand.
//!
//! `GLEANER_LISTS` names a folder with a folder of pages for each site, and `labels.json`: by page the title, address and price of
//! each of its main list's records, where they are known. Every other site is one that weights were set by (`tune`); the others
//! are only measured. Without the folder the test says that it was skipped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use induce::{Kind, LESSON_FUEL_MAX, List, Page, Wish, discover, lists_of};
use page::extract::Schema;
use page::html::{Document, NodeId};
use page::xpath::Fuel;
use serde_json::Value;
use url::Url;

/// The sites that weights were set by: every other one of the alphabet, and two that were looked at by mistake.
const TUNED: [&str; 20] = [
    "ask.com",
    "bing.com",
    "csfd.cz",
    "geizhals.at",
    "juri-ark",
    "juri-ca9",
    "juri-calag",
    "juri-cit",
    "juri-conn",
    "juri-iowa",
    "juri-mass",
    "juri-me",
    "juri-nc",
    "juri-ohio",
    "juri-sc",
    "juri-texag",
    "monster.com",
    "pib.gov.in",
    "songkick.com",
    "yahoo.com",
];

/// What a page's main list is labelled with.
struct Labelled {
    title: String,
    url: String,
    price: String,
}

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("GLEANER_LISTS")?);
    folder.join("labels.json").exists().then_some(folder)
}

fn labels(folder: &std::path::Path) -> BTreeMap<String, Vec<Labelled>> {
    let text = std::fs::read_to_string(folder.join("labels.json")).expect("labels.json");
    let all: BTreeMap<String, Vec<BTreeMap<String, Value>>> = serde_json::from_str(&text).expect("labels");
    let text =
        |record: &BTreeMap<String, Value>, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let labelled = |record: &BTreeMap<String, Value>| Labelled {
        title: text(record, "title"),
        url: text(record, "url"),
        price: text(record, "price"),
    };
    all.into_iter().map(|(page, records)| (page, records.iter().map(labelled).collect())).collect()
}

/// Letters and digits, in lower case.
fn folded(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What of an address is the same on a page and in a label: its last part, without what only counts views.
fn address(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    folded(url.split("://").last().unwrap_or(url).rsplit('/').next().unwrap_or(url))
}

/// The digits of a price: "from" before it is no part of it.
fn digits(price: &str) -> String {
    price.chars().filter(char::is_ascii_digit).collect()
}

#[derive(Default)]
struct Tally {
    found: usize,
    labelled: usize,
    right: usize,
    titles: (usize, usize),
    urls: (usize, usize),
    prices: (usize, usize),
    pages: usize,
    pages_right: usize,
}

impl Tally {
    fn line(&self, name: &str) -> String {
        let share = |(right, of): (usize, usize)| right as f64 / of.max(1) as f64;
        format!(
            "{name:8} pages {:2} (right {:2}), records: precision {:.3} recall {:.3} of {}; title {:.3} of {}, url {:.3} of {}, price {:.3} of {}",
            self.pages,
            self.pages_right,
            share((self.right, self.found)),
            share((self.right, self.labelled)),
            self.labelled,
            share(self.titles),
            self.titles.1,
            share(self.urls),
            self.urls.1,
            share(self.prices),
            self.prices.1,
        )
    }

    fn add(&mut self, document: &Document, list: Option<&List>, labels: &[Labelled]) -> (usize, usize) {
        let empty = Vec::new();
        let records = list.map_or(&empty, |list| &list.records);
        let mut used = vec![false; labels.len()];
        let mut right = 0;
        for (at, record) in records.iter().enumerate() {
            let span = list.expect("it has records").spans[at];
            let links: Vec<String> = (span.start..span.end)
                .filter_map(|node| document.attribute_named(NodeId(node), "href").map(address))
                .collect();
            let is_it = |label: &Labelled| {
                !label.title.is_empty() && folded(&label.title) == folded(&record.title)
                    || !label.url.is_empty() && links.contains(&address(&label.url))
            };
            let Some(label) = (0..labels.len()).find(|label| !used[*label] && is_it(&labels[*label])) else {
                continue;
            };
            used[label] = true;
            right += 1;
            let label = &labels[label];
            let mut count = |tally: fn(&mut Tally) -> &mut (usize, usize), wanted: &str, is_right: bool| {
                if !wanted.is_empty() {
                    tally(self).0 += usize::from(is_right);
                    tally(self).1 += 1;
                }
            };
            count(|tally| &mut tally.titles, &label.title, folded(&label.title) == folded(&record.title));
            count(|tally| &mut tally.urls, &label.url, address(&label.url) == address(&record.url));
            count(|tally| &mut tally.prices, &label.price, digits(&label.price) == digits(&record.price));
        }
        self.found += records.len();
        self.labelled += labels.len();
        self.right += right;
        self.pages += 1;
        self.pages_right += usize::from(right == labels.len() && records.len() == labels.len());
        (records.len(), right)
    }
}

#[test]
fn records_of_real_pages() {
    let Some(folder) = folder() else {
        println!("skipped: GLEANER_LISTS names no labelled pages");
        return;
    };
    let labels = labels(&folder);
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut tallies = [Tally::default(), Tally::default()];
    for (page, labels) in &labels {
        let site = page.split('/').next().unwrap();
        let half = usize::from(!TUNED.contains(&site));
        if !only.is_empty() && only != ["tune", "test"][half] || labels.len() < 3 {
            continue;
        }
        let bytes = std::fs::read(folder.join(page)).unwrap();
        let document = Document::parse_bytes(&bytes, Some("text/html"));
        let base = Url::parse(&format!("https://www.{site}/")).unwrap();
        let wish =
            if labels.iter().any(|label| !label.price.is_empty()) { Wish::Goods } else { Wish::Results };
        let lists = lists_of(Page { document: &document, base: &base }, wish);
        let again = lists_of(Page { document: &document, base: &base }, wish);
        let first = lists.first();
        assert_eq!(first.map(|list| &list.records), again.first().map(|list| &list.records), "{page}");
        let is_shown = std::env::var("SHOW").is_ok_and(|show| page.contains(&show));
        let (found, right) = tallies[half].add(&document, first, labels);
        if found != labels.len() || right != found || is_shown {
            let title = first.map_or("", |list| &list.records[0].title);
            let title: String = title.chars().take(50).collect();
            println!("{page}: labelled {}, found {found}, right {right}; {title:?}", labels.len());
            for list in lists.iter().take(if is_shown { 5 } else { 0 }) {
                println!(
                    "   {:.3} {} of {:?}: {:?}",
                    list.score,
                    list.title_score,
                    list.records.len(),
                    list.records.iter().take(2).collect::<Vec<_>>()
                );
            }
        }
    }
    for (name, tally) in ["tune", "test"].iter().zip(&tallies).filter(|(_, tally)| tally.pages > 0) {
        println!("{}", tally.line(name));
    }
    assert!(tallies.iter().all(|tally| tally.right > 0 || tally.pages == 0));
}

/// A page with its labels, and the site's address.
struct Held {
    document: Document,
    labels: Vec<Labelled>,
}

/// The members of a list that stand in the labels: how many, of how many given and of how many labelled.
fn agreement(
    given: &[String],
    labels: &[Labelled],
    of: fn(&Labelled) -> &str,
    key: fn(&str) -> String,
) -> [usize; 3] {
    let mut left: Vec<String> = labels.iter().map(of).filter(|text| !text.is_empty()).map(key).collect();
    let labelled = left.len();
    if labelled == 0 {
        return [0; 3];
    }
    let mut right = 0;
    for text in given {
        if let Some(at) = left.iter().position(|label| *label == key(text)) {
            left.swap_remove(at);
            right += 1;
        }
    }
    [right, given.len(), labelled]
}

/// What the other pages of a site teach, asked of each page. Sites with three pages or more.
#[test]
fn what_other_pages_teach() {
    let Some(folder) = folder() else {
        println!("skipped: GLEANER_LISTS names no labelled pages");
        return;
    };
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut sites: BTreeMap<String, Vec<Held>> = BTreeMap::new();
    for (page, labels) in labels(&folder) {
        let site = page.split('/').next().unwrap().to_owned();
        let bytes = std::fs::read(folder.join(&page)).unwrap();
        let document = Document::parse_bytes(&bytes, Some("text/html"));
        sites.entry(site).or_default().push(Held { document, labels });
    }
    let mut sums = [[[0_usize; 3]; 2]; 2];
    for (site, pages) in sites.iter().filter(|(_, pages)| pages.len() > 2) {
        let half = usize::from(!TUNED.contains(&site.as_str()));
        if !only.is_empty() && only != ["tune", "test"][half] {
            continue;
        }
        let base = Url::parse(&format!("https://www.{site}/")).unwrap();
        let is_goods = pages.iter().any(|page| page.labels.iter().any(|label| !label.price.is_empty()));
        let kind = if is_goods { Kind::ProductList } else { Kind::Serp };
        let mut own = [[0_usize; 3]; 2];
        for (number, held) in pages.iter().enumerate() {
            let others = pages.iter().enumerate().filter(|(at, _)| *at != number);
            let others: Vec<Page<'_>> =
                others.map(|(_, page)| Page { document: &page.document, base: &base }).collect();
            let found = discover(&others, Some(kind), &mut Fuel::new(LESSON_FUEL_MAX));
            let attributes: Vec<_> =
                found.attributes.iter().filter_map(|learned| learned.attribute()).collect();
            let labels = &held.labels;
            let values = match Schema::compile(&attributes) {
                Ok(schema) => schema.extract(&held.document, &base, &mut Fuel::for_page()).values,
                Err(_) => serde_json::Map::new(),
            };
            let given = |names: [&str; 2]| -> Vec<String> {
                let list = names.iter().find_map(|name| values.get(*name)?.as_array());
                list.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
            };
            let of_page = [
                agreement(&given(["names", "titles"]), labels, |label| &label.title, folded),
                agreement(&given(["urls", "urls"]), labels, |label| &label.url, address),
            ];
            for (sum, page) in own.iter_mut().flatten().zip(of_page.iter().flatten()) {
                *sum += page;
            }
        }
        println!("{site}: titles right, given, labelled {:?}; urls {:?}", own[0], own[1]);
        for (sum, site) in sums[half].iter_mut().flatten().zip(own.iter().flatten()) {
            *sum += site;
        }
    }
    for (name, sums) in ["tune", "test"].iter().zip(sums) {
        for (what, [right, given, labelled]) in
            ["titles", "urls"].iter().zip(sums).filter(|(_, sum)| sum[2] > 0)
        {
            let share = |of: usize| right as f64 / of.max(1) as f64;
            println!(
                "{name} {what}: precision {:.3} recall {:.3} of {labelled}",
                share(given),
                share(labelled)
            );
        }
    }
    assert!(sums.iter().flatten().all(|sum| sum[0] > 0 || sum[2] == 0));
}
