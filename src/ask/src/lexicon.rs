//! What words mean in one table: its names, its columns' names and descriptions, and values that are known.

use crate::table::{Column, Kind, Table};
use crate::words::{split, stem};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Values of one column that are known.
const VALUES_MAX: usize = 40;
/// Words of one value.
const VALUE_WORDS_MAX: usize = 6;

/// What a phrase means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// The table itself.
    Table,
    /// A column; exactly, or a part of its name.
    Column { at: usize, exact: bool },
    /// A value of a column.
    Value { at: usize, value: Value },
    /// What happened at a column's times: "registered".
    Event { at: usize },
}

struct Phrase {
    stems: Vec<String>,
    meaning: Meaning,
}

/// The phrases of one table.
pub(crate) struct Lexicon {
    by_first: HashMap<String, Vec<Phrase>>,
}

/// What people call tables beside their names.
const TABLE_NAMES: &[(&str, &[&str])] = &[
    ("jobs", &["scrape requests", "scrapes", "scraping jobs"]),
    ("job_attempts", &["attempts", "requests", "tries"]),
    ("urls", &["addresses", "registered urls", "links"]),
    ("url_tags", &["tags"]),
    ("readings", &["results", "extraction results", "pages", "scraped pages", "visits"]),
    ("reading_values", &["extracted values", "attribute values"]),
    ("product_lists", &["listings"]),
    ("serps", &["search results", "search result pages"]),
    ("articles", &["news articles", "stories"]),
    ("job_postings", &["postings", "job offers", "vacancies", "positions"]),
    ("benchmark_probes", &["probes"]),
    ("schedule_runs", &["runs"]),
    ("input_runs", &["runs"]),
    ("credit_transactions", &["transactions", "ledger", "credit ledger"]),
    ("deliveries", &["webhook deliveries"]),
    ("products", &["items", "goods"]),
];

/// What people call columns; the first of the names that a table has.
const COLUMN_NAMES: &[(&str, &[&str])] = &[
    ("quality", &["quality_composite"]),
    ("cost", &["credits_charged", "credits", "price"]),
    ("spending", &["credits_charged", "credits"]),
    ("credits", &["credits_charged", "credits"]),
    ("latency", &["duration_ms"]),
    ("response time", &["duration_ms"]),
    ("run time", &["duration_ms"]),
    ("traffic", &["bytes"]),
    ("size", &["bytes"]),
    ("site", &["domain"]),
    ("website", &["domain"]),
    ("shop", &["domain"]),
    ("stars", &["rating"]),
    ("rated", &["rating"]),
    ("how long", &["duration_ms"]),
    ("reviews", &["review_count"]),
    ("attempts", &["attempt_count"]),
    ("words", &["word_count"]),
    ("reason", &["error", "message", "disabled_reason"]),
    ("status code", &["http_status"]),
    ("response code", &["http_status"]),
    ("http code", &["http_status"]),
    ("manufacturer", &["brand"]),
    ("writer", &["author"]),
    ("employer", &["company"]),
    ("place", &["location"]),
    ("city", &["location"]),
    ("pay", &["salary"]),
    ("headline", &["title"]),
];

/// Currencies as they are called and signed.
const CURRENCIES: &[(&str, &str)] = &[
    ("euro", "EUR"),
    ("eur", "EUR"),
    ("€", "EUR"),
    ("dollar", "USD"),
    ("usd", "USD"),
    ("$", "USD"),
    ("pound", "GBP"),
    ("gbp", "GBP"),
    ("£", "GBP"),
];

/// Other ways to say a value.
const VALUE_NAMES: &[(&str, &[&str])] = &[
    ("timeout", &["timed out", "timeouts"]),
    ("canceled", &["cancelled", "aborted"]),
    ("succeeded", &["successful", "succeed", "worked"]),
    ("success", &["successful", "succeeded"]),
    ("failed", &["failing", "failure", "failures", "fail", "unsuccessful"]),
    ("out_of_stock", &["sold out", "unavailable"]),
    ("in_stock", &["available"]),
    ("queued", &["waiting"]),
];

