//! Our side of `extract.py`: parse, XPath and the whole kernel over a list of pages, in thread CPU time.
//!
//! ```text
//! kernel PAGES SCHEMA XPATHS.. [--rounds N]   N rounds, then one line of JSON: medians in nanoseconds
//! kernel PAGES SCHEMA XPATHS.. --serve        a command a line on stdin, a line of JSON on stdout for each
//! ```
//!
//! `PAGES` holds one file name a line, `SCHEMA` is `{"attributes": [..]}`, `XPATHS` is a map from a kind to expressions
//! (several files: each is measured on its own, with documents parsed anew). The commands are `round`, `memory`,
//! `values`, `counts` and `costs` (nanoseconds by expression, to see where the time goes). Serving lets the script alternate
//! our rounds with those of the others, so that all see the same weather on a shared machine.
//!
//! What is measured: `parse` is bytes to tree, charset detection included; `xpath` is all expressions over a document
//! whose side indexes are fresh; `kernel` is bytes to typed values, the release of the document included. Reading files,
//! compiling expressions and (but for `kernel`) freeing documents stand outside of the clock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use page::extract::{Attribute, Schema, page_base, root_context};
use page::html::Document;
use page::xpath::{EXPRESSION_FUEL_MAX, Fuel, Value, XPath};
use serde_json::{Map, Value as Json, json};
use url::Url;

type Failure = Box<dyn std::error::Error>;

/// Counts live bytes and their peak while [`COUNTING`] is set. Kernel counters of resident memory are off by some hundred
/// kilobytes, which is more than most pages.
struct Counter;

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        // What was allocated before counting began may be freed during it: the count then wraps below zero for a while.
        if (live as isize) > 0 {
            PEAK.fetch_max(live, Ordering::Relaxed);
        }
    }
}

