//! Events as a letter: a table of what was and what is, as text and as HTML.
//!
//! A letter names no picture and nothing else that is remote, so reading it tells nobody. What comes from pages is text in it,
//! and a link only where it is an address of the web.

use crate::markup::escaped;
use crate::told::{Fact, Told, clipped, shown};
use std::fmt::Write;

/// Events that a letter shows; those beyond are counted.
pub const EVENTS_MAX: usize = 50;
/// Characters of a subject.
const SUBJECT_CHARS_MAX: usize = 120;
/// Lines of an event beside others, and characters of a value there; one that is alone has all of its.
const FACTS_BESIDE_OTHERS: usize = 8;
const VALUE_CHARS_BESIDE_OTHERS: usize = 120;
/// Characters of a name, of an output or an organization.
const NAME_CHARS_MAX: usize = 80;

/// A letter about some events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub subject: String,
    pub text: String,
    /// A whole page.
    pub html: String,
}

/// Who writes to whom, and how one hears no more.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The output.
    pub output: &'a str,
    pub org: &'a str,
    /// Where all of it is.
    pub link: &'a str,
    /// Where one says that one wants no more.
    pub unsubscribe: &'a str,
}

const PAGE: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light\">";
const BODY: &str = "<body style=\"margin:0;padding:24px 12px;background:#f4f4f2;color:#222;\
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif\">\
<div style=\"max-width:620px;margin:0 auto;padding:22px 26px;background:#fff;border:1px solid #ddd;border-radius:6px\">";
const ABOVE: &str = "margin:0;color:#5c5c58;font-size:13px";
const HEAD: &str = "margin:2px 0 0;font-size:20px;line-height:1.3;font-weight:600";
const EVENT: &str = "padding:16px 0 14px;border-top:1px solid #e4e4e0";
const TITLE: &str = "font-size:16px;font-weight:600;line-height:1.35;overflow-wrap:anywhere";
const LINK: &str = "color:#14532d;text-decoration:underline";
/// Of a title, which is plainly one.
const TITLE_LINK: &str = "color:#14532d;text-decoration:none";
const SMALL: &str = "margin:2px 0 8px;color:#5c5c58;font-size:13px";
const TABLE: &str = "width:100%;border-collapse:collapse;font-size:14px";
const NAME: &str = "width:28%;padding:3px 12px 3px 0;vertical-align:top;color:#5c5c58;overflow-wrap:anywhere";
const VALUE: &str = "padding:3px 0;vertical-align:top;overflow-wrap:anywhere";
const BEFORE: &str = "color:#8a2a1c;text-decoration:line-through";
const FOOT: &str = "margin:0;padding-top:16px;border-top:1px solid #e4e4e0;color:#5c5c58;font-size:12.5px";

/// The letter of these events, oldest first, of `count` in all.
pub fn letter(around: Around<'_>, events: &[Told], count: u64) -> Letter {
    let (output, org) = (shown(around.output, NAME_CHARS_MAX), shown(around.org, NAME_CHARS_MAX));
    let events = &events[..events.len().min(EVENTS_MAX)];
    let is_one = count <= 1 && events.len() == 1;
    let subject = match events {
        [one] if is_one => one.title.clone(),
        _ => format!("{output}: {count} events"),
    };
    let subject = shown(&subject, SUBJECT_CHARS_MAX);
    let mut text = if is_one { String::new() } else { format!("{subject}\n\n") };
    let mut html = format!("{PAGE}<title>{}</title></head>\n{BODY}", escaped(&subject));
    let _ = write!(html, "<p style=\"{ABOVE}\">{} · {}</p>", escaped(&org), escaped(&output));
    if !is_one {
        let _ = write!(html, "<h1 style=\"{HEAD};padding-bottom:14px\">{count} events</h1>");
    }
    for told in events {
        let limits =
            if is_one { (usize::MAX, usize::MAX) } else { (FACTS_BESIDE_OTHERS, VALUE_CHARS_BESIDE_OTHERS) };
        in_text(&mut text, told, limits);
        in_html(&mut html, told, is_one, limits);
    }
    let beyond = count.saturating_sub(events.len() as u64);
    if beyond > 0 {
        let _ = writeln!(text, "and {beyond} more: {}\n", around.link);
        let more = anchor(around.link, &format!("and {beyond} more"), LINK);
        let _ = write!(html, "<p style=\"{EVENT};margin:0\">{more}</p>");
    }
    let why = format!("{org} sends you this from its output \"{output}\".");
    let _ = write!(
        text,
        "-- \n{why}\nAll events: {}\nGet no more of these: {}\n",
        around.link, around.unsubscribe
    );
    let _ = writeln!(
        html,
        "<p style=\"{FOOT}\">{}<br>{} · {}</p></div></body></html>",
        escaped(&why),
        anchor(around.link, "All events", LINK),
        anchor(around.unsubscribe, "Get no more of these", LINK)
    );
    Letter { subject, text, html }
}

type Limits = (usize, usize);

/// The lines of an event that have room, each with what it was and what it is; and how many have none.
fn lines(told: &Told, (facts, chars): Limits) -> (impl Iterator<Item = Fact>, usize) {
    let beyond = told.facts.len().saturating_sub(facts);
    let clip = move |fact: &Fact| Fact {
        name: fact.name.clone(),
        from: fact.from.as_deref().map(|from| clipped(from, chars)),
        to: clipped(&fact.to, chars),
    };
    (told.facts.iter().take(facts).map(clip), told.more + beyond)
}

