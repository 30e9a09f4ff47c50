//! Sites whose pages say what they are: what some pages teach is asked of another, which says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use induce::{Answers, Discovery, Kind, Page, Reading, answers, discover, shows};
use page::extract::{Attribute, Schema};
use page::html::Document;
use page::xpath::Fuel;
use url::Url;

use crate::strip::without_answer_key;
use crate::tally::{Tally, says_much, site_folders, tally};

/// Just under what was reached (data/docs/benchmarks.md).
const FLOOR_SHOWN: f64 = 0.80;
const FLOOR_INDUCED: f64 = 0.90;
/// Of what is learned from silent pages so much must be right.
const FLOOR_SILENT: f64 = 0.60;

/// A page as it was served, and without its structured data.
struct Held<'a> {
    full: &'a Document,
    bare: &'a Document,
    answers: Answers,
}

/// What was found of an attribute: of all labels, of those that the page shows without its structured data, and of those for
/// which something was learned.
type Counts = (Tally, Tally, Tally);

/// By kind of page and attribute.
type Tallies = BTreeMap<(&'static str, &'static str), Counts>;

/// A page of a site that is asked, and what it says that it has.
struct Asked<'a> {
    name: String,
    page: Page<'a>,
    answers: &'a Answers,
}

fn held_pages(folder: &Path) -> Vec<(Document, Document)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("pages").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|kind| kind.to_string_lossy().ends_with("html")));
    let read = |path: &PathBuf| {
        let full = Document::parse_bytes(&std::fs::read(path).expect("a page"), None);
        let bare = Document::parse(without_answer_key(&full));
        (full, bare)
    };
    files.iter().map(read).collect()
}

/// What the pages of a domain are read as.
#[derive(Clone, Copy)]
struct Taught {
    /// What somebody says that they are; otherwise they say it.
    kind: Option<Kind>,
    /// The pages that teach say nothing of themselves either; then somebody says what they are, and annotators teach.
    is_silent: bool,
}

/// Holds back each page of a domain in turn and discovers from the others. Gives the longest time that one discovery took.
fn domain(folder: &Path, taught: Taught, tallies: &mut Tallies) -> Duration {
    let kind = taught.kind;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let base = Url::parse(&format!("https://{name}/")).expect("an address");
    let documents = held_pages(folder);
    let held: Vec<Held<'_>> =
        documents.iter().map(|(full, bare)| Held { full, bare, answers: answers(full, kind) }).collect();
    let mut longest = Duration::ZERO;
    for (place, asked) in held.iter().enumerate() {
        let rest = held.iter().enumerate().filter(|(other, _)| *other != place);
        let rest = rest.map(|(_, held)| if taught.is_silent { held.bare } else { held.full });
        let pages: Vec<Page<'_>> = rest.map(|document| Page { document, base: &base }).collect();
        let start = Instant::now();
        let kind = if taught.is_silent { asked.answers.kind } else { kind };
        let found = discover(&pages, kind, &mut Fuel::new(induce::LESSON_FUEL_MAX));
        let took = start.elapsed();
        longest = longest.max(took);
        if found.kind != asked.answers.kind || found.kind.is_none() {
            println!("{name} {place}: {:?} beside {:?}", found.kind, asked.answers.kind);
            continue;
        }
        if says_much() {
            let bytes: usize = pages.iter().map(|page| page.document.source().len()).sum();
            println!("{name} {place}: {:?}, {} KiB, {took:?}", found.kind, bytes >> 10);
        }
        let page = Page { document: asked.bare, base: &base };
        ask(&found, &Asked { name: format!("{name} {place}"), page, answers: &asked.answers }, tallies);
    }
    longest
}

