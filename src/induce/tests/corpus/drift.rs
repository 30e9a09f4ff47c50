//! Real drift: pages of recipe sites as they were and as they are after the sites were made anew.
//!
//! The pages are no part of the project: `pages.py` takes them from the history of a public repository, `GLEANER_DRIFT` names the
//! folder that it made. Without it the test says that it was skipped. A schema is learned on the old pages, with their structured data
//! as labels; what it reads there are the last known values. Old and new pages are read without their structured data, so all that is
//! left is the template. Then the schema is repaired from the new pages without any label, and held against what the new pages'
//! structured data says. `GLEANER_HALF=report` takes the hosts that nothing was tuned on, `GLEANER_VERBOSE` prints each attribute.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use induce::{
    Answers, Example, Label, Page, Reading, Verdict, Visit, Wanted, answers, learn, repair, shows, texts_of,
};
use page::extract::{Attribute, Schema};
use page::html::{AttrId, Document, NodeId};
use page::xpath::Fuel;
use url::Url;

use crate::strip::without_answer_key;
use crate::tally::says_much;

/// Just what was reached (data/docs/benchmarks.md).
const RIGHT_MIN: f64 = 0.75;
const WRONG_MAX: f64 = 0.035;
/// Pages whose names of classes and ids are this much the same (Jaccard) are of one template.
const SAME_TEMPLATE: f64 = 0.5;

/// A page as it was served, and without what it says about itself.
struct Taken {
    bare: Document,
    answers: Answers,
    names: BTreeSet<String>,
}

/// A URL with its first and its last page; the last alone where there is one.
struct Pair {
    before: Option<Taken>,
    after: Taken,
}

fn take(path: &Path) -> Taken {
    let full = Document::parse_bytes(&std::fs::read(path).expect("a page"), None);
    let bare = Document::parse(without_answer_key(&full));
    let answers = answers(&full, None);
    let mut names = BTreeSet::new();
    for node in (1..full.node_count() as u32).map(NodeId).filter(|node| full.is_element(*node)) {
        for attribute in full.attributes(node).map(AttrId) {
            if matches!(full.attr_name(attribute), "class" | "id") {
                names.extend(full.attr_value(attribute).split_ascii_whitespace().map(str::to_owned));
            }
        }
    }
    Taken { bare, answers, names }
}

fn likeness(one: &Taken, other: &Taken) -> f64 {
    let shared = one.names.intersection(&other.names).count() as f64;
    shared / one.names.union(&other.names).count().max(1) as f64
}

/// Hosts by a hash of their names: one half was tuned on.
fn is_in_half(host: &str) -> bool {
    let hash = host
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let wants_report = std::env::var("GLEANER_HALF").is_ok_and(|half| half == "report");
    ((hash >> 20) % 2 == 1) == wants_report
}

/// The pages of a host by URL: files are called `url-time.html`.
fn pairs(folder: &Path) -> Vec<Pair> {
    let mut by_url: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("pages").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let url = name.split('-').next().unwrap_or_default().to_owned();
        by_url.entry(url).or_default().push(entry.path());
    }
    let pair = |mut files: Vec<PathBuf>| {
        files.sort();
        let after = take(files.last().expect("a file"));
        Pair { before: (files.len() > 1).then(|| take(&files[0])), after }
    };
    by_url.into_values().map(pair).collect()
}

/// Whether a value is what a page's structured data says.
fn is_right(label: &Label, texts: &[String], reading: Reading<'_>) -> bool {
    let truth: Vec<Vec<String>> =
        label.values.iter().map(|text| label.form.label_keys(text, reading)).collect();
    let is_it = |text: &&String| {
        let own = [label.form.keys(text, reading), label.form.label_keys(text, reading)].concat();
        own.iter().any(|key| truth.iter().any(|truth| truth.contains(key)))
    };
    let right = texts.iter().filter(is_it).count();
    match label.kind.is_list() {
        true => 10 * right >= 6 * texts.len().max(truth.len()),
        false => right > 0,
    }
}

/// What came of the attributes of all hosts.
#[derive(Default)]
struct Sums {
    hosts: usize,
    redesigned: usize,
    told: BTreeMap<(&'static str, Verdict), usize>,
    attributes: BTreeMap<&'static str, usize>,
    /// Those of which several URLs tell the past.
    several: BTreeMap<&'static str, usize>,
    held: BTreeMap<&'static str, usize>,
    pages: BTreeMap<&'static str, usize>,
    refusals: BTreeMap<&'static str, usize>,
}

struct Site<'a> {
    base: Url,
    visited: Vec<&'a Pair>,
    others: Vec<&'a Pair>,
}

