//! Single pages of products with values that people marked: github.com/scrapinghub/product-extraction-benchmark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use induce::{Kind, Page, observe};
use page::html::Document;
use serde_json::Value as Json;
use url::Url;

use crate::tally::{Tally, is_in_half, says_much};

/// Just under what was reached (data/docs/benchmarks.md).
const FLOOR_PRICE: f64 = 0.86;

/// `GLEANER_PRODUCTS` names a folder with `SITE/NN.html` and `SITE/NN.json`, an entry of the benchmark's ground truth.
fn folders() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("GLEANER_PRODUCTS") else { return Vec::new() };
    let mut sites: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("sites").flatten().map(|entry| entry.path()).collect();
    sites.sort();
    sites.into_iter().enumerate().filter(|(place, _)| is_in_half(*place)).map(|(_, site)| site).collect()
}

/// Scores one page as the benchmark's own evaluation does: equal texts, and numbers for prices.
fn page(html: &Path, tallies: &mut BTreeMap<(&'static str, &'static str), Tally>) {
    let truth = std::fs::read_to_string(html.with_extension("json")).expect("labels");
    let truth: Json = serde_json::from_str(&truth).expect("labels");
    let base = Url::parse(truth["url"].as_str().expect("an address")).expect("an address");
    let document = Document::parse_bytes(&std::fs::read(html).expect("a page"), Some("utf-8"));
    let found = observe(Page { document: &document, base: &base }, Kind::Product);
    for name in ["price", "sku", "availability"] {
        let texts: Vec<&str> =
            truth[name].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let observed = found.iter().find(|observed| observed.label.name == name);
        let given = observed.and_then(|observed| observed.label.values.first());
        let is_equal = |text: &str| match name {
            // As a decimal is read there, with spaces around it.
            "price" => text.trim().parse::<f64>().ok() == given.and_then(|given| given.parse::<f64>().ok()),
            _ => given.is_some_and(|given| given == text),
        };
        let right = texts.iter().any(|text| is_equal(text));
        let one = Tally {
            right: f64::from(u8::from(right)),
            given: f64::from(u8::from(given.is_some())),
            there: f64::from(u8::from(!texts.is_empty())),
        };
        tallies.entry((name, "all")).or_default().add(one);
        let of = match observed {
            Some(observed) if observed.is_said => "said",
            Some(_) => "seen",
            None => "none",
        };
        tallies.entry((name, of)).or_default().add(one);
        if says_much() && !right && !(texts.is_empty() && given.is_none()) {
            println!("  {} {name}: {given:?} ({of}) for {texts:?} {base}", html.display());
        }
    }
}

#[test]
fn one_page_of_a_product_tells_its_price() {
    let folders = folders();
    if folders.is_empty() {
        return println!("skipped: GLEANER_PRODUCTS names no folder with labelled products");
    }
    let mut tallies = BTreeMap::new();
    for folder in folders {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).expect("pages").flatten().map(|entry| entry.path()).collect();
        files.sort();
        for html in files.iter().filter(|path| path.extension().is_some_and(|kind| kind == "html")) {
            page(html, &mut tallies);
        }
    }
    for ((name, of), tally) in &tallies {
        println!(
            "{name} ({of}): {} there, {} given: precision {:.3} recall {:.3} F1 {:.3}",
            tally.there,
            tally.given,
            tally.precision(),
            tally.recall(),
            tally.f1()
        );
    }
    assert!(tallies[&("price", "all")].f1() >= FLOOR_PRICE);
}
