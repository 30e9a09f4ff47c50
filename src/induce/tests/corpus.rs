//! Real pages: what is learned from three labelled pages of a site, and from the structured data of some pages for others.
//!
//! The pages are no part of the project. `GLEANER_PAGES` names a folder like `../shared/data/pages`, `GLEANER_SWDE` one with SWDE's
//! `groundtruth` and, where it is there, `testset`; without them the tests say that they were skipped. `GLEANER_HALF=report` takes
//! the sites that nothing was tuned on, and `GLEANER_VERBOSE` prints what was learned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use induce::{
    Answers, Example, Form, Page, Reading, Wanted, answers, discover, is_linked_data, learn, shows,
};
use page::extract::{AttributeType, Schema};
use page::html::{AttrId, Document, NodeId, NodeKind};
use page::xpath::Fuel;
use serde_json::Value as Json;
use url::Url;

/// The folder with pages, if there is one.
fn pages_folder() -> Option<PathBuf> {
    let given = std::env::var_os("GLEANER_PAGES").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pages");
    Some(given.unwrap_or_else(beside)).filter(|folder| folder.join("by-domain").exists())
}

/// SWDE's labels and pages.
fn swde_folder() -> Option<PathBuf> {
    std::env::var_os("GLEANER_SWDE").map(PathBuf::from).filter(|folder| folder.join("groundtruth").exists())
}

/// Sites by their place in the sorted list: the even ones were tuned on.
fn is_in_half(place: usize) -> bool {
    let wants_report = std::env::var("GLEANER_HALF").is_ok_and(|half| half == "report");
    (place % 2 == 1) == wants_report
}

fn says_much() -> bool {
    std::env::var_os("GLEANER_VERBOSE").is_some()
}

/// Right, wrong and missed values.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    right: f64,
    given: f64,
    there: f64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.right += other.right;
        self.given += other.given;
        self.there += other.there;
    }

    fn precision(self) -> f64 {
        self.right / self.given.max(1.0)
    }

    fn recall(self) -> f64 {
        self.right / self.there.max(1.0)
    }

    fn f1(self) -> f64 {
        2.0 * self.right / (self.given + self.there).max(1.0)
    }
}

/// Compares what extraction gave with the values of a page.
fn tally(
    form: Form,
    given: Option<&Json>,
    truth: &[String],
    reading: Reading<'_>,
    structured: bool,
) -> Tally {
    let text = |json: &Json| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
    let keys =
        |text: &str| if structured { form.label_keys(text, reading) } else { form.keys(text, reading) };
    let truth: Vec<Vec<String>> = truth.iter().map(|text| keys(text)).collect();
    let is_right = |text: &str, is_number: bool| {
        let own = if is_number { form.label_keys(text, reading) } else { form.keys(text, reading) };
        own.iter().any(|key| truth.iter().any(|truth| truth.contains(key)))
    };
    match given {
        Some(Json::Array(members)) => {
            let right = members.iter().filter(|member| is_right(&text(member), false)).count() as f64;
            let (given, there) = (members.len().max(1) as f64, truth.len().max(1) as f64);
            // A page weighs as one value, however long its list is.
            let score = 2.0 * right.min(there) / (given + there);
            Tally { right: score, given: 1.0, there: f64::from(u8::from(!truth.is_empty())) }
        }
        Some(value) => Tally {
            right: f64::from(u8::from(is_right(&text(value), value.is_number()))),
            given: 1.0,
            there: f64::from(u8::from(!truth.is_empty())),
        },
        None => Tally { there: f64::from(u8::from(!truth.is_empty())), ..Tally::default() },
    }
}

// ---- SWDE ----

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
            Wanted { name: name.clone(), kind, form: Form::Text }
        })
        .collect();
    let start = Instant::now();
    let learned = learn(&wanted, &examples, &others, &mut Fuel::new(induce::LESSON_FUEL_MAX));
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

// ---- Pages' own structured data ----

/// The page as HTML without its structured data: linked data, `<meta>`, and the attributes of microdata and RDFa.
fn without_answer_key(document: &Document) -> String {
    let mut out = String::from("<!DOCTYPE html>");
    let mut open: Vec<(NodeId, String)> = Vec::new();
    let mut at = NodeId(1);
    let end = document.subtree_end(Document::ROOT);
    while at < end {
        while open.last().is_some_and(|(end, _)| *end <= at) {
            let (_, name) = open.pop().expect("there is one");
            out.push_str(&format!("</{name}>"));
        }
        let name = document.name(at);
        let next = NodeId(at.0 + 1);
        match document.kind(at) {
            NodeKind::Element if name == "meta" || name == "script" && is_linked_data(document, at) => {
                at = document.subtree_end(at);
                continue;
            }
            NodeKind::Element => {
                out.push_str(&format!("<{name}"));
                for attribute in document.attributes(at).map(AttrId) {
                    let own = document.attr_name(attribute);
                    let is_key =
                        own.starts_with("item") || matches!(own, "property" | "typeof" | "vocab" | "content");
                    if !is_key {
                        let value =
                            document.attr_value(attribute).replace('&', "&amp;").replace('"', "&quot;");
                        out.push_str(&format!(" {own}=\"{value}\""));
                    }
                }
                out.push('>');
                let is_void = matches!(
                    name,
                    "img"
                        | "br"
                        | "hr"
                        | "input"
                        | "link"
                        | "source"
                        | "area"
                        | "base"
                        | "wbr"
                        | "col"
                        | "embed"
                        | "track"
                        | "param"
                );
                if !is_void {
                    open.push((document.subtree_end(at), name.to_owned()));
                }
            }
            NodeKind::Text => {
                let is_raw = document.parent(at).is_some_and(|node| {
                    matches!(
                        document.name(node),
                        "script" | "style" | "iframe" | "noembed" | "noframes" | "xmp"
                    )
                });
                let text = document.text(at);
                out.push_str(&if is_raw {
                    text.to_owned()
                } else {
                    text.replace('&', "&amp;").replace('<', "&lt;")
                });
            }
            _ => {}
        }
        at = next;
    }
    while let Some((_, name)) = open.pop() {
        out.push_str(&format!("</{name}>"));
    }
    out
}

