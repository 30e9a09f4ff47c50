//! What a message tells people: a title, some lines, and where to look. Chats, mails and feeds are made of it.
//!
//! It is made of the message as `webhook` sends it. What comes from pages is anybody's text: it is one line, short, and
//! without characters that steer; what else it must not be, whoever shows it knows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Lines of one event.
pub const FACTS_MAX: usize = 20;
/// Characters of a value, and of a name.
const VALUE_CHARS_MAX: usize = 300;
const NAME_CHARS_MAX: usize = 80;
/// Characters of a title.
const TITLE_CHARS_MAX: usize = 200;

/// One line: what something is, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    /// What it was before; none where nothing is known of that.
    pub from: Option<String>,
    pub to: String,
}

impl Fact {
    /// `name: from → to`.
    pub fn line(&self) -> String {
        match &self.from {
            Some(from) => format!("{}: {from} → {}", self.name, self.to),
            None => format!("{}: {}", self.name, self.to),
        }
    }
}

/// What one event tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub title: String,
    pub facts: Vec<Fact>,
    /// Facts that have no room.
    pub more: usize,
    /// The page that it is of.
    pub page: Option<String>,
    /// Where all of it is.
    pub link: Option<String>,
    /// When it happened, as the message says.
    pub at: String,
    pub event_id: String,
}

impl Told {
    /// What a message tells, see `payload.rs` of the slice for its shape.
    pub fn of(message: &Value) -> Told {
        let (kind, data) = (message["type"].as_str().unwrap_or_default(), &message["data"]);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let named = ["title", "name"].iter().find_map(|name| data["values"][*name].as_str());
        let named = named.or_else(|| data["name"].as_str()).or_else(|| data["url"].as_str());
        let named =
            named.or_else(|| message["domain"].as_str()).or_else(|| message["subject"]["id"].as_str());
        let title = format!("{}: {}", what_happened(kind), shown(named.unwrap_or("-"), TITLE_CHARS_MAX));
        let mut facts = facts(kind, data);
        let more =
            facts.len().saturating_sub(FACTS_MAX) + data["more"].as_u64().map_or(0, |more| more as usize);
        facts.truncate(FACTS_MAX);
        Told {
            title: clipped(&title, TITLE_CHARS_MAX),
            facts,
            more,
            page: text(&data["url"]).filter(|url| url.starts_with("https://") || url.starts_with("http://")),
            link: text(&message["link"]),
            at: text(&message["timestamp"]).unwrap_or_default(),
            event_id: text(&message["eventId"]).unwrap_or_default(),
        }
    }

    /// What to look at: the page, or else where all of it is.
    pub fn url(&self) -> &str {
        self.page.as_deref().or(self.link.as_deref()).unwrap_or_default()
    }

    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.facts.iter().map(Fact::line).chain(more).collect()
    }
}

/// A kind in words; of one that has none of its own, its name with spaces.
fn what_happened(kind: &str) -> String {
    let known = match kind {
        "result.new" => "New page",
        "result.changed" => "Changed",
        "result.gone" => "Gone",
        "job.succeeded" => "Job done",
        "job.failed" => "Job failed",
        "schema.drifted" => "A site has changed",
        "output.disabled" => "Output switched off",
        "output.test" => "Test message of the output",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let words = kind.replace(['.', '_'], " ");
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn facts(kind: &str, data: &Value) -> Vec<Fact> {
    let fact = |name: &str, from: Option<&Value>, to: &Value| Fact {
        name: shown(name, NAME_CHARS_MAX),
        from: from.map(value),
        to: value(to),
    };
    let Some(members) = data.as_object() else { return Vec::new() };
    if let Some(changes) = data["changes"].as_array() {
        let of_change = |change: &Value| {
            let name = change["name"].as_str().unwrap_or_default();
            match change.get("to") {
                Some(to) => fact(name, change.get("from"), to),
                None => Fact { name: shown(name, NAME_CHARS_MAX), from: None, to: "changed".to_owned() },
            }
        };
        return changes.iter().map(of_change).collect();
    }
    let values = data["values"].as_object().into_iter().flatten();
    // Of a result the values are what is told, and of anything else what the event says of itself.
    let is_of_values = matches!(kind, "result.new" | "job.succeeded") && data["values"].is_object();
    let said = members.iter().filter(|(name, _)| !matches!(name.as_str(), "values" | "url" | "name"));
    let said = said.filter(|(_, value)| !value.is_null() && !is_of_values);
    values.filter(|_| is_of_values).chain(said).map(|(name, to)| fact(name, None, to)).collect()
}

/// A value as people read it.
fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(|one| !one.is_object() && !one.is_array()) => {
            list.iter().take(50).map(self::value).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    shown(&text, VALUE_CHARS_MAX)
}

/// A text of somebody else's: one line, short, without characters that steer terminals or the direction of reading.
pub fn shown(text: &str, chars: usize) -> String {
    let steers = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let mut line = String::with_capacity(text.len().min(chars * 4));
    for c in text.chars().take(chars * 4) {
        match c {
            c if steers(c) => {}
            c if c.is_whitespace() || c.is_control() => {
                if !line.ends_with(' ') {
                    line.push(' ');
                }
            }
            c => line.push(c),
        }
    }
    clipped(line.trim(), chars)
}

/// The beginning of a text, with a sign where something is left out.
pub fn clipped(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let kept = chars.saturating_sub(1);
            let end = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
            format!("{}…", &text[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_tells_what_was_and_what_is() {
        let told = Told::of(&json!({
            "type": "result.changed", "timestamp": "2026-01-02T03:04:05Z", "eventId": "e", "link": "https://box/r",
            "data": {
                "url": "https://shop.example/1", "values": { "title": "Kettle\n<b>", "price": 9 },
                "changes": [{ "name": "price", "from": 10.5, "to": 9 }, { "name": "tags", "from": null, "to": ["a", "b"] },
                    { "name": "text", "omitted": true }],
                "more": 2,
            },
        }));
        assert_eq!(told.title, "Changed: Kettle <b>");
        let lines = ["price: 10.5 → 9", "tags: - → a, b", "text: changed", "and 2 more"];
        assert_eq!((told.lines(), told.url()), (lines.map(str::to_owned).to_vec(), "https://shop.example/1"));
        assert_eq!((told.at.as_str(), told.event_id.as_str()), ("2026-01-02T03:04:05Z", "e"));
    }

    #[test]
    fn whatever_happened_has_a_title_and_bounds() {
        let told = Told::of(
            &json!({ "type": "schedule.missed", "data": { "name": "nightly", "at": 5 }, "link": "https://box/s" }),
        );
        assert_eq!(
            (told.title.as_str(), told.lines(), told.url()),
            ("Schedule missed: nightly", vec!["at: 5".to_owned()], "https://box/s")
        );
        let many: serde_json::Map<_, _> =
            (0..500).map(|n| (format!("a{n}"), json!("😀".repeat(9_000)))).collect();
        let told =
            Told::of(&json!({ "type": "result.new", "data": { "values": many, "url": "javascript:x" } }));
        assert_eq!((told.facts.len(), told.more, told.page), (FACTS_MAX, 480, None));
        assert!(told.facts.iter().all(|fact| fact.to.chars().count() <= VALUE_CHARS_MAX));
        assert_eq!(Told::of(&json!(null)).title, ": -");
    }

    #[test]
    fn text_steers_nothing() {
        assert_eq!(shown(" a\r\n\tb\u{202e}c\u{200b}d\u{7} ", 80), "a bcd");
        assert_eq!((clipped("abc", 3), clipped("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }
}