fn shrunk(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        LIVE.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every method hands its arguments unchanged to `System`, whose contract is the same, and returns what that gives;
// what happens beside is arithmetic on atomics, which neither allocates nor unwinds.
#[allow(unsafe_code, reason = "an allocator cannot be written without it; this is a bench, not the product")]
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrunk(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A block that grows may have to move, so that old and new exist at once; one that shrinks stays where it is.
        if size > layout.size() {
            grown(size);
            shrunk(layout.size());
        } else {
            shrunk(layout.size() - size);
        }
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counter = Counter;

/// Everything a round needs, read and compiled beforehand.
struct Bench {
    names: Vec<String>,
    pages: Vec<Vec<u8>>,
    schema: Schema,
    xpaths: Vec<Vec<XPath>>,
    base: Url,
}

/// What one round took, in nanoseconds of this thread's CPU time.
struct Round {
    parse: u64,
    xpath: Vec<u64>,
    kernel: u64,
}

fn main() -> Result<(), Failure> {
    let mut files = Vec::new();
    let (mut rounds, mut serve) = (5, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--serve" => serve = true,
            "--rounds" => rounds = arguments.next().ok_or("--rounds needs a number")?.parse()?,
            _ => files.push(argument),
        }
    }
    let [pages, schema, xpaths @ ..] = &files[..] else {
        return Err("usage: kernel PAGES SCHEMA XPATHS.. [--rounds N | --serve]".into());
    };
    let bench = Bench::read(Path::new(pages), Path::new(schema), xpaths)?;
    if serve {
        for line in std::io::stdin().lock().lines() {
            let answer = match line?.trim() {
                "round" => bench.round().json(),
                "memory" => bench.memory(),
                "values" => bench.values(),
                "counts" => bench.counts(),
                "costs" => bench.costs(),
                other => return Err(format!("unknown command `{other}`").into()),
            };
            let mut out = std::io::stdout().lock();
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
        return Ok(());
    }
    let all: Vec<Round> = (0..rounds).map(|_| bench.round()).collect();
    let median = Round {
        parse: median(all.iter().map(|round| round.parse)),
        xpath: (0..bench.xpaths.len())
            .map(|list| median(all.iter().map(|round| round.xpath[list])))
            .collect(),
        kernel: median(all.iter().map(|round| round.kernel)),
    };
    let bytes: usize = bench.pages.iter().map(Vec::len).sum();
    let mut report = median.json();
    report["pages"] = bench.pages.len().into();
    report["bytes"] = bytes.into();
    report["parseMbPerSecond"] = (bytes as f64 / 1e6 / (median.parse as f64 / 1e9)).into();
    report["kernelPagesPerSecond"] = (bench.pages.len() as f64 / (median.kernel as f64 / 1e9)).into();
    let memory = bench.memory();
    report["peakShare"] = memory["peakShare"].clone();
    report["peakShareMax"] = memory["peakShareMax"].clone();
    println!("{report}");
    Ok(())
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// CPU time of this thread, ns.
#[allow(unsafe_code)]
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) writes one timespec through a pointer to a live one of ours, and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Round {
    fn json(&self) -> Json {
        json!({ "parse": self.parse, "xpath": self.xpath, "kernel": self.kernel })
    }
}

impl Bench {
    fn read(pages: &Path, schema: &Path, xpaths: &[String]) -> Result<Bench, Failure> {
        let list = std::fs::read_to_string(pages)?;
        let names: Vec<String> = list.lines().map(str::to_owned).collect();
        let pages = names.iter().map(std::fs::read).collect::<Result<_, _>>()?;
        let schema: Json = serde_json::from_str(&std::fs::read_to_string(schema)?)?;
        let attributes: Vec<Attribute> = serde_json::from_value(schema["attributes"].clone())?;
        let xpaths = xpaths.iter().map(|file| compile(Path::new(file))).collect::<Result<_, _>>()?;
        let base = Url::parse("https://www.example.com/page.html")?;
        Ok(Bench { names, pages, schema: Schema::compile(&attributes)?, xpaths, base })
    }

    fn round(&self) -> Round {
        let mut round = Round { parse: 0, xpath: vec![0; self.xpaths.len()], kernel: 0 };
        for page in &self.pages {
            for (list, xpaths) in self.xpaths.iter().enumerate() {
                let begun = now();
                let document = Document::parse_bytes(page, None);
                let parsed = now();
                evaluate(&document, xpaths, |value| {
                    std::hint::black_box(value);
                });
                round.xpath[list] += now() - parsed;
                if list == 0 {
                    round.parse += parsed - begun;
                }
            }
        }
        let begun = now();
        for page in &self.pages {
            std::hint::black_box(self.extract(page));
        }
        round.kernel = now() - begun;
        round
    }

    /// The whole kernel: bytes to typed values.
    fn extract(&self, page: &[u8]) -> Map<String, Json> {
        let document = Document::parse_bytes(page, None);
        let base = page_base(&document, &self.base);
        self.schema.extract(&document, &base, &mut Fuel::for_page()).values
    }

    /// Peak of live bytes of the whole kernel by page, without the page as it came in.
    fn memory(&self) -> Json {
        // Regular expressions keep the automata that they build on the way; those belong to the schema.
        self.pages.iter().for_each(|page| drop(self.extract(page)));
        let mut by_page = Vec::new();
        let (mut peaks, mut bytes, mut worst) = (0, 0, 0.0_f64);
        for (page, name) in self.pages.iter().zip(&self.names) {
            LIVE.store(0, Ordering::Relaxed);
            PEAK.store(0, Ordering::Relaxed);
            COUNTING.store(true, Ordering::Relaxed);
            let values = self.extract(page);
            COUNTING.store(false, Ordering::Relaxed);
            drop(values);
            let peak = PEAK.load(Ordering::Relaxed);
            let share = peak as f64 / page.len().max(1) as f64;
            peaks += peak;
            bytes += page.len();
            // Tables of a fixed size weigh more than a small page.
            if page.len() >= SMALL_PAGE_BYTES {
                worst = worst.max(share);
            }
            by_page.push(json!({ "page": name, "bytes": page.len(), "peak": peak, "share": share }));
        }
        json!({ "peakShare": peaks as f64 / bytes.max(1) as f64, "peakShareMax": worst, "pages": by_page })
    }

    fn values(&self) -> Json {
        self.pages.iter().map(|page| Json::Object(self.extract(page))).collect()
    }

    /// Time by expression of the first list, over all pages. An index is paid for by the expression that first needs it.
    fn costs(&self) -> Json {
        let Some(xpaths) = self.xpaths.first() else { return Json::Null };
        let mut costs = vec![0; xpaths.len()];
        for page in &self.pages {
            let document = Document::parse_bytes(page, None);
            let mut begun = now();
            let mut number = 0;
            evaluate(&document, xpaths, |value| {
                std::hint::black_box(value);
                let ended = now();
                costs[number] += ended - begun;
                (begun, number) = (ended, number + 1);
            });
        }
        let named =
            xpaths.iter().zip(costs).map(|(xpath, cost)| (xpath.source().to_owned(), Json::from(cost)));
        Json::Object(named.collect())
    }

    /// For each page and each expression of the first list: how many nodes, or the value itself.
    fn counts(&self) -> Json {
        let all = self.pages.iter().map(|page| {
            let document = Document::parse_bytes(page, None);
            let mut counts = Vec::new();
            if let Some(xpaths) = self.xpaths.first() {
                evaluate(&document, xpaths, |value| {
                    counts.push(match value {
                        Some(Value::Nodes(nodes)) => nodes.len().into(),
                        Some(Value::Texts(texts)) => texts.len().into(),
                        Some(Value::Number(number)) => json!([number]),
                        Some(Value::Text(text)) => text.into(),
                        Some(Value::Bool(boolean)) => boolean.into(),
                        None => Json::Null,
                    });
                });
            }
            Json::Array(counts)
        });
        all.collect()
    }
}

/// Pages below this are left out of the largest share of memory.
const SMALL_PAGE_BYTES: usize = 32 * 1024;

fn evaluate(document: &Document, xpaths: &[XPath], mut show: impl FnMut(Option<Value>)) {
    let context = root_context(document);
    for xpath in xpaths {
        show(xpath.evaluate(document, context, &mut Fuel::new(EXPRESSION_FUEL_MAX)).ok());
    }
}

fn compile(file: &Path) -> Result<Vec<XPath>, Failure> {
    let kinds: Map<String, Json> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut compiled = Vec::new();
    for xpath in kinds.values().filter_map(Json::as_array).flatten().filter_map(Json::as_str) {
        compiled.push(XPath::compile(xpath).map_err(|error| format!("{xpath}: {error}"))?);
    }
    Ok(compiled)
}