/// Runs what was discovered over a page that says nothing of itself.
fn ask(found: &Discovery, asked: &Asked<'_>, tallies: &mut Tallies) {
    let kind = found.kind.expect("it is the page's").name();
    // What reads the pages' JSON is not measured: it is what was taken away.
    let attributes = found.attributes.iter().filter(|learned| !learned.paths.is_empty());
    let attributes = attributes.filter_map(|learned| learned.attribute());
    let attributes: Vec<_> =
        attributes.map(|attribute| Attribute { json_paths: None, ..attribute }).collect();
    let base = asked.page.base;
    let extracted = match attributes.is_empty() {
        true => serde_json::Map::new(),
        false => {
            let schema = Schema::compile(&attributes).expect("what was learned compiles");
            schema.extract(asked.page.document, base, &mut Fuel::for_page()).values
        }
    };
    let reading = Reading { base, mark: None };
    for label in &asked.answers.labels {
        let given = extracted.get(label.name);
        let is_shown = shows(asked.page, label.kind, label.form, &label.values);
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
            let told = short(format!("{:?}", label.values));
            println!("  {mark} {kind}.{} {} for {told} ({})", label.name, short(shown), asked.name);
            for path in learned.iter().flat_map(|learned| &learned.paths) {
                println!("      {:.2} {}", path.f1, path.xpath);
            }
        }
        let (all, shown, induced) = tallies.entry((kind, label.name)).or_default();
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

fn print_tallies(name: &str, (all, shown, induced): Counts) {
    let three = |tally: Tally| format!("{:.3} {:.3} {:.3}", tally.precision(), tally.recall(), tally.f1());
    println!(
        "{name}: {} labels; {} shown: {}; {} of learned attributes: {}",
        all.there,
        shown.there,
        three(shown),
        induced.there,
        three(induced)
    );
}

fn sum<'a>(counts: impl Iterator<Item = &'a Counts>) -> Counts {
    let mut sum = Counts::default();
    for (all, shown, induced) in counts {
        sum.0.add(*all);
        sum.1.add(*shown);
        sum.2.add(*induced);
    }
    sum
}

/// Reads all sites; none where there are none.
fn measured(is_silent: bool) -> Option<Tallies> {
    let folders = site_folders();
    if folders.is_empty() {
        println!("skipped: neither GLEANER_PAGES nor GLEANER_SITES names a folder with pages");
        return None;
    }
    let mut tallies = Tallies::new();
    let mut longest = Duration::ZERO;
    for folder in &folders {
        let mut own = Tallies::new();
        longest = longest.max(domain(folder, Taught { kind: None, is_silent }, &mut own));
        // Recipes, which blogs publish, are articles too.
        if own.keys().any(|(kind, _)| *kind == "recipe") {
            longest = longest.max(domain(folder, Taught { kind: Some(Kind::Article), is_silent }, &mut own));
        }
        for (name, counts) in own {
            let known = tallies.entry(name).or_default();
            *known = sum([*known, counts].iter());
        }
    }
    println!("precision, recall and F1; {} sites, longest discovery {longest:?}", folders.len());
    Some(tallies)
}

/// What annotators teach alone: nothing says what the pages have.
#[test]
fn silent_pages_teach_by_what_they_look_like() {
    let Some(tallies) = measured(true) else { return };
    for ((kind, name), each) in &tallies {
        print_tallies(&format!("silent {kind}.{name}"), *each);
    }
    let all = sum(tallies.values());
    print_tallies("silent all", all);
    assert!(all.2.precision() >= FLOOR_SILENT, "{}", all.2.precision());
}

/// Each site as the kind of page that it says it has.
#[test]
fn structured_data_teaches_held_back_pages() {
    let Some(tallies) = measured(false) else { return };
    for ((kind, name), each) in &tallies {
        print_tallies(&format!("{kind}.{name}"), *each);
    }
    let kinds: BTreeSet<_> = tallies.keys().map(|(kind, _)| *kind).collect();
    for kind in kinds {
        print_tallies(kind, sum(tallies.iter().filter(|((own, _), _)| *own == kind).map(|(_, each)| each)));
    }
    let all = sum(tallies.values());
    print_tallies("all", all);
    assert!(all.1.f1() >= FLOOR_SHOWN, "{}", all.1.f1());
    assert!(all.2.f1() >= FLOOR_INDUCED, "{}", all.2.f1());
}
