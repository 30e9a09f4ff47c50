//! How an answer is shown: in words, as a small table, as a chart where it fits, and with an offer to keep its query.

use super::conversation::Reply;
use super::rows::{CardKindV1, ShownColumnV1};
use crate::features::bi::Answered;
use base::codec::Json;
use base::ids::QueryId;
use base::limits::NAME_CHARS_MAX;
use base::name::Name;
use serde_json::{Map, Value, json};

/// Rows and columns of a table that is shown, and characters of one of its values.
const ROWS_MAX: usize = 10;
const COLUMNS_MAX: usize = 12;
const VALUE_CHARS_MAX: usize = 120;
/// Points of a chart; an answer of more is no picture.
pub(super) const POINTS_MAX: usize = 50;
/// Characters of a name that is proposed: a number has room behind it.
const TITLE_CHARS_MAX: usize = NAME_CHARS_MAX - 10;
/// Characters of a column's name, and of a statement in a message.
const NAME_SHOWN_MAX: usize = 63;
const SQL_CHARS_MAX: usize = 16_000;
/// Characters of a reason.
const REASON_CHARS_MAX: usize = 1_000;

/// What is said of the question, before its answer.
#[derive(Clone, Debug)]
pub(super) struct Understood {
    /// What else there is to say, before the sentence; nothing, or with its space behind it.
    pub(super) note: String,
    /// One sentence on how it was read.
    pub(super) sentence: String,
    pub(super) title: String,
}

/// The replies to a statement that was run.
pub(super) fn replies(understood: &Understood, answered: &Answered) -> Vec<Reply> {
    let sql = format!("```sql\n{}\n```", cut(&answered.sql, SQL_CHARS_MAX));
    let text = |result: &str| format!("{}{}\n\n{sql}\n\n{result}", understood.note, understood.sentence);
    let query = Some(answered.query);
    if let Some(failure) = &answered.failure {
        let failed = text(&format!("It failed: {}", cut(failure, REASON_CHARS_MAX)));
        return vec![Reply { text: failed, card: None, query }];
    }
    let Some(total) = answered.total_rows else {
        let result = "It has no rows to show yet; they are under its query when it has ended.";
        return vec![Reply { text: text(result), card: None, query }];
    };
    let table = (!answered.columns.is_empty()).then(|| table(answered));
    let mut replies = vec![Reply { text: text(&told(answered, total)), card: table, query }];
    if let Some(chart) = chart(answered) {
        replies.push(Reply { text: "The same as a chart.".to_owned(), card: Some(chart), query });
    }
    replies.push(offer(understood, answered.query));
    replies
}

/// The answer in words: the value where it is one, else how many rows there are.
fn told(answered: &Answered, total: u64) -> String {
    match (total, answered.rows.as_slice(), answered.columns.as_slice()) {
        (0, ..) => "There are no such rows.".to_owned(),
        (1, [row], [(name, _)]) => {
            let value = row.get(name).map_or(Value::Null, short);
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}: {value}", cut(name, NAME_SHOWN_MAX))
        }
        (1, ..) => "One row.".to_owned(),
        (total, ..) if total as usize > ROWS_MAX => format!("{total} rows; these are the first {ROWS_MAX}."),
        (total, ..) => format!("{total} rows."),
    }
}

/// A value as a card shows it.
fn short(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
        other => return other.clone(),
    };
    json!(cut(&text, VALUE_CHARS_MAX))
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn table(answered: &Answered) -> CardKindV1 {
    let columns: Vec<&(String, String)> = answered.columns.iter().take(COLUMNS_MAX).collect();
    let cells = |row: &Map<String, Value>| -> Vec<Json> {
        columns.iter().map(|(name, _)| Json(row.get(name).map_or(Value::Null, short))).collect()
    };
    CardKindV1::Table {
        query: answered.query,
        rows: answered.rows.iter().take(ROWS_MAX).map(cells).collect(),
        columns: columns
            .iter()
            .map(|(name, kind)| ShownColumnV1 {
                name: cut(name, NAME_SHOWN_MAX),
                kind: cut(kind, NAME_SHOWN_MAX),
            })
            .collect(),
        total_rows: answered.total_rows,
    }
}