impl Site<'_> {
    fn page<'b>(&'b self, taken: &'b Taken) -> Page<'b> {
        Page { document: &taken.bare, base: &self.base }
    }

    fn reading(&self) -> Reading<'_> {
        Reading { base: &self.base, mark: None }
    }

    /// A schema of the old pages.
    fn old_schema(&self) -> Vec<Attribute> {
        let old: Vec<&Taken> = self.visited.iter().filter_map(|pair| pair.before.as_ref()).collect();
        let mut wanted: Vec<Wanted> = Vec::new();
        let examples: Vec<Example<'_>> = old
            .iter()
            .map(|taken| {
                let page = self.page(taken);
                let mut values = Vec::new();
                for label in &taken.answers.labels {
                    if shows(page, label.kind, label.form, &label.values) {
                        if !wanted.iter().any(|known| known.name == label.name) {
                            wanted.push(Wanted {
                                name: label.name.to_owned(),
                                kind: label.kind,
                                form: label.form,
                                is_told_list: false,
                            });
                        }
                        values.push((label.name.to_owned(), label.values.clone()));
                    }
                }
                Example { page, values }
            })
            .collect();
        let learned = learn(&wanted, &examples, &[], &mut Fuel::new(induce::LESSON_FUEL_MAX)).attributes;
        learned.iter().filter_map(|learned| learned.attribute()).collect()
    }

    fn read(&self, schema: &Schema, taken: &Taken) -> BTreeMap<String, Vec<String>> {
        let found = schema.extract(&taken.bare, &self.base, &mut Fuel::for_page());
        found.values.iter().map(|(name, value)| (name.clone(), texts_of(value))).collect()
    }

    /// What a page's structured data says of an attribute, if the page shows it beside that.
    fn truth<'b>(&'b self, taken: &'b Taken, name: &str) -> Option<&'b Label> {
        let label = taken.answers.labels.iter().find(|label| label.name == name)?;
        shows(self.page(taken), label.kind, label.form, &label.values).then_some(label)
    }

    fn measure(&self, sums: &mut Sums) {
        let attributes = self.old_schema();
        let Ok(schema) = Schema::compile(&attributes) else { return };
        // What the old schema reads rightly on the old pages is what is known.
        let known: Vec<Vec<(String, Vec<String>)>> = self
            .visited
            .iter()
            .map(|pair| {
                let Some(before) = &pair.before else { return Vec::new() };
                let read = self.read(&schema, before).into_iter();
                let right = read.filter(|(name, texts)| {
                    let mut labels = before.answers.labels.iter();
                    labels.any(|label| label.name == name && is_right(label, texts, self.reading()))
                });
                right.collect::<Vec<_>>()
            })
            .collect();
        let teachable: Vec<&String> = attributes
            .iter()
            .map(|attribute| &attribute.name)
            .filter(|name| self.is_teachable(name, &known))
            .collect();
        let visits: Vec<Visit<'_>> = self
            .visited
            .iter()
            .zip(&known)
            .map(|(pair, values)| Visit {
                page: self.page(&pair.after),
                before: pair.before.as_ref().map(|taken| self.page(taken)),
                values: values.clone(),
            })
            .collect();
        let others: Vec<Page<'_>> = self.others.iter().map(|pair| self.page(&pair.after)).collect();
        let repairs = repair(&attributes, &visits, &others, &mut Fuel::new(induce::LESSON_FUEL_MAX));
        for (attribute, repair) in attributes.iter().zip(repairs) {
            if !teachable.contains(&&attribute.name) {
                continue;
            }
            self.judge(attribute, &schema, &known, repair, sums);
        }
    }

    /// Whether the past says what an attribute is: where its pages told, it was not a lone digit or short word that any text could have
    /// been, nor the value and place of another attribute, and the site says the same of it now.
    fn is_teachable(&self, name: &String, known: &[Vec<(String, Vec<String>)>]) -> bool {
        let mut told: BTreeSet<&Vec<String>> = BTreeSet::new();
        for (pair, values) in self.visited.iter().zip(known) {
            let Some((_, texts)) = values.iter().find(|(own, _)| own == name) else { continue };
            if self.says_the_same(pair, name) {
                told.insert(texts);
            }
        }
        let says_much = |texts: &&Vec<String>| {
            let letters = texts.iter().flat_map(|text| text.chars()).filter(|c| c.is_alphabetic()).count();
            let digits = texts.iter().flat_map(|text| text.chars()).filter(|c| c.is_ascii_digit()).count();
            letters > 4 || digits > 1
        };
        let is_other = names_of(known).into_iter().filter(|other| other != name).any(|other| {
            known.iter().all(|values| {
                let of = |name: &String| values.iter().find(|(own, _)| own == name).map(|(_, texts)| texts);
                of(name).is_none() || of(name) == of(&other)
            })
        });
        (told.len() > 1 || told.iter().any(says_much)) && !is_other
    }

    /// Whether a page's structured data gives an attribute the value that it gave before.
    fn says_the_same(&self, pair: &Pair, name: &str) -> bool {
        let label = |taken: &Taken| taken.answers.labels.iter().find(|label| label.name == name).cloned();
        let before = pair.before.as_ref().and_then(label);
        let (Some(before), Some(after)) = (before, label(&pair.after)) else { return false };
        is_right(&after, &before.values, self.reading())
    }

    /// Whether an attribute is truly broken, what was said of it, and what came of its repair.
    fn judge(
        &self,
        attribute: &Attribute,
        schema: &Schema,
        known: &[Vec<(String, Vec<String>)>],
        repair: induce::Repair,
        sums: &mut Sums,
    ) {
        let name = &attribute.name;
        let (mut fine, mut broken) = (0, 0);
        for (pair, _) in
            self.visited.iter().zip(known).filter(|(_, known)| known.iter().any(|(own, _)| own == name))
        {
            let Some(truth) = self.truth(&pair.after, name).filter(|_| self.says_the_same(pair, name)) else {
                continue;
            };
            let given = self.read(schema, &pair.after).remove(name).unwrap_or_default();
            match is_right(truth, &given, self.reading()) {
                true => fine += 1,
                false => broken += 1,
            }
        }
        let state = match (fine, broken) {
            (0, 0) => "absent or unknown",
            (fine, broken) if broken > fine => "broken",
            _ => "right",
        };
        *sums.told.entry((state, repair.verdict)).or_default() += 1;
        if matches!(state, "absent or unknown" | "right") && repair.verdict != Verdict::Broken {
            return;
        }
        let outcome = match &repair.outcome {
            Some(Ok(_)) => "",
            Some(Err(refusal)) => {
                *sums.refusals.entry(refusal.name()).or_default() += 1;
                refusal.name()
            }
            None => "not told",
        };
        let (on_visited, on_held) = match &repair.outcome {
            Some(Ok(paths)) => {
                let xpaths = paths.iter().map(|path| path.xpath.clone()).collect();
                let repaired = Attribute { xpaths, ..attribute.clone() };
                let repaired = Schema::compile(&[repaired]).expect("what was learned compiles");
                (
                    self.ask(name, &repaired, &self.visited, sums, false),
                    self.ask(name, &repaired, &self.others, sums, true),
                )
            }
            _ => (None, None),
        };
        let came = |tally: Option<(usize, usize, usize)>| match tally {
            None => "none",
            Some((right, wrong, missing)) if right > wrong && right >= missing => "right",
            Some((_, wrong, _)) if wrong > 0 => "wrong",
            _ => "missing",
        };
        let (visited, held) = (came(on_visited), came(on_held));
        let all = match (visited, held) {
            ("wrong", _) | (_, "wrong") => "wrong",
            ("none", other) => other,
            (visited, _) => visited,
        };
        if state == "broken" || all == "wrong" {
            *sums.attributes.entry(all).or_default() += 1;
            if known.iter().filter(|values| values.iter().any(|(own, _)| own == name)).count() > 1 {
                *sums.several.entry(all).or_default() += 1;
            }
            let has_held = self.others.iter().any(|pair| self.truth(&pair.after, name).is_some());
            if has_held {
                *sums.held.entry(if held == "none" && all == "none" { "none" } else { held }).or_default() +=
                    1;
            }
        }
        if says_much() {
            println!(
                "  {name}: {state}, {:?} {outcome} -> visited {visited} {on_visited:?}, held {held} {on_held:?}",
                repair.verdict
            );
            if let (true, Some(Ok(paths))) = (all == "wrong", &repair.outcome) {
                self.explain(name, attribute, known, paths);
            }
            if let Some(Err(_)) | None = &repair.outcome {
                let told: Vec<_> = known
                    .iter()
                    .flatten()
                    .filter(|(own, _)| own == name)
                    .map(|(_, texts)| short(texts))
                    .collect();
                println!("      known {told:?} by {:?}", attribute.xpaths.first());
            }
        }
    }

    fn explain(
        &self,
        name: &str,
        attribute: &Attribute,
        known: &[Vec<(String, Vec<String>)>],
        paths: &[induce::LearnedPath],
    ) {
        let told: Vec<_> =
            known.iter().flatten().filter(|(own, _)| own == name).map(|(_, texts)| short(texts)).collect();
        println!("      known {told:?} by {:?}", attribute.xpaths.first());
        let xpaths: Vec<String> = paths.iter().map(|path| path.xpath.clone()).collect();
        println!("      now {xpaths:?}");
        let repaired = Attribute { xpaths, ..attribute.clone() };
        let repaired = Schema::compile(&[repaired]).expect("what was learned compiles");
        for pair in self.visited.iter().chain(&self.others) {
            let given = self.read(&repaired, &pair.after).remove(name).unwrap_or_default();
            println!(
                "      {} for {:?}",
                short(&given),
                self.truth(&pair.after, name).map(|label| short(&label.values))
            );
        }
    }

    /// Right, wrong and missing over pages of which the right value is known.
    fn ask(
        &self,
        name: &str,
        schema: &Schema,
        pairs: &[&Pair],
        sums: &mut Sums,
        counts: bool,
    ) -> Option<(usize, usize, usize)> {
        let mut tally = (0, 0, 0);
        for pair in pairs {
            // A site that changed its mind about a page says nothing about the expression.
            if pair.before.is_some() && !self.says_the_same(pair, name) {
                continue;
            }
            let given = self.read(schema, &pair.after).remove(name).unwrap_or_default();
            let label = pair.after.answers.labels.iter().find(|label| label.name == name);
            let Some(label) = label else { continue };
            let what = match (given.is_empty(), is_right(label, &given, self.reading())) {
                (true, _) if self.truth(&pair.after, name).is_none() => continue,
                (true, _) => {
                    tally.2 += 1;
                    "missing"
                }
                (_, true) => {
                    tally.0 += 1;
                    "right"
                }
                (_, false) if self.truth(&pair.after, name).is_none() => continue,
                _ => {
                    tally.1 += 1;
                    "wrong"
                }
            };
            if counts {
                *sums.pages.entry(what).or_default() += 1;
            }
        }
        (tally != (0, 0, 0)).then_some(tally)
    }
}

