//! Messages from templates: a text and a fragment of HTML with `{{names}}` in them.
//!
//! A value is put into the HTML escaped and into the text as it is, without its control characters: it never begins a
//! line or a header of its own. A template names no picture and no other remote thing, so that reading a message tells
//! nobody of it.

use base::escape;

/// One kind of message.
#[derive(Debug)]
pub struct Template {
    /// `Subject: …`, an empty line, the text.
    pub text: &'static str,
    /// What stands in the body of [`LAYOUT`].
    pub html: &'static str,
}

/// A message that was written from a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub subject: String,
    pub text: String,
    pub html: String,
}

/// The page around every message.
const LAYOUT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/mail/layout.html"));

impl Template {
    /// Puts `values`, pairs of name and value, in their places. A reason when the template names another one.
    pub fn render(&self, values: &[(&str, &str)]) -> Result<Rendered, String> {
        let values: Vec<(&str, String)> = values
            .iter()
            .map(|(name, value)| (*name, value.replace(|c: char| c.is_control(), " ")))
            .collect();
        let text = fill(self.text, &values, str::to_owned)?;
        let (subject, text) = text
            .strip_prefix("Subject: ")
            .and_then(|rest| rest.split_once("\n\n"))
            .ok_or("a template begins with its subject and an empty line")?;
        let content = fill(self.html, &values, escape::html)?;
        let (before, after) =
            LAYOUT.split_once("{{content}}").ok_or("the layout has no place for the content")?;
        let page = [("subject", subject.to_owned())];
        let html = [
            fill(before, &page, escape::html)?.as_str(),
            content.trim_end(),
            fill(after, &page, escape::html)?.as_str(),
        ]
        .concat();
        Ok(Rendered { subject: subject.to_owned(), text: text.to_owned(), html })
    }
}

fn fill(template: &str, values: &[(&str, String)], made_safe: fn(&str) -> String) -> Result<String, String> {
    let mut filled = String::with_capacity(template.len() + 256);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").ok_or("a place in a template does not end")?;
        let value = values.iter().find(|(known, _)| *known == name);
        let (_, value) = value.ok_or_else(|| format!("a template names {name}, which has no value"))?;
        filled.push_str(before);
        filled.push_str(&made_safe(value));
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: Template = Template {
        text: "Subject: For {{name}}\n\nHello {{name}}, {{link}}\n",
        html: "<a href=\"{{link}}\">{{name}}</a>\n",
    };

    #[test]
    fn values_are_escaped_in_html_and_end_no_line() {
        let values = [("name", "<b>Ada</b> & \"Co\"\r\nBcc: x@y.zz"), ("link", "https://box/#'\"><script>")];
        let made = TEMPLATE.render(&values).unwrap();
        assert_eq!(made.subject, "For <b>Ada</b> & \"Co\"  Bcc: x@y.zz");
        assert_eq!(made.text, "Hello <b>Ada</b> & \"Co\"  Bcc: x@y.zz, https://box/#'\"><script>\n");
        let body = "<a href=\"https://box/#&#39;&quot;&gt;&lt;script&gt;\">&lt;b&gt;Ada&lt;/b&gt; &amp; &quot;Co&quot;  Bcc: x@y.zz</a>";
        assert!(made.html.contains(body), "{}", made.html);
        assert!(made.html.contains("<title>For &lt;b&gt;Ada&lt;/b&gt;"), "{}", made.html);
        assert!(!made.html.contains("<script>"));
    }

    #[test]
    fn a_value_is_not_a_template() {
        let made = TEMPLATE.render(&[("name", "{{link}}"), ("link", "{{content}}")]).unwrap();
        assert_eq!(made.text, "Hello {{link}}, {{content}}\n");
        assert!(made.html.contains("<a href=\"{{content}}\">{{link}}</a>"), "{}", made.html);
    }

    #[test]
    fn a_place_without_a_value_is_an_error() {
        assert!(TEMPLATE.render(&[("name", "Ada")]).unwrap_err().contains("link"));
    }
}
