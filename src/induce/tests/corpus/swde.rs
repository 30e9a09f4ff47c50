//! SWDE: three labelled pages of a site, and the rest of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use induce::{Example, Form, Page, Reading, Wanted, learn};
use page::extract::{AttributeType, Schema};
use page::html::Document;
use page::xpath::Fuel;
use url::Url;

use crate::tally::{Tally, is_in_half, pages_folder, says_much, swde_folder, tally};

/// Just under what was reached (data/docs/benchmarks.md).
const FLOOR_BOOKS: f64 = 0.998;
const FLOOR_SITES: f64 = 0.975;

/// The labels of a site: attribute, then page, then values.
fn labels(swde: &Path, vertical: &str, site: &str) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut found = BTreeMap::new();
    let folder = swde.join("groundtruth").join(vertical);
    let front = format!("{vertical}-{site}-");
    for entry in std::fs::read_dir(folder).expect("groundtruth").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(attribute) = name.strip_prefix(&front).and_then(|name| name.strip_suffix(".txt")) else {
            continue;
        };
        let text = std::fs::read_to_string(entry.path()).expect("labels");
        let mut pages = BTreeMap::new();
        for line in text.lines().skip(2) {
            let mut fields = line.split('\t');
            let (Some(page), Some(count)) = (fields.next(), fields.next()) else { continue };
            let plain =
                |text: &str| Document::parse(text.to_owned()).string_value(Document::ROOT).trim().to_owned();
            let values: Vec<String> = fields.map(plain).filter(|text| !text.is_empty()).collect();
            pages.insert(page.to_owned(), if count == "0" { Vec::new() } else { values });
        }
        // What a site has on no page at all is no attribute of it.
        if pages.values().any(|values: &Vec<String>| !values.is_empty()) {
            found.insert(attribute.to_owned(), pages);
        }
    }
    found
}

/// Learns from three pages of a site, asks all others.
fn swde_site(swde: &Path, folder: &Path, vertical: &str, site: &str) -> BTreeMap<String, Tally> {
    let labels = labels(swde, vertical, site);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("pages").flatten().map(|entry| entry.path()).collect();
    files.sort();
    let base = Url::parse(&format!("http://www.{site}.com/")).expect("an address");
    let parse = |path: &PathBuf| Document::parse_bytes(&std::fs::read(path).expect("a page"), None);
    let number = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // The first three on which every attribute is there, as a teacher would take them; else the first three.
    let has_all = |path: &&PathBuf| {
        labels.values().all(|pages| pages.get(&number(path)).is_some_and(|v| !v.is_empty()))
    };
    let mut taught: Vec<PathBuf> = files.iter().filter(has_all).take(3).cloned().collect();
    if taught.len() < 3 {
        taught = files.iter().take(3).cloned().collect();
    }
    let documents: Vec<Document> = taught.iter().map(parse).collect();
    let values = |path: &PathBuf| {
        let of =
            labels.iter().filter_map(|(name, pages)| Some((name.clone(), pages.get(&number(path))?.clone())));
        of.collect::<Vec<_>>()
    };
    let examples: Vec<Example<'_>> = taught
        .iter()
        .zip(&documents)
        .map(|(path, document)| Example { page: Page { document, base: &base }, values: values(path) })
        .collect();
    let untaught: Vec<PathBuf> = files.iter().filter(|path| !taught.contains(path)).cloned().collect();
    let beside: Vec<Document> = untaught.iter().take(10).map(parse).collect();
    let others: Vec<Page<'_>> = beside.iter().map(|document| Page { document, base: &base }).collect();
    let wanted: Vec<Wanted> = labels
        .keys()
        .map(|name| {
            let distinct = |values: &[String]| {
                values
                    .iter()
                    .map(|text| text.replace(": ", ""))
                    .collect::<std::collections::BTreeSet<_>>()
                    .len()
            };
            let is_list = labels[name].values().any(|values| distinct(values) > 1)
                && examples.iter().any(|example| {
                    example.values.iter().any(|(own, texts)| own == name && distinct(texts) > 1)
                });
            let kind = if is_list { AttributeType::TextList } else { AttributeType::Text };
            Wanted { name: name.clone(), kind, form: Form::Text, is_told_list: false }
        })
        .collect();
    let start = Instant::now();
    let learned = learn(&wanted, &examples, &others, &mut Fuel::new(induce::LESSON_FUEL_MAX)).attributes;
    let took = start.elapsed();
    let attributes: Vec<_> = learned.iter().filter_map(|learned| learned.attribute()).collect();
    if says_much() {
        println!("{vertical}-{site}: {took:?}");
        for learned in &learned {
            println!(
                "  {} {:.2} held {}/{}",
                learned.name, learned.confidence, learned.held_out_right, learned.example_count
            );
            learned
                .paths
                .iter()
                .for_each(|path| println!("    {:.2} {:.2} {}", path.f1, path.coverage, path.xpath));
        }
    }
    let mut tallies: BTreeMap<String, Tally> =
        labels.keys().map(|name| (name.clone(), Tally::default())).collect();
    let schema = Schema::compile(&attributes).expect("what was learned compiles");
    for path in &untaught {
        let document = parse(path);
        let found = schema.extract(&document, &base, &mut Fuel::for_page());
        let reading = Reading { base: &base, mark: None };
        for (name, pages) in &labels {
            let Some(truth) = pages.get(&number(path)) else { continue };
            let tally = tally(Form::Text, found.values.get(name), truth, reading, false);
            if says_much() && tally.right < tally.there.max(tally.given) && number(path).ends_with('7') {
                println!("  {} {name}: {:?} for {truth:?}", number(path), found.values.get(name));
            }
            tallies.entry(name.clone()).or_default().add(tally);
        }
    }
    tallies
}

/// Prints a table of tallies and gives the mean of the attributes' F1.
fn print_swde(site: &str, tallies: &BTreeMap<String, Tally>) -> f64 {
    let mean = tallies.values().map(|tally| tally.f1()).sum::<f64>() / tallies.len().max(1) as f64;
    let each: Vec<String> = tallies.iter().map(|(name, tally)| format!("{name} {:.3}", tally.f1())).collect();
    println!("{site}: {mean:.4} ({})", each.join(", "));
    mean
}

#[test]
fn three_labelled_pages_teach_a_site() {
    let Some(swde) = swde_folder() else {
        return println!("skipped: GLEANER_SWDE names no folder with SWDE's labels");
    };
    let mut means = Vec::new();
    let books = [("booksamillion", "book-booksamillion-2000"), ("christianbook", "book-christianbook-2000")];
    for (place, (site, folder)) in books.iter().enumerate() {
        let folder = swde.join("testset/book").join(folder);
        if !folder.exists() || !is_in_half(place) {
            continue;
        }
        let mean = print_swde(&format!("book-{site}"), &swde_site(&swde, &folder, "book", site));
        assert!(mean >= FLOOR_BOOKS, "{site}: {mean}");
    }
    if let Some(pages) = pages_folder() {
        let mut sites: Vec<_> = std::fs::read_dir(pages.join("swde"))
            .expect("sites")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        sites.sort();
        for (_, folder) in sites.iter().enumerate().filter(|(place, _)| is_in_half(*place)) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (vertical, site) = name.split_once('-').expect("vertical-site");
            means.push(print_swde(&name, &swde_site(&swde, folder, vertical, site)));
        }
    }
    if !means.is_empty() {
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        println!("{} sites: {mean:.4}", means.len());
        assert!(mean >= FLOOR_SITES, "{mean}");
    }
}
