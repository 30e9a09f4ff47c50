//! Events as a letter: a table of what was and what is, as text and as HTML.

use crate::markup::escaped;
use crate::told::{Told, clipped};
use std::fmt::Write;

/// Events that a letter shows; those beyond are counted.
pub const EVENTS_MAX: usize = 100;
/// Characters of a subject.
const SUBJECT_CHARS_MAX: usize = 120;

/// A letter about some events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub subject: String,
    pub text: String,
    /// What stands in the page's body.
    pub html: String,
}

/// Who writes to whom, and how one hears no more.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The output.
    pub output: &'a str,
    pub org: &'a str,
    /// The box's address.
    pub url: &'a str,
    /// Where one says that one wants no more.
    pub unsubscribe: &'a str,
}

/// The letter of these events, oldest first, of `count` in all.
pub fn letter(around: Around<'_>, events: &[Told], count: usize) -> Letter {
    let subject = match events {
        [one] if count == 1 => one.title.clone(),
        _ => format!("{}: {count} events", around.output),
    };
    let (mut text, mut html) = (String::new(), String::new());
    for told in events.iter().take(EVENTS_MAX) {
        let _ = writeln!(text, "{}\n{}", told.title, told.at);
        let _ = write!(html, "<h3 style=\"margin:20px 0 4px;font-size:16px\">{}</h3>", linked(told));
        let _ =
            write!(html, "<p style=\"margin:0 0 6px;color:#666;font-size:13px\">{}</p>", escaped(&told.at));
        html.push_str("<table style=\"border-collapse:collapse;font-size:14px\">");
        for fact in &told.facts {
            let _ = writeln!(text, "  {}", fact.line());
            let cell = |text: &str, style: &str| {
                format!(
                    "<td style=\"padding:2px 12px 2px 0;vertical-align:top;{style}\">{}</td>",
                    escaped(text)
                )
            };
            let before = fact.from.as_deref();
            let before = before
                .map_or_else(|| cell("", ""), |from| cell(from, "color:#888;text-decoration:line-through"));
            let _ = write!(html, "<tr>{}{before}{}</tr>", cell(&fact.name, "color:#666"), cell(&fact.to, ""));
        }
        html.push_str("</table>");
        if told.more > 0 {
            let _ = writeln!(text, "  and {} more", told.more);
            let _ = write!(html, "<p style=\"margin:4px 0\">and {} more</p>", told.more);
        }
        let _ = writeln!(text, "  {}\n", told.url());
    }
    let beyond = count.saturating_sub(events.len().min(EVENTS_MAX));
    if beyond > 0 {
        let _ = writeln!(text, "and {beyond} more events, see {}\n", around.url);
        let _ = write!(html, "<p>and {beyond} more events</p>");
    }
    let why = format!(
        "You get this because {} of the box at {} writes to this address from the output \"{}\".",
        around.org, around.url, around.output
    );
    let _ = write!(text, "-- \n{why}\nTo get no more: {}\n", around.unsubscribe);
    let _ = write!(
        html,
        "<p style=\"margin:28px 0 0;color:#666;font-size:13px\">{}<br><a href=\"{}\">Get no more of these</a></p>",
        escaped(&why),
        escaped(around.unsubscribe)
    );
    Letter { subject: clipped(&subject, SUBJECT_CHARS_MAX), text, html }
}

fn linked(told: &Told) -> String {
    let (title, url) = (escaped(&told.title), told.url());
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    if is_address { format!("<a href=\"{}\">{title}</a>", escaped(url)) } else { title }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_letter_shows_what_was_and_what_is_and_no_markup_of_pages() {
        let told = |n: usize| {
            Told::of(&json!({
                "type": "result.changed", "timestamp": "2026-01-02T03:04:05Z", "link": "https://box/r",
                "data": { "url": format!("https://shop.example/{n}?\"><x>"), "values": { "title": "<b>Kettle" },
                    "changes": [{ "name": "price", "from": "10 <i>", "to": 9 }], "more": 3 },
            }))
        };
        let around =
            Around { output: "Shop <co>", org: "Acme", url: "https://box", unsubscribe: "https://box/u#t" };
        let one = letter(around, &[told(1)], 1);
        assert_eq!(one.subject, "Changed: <b>Kettle");
        assert!(
            one.text.contains("price: 10 <i> → 9") && one.text.contains("To get no more: https://box/u#t"),
            "{}",
            one.text
        );
        assert!(
            one.html.contains("line-through\">10 &lt;i&gt;</td>")
                && one.html.contains("href=\"https://box/u#t\""),
            "{}",
            one.html
        );
        assert!(
            !one.html.contains("<x>") && !one.html.contains("<b>") && !one.html.contains("<i>"),
            "{}",
            one.html
        );
        let many: Vec<_> = (0..150).map(told).collect();
        let many = letter(around, &many, 1_000);
        assert_eq!(
            (many.subject.as_str(), many.text.matches("price:").count()),
            ("Shop <co>: 1000 events", EVENTS_MAX)
        );
        assert!(many.text.contains("and 900 more events") && many.html.contains("and 900 more events"));
    }
}
