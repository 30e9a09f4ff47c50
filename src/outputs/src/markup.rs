//! Text made safe for XML and HTML.

/// Text that is safe in an element and in a quoted attribute, of XML as well as of HTML: also characters that XML has none
/// of are left out.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() && c != '\n' => {}
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_an_element_or_an_attribute() {
        assert_eq!(escaped("<a b=\"'&\u{1}\u{ffff}\n>"), "&lt;a b=&quot;&#39;&amp;\n&gt;");
    }
}