fn in_text(text: &mut String, told: &Told, limits: Limits) {
    let _ = writeln!(text, "{}\n{}", told.title, when(&told.at));
    let (facts, more) = lines(told, limits);
    for fact in facts {
        let _ = writeln!(text, "  {}", fact.line());
    }
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    let url = told.url();
    let _ = if url.is_empty() { writeln!(text) } else { writeln!(text, "  {url}\n") };
}

fn in_html(html: &mut String, told: &Told, is_one: bool, limits: Limits) {
    let heading = if is_one { HEAD } else { TITLE };
    let place = if is_one { "padding:0 0 16px" } else { EVENT };
    let title = anchor(told.url(), &told.title, TITLE_LINK);
    let _ = write!(html, "<div style=\"{place}\"><div style=\"{heading}\">{title}</div>");
    let _ = write!(html, "<div style=\"{SMALL}\">{}</div>", escaped(&when(&told.at)));
    let (facts, more) = lines(told, limits);
    let _ = write!(html, "<table role=\"presentation\" style=\"{TABLE}\">");
    for fact in facts {
        let before =
            fact.from.as_deref().map(|from| format!("<span style=\"{BEFORE}\">{}</span> → ", escaped(from)));
        let (before, bold) = (
            before.as_deref().unwrap_or_default(),
            if fact.from.is_some() { ";font-weight:600" } else { "" },
        );
        let _ = write!(
            html,
            "<tr><td style=\"{NAME}\">{}</td><td style=\"{VALUE}\">{before}<span style=\"color:#222{bold}\">{}</span></td></tr>",
            escaped(&fact.name),
            escaped(&fact.to)
        );
    }
    html.push_str("</table>");
    if more > 0 {
        let _ = write!(html, "<div style=\"{SMALL};margin:4px 0 0\">and {more} more</div>");
    }
    html.push_str("</div>");
}

/// A link, where the address is one of the web.
fn anchor(url: &str, label: &str, style: &str) -> String {
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    let label = escaped(label);
    if is_address { format!("<a href=\"{}\" style=\"{style}\">{label}</a>", escaped(url)) } else { label }
}

/// A time as people read it: `2026-01-02 03:04 UTC`.
fn when(at: &str) -> String {
    match (at.get(..10), at.get(10..11), at.get(11..16), at.ends_with('Z')) {
        (Some(day), Some("T"), Some(minute), true) => format!("{day} {minute} UTC"),
        _ => at.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AROUND: Around<'_> = Around {
        output: "Shop <co>",
        org: "Acme\r\nBcc: x",
        link: "https://box/console",
        unsubscribe: "https://box/mail/unsubscribe/t?a&b",
    };

    fn told(n: usize) -> Told {
        Told::of(&json!({
            "type": "result.changed", "timestamp": "2026-01-02T03:04:05.678Z", "link": "https://box/r",
            "data": { "url": format!("https://shop.example/{n}?\"><x>"), "values": { "title": "<b>Kettle\r\n" },
                "changes": [{ "name": "price", "from": "10 <i>", "to": 9 }], "more": 3 },
        }))
    }

    #[test]
    fn a_letter_shows_what_was_and_what_is_and_no_markup_of_pages() {
        let one = letter(AROUND, &[told(1)], 1);
        assert_eq!(one.subject, "Changed: <b>Kettle");
        for part in [
            "price: 10 <i> → 9",
            "2026-01-02 03:04 UTC",
            "and 3 more",
            "https://shop.example/1",
            "Get no more of these: https://box/mail/unsubscribe/t?a&b",
        ] {
            assert!(one.text.contains(part), "{part} is not in\n{}", one.text);
        }
        for part in [
            "line-through\">10 &lt;i&gt;</span>",
            "href=\"https://box/mail/unsubscribe/t?a&amp;b\"",
            "&lt;b&gt;Kettle",
        ] {
            assert!(one.html.contains(part), "{part} is not in\n{}", one.html);
        }
        assert!(
            !one.html.contains("<x>") && !one.html.contains("<b>") && !one.html.contains("<i>"),
            "{}",
            one.html
        );
        assert!(!one.html.contains("src=") && !one.html.contains("<co>"), "{}", one.html);
        assert!(one.text.contains("Acme Bcc: x sends"), "{}", one.text);
    }

    #[test]
    fn many_events_are_bounded_and_the_rest_is_counted() {
        let wide: serde_json::Map<_, _> =
            (0..500).map(|n| (format!("a{n}"), json!("😀<".repeat(9_000)))).collect();
        let wide =
            Told::of(&json!({ "type": "result.new", "data": { "values": wide, "url": "javascript:x" } }));
        let many: Vec<_> = (0..150).map(|n| if n % 2 == 0 { told(n) } else { wide.clone() }).collect();
        let many = letter(AROUND, &many, 1_000);
        assert_eq!(
            (many.subject.as_str(), many.text.matches("price:").count()),
            ("Shop <co>: 1000 events", EVENTS_MAX / 2)
        );
        assert!(
            many.text.contains("and 950 more: https://box/console") && many.html.contains("and 950 more</a>")
        );
        assert!(many.html.len() < 400_000 && !many.html.contains("javascript:x\""), "{}", many.html.len());
        assert_eq!(many.text.matches("and 492 more").count(), EVENTS_MAX / 2);
    }

    #[test]
    fn whatever_a_message_says_a_letter_can_be_made() {
        let none = letter(AROUND, &[], 7);
        assert!(none.text.contains("and 7 more") && none.subject.ends_with("7 events"));
        let odd = letter(AROUND, &[Told::of(&json!({ "timestamp": "é", "type": "\u{202e}" }))], 1);
        assert!(!odd.subject.chars().any(char::is_control), "{:?}", odd.subject);
    }
}
