//! The extraction kernel, one thread: parse alone, XPath alone, bytes to values.
//!
//! Over the pages of `../shared/data/pages` where those are, else over the demo shop's, with the schema and the expressions
//! of `benches/peers/extract`. Absolute figures are the machine's; ratios to other libraries come from
//! `benches/peers/extract.py`, which measures all of them in one run.

use std::path::{Path, PathBuf};

use criterion::{BatchSize, Criterion, Throughput};
use page::extract::{Attribute, Schema, page_base, root_context};
use page::html::Document;
use page::xpath::{Fuel, XPath};
use serde_json::Value;

/// Pages of the corpus that are taken, spread evenly over it: a sample of criterion's passes over all of them.
const PAGES_MAX: usize = 60;

struct Corpus {
    name: &'static str,
    pages: Vec<Vec<u8>>,
}

impl Corpus {
    fn read() -> Corpus {
        let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let shared = ["../shared/data/pages", "../../shared/data/pages"].map(|folder| root.join(folder));
        let (name, folder) = match shared.into_iter().find(|folder| folder.is_dir()) {
            Some(folder) => ("real pages", folder),
            None => ("demo pages", root.join("data/demo/pages")),
        };
        let mut files = Vec::new();
        list(&folder, &mut files);
        files.sort();
        let stride = files.len().div_ceil(PAGES_MAX).max(1);
        let pages = files.iter().step_by(stride).map(|file| std::fs::read(file).expect("a page")).collect();
        Corpus { name, pages }
    }

    fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.len() as u64).sum()
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            files.push(path);
        }
    }
}

fn peer_file(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("benches/peers/extract").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file of the peers' bench")).expect("JSON")
}

fn expressions() -> Vec<XPath> {
    let kinds = peer_file("xpaths.json");
    let all = kinds.as_object().expect("kinds").values().filter_map(Value::as_array).flatten();
    all.map(|xpath| XPath::compile(xpath.as_str().expect("a text")).expect("a valid expression")).collect()
}

fn schema() -> Schema {
    let attributes: Vec<Attribute> =
        serde_json::from_value(peer_file("schema.json")["attributes"].take()).expect("attributes");
    Schema::compile(&attributes).expect("a valid schema")
}

/// Bytes to trees.
pub fn parse(c: &mut Criterion) {
    let corpus = Corpus::read();
    let mut group = c.benchmark_group("kernel");
    group.sample_size(20).throughput(Throughput::Bytes(corpus.bytes()));
    group.bench_function(format!("parse, {}", corpus.name), |b| {
        b.iter(|| {
            for page in &corpus.pages {
                std::hint::black_box(Document::parse_bytes(page, None));
            }
        });
    });
    group.finish();
}

/// All expressions over parsed documents whose side indexes are still to be made.
pub fn xpath(c: &mut Criterion) {
    let (corpus, xpaths) = (Corpus::read(), expressions());
    let mut group = c.benchmark_group("kernel");
    let evaluations = corpus.pages.len() * xpaths.len();
    group.sample_size(20).throughput(Throughput::Elements(evaluations as u64));
    group.bench_function(format!("{} XPaths, {}", xpaths.len(), corpus.name), |b| {
        let documents = || corpus.pages.iter().map(|page| Document::parse_bytes(page, None)).collect();
        let evaluate = |documents: Vec<Document>| {
            for document in &documents {
                let context = root_context(document);
                for xpath in &xpaths {
                    let value = xpath.evaluate(document, context, &mut Fuel::for_page());
                    std::hint::black_box(value.expect("within the budget"));
                }
            }
            documents
        };
        b.iter_batched(documents, evaluate, BatchSize::PerIteration);
    });
    group.finish();
}

/// Bytes to typed values.
pub fn whole(c: &mut Criterion) {
    let (corpus, schema) = (Corpus::read(), schema());
    let page_url = url::Url::parse("https://www.example.com/page.html").expect("a URL");
    let mut group = c.benchmark_group("kernel");
    group.sample_size(20).throughput(Throughput::Elements(corpus.pages.len() as u64));
    group.bench_function(format!("bytes to values, {}", corpus.name), |b| {
        b.iter(|| {
            for page in &corpus.pages {
                let document = Document::parse_bytes(page, None);
                let base = page_base(&document, &page_url);
                std::hint::black_box(schema.extract(&document, &base, &mut Fuel::for_page()));
            }
        });
    });
    group.finish();
}