/// A chart of two columns: places or times, and numbers.
fn chart(answered: &Answered) -> Option<CardKindV1> {
    let [(x, x_kind), (y, _)] = answered.columns.as_slice() else { return None };
    let all = answered.total_rows == Some(answered.rows.len() as u64);
    if !all || !(2..=POINTS_MAX).contains(&answered.rows.len()) {
        return None;
    }
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        // Exact numbers travel as text.
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    };
    let point = |row: &Map<String, Value>| {
        let (place, value) = (row.get(x)?, row.get(y)?);
        let is_place = place.is_string() || place.is_number() || place.is_boolean();
        is_place.then_some((Json(short(place)), number(value)?))
    };
    let points: Vec<(Json, f64)> = answered.rows.iter().map(point).collect::<Option<_>>()?;
    Some(CardKindV1::Chart {
        query: answered.query,
        is_line: x_kind.starts_with("timestamp") || x_kind == "date",
        x: cut(x, NAME_SHOWN_MAX),
        y: cut(y, NAME_SHOWN_MAX),
        points,
    })
}

fn offer(understood: &Understood, source: QueryId) -> Reply {
    let printable = |text: &str| -> String {
        let plain: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        plain.chars().take(TITLE_CHARS_MAX).collect::<String>().trim().to_owned()
    };
    // What cannot be a name has none of its own.
    let name = Name::parse("name", &printable(&understood.title));
    let name = name.map_or_else(|_| "Query of an agent".to_owned(), Name::into_string);
    let description = Some(cut(&understood.sentence, 1_000)).filter(|text| !text.is_empty());
    let card = CardKindV1::SaveQueryOffer { source, name: name.clone(), description };
    Reply { text: format!("Keep this query as \"{name}\"?"), card: Some(card), query: Some(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(columns: &[(&str, &str)], rows: Value) -> Answered {
        let rows: Vec<Map<String, Value>> = serde_json::from_value(rows).expect("rows are objects");
        Answered {
            query: QueryId::new(),
            sql: "SELECT 1".into(),
            failure: None,
            columns: columns.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect(),
            total_rows: Some(rows.len() as u64),
            rows,
        }
    }

    fn understood() -> Understood {
        Understood { note: String::new(), sentence: "It was read so.".into(), title: "Jobs\nby day".into() }
    }

    #[test]
    fn an_answer_is_shown_small() {
        let long = "x".repeat(5_000);
        let rows: Vec<Value> = (0..100).map(|n| json!({ "a": long, "n": n })).collect();
        let replies = replies(&understood(), &answered(&[("a", "text"), ("n", "bigint")], json!(rows)));
        let Some(CardKindV1::Table { rows, total_rows, .. }) = &replies[0].card else { panic!("no table") };
        assert_eq!((rows.len(), *total_rows), (ROWS_MAX, Some(100)));
        assert!(rows[0][0].0.as_str().unwrap().chars().count() <= VALUE_CHARS_MAX + 1);
        // Too many for a picture: the table and the offer.
        assert_eq!(replies.len(), 2);
        let Some(CardKindV1::SaveQueryOffer { name, .. }) = &replies[1].card else { panic!("no offer") };
        assert_eq!(name, "Jobs by day");
    }

    #[test]
    fn a_chart_is_drawn_where_it_fits() {
        let days = json!([{ "day": "2026-11-19T00:00:00.000Z", "n": 1 }, { "day": "2026-11-20T00:00:00.000Z", "n": "2.5" }]);
        let drawn = chart(&answered(&[("day", "timestamp"), ("n", "bigint")], days));
        let Some(CardKindV1::Chart { is_line, points, .. }) = drawn else { panic!("no chart") };
        assert!(is_line && points[1].1 == 2.5);
        let texts = json!([{ "a": "x", "b": "y" }, { "a": "z", "b": "w" }]);
        assert!(chart(&answered(&[("a", "text"), ("b", "text")], texts)).is_none());
    }

    #[test]
    fn what_cannot_be_a_name_has_none_of_its_own() {
        let odd = Understood { note: String::new(), sentence: "s".into(), title: "\u{202e}\u{200b}".into() };
        let Some(CardKindV1::SaveQueryOffer { name, .. }) = offer(&odd, QueryId::new()).card else {
            panic!("no offer")
        };
        assert_eq!(name, "Query of an agent");
    }
}