/// A page as it was served, and without its structured data.
struct Held {
    full: Document,
    bare: Document,
    answers: Answers,
}

/// Holds back each page of a domain in turn and discovers from the others.
fn domain(folder: &Path, tallies: &mut BTreeMap<String, (Tally, Tally, Tally)>) {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("pages").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|kind| kind.to_string_lossy().ends_with("html")));
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let base = Url::parse(&format!("https://{name}/")).expect("an address");
    let held: Vec<Held> = files
        .iter()
        .map(|path| {
            let full = Document::parse_bytes(&std::fs::read(path).expect("a page"), None);
            let bare = Document::parse(without_answer_key(&full));
            let answers = answers(&full, None);
            Held { full, bare, answers }
        })
        .collect();
    for (place, asked) in held.iter().enumerate() {
        let rest = held.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, held)| &held.full);
        let pages: Vec<Page<'_>> = rest.map(|document| Page { document, base: &base }).collect();
        let start = Instant::now();
        let found = discover(&pages, None, &mut Fuel::new(induce::LESSON_FUEL_MAX));
        let took = start.elapsed();
        if found.kind != asked.answers.kind {
            println!("{name} {place}: {:?} beside {:?}", found.kind, asked.answers.kind);
            continue;
        }
        let attributes: Vec<_> = found.attributes.iter().filter_map(|learned| learned.attribute()).collect();
        if says_much() {
            let bytes: usize = pages.iter().map(|page| page.document.source().len()).sum();
            println!("{name} {place}: {:?}, {} KiB, {took:?}", found.kind, bytes >> 10);
        }
        let schema = Schema::compile(&attributes).ok();
        let extracted = schema
            .map(|schema| schema.extract(&asked.bare, &base, &mut Fuel::for_page()).values)
            .unwrap_or_default();
        let reading = Reading { base: &base, mark: None };
        for label in &asked.answers.labels {
            let given = extracted.get(label.name);
            let is_shown =
                shows(Page { document: &asked.bare, base: &base }, label.kind, label.form, &label.values);
            let tally = tally(label.form, given, &label.values, reading, true);
            let learned = found.attributes.iter().find(|learned| learned.name == label.name);
            if says_much() {
                let mark = match (tally.right > 0.9, given.is_some(), is_shown) {
                    (true, ..) => "+",
                    (false, true, true) => "X",
                    (false, true, false) => "x",
                    (false, false, true) => "-",
                    (false, false, false) => " ",
                };
                let short = |text: String| text.chars().take(160).collect::<String>();
                let shown = given.map(|given| given.to_string()).unwrap_or_default();
                println!(
                    "  {mark} {} {} for {}",
                    label.name,
                    short(shown),
                    short(format!("{:?}", label.values))
                );
                for path in learned.iter().flat_map(|learned| &learned.paths) {
                    println!("      {:.2} {}", path.f1, path.xpath);
                }
            }
            let (all, shown, induced) = tallies.entry(label.name.to_owned()).or_default();
            all.add(tally);
            if is_shown {
                shown.add(tally);
            }
            // What was learned from structured data alone finds nothing where that is gone.
            if learned.is_some_and(|learned| learned.paths.iter().any(|path| !path.is_markup)) {
                induced.add(tally);
            }
        }
    }
}

fn print_tallies(name: &str, (all, shown, induced): (Tally, Tally, Tally)) {
    println!(
        "{name}: {} labels; {} shown without structured data: precision {:.3} recall {:.3} F1 {:.3}; {} of learned attributes: precision {:.3} recall {:.3} F1 {:.3}",
        all.there,
        shown.there,
        shown.precision(),
        shown.recall(),
        shown.f1(),
        induced.there,
        induced.precision(),
        induced.recall(),
        induced.f1()
    );
}

#[test]
fn structured_data_teaches_held_back_pages() {
    let Some(pages) = pages_folder() else {
        return println!("skipped: GLEANER_PAGES names no folder with pages");
    };
    let mut domains: Vec<_> = std::fs::read_dir(pages.join("by-domain"))
        .expect("domains")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    domains.sort();
    let mut tallies = BTreeMap::new();
    for (_, folder) in domains.iter().enumerate().filter(|(place, _)| is_in_half(*place)) {
        domain(folder, &mut tallies);
    }
    let mut sums = <(Tally, Tally, Tally)>::default();
    for (name, each) in &tallies {
        print_tallies(name, *each);
        sums.0.add(each.0);
        sums.1.add(each.1);
        sums.2.add(each.2);
    }
    print_tallies("all", sums);
    let (_, shown, induced) = sums;
    assert!(shown.f1() >= FLOOR_SHOWN, "{}", shown.f1());
    assert!(induced.f1() >= FLOOR_INDUCED, "{}", induced.f1());
}

/// Just under what was reached (data/docs/benchmarks.md).
const FLOOR_BOOKS: f64 = 0.998;
const FLOOR_SITES: f64 = 0.975;
const FLOOR_SHOWN: f64 = 0.80;
const FLOOR_INDUCED: f64 = 0.90;
