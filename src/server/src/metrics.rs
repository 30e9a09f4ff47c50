//! Numbers about the box in Prometheus' text format (version 0.0.4), from a registry of our own.
//!
//! A metric is made once and then counts with one atomic addition, without a look-up: routes keep theirs in the route
//! table, other parts in a field. What is cheaper to ask than to keep (queue depths, file sizes) is a gauge with a
//! closure that is called when the page is read.

mod reference;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// What is counted of routes, each with its kind, its help and its labels.
const ROUTE_FAMILIES: [(&str, &str, &str, &[&str]); 3] = [
    (
        "gleaner_http_requests_total",
        "counter",
        "Requests answered, by route and class of status.",
        &["method", "route", "status"],
    ),
    (
        "gleaner_http_request_seconds",
        "histogram",
        "Time from the request's head to the response's.",
        &["method", "route"],
    ),
    ("gleaner_http_requests_running", "gauge", "Requests being answered.", &[]),
];

/// A number that only grows.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long things take.
#[derive(Clone, Debug, Default)]
pub struct Histogram(Arc<HistogramInner>);

#[derive(Debug, Default)]
struct HistogramInner {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    sum_micros: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(at) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.0.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.sum_micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }
}

type ReadNumber = Box<dyn Fn() -> f64 + Send + Sync>;

enum Series {
    Counter(Counter),
    Gauge(Gauge),
    Asked(ReadNumber),
    Histogram(Histogram),
}

struct Family {
    kind: &'static str,
    help: &'static str,
    /// By label text, such as `task="outbox"`.
    series: BTreeMap<String, Series>,
}

/// The registry; clones are the same.
#[derive(Clone, Default)]
pub struct Metrics {
    families: Arc<Mutex<BTreeMap<&'static str, Family>>>,
    routes: Arc<Mutex<Vec<Arc<RouteMetrics>>>>,
}

/// Label names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Metrics {
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// The counter of this name and these labels; by convention `…_total`.
    pub fn counter(&self, name: &'static str, help: &'static str, labels: Labels<'_>) -> Counter {
        let mut made = Counter::default();
        self.with(name, "counter", help, labels, |series| match series {
            Some(Series::Counter(known)) => {
                made = known.clone();
                None
            }
            _ => Some(Series::Counter(made.clone())),
        });
        made
    }

    /// The gauge of this name and these labels.
    pub fn gauge(&self, name: &'static str, help: &'static str, labels: Labels<'_>) -> Gauge {
        let mut made = Gauge::default();
        self.with(name, "gauge", help, labels, |series| match series {
            Some(Series::Gauge(known)) => {
                made = known.clone();
                None
            }
            _ => Some(Series::Gauge(made.clone())),
        });
        made
    }

    /// A gauge that is asked when the page is read. `ask` must be quick and must not block.
    pub fn gauge_of(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        ask: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        self.with(name, "gauge", help, labels, |_| Some(Series::Asked(Box::new(ask))));
    }

    /// A counter that is asked when the page is read: what is counted elsewhere. By convention `…_total`.
    pub fn counter_of(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        ask: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let ask = move || ask() as f64;
        self.with(name, "counter", help, labels, |_| Some(Series::Asked(Box::new(ask))));
    }

    /// The histogram of this name and these labels; by convention `…_seconds`.
    pub fn histogram(&self, name: &'static str, help: &'static str, labels: Labels<'_>) -> Histogram {
        let mut made = Histogram::default();
        self.with(name, "histogram", help, labels, |series| match series {
            Some(Series::Histogram(known)) => {
                made = known.clone();
                None
            }
            _ => Some(Series::Histogram(made.clone())),
        });
        made
    }

    fn with(
        &self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        make: impl FnOnce(Option<&Series>) -> Option<Series>,
    ) {
        let text = label_text(labels);
        let mut families = self.families.lock();
        let family = families.entry(name).or_insert_with(|| Family { kind, help, series: BTreeMap::new() });
        if let Some(new) = make(family.series.get(&text)) {
            family.series.insert(text, new);
        }
    }

    /// The counters of one route.
    pub(super) fn route(&self, method: &'static str, path: &'static str) -> Arc<RouteMetrics> {
        let made = Arc::new(RouteMetrics { method, path, ..RouteMetrics::default() });
        self.routes.lock().push(Arc::clone(&made));
        made
    }

    /// Routes that have requests running, with how many.
    pub(super) fn running_routes(&self) -> Vec<(String, i64)> {
        let routes = self.routes.lock();
        let running = routes.iter().map(|route| (route, route.running.get())).filter(|(_, n)| *n > 0);
        running.map(|(route, n)| (format!("{} {}", route.method, route.path), n)).collect()
    }

    /// Requests of all routes.
    pub fn requests(&self) -> RequestTotals {
        let mut totals = RequestTotals::default();
        for route in self.routes.lock().iter() {
            totals.answered += route.latency.count();
            totals.failed += route.classes[4].get();
            totals.running += route.running.get();
        }
        totals
    }

    /// The value of a gauge without labels that somebody sets.
    pub fn value(&self, name: &str) -> Option<i64> {
        match self.families.lock().get(name)?.series.get("")? {
            Series::Gauge(gauge) => Some(gauge.get()),
            _ => None,
        }
    }

    /// The page.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(8 << 10);
        for (name, family) in self.families.lock().iter() {
            head(&mut text, name, family.kind, family.help);
            for (labels, series) in &family.series {
                match series {
                    Series::Counter(counter) => line(&mut text, name, labels, counter.get()),
                    Series::Gauge(gauge) => line(&mut text, name, labels, gauge.get()),
                    Series::Asked(ask) => line(&mut text, name, labels, ask()),
                    Series::Histogram(histogram) => render_histogram(&mut text, name, labels, histogram),
                }
            }
        }
        self.render_routes(&mut text);
        text
    }

    /// Only routes that were asked for: a table of zeros says nothing.
    fn render_routes(&self, text: &mut String) {
        let routes = self.routes.lock();
        let used: Vec<_> = routes.iter().filter(|route| route.latency.count() > 0).collect();
        let label = |route: &RouteMetrics| label_text(&[("method", route.method), ("route", route.path)]);
        let [(requests, ..), (seconds, ..), (running_now, ..)] = ROUTE_FAMILIES;
        let begin = |text: &mut String, n: usize| {
            let (name, kind, help, _) = ROUTE_FAMILIES[n];
            head(text, name, kind, help);
        };
        begin(text, 0);
        for route in &used {
            for (class, counter) in (1..).zip(&route.classes).filter(|(_, counter)| counter.get() > 0) {
                let labels = format!("{},status=\"{class}xx\"", label(route));
                line(text, requests, &labels, counter.get());
            }
        }
        begin(text, 1);
        for route in &used {
            render_histogram(text, seconds, &label(route), &route.latency);
        }
        let running: i64 = routes.iter().map(|route| route.running.get()).sum();
        begin(text, 2);
        line(text, running_now, "", running);
    }
}