/// Columns that say whether something can be bought, and what is said of what can and cannot.
const STOCKED: &[&str] = &["in_stock", "is_in_stock", "available", "is_available"];
const IN_STOCK: &[&str] = &["in stock", "available"];
const OUT_OF_STOCK: &[&str] = &["out of stock", "not in stock", "sold out", "unavailable", "not available"];

/// Parts of names that say nothing alone.
const PARTS_OF_NAMES: &[&str] = &[
    "id", "at", "is", "ms", "of", "last", "after", "for", "to", "by", "next", "max", "min", "total", "count",
    "url", "value", "list", "in", "on", "result", "text", "event", "n", "catch", "up", "base", "own",
    "content", "version", "page",
];

/// Words of descriptions that name an event but end otherwise.
const EVENTS: &[&str] = &["began", "made", "fired", "ran", "arrived", "happened", "connected"];

fn stems(text: &str) -> Vec<String> {
    let spaced = text.replace(['_', '-'], " ");
    split(&spaced).into_iter().map(|word| word.stem).collect()
}

impl Lexicon {
    pub(crate) fn of(table: &Table) -> Lexicon {
        let mut lexicon = Lexicon { by_first: HashMap::new() };
        lexicon.add(stems(&table.name), Meaning::Table);
        for (_, names) in TABLE_NAMES.iter().filter(|(name, _)| *name == table.name) {
            for name in *names {
                lexicon.add(stems(name), Meaning::Table);
            }
        }
        for (at, column) in table.columns.iter().enumerate() {
            lexicon.column(at, column);
        }
        for (called, names) in COLUMN_NAMES {
            let at = names.iter().find_map(|name| table.position(name));
            if let Some(at) = at {
                lexicon.add(stems(called), Meaning::Column { at, exact: true });
            }
        }
        if let Some(at) = table.position("currency") {
            for (called, code) in CURRENCIES {
                lexicon.add(vec![stem(called)], Meaning::Value { at, value: json!(code) });
            }
        }
        lexicon
    }

    fn column(&mut self, at: usize, column: &Column) {
        let exact = Meaning::Column { at, exact: true };
        let name = column.name.as_str();
        self.add(stems(name), exact.clone());
        for ending in ["_id", "_ms", "_at", "_count", "_seconds"] {
            if let Some(short) = name.strip_suffix(ending) {
                let meaning = if ending == "_at" { Meaning::Event { at } } else { exact.clone() };
                // "url count" stays that: a count of what else there is would be called so, too.
                if ending != "_count" {
                    self.add(stems(short), meaning);
                }
            }
        }
        let parts: Vec<&str> = name.split('_').collect();
        if parts.len() > 1 && column.kind != Kind::Bool {
            for part in parts.iter().filter(|part| !PARTS_OF_NAMES.contains(*part)) {
                self.add(stems(part), Meaning::Column { at, exact: false });
            }
        }
        match column.kind {
            Kind::Time => self.events(at, column),
            Kind::Bool => self.truth(at, name),
            Kind::Text if !name.ends_with("id") => self.values(at, column),
            _ => {}
        }
    }

    /// "When it was registered" names what happened.
    fn events(&mut self, at: usize, column: &Column) {
        for word in split(&column.description).into_iter().take(12) {
            let names = word.lower.len() > 4 && word.lower.ends_with("ed");
            if names || EVENTS.contains(&word.lower.as_str()) {
                self.add(vec![word.stem], Meaning::Event { at });
            }
        }
        if column.name == "scraped_at" {
            for word in ["scrape", "scraped", "collect", "collected", "visited"] {
                self.add(vec![stem(word)], Meaning::Event { at });
            }
        }
    }