fn names_of(known: &[Vec<(String, Vec<String>)>]) -> BTreeSet<String> {
    known.iter().flatten().map(|(name, _)| name.clone()).collect()
}

fn short(texts: &[String]) -> String {
    let joined = texts.join(" | ");
    format!("{} × {}", texts.len(), joined.chars().take(70).collect::<String>())
}

fn share(counts: &BTreeMap<&'static str, usize>, what: &str) -> f64 {
    let all: usize = counts.values().sum();
    counts.get(what).copied().unwrap_or(0) as f64 / all.max(1) as f64
}

#[test]
fn what_broke_on_real_sites_is_repaired() {
    let Some(folder) = std::env::var_os("GLEANER_DRIFT").map(PathBuf::from) else {
        return println!("skipped: GLEANER_DRIFT names no folder with pages before and after");
    };
    let mut hosts: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("hosts")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    hosts.sort();
    let mut sums = Sums::default();
    for path in hosts {
        let host = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_in_half(&host) {
            continue;
        }
        let pairs = pairs(&path);
        let visited: Vec<&Pair> = pairs.iter().filter(|pair| pair.before.is_some()).collect();
        let is_after = |pair: &&Pair| {
            let to_after =
                visited.iter().map(|known| likeness(&known.after, &pair.after)).fold(0.0, f64::max);
            let before = visited.iter().filter_map(|known| known.before.as_ref());
            let to_before = before.map(|before| likeness(before, &pair.after)).fold(0.0, f64::max);
            pair.before.is_none() && to_after >= SAME_TEMPLATE && to_after > to_before
        };
        let others: Vec<&Pair> = pairs.iter().filter(is_after).collect();
        let changes = visited.iter().filter_map(|pair| Some(likeness(pair.before.as_ref()?, &pair.after)));
        let change = changes.fold(1.0, f64::min);
        sums.hosts += 1;
        sums.redesigned += usize::from(change < SAME_TEMPLATE);
        if says_much() {
            println!(
                "{host}: {} before and after, {} after alone, likeness {change:.2}",
                visited.len(),
                others.len()
            );
        }
        let base = Url::parse(&format!("https://{host}/")).expect("an address");
        Site { base, visited, others }.measure(&mut sums);
    }
    println!("{} hosts, {} made anew", sums.hosts, sums.redesigned);
    println!("truth and verdict: {:?}", sums.told);
    println!("refused: {:?}", sums.refusals);
    println!("broken attributes: {:?}", sums.attributes);
    println!("broken attributes of which several URLs tell: {:?}", sums.several);
    println!("broken attributes with held-back pages, on these: {:?}", sums.held);
    println!("held-back pages: {:?}", sums.pages);
    println!("right {:.3}, wrong {:.3}", share(&sums.attributes, "right"), share(&sums.attributes, "wrong"));
    assert!(share(&sums.attributes, "right") >= RIGHT_MIN);
    assert!(share(&sums.attributes, "wrong") <= WRONG_MAX);
}