/// Requests of all routes together, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    pub answered: u64,
    /// Of those, answered 5xx.
    pub failed: u64,
    /// Being answered.
    pub running: i64,
}

/// What is counted of one route.
#[derive(Debug, Default)]
pub struct RouteMetrics {
    method: &'static str,
    path: &'static str,
    running: Gauge,
    /// Answers of the classes 1xx to 5xx.
    classes: [Counter; 5],
    latency: Histogram,
}

impl RouteMetrics {
    /// Counts a request as running until the answer is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> RunningRequest {
        self.running.add(1);
        RunningRequest(Arc::clone(self))
    }

    pub(super) fn end(&self, status: u16, took: Duration) {
        if let Some(counter) = self.classes.get(usize::from(status / 100).wrapping_sub(1)) {
            counter.inc();
        }
        self.latency.observe(took);
    }
}

/// A request that is running; a dropped connection ends it too.
pub(super) struct RunningRequest(Arc<RouteMetrics>);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.running.add(-1);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(text, "{name} {value}")
    } else {
        writeln!(text, "{name}{{{labels}}} {value}")
    };
}

fn render_histogram(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut below = 0;
    let bucket = format!("{name}_bucket");
    for (bound, count) in BUCKETS.iter().zip(&histogram.0.buckets) {
        below += count.load(Ordering::Relaxed);
        line(text, &bucket, &format!("{labels}{comma}le=\"{bound}\""), below);
    }
    // A request may be counted between two of these loads; the total is never below a bucket.
    let count = histogram.count().max(below);
    line(text, &bucket, &format!("{labels}{comma}le=\"+Inf\""), count);
    let micros = histogram.0.sum_micros.load(Ordering::Relaxed);
    line(text, &format!("{name}_sum"), labels, Duration::from_micros(micros).as_secs_f64());
    line(text, &format!("{name}_count"), labels, count);
}

fn label_text(labels: Labels<'_>) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_prometheus_text() {
        let metrics = Metrics::new();
        metrics.counter("a_total", "Things.", &[("kind", "x\"y")]).add(3);
        metrics.counter("a_total", "Things.", &[("kind", "x\"y")]).inc();
        metrics.gauge_of("b", "Depth.", &[], || 1.5);
        let histogram = metrics.histogram("c_seconds", "Time.", &[]);
        histogram.observe(Duration::from_millis(3));
        histogram.observe(Duration::from_secs(60));
        let page = metrics.render();
        assert!(page.contains("# TYPE a_total counter\na_total{kind=\"x\\\"y\"} 4\n"), "{page}");
        assert!(page.contains("b 1.5\n"));
        assert!(page.contains("c_seconds_bucket{le=\"0.0025\"} 0\nc_seconds_bucket{le=\"0.005\"} 1\n"));
        assert!(page.contains("c_seconds_bucket{le=\"30\"} 1\nc_seconds_bucket{le=\"+Inf\"} 2\n"));
        assert!(page.contains("c_seconds_sum 60.003\nc_seconds_count 2\n"));
    }

    #[test]
    fn a_dropped_request_no_longer_runs() {
        let metrics = Metrics::new();
        let route = metrics.route("GET", "/x");
        let running = route.begin();
        assert_eq!(metrics.running_routes(), [("GET /x".to_owned(), 1)]);
        drop(running);
        assert!(metrics.running_routes().is_empty());
        route.end(404, Duration::from_millis(1));
        let page = metrics.render();
        assert!(page.contains("gleaner_http_requests_total{method=\"GET\",route=\"/x\",status=\"4xx\"} 1\n"));
    }
}
