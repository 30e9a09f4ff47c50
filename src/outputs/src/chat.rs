//! Messages to chats: the files of `data/outputs`, each a product's shape of a message, and filling one.
//!
//! Values come from pages, so they may say anything, such as `<!channel>` or `[here](http://evil.example)`. Each product's
//! escaping makes them be shown as they are; what a product makes of bare text (a mention, an address, a picture's name) is
//! broken up by a character that is not seen.

use crate::told::{Told, clipped, shown};
use serde::Deserialize;
use serde_json::Value;
use std::sync::LazyLock;

const UNSEEN: char = '\u{200b}';
const PLACES: [&str; 4] = ["{{title}}", "{{text}}", "{{line}}", "{{url}}"];

macro_rules! shipped {
    ($($name:literal)*) => {
        const SHIPPED: &[(&str, &str)] = &[$((
            concat!("data/outputs/", $name, ".toml"),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/outputs/", $name, ".toml")),
        )),*];
    };
}

shipped! { "slack" "mattermost" "teams" "discord" }

/// How a product is kept from making something of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Escape {
    Entities,
    Markdown,
    Plain,
}

/// A file of `data/outputs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProductFile {
    id: String,
    name: String,
    docs: String,
    escape: Escape,
    title_chars: usize,
    text_chars: usize,
    pause_ms: u64,
    gone: Vec<u16>,
    refused: Vec<String>,
    body: String,
}

/// How messages to one product look.
#[derive(Debug)]
pub struct Product {
    pub id: String,
    /// Between two messages to one webhook, in milliseconds.
    pub pause_ms: u64,
    escape: Escape,
    title_chars: usize,
    text_chars: usize,
    gone: Vec<u16>,
    refused: Vec<String>,
    body: Value,
}

static PRODUCTS: LazyLock<Result<Vec<Product>, String>> =
    LazyLock::new(|| SHIPPED.iter().map(|(file, text)| Product::parse(file, text)).collect());

/// All of them; a reason when a file is none.
pub fn products() -> Result<&'static [Product], String> {
    PRODUCTS.as_ref().map(Vec::as_slice).map_err(Clone::clone)
}

/// The product of this id.
pub fn product(id: &str) -> Option<&'static Product> {
    products().ok()?.iter().find(|product| product.id == id)
}

impl Product {
    fn parse(file: &str, text: &str) -> Result<Product, String> {
        let wrong = |reason: String| format!("{file}: {reason}");
        let read: ProductFile = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let body: Value = serde_json::from_str(&read.body).map_err(|e| wrong(format!("body: {e}")))?;
        let has_empty = read.id.is_empty() || read.name.is_empty() || !read.docs.starts_with("https://");
        if has_empty || read.title_chars < 20 || read.text_chars < 100 {
            return Err(wrong("id, name, docs, title_chars and text_chars must say something".to_owned()));
        }
        let mut written = body.to_string();
        let has_text = written.contains("{{text}}") || written.contains("{{line}}");
        if !has_text || !written.contains("{{title}}") || !written.contains("{{url}}") {
            return Err(wrong("body: must have {{title}}, {{url}}, and {{text}} or {{line}}".to_owned()));
        }
        PLACES.iter().for_each(|place| written = written.replace(place, ""));
        if written.contains("{{") {
            return Err(wrong(format!("body: has a place that is none of {}", PLACES.join(" "))));
        }
        Ok(Product {
            id: read.id,
            pause_ms: read.pause_ms,
            escape: read.escape,
            title_chars: read.title_chars,
            text_chars: read.text_chars,
            gone: read.gone,
            refused: read.refused,
            body,
        })
    }

    /// The message as it is sent.
    pub fn message(&self, told: &Told) -> String {
        let lines = self.lines(told);
        let filled = Filled {
            title: self.fitting(&told.title, self.title_chars),
            text: if lines.is_empty() { "-".to_owned() } else { lines.join("\n") },
            lines,
            url: self.url(told.url()),
        };
        filled.fill(&self.body, None).to_string()
    }

    /// Whether an answer says that nothing will be taken there any more.
    pub fn is_gone(&self, status: u16) -> bool {
        self.gone.contains(&status)
    }

    /// Whether an answer of 2xx says that the message was not taken.
    pub fn is_refused(&self, answer: &str) -> bool {
        self.refused.iter().any(|text| answer.contains(text.as_str()))
    }

