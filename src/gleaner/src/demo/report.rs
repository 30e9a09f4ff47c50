//! What the demo prints, and how it judges itself.

use base::{Error, Result};
use serde_json::Value;
use std::time::Duration;

/// Characters of a table's cell.
const CELL_CHARS_MAX: usize = 34;
/// Rows that a table of the report shows.
const ROWS_MAX: usize = 8;

/// One collection of the whole shop.
pub struct Visit {
    pub name: String,
    pub took: Duration,
    /// As `GET /extraction/results/{jobId}` answers.
    pub results: Vec<Value>,
    pub score: Score,
}

/// How much of the truth was extracted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub right: usize,
    pub expected: usize,
}

impl Score {
    pub fn percent(self) -> f64 {
        100.0 * self.right as f64 / self.expected.max(1) as f64
    }
}

/// Compares results with the truth of `visit`, whose pages are those of the first where it does not name them.
pub fn score(truth: &str, visit: &str, base: &str, results: &[Value]) -> Result<Score> {
    let truth = truth.replace("{base}", base);
    let truth: Value =
        serde_json::from_str(&truth).map_err(|e| Error::internal("read the demo's truth", e))?;
    let mut score = Score::default();
    let pages = truth["visit1"].as_object().into_iter().flatten();
    for (path, first) in pages {
        let expected = truth[visit].get(path).unwrap_or(first);
        let url = format!("{base}{path}");
        let values =
            results.iter().find(|result| result["url"] == url.as_str()).map(|result| &result["values"]);
        for (name, value) in expected.as_object().into_iter().flatten() {
            score.expected += 1;
            let found = values.and_then(|values| values.get(name));
            if found.is_some_and(|found| same(found, value)) {
                score.right += 1;
            } else {
                tracing::debug!(path, name, expected = %value, ?found, "the demo's truth differs");
            }
        }
    }
    Ok(score)
}

/// Equal values, numbers by their worth: the truth writes 219 where the extractor may write 219.0.
fn same(found: &Value, expected: &Value) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-9 * b.abs().max(1.0),
        _ => found == expected,
    }
}

pub fn throughput(visits: &[&Visit]) {
    let pages: usize = visits.iter().map(|visit| visit.results.len()).sum();
    let took: f64 = visits.iter().map(|visit| visit.took.as_secs_f64()).sum();
    println!(
        "\nThroughput: {:.0} pages a second, from submission to stored and extracted result\n",
        pages as f64 / took
    );
}

pub fn results(visit: &Visit) {
    let products = visit.results.iter().filter(|result| result["pageType"] == "product");
    let rows: Vec<_> = products
        .take(ROWS_MAX)
        .map(|result| {
            let values = &result["values"];
            let fields = [&values["name"], &values["price"], &values["currency"], &values["rating"]];
            let mut row: Vec<_> = fields.into_iter().map(cell).collect();
            row.push(cell(&result["quality"]["composite"]));
            row
        })
        .collect();
    println!("Results (the first {} products)", rows.len());
    table(&["name", "price", "currency", "rating", "quality"], &rows);
}

pub fn changes(visit: &Visit) {
    let changed = |result: &&Value| result["changed"].as_array().is_some_and(|names| !names.is_empty());
    let all: Vec<_> = visit.results.iter().filter(changed).collect();
    println!("What changed since the first visit: {} of {} pages", all.len(), visit.results.len());
    let rows: Vec<_> = all
        .iter()
        .take(ROWS_MAX)
        .map(|result| {
            let names: Vec<_> =
                result["changed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let url = result["url"].as_str().unwrap_or_default();
            let path = url.splitn(4, '/').nth(3).unwrap_or(url);
            vec![path.to_owned(), names.join(", ")]
        })
        .collect();
    table(&["page", "attributes"], &rows);
}

pub fn search(words: &str, found: &Value) {
    println!("Search for \"{words}\" among products: {} results", found["total"]);
    let rows: Vec<_> = found["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| {
            let highlight = item["highlights"].get(0).and_then(Value::as_str).unwrap_or_default();
            vec![cell(&item["values"]["name"]), highlight.replace("<em>", "*").replace("</em>", "*")]
        })
        .collect();
    table(&["name", "highlight"], &rows);
}

pub fn query(statement: &str, answer: &Value, took: Duration) {
    println!("SQL: {statement}");
    let rows = answer["results"]["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<_> =
        rows.first().and_then(Value::as_object).into_iter().flat_map(|row| row.keys()).collect();
    let cells: Vec<_> =
        rows.iter().map(|row| names.iter().map(|name| cell(&row[name.as_str()])).collect()).collect();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    println!("answered in {:.0} ms, in a process of its own", took.as_secs_f64() * 1e3);
    table(&names, &cells);
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn table(head: &[&str], rows: &[Vec<String>]) {
    let cut = |text: &str, max: usize| {
        if text.chars().count() <= max {
            text.to_owned()
        } else {
            text.chars().take(max - 1).chain(['…']).collect()
        }
    };
    let last = head.len().saturating_sub(1);
    let max = |column: usize| if column == last { 2 * CELL_CHARS_MAX } else { CELL_CHARS_MAX };
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0).min(max(column))
    };
    let line = |cells: &mut dyn Iterator<Item = (usize, &str)>| {
        let mut text = String::from("  ");
        for (column, cell) in cells {
            let cell = cut(cell, max(column));
            let pad = width(column).saturating_sub(cell.chars().count());
            text.push_str(&cell);
            text.extend(std::iter::repeat_n(' ', pad + 2));
        }
        println!("{}", text.trim_end());
    };
    line(&mut head.iter().copied().enumerate());
    for row in rows {
        line(&mut row.iter().map(String::as_str).enumerate());
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_or_wrong_value_lowers_the_score() {
        let truth =
            r#"{"visit1": {"/a": {"price": 219, "url": "{base}/x", "tags": ["p", "q"]}}, "visit2": {}}"#;
        let result = |values: Value| vec![json!({ "url": "http://h/a", "values": values })];
        let right = result(json!({ "price": 219.0, "url": "http://h/x", "tags": ["p", "q"] }));
        assert_eq!(score(truth, "visit2", "http://h", &right).unwrap().right, 3);
        let wrong = result(json!({ "price": 218, "tags": ["q", "p"] }));
        let score = score(truth, "visit1", "http://h", &wrong).unwrap();
        assert_eq!((score.right, score.expected), (0, 3));
    }
}
