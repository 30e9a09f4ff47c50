//! A result as the search index takes it.

use super::rows::ResultV4;
use search::SearchDocument;
use serde_json::Value;

/// A result as the index takes it.
pub fn document(row: &ResultV4) -> SearchDocument {
    SearchDocument {
        job_id: row.job.0,
        url_id: row.url_id.map(|id| id.0),
        url: row.url.clone(),
        domain: row.domain.clone(),
        page_type: row.page_type.map(|page_type| page_type.name().to_owned()),
        tags: row.tags.clone(),
        quality: row.quality.map_or(0.0, |quality| quality.composite),
        changed: !row.changed.is_empty(),
        scraped_at_ms: row.scraped_at.millis(),
        title: row.title.clone().unwrap_or_default(),
        text: search_text(row),
    }
}

/// All values as text, one a line: what is searched.
fn search_text(row: &ResultV4) -> String {
    let mut text = String::new();
    add_text(&mut text, &row.values.0);
    text
}

/// The text of each attribute by itself: what highlights are cut from, so that none runs from one value into the next.
pub fn attribute_texts(row: &ResultV4) -> impl Iterator<Item = String> {
    row.values.0.as_object().into_iter().flat_map(serde_json::Map::values).map(|value| {
        let mut text = String::new();
        add_text(&mut text, value);
        text
    })
}

fn add_text(text: &mut String, value: &Value) {
    match value {
        Value::String(value) => {
            text.push_str(value);
            text.push('\n');
        }
        Value::Number(number) => {
            text.push_str(&number.to_string());
            text.push('\n');
        }
        Value::Array(members) => members.iter().for_each(|member| add_text(text, member)),
        Value::Object(members) => members.values().for_each(|member| add_text(text, member)),
        Value::Bool(_) | Value::Null => {}
    }
}