    fn truth(&mut self, at: usize, name: &str) {
        if STOCKED.contains(&name) {
            for (words, value) in [(IN_STOCK, true), (OUT_OF_STOCK, false)] {
                for word in words {
                    self.add(stems(word), Meaning::Value { at, value: json!(value) });
                }
            }
            return;
        }
        let Some(state) = name.strip_prefix("is_") else { return };
        self.add(stems(state), Meaning::Value { at, value: json!(true) });
        if state == "enabled" {
            for word in ["disabled", "inactive", "off"] {
                self.add(vec![stem(word)], Meaning::Value { at, value: json!(false) });
            }
            self.add(vec!["active".to_owned()], Meaning::Value { at, value: json!(true) });
        }
    }

    fn values(&mut self, at: usize, column: &Column) {
        let listed = enumeration(&column.description);
        let known = listed.iter().map(String::as_str).chain(column.samples.iter().map(String::as_str));
        for value in known.take(VALUES_MAX) {
            let words = stems(value);
            if words.is_empty() || words.len() > VALUE_WORDS_MAX || value.parse::<f64>().is_ok() {
                continue;
            }
            let meaning = Meaning::Value { at, value: json!(value) };
            self.add(words, meaning.clone());
            // What has a dot is one word of a question.
            self.add(vec![stem(&value.to_lowercase())], meaning.clone());
            for (_, others) in VALUE_NAMES.iter().filter(|(name, _)| *name == value) {
                for other in *others {
                    self.add(stems(other), meaning.clone());
                }
            }
        }
    }

    fn add(&mut self, stems: Vec<String>, meaning: Meaning) {
        let Some(first) = stems.first() else { return };
        let phrases = self.by_first.entry(first.clone()).or_default();
        if !phrases.iter().any(|phrase| phrase.stems == stems && phrase.meaning == meaning) {
            phrases.push(Phrase { stems, meaning });
        }
    }

    /// The longest phrases with which these stems begin: how many words they take, and what they may mean.
    pub(crate) fn look(&self, stems: &[&str]) -> (usize, Vec<&Meaning>) {
        let phrases =
            stems.first().and_then(|first| self.by_first.get(*first)).map_or(&[][..], Vec::as_slice);
        let fits = |phrase: &&Phrase| {
            phrase.stems.len() <= stems.len()
                && phrase.stems.iter().zip(stems).all(|(own, given)| own == given)
        };
        let longest = phrases.iter().filter(fits).map(|phrase| phrase.stems.len()).max().unwrap_or(0);
        let found = phrases.iter().filter(fits).filter(|phrase| phrase.stems.len() == longest);
        (longest, found.map(|phrase| &phrase.meaning).collect())
    }

    /// Every word of its phrases, for typos.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.by_first.values().flatten().flat_map(|phrase| phrase.stems.iter().map(String::as_str))
    }
}

/// The words that a description lists: "queued, running, succeeded, failed or canceled".
fn enumeration(description: &str) -> Vec<String> {
    let spaced = description.trim_end_matches('.').replace('…', "").replace(" or ", ", ");
    let mut listed = Vec::new();
    for piece in spaced.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let piece = piece.strip_prefix("or ").unwrap_or(piece);
        let is_word = piece.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') && piece.len() > 1;
        if !is_word {
            break;
        }
        listed.push(piece.to_owned());
    }
    if listed.len() < 2 { Vec::new() } else { listed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_lists_its_values() {
        let of = |text: &str| enumeration(text).join(" ");
        assert_eq!(
            of("queued, running, succeeded, failed or canceled"),
            "queued running succeeded failed canceled"
        );
        assert_eq!(of("success, blocked, timeout …"), "success blocked timeout");
        assert_eq!(of("skip or queue, when the run before has not ended"), "skip queue");
        assert_eq!(of("direct, proxy, browser, or a hosted service"), "direct proxy browser");
        assert_eq!(of("What people call it"), "");
        assert_eq!(of("0 (last) to 9 (first)"), "");
    }
}
