//! An output's events as RSS 2.0 or Atom (RFC 4287).

use crate::markup::escaped;
use crate::told::Told;
use std::fmt::Write;

/// Media types of both.
pub const RSS: &str = "application/rss+xml; charset=utf-8";
pub const ATOM: &str = "application/atom+xml; charset=utf-8";

/// What a feed is called, and where it is.
#[derive(Clone, Debug)]
pub struct Feed<'f> {
    pub title: &'f str,
    /// For good, whatever its address: a URN.
    pub id: &'f str,
    /// Where people read more.
    pub link: &'f str,
    /// Its own address.
    pub own: &'f str,
    /// When it last changed.
    pub updated: Time,
}

/// A time, written in both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// `Tue, 10 Jun 2003 04:00:00 GMT`
    pub rfc822: String,
    /// `2003-06-10T04:00:00Z`
    pub rfc3339: String,
}

/// One event.
#[derive(Clone, Debug)]
pub struct Item {
    pub told: Told,
    /// For good: a URN.
    pub id: String,
    pub at: Time,
}

pub fn rss(feed: &Feed<'_>, items: &[Item]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rss version=\"2.0\" xmlns:atom=\"http://www.w3.org/2005/Atom\">\n<channel>\n",
    );
    element(&mut xml, "title", feed.title);
    element(&mut xml, "link", feed.link);
    element(&mut xml, "description", "What happened, newest first.");
    element(&mut xml, "lastBuildDate", &feed.updated.rfc822);
    let _ = writeln!(
        xml,
        "<atom:link href=\"{}\" rel=\"self\" type=\"application/rss+xml\"/>",
        escaped(feed.own)
    );
    for item in items {
        xml.push_str("<item>\n");
        element(&mut xml, "title", &item.told.title);
        if is_address(item.told.url()) {
            element(&mut xml, "link", item.told.url());
        }
        element(&mut xml, "description", &html(&item.told));
        let _ = writeln!(xml, "<guid isPermaLink=\"false\">{}</guid>", escaped(&item.id));
        element(&mut xml, "pubDate", &item.at.rfc822);
        xml.push_str("</item>\n");
    }
    xml.push_str("</channel>\n</rss>\n");
    xml
}

pub fn atom(feed: &Feed<'_>, items: &[Item]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n",
    );
    element(&mut xml, "title", feed.title);
    element(&mut xml, "id", feed.id);
    element(&mut xml, "updated", &feed.updated.rfc3339);
    xml.push_str("<author><name>Gleaner</name></author>\n");
    let _ = writeln!(xml, "<link href=\"{}\"/>", escaped(feed.link));
    let _ =
        writeln!(xml, "<link rel=\"self\" type=\"application/atom+xml\" href=\"{}\"/>", escaped(feed.own));
    for item in items {
        xml.push_str("<entry>\n");
        element(&mut xml, "title", &item.told.title);
        element(&mut xml, "id", &item.id);
        element(&mut xml, "updated", &item.at.rfc3339);
        if is_address(item.told.url()) {
            let _ = writeln!(xml, "<link href=\"{}\"/>", escaped(item.told.url()));
        }
        let _ = writeln!(xml, "<content type=\"html\">{}</content>", escaped(&html(&item.told)));
        xml.push_str("</entry>\n");
    }
    xml.push_str("</feed>\n");
    xml
}

fn element(xml: &mut String, name: &str, text: &str) {
    let _ = writeln!(xml, "<{name}>{}</{name}>", escaped(text));
}

fn is_address(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// The lines as a list. What stands in them is text.
fn html(told: &Told) -> String {
    let items: String = told.lines().iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
    if items.is_empty() { format!("<p>{}</p>", escaped(&told.title)) } else { format!("<ul>{items}</ul>") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_pages_say_is_text_in_both() {
        let told = Told::of(&json!({
            "type": "result.changed", "link": "https://box/r",
            "data": { "url": "https://shop.example/?a=1&b=2", "changes": [
                { "name": "title", "from": "]]><script>", "to": "\u{ffff}<b>&amp;" }] },
        }));
        let time =
            Time { rfc822: "Tue, 10 Jun 2003 04:00:00 GMT".into(), rfc3339: "2003-06-10T04:00:00Z".into() };
        let feed = Feed {
            title: "Shop & <co>",
            id: "urn:uuid:1",
            link: "https://box",
            own: "https://box/f?format=rss&x",
            updated: time.clone(),
        };
        let item = Item { told, id: "urn:uuid:2".into(), at: time };
        for xml in [rss(&feed, std::slice::from_ref(&item)), atom(&feed, &[item])] {
            assert!(!xml.contains("<script") && !xml.contains("]]>") && !xml.contains('\u{ffff}'), "{xml}");
            assert!(xml.contains("Shop &amp; &lt;co&gt;") && xml.contains("a=1&amp;b=2"), "{xml}");
            // Text in HTML in XML: twice escaped.
            assert!(xml.contains("&amp;lt;script&amp;gt; → &amp;lt;b&amp;gt;&amp;amp;amp;"), "{xml}");
        }
    }
}
