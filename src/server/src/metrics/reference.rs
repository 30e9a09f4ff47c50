//! The reference of all metrics, as a page: what the registry has, written down. `data/docs/metrics.md` is this of a box as shipped.

use super::Metrics;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Values of a label that are listed; of one with more it is said that there are many.
const VALUES_MAX: usize = 6;
/// Labels whose values say what release or what paths there are, and not what is told apart.
const UNLISTED: [&str; 2] = ["route", "version"];

const HEAD: &str = "\
# Metrics

Everything that `GET /metrics` prints, in Prometheus' text format (version 0.0.4). Who sees it say `server.metrics_from` and
`server.metrics_token`; rules and a dashboard that use it are [shipped](operating.md#watching-it). This page is made of the box's
own registry (`UPDATE_GOLDEN=1 cargo test -p gleaner --test it -- watching::`), and a test holds the two together.

Counters begin with 0 at each start. What is called a gauge and only grows (`…_operations`, `…_jumps`) counts since the start, too,
unless it says otherwise; `increase()` and `rate()` take it as they take a counter. Histograms have the series `…_bucket` (by the label
`le`, in seconds), `…_sum` and `…_count`. Routes stand there once they were asked. No metric tells one organization from another.

## All of them

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
";

struct Row {
    kind: &'static str,
    help: &'static str,
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Metrics {
    /// The page.
    pub fn reference(&self) -> String {
        let mut rows = BTreeMap::new();
        for (name, family) in self.families.lock().iter() {
            let row = Row { kind: family.kind, help: family.help, labels: BTreeMap::new() };
            let row = rows.entry(*name).or_insert(row);
            for labels in family.series.keys() {
                read_labels(labels, &mut row.labels);
            }
        }
        for (name, kind, help, labels) in super::ROUTE_FAMILIES {
            let labels = labels.iter().map(|label| ((*label).to_owned(), BTreeSet::new())).collect();
            rows.insert(name, Row { kind, help, labels });
        }
        let mut text = HEAD.to_owned();
        for (name, Row { kind, help, labels }) in &rows {
            let unit = ["seconds", "bytes"].into_iter().find(|unit| is_in(name, unit)).unwrap_or_default();
            let labels: Vec<_> = labels.iter().map(|(name, values)| label(name, values)).collect();
            let help = help.replace('|', "\\|");
            let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {} | {help} |", labels.join(", "));
        }
        text
    }
}

fn is_in(name: &str, unit: &str) -> bool {
    name.split('_').any(|part| part == unit)
}

fn label(name: &str, values: &BTreeSet<String>) -> String {
    if values.is_empty() || values.len() > VALUES_MAX || UNLISTED.contains(&name) {
        return format!("`{name}`");
    }
    let values: Vec<_> = values.iter().map(String::as_str).collect();
    format!("`{name}` ({})", values.join(", "))
}

/// Adds the labels of a series, as in `task="outbox",why="full"`. No value of ours has a quote in it.
fn read_labels(text: &str, into: &mut BTreeMap<String, BTreeSet<String>>) {
    for part in text.split("\",").filter(|part| !part.is_empty()) {
        if let Some((name, value)) = part.split_once("=\"") {
            into.entry(name.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_for_each_metric() {
        let metrics = Metrics::new();
        metrics.counter("a_total", "Things | others.", &[("kind", "x"), ("why", "y")]).inc();
        metrics.counter("a_total", "Things | others.", &[("kind", "z"), ("why", "y")]).inc();
        metrics.gauge_of("b_bytes", "Depth.", &[("version", "7")], || 1.5);
        let page = metrics.reference();
        assert!(
            page.contains("| `a_total` | counter |  | `kind` (x, z), `why` (y) | Things \\| others. |\n"),
            "{page}"
        );
        assert!(page.contains("| `b_bytes` | gauge | bytes | `version` | Depth. |\n"), "{page}");
        assert!(
            page.contains("| `gleaner_http_request_seconds` | histogram | seconds | `method`, `route` | "),
            "{page}"
        );
    }
}