    /// As many lines as there is room for.
    fn lines(&self, told: &Told) -> Vec<String> {
        let (mut room, mut lines) = (self.text_chars, Vec::new());
        for line in told.lines() {
            let line = self.fitting(&line, room.min(self.text_chars / 2));
            let Some(left) = room.checked_sub(line.chars().count() + 1).filter(|left| *left > 20) else {
                lines.push("…".to_owned());
                break;
            };
            room = left;
            lines.push(line);
        }
        lines
    }

    /// A text, escaped, of so many characters at most.
    fn fitting(&self, text: &str, chars: usize) -> String {
        let mut kept = chars;
        loop {
            let escaped = self.escaped(&clipped(text, kept));
            let length = escaped.chars().count();
            if length <= chars || kept <= 1 {
                return escaped;
            }
            kept = (kept * chars / length).min(kept - 1).max(1);
        }
    }

    fn escaped(&self, text: &str) -> String {
        let (mut safe, mut chars) = (String::with_capacity(text.len() + 16), text.chars().peekable());
        while let Some(c) = chars.next() {
            match (self.escape, c) {
                (Escape::Entities, '&') => safe.push_str("&amp;"),
                (Escape::Entities, '<') => safe.push_str("&lt;"),
                (Escape::Entities, '>') => safe.push_str("&gt;"),
                (
                    Escape::Markdown,
                    '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '~' | '|' | '>',
                ) => {
                    safe.push('\\');
                    safe.push(c);
                }
                // Neither knows a tag without what follows the sign.
                (Escape::Markdown, '<') => safe.extend(['<', UNSEEN]),
                (_, c) => safe.push(c),
            }
            // A mention, an address, the name of a picture: what makes one of them is that something follows at once.
            let follows = chars.peek().is_some_and(|next| !next.is_whitespace());
            let begins = match c {
                '@' | ':' => true,
                ']' => chars.peek() == Some(&'('),
                '.' => safe.len() >= 4 && safe.as_bytes()[safe.len() - 4..].eq_ignore_ascii_case(b"www."),
                _ => false,
            };
            if follows && begins && self.escape != Escape::Plain {
                safe.push(UNSEEN);
            }
        }
        safe
    }

    /// An address that is a link of this message: nothing in it ends the link, or is text beside it.
    fn url(&self, url: &str) -> String {
        let mut safe = String::with_capacity(url.len() + 16);
        for c in shown(url, 2_048).chars() {
            match c {
                '<' | '>' | '|' | '"' | '\\' | '^' | ' ' => safe.push_str(&format!("%{:02X}", c as u32)),
                '(' | ')' | '[' | ']' | '`' | '{' | '}' | '*' | '_' | '~'
                    if self.escape == Escape::Markdown =>
                {
                    safe.push_str(&format!("%{:02X}", c as u32));
                }
                '&' if self.escape == Escape::Entities => safe.push_str("&amp;"),
                c => safe.push(c),
            }
        }
        safe
    }
}

/// What is put into the places of a message.
struct Filled {
    title: String,
    text: String,
    lines: Vec<String>,
    url: String,
}

impl Filled {
    fn fill(&self, shape: &Value, line: Option<&str>) -> Value {
        match shape {
            Value::String(text) => Value::String(self.text(text, line)),
            Value::Array(list) => {
                let is_of_several = list.len() > 1;
                Value::Array(list.iter().flat_map(|one| self.repeated(one, line, is_of_several)).collect())
            }
            Value::Object(members) => {
                members.iter().map(|(name, of)| (name.clone(), self.fill(of, line))).collect()
            }
            other => other.clone(),
        }
    }

    /// What stands in a list of several: once, or once for each line where it has a line's place.
    fn repeated(&self, one: &Value, line: Option<&str>, is_of_several: bool) -> Vec<Value> {
        if line.is_none() && is_of_several && one.to_string().contains("{{line}}") {
            return self.lines.iter().map(|line| self.fill(one, Some(line))).collect();
        }
        vec![self.fill(one, line)]
    }

    /// One pass: what is put in is never looked at for places.
    fn text(&self, shape: &str, line: Option<&str>) -> String {
        let (mut made, mut rest) = (String::new(), shape);
        while let Some(at) = rest.find("{{") {
            made.push_str(&rest[..at]);
            let place = PLACES.iter().find(|place| rest[at..].starts_with(**place));
            let Some(place) = place else { break };
            made.push_str(match *place {
                "{{title}}" => &self.title,
                "{{text}}" => &self.text,
                "{{url}}" => &self.url,
                _ => line.unwrap_or_default(),
            });
            rest = &rest[at + place.len()..];
        }
        made.push_str(rest);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HOSTILE: &str =
        "<!here> @channel @everyone <@U1> [x](http://evil.example) *b* _i_ `c` :bomb: www.evil.example & |";

    fn told() -> Told {
        Told::of(&json!({
            "type": "result.changed", "link": "https://box/r",
            "data": { "url": "https://shop.example/a?b=1&c=(2)|<x>", "values": { "title": HOSTILE },
                "changes": [{ "name": "price", "from": HOSTILE, "to": 9 }, { "name": "b", "from": 1, "to": HOSTILE }] },
        }))
    }

    #[test]
    fn every_product_is_there_and_takes_no_markup_from_pages() {
        assert_eq!(products().unwrap().len(), 4);
        for product in products().unwrap() {
            let message: Value = serde_json::from_str(&product.message(&told())).unwrap();
            let text = message.to_string();
            for injected in
                ["<!here>", "<@U1>", "[x](http", "http://evil", ":bomb:", "www.evil", "@channel", "@everyone"]
            {
                let is_shown_as_it_is = product.escape == Escape::Plain;
                assert!(
                    is_shown_as_it_is || !text.contains(injected),
                    "{}: {injected} in {text}",
                    product.id
                );
            }
            assert!(!text.contains("{{") && text.contains("price"), "{text}");
            assert!(text.contains("https://shop.example/a?b=1"), "{text}");
            assert!(!text.contains("c=(2)|<x>"), "{text}");
        }
    }

    #[test]
    fn products_have_their_shapes() {
        let read =
            |id: &str| -> Value { serde_json::from_str(&product(id).unwrap().message(&told())).unwrap() };
        let slack = read("slack");
        assert!(slack["blocks"][0]["text"]["text"].as_str().unwrap().starts_with("Changed: &lt;!here&gt;"));
        let link = slack["blocks"][2]["elements"][0]["text"].as_str().unwrap();
        assert_eq!(link, "<https://shop.example/a?b=1&amp;c=(2)%7C%3Cx%3E|Open>");
        let teams = read("teams");
        let body = teams["attachments"][0]["content"]["body"].as_array().unwrap();
        assert_eq!(body.len(), 3, "a title and two lines");
        assert!(body[1]["inlines"][0]["text"].as_str().unwrap().starts_with("price: "));
        let discord = read("discord");
        assert_eq!(discord["allowed_mentions"]["parse"], json!([]));
        let text = discord["embeds"][0]["description"].as_str().unwrap();
        assert!(text.contains("\\[x\\]") && !text.contains("]("), "{text}");
        assert!(read("mattermost")["text"].as_str().unwrap().ends_with("c=%282%29%7C%3Cx%3E)"));
    }

    #[test]
    fn a_message_has_room_whatever_is_told() {
        let long = "<&*>".repeat(5_000);
        let values: serde_json::Map<_, _> = (0..50).map(|n| (format!("{n}{long}"), json!(long))).collect();
        let told = Told::of(&json!({ "type": "result.new", "data": { "values": values, "name": long } }));
        for product in products().unwrap() {
            let lines = product.lines(&told);
            let chars: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
            assert!(chars <= product.text_chars + 2, "{}: {chars}", product.id);
            assert!(product.fitting(&told.title, product.title_chars).chars().count() <= product.title_chars);
            assert!(product.message(&told).len() < 60_000);
        }
    }

    #[test]
    fn answers_say_what_they_mean() {
        let teams = product("teams").unwrap();
        assert!(
            teams.is_refused("Webhook message delivery failed with error: 429") && !teams.is_refused("1")
        );
        assert!(product("discord").unwrap().is_gone(404) && !teams.is_gone(404));
    }

    #[test]
    fn a_file_that_is_none_says_where() {
        for (text, said) in [
            ("id = 5", "invalid type"),
            (&SHIPPED[0].1.replace("{{url}}", "{{where}}"), "must have"),
            (&SHIPPED[0].1.replace("\"mrkdwn\": false", "\"mrkdwn\": {{x}}"), "body"),
            (&SHIPPED[0].1.replace("Open>", "{{open}}>"), "is none of"),
        ] {
            let error = Product::parse("data/outputs/x.toml", text).unwrap_err();
            assert!(error.starts_with("data/outputs/x.toml: ") && error.contains(said), "{error}");
        }
    }
}
