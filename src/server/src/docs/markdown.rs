//! The part of Markdown that our own pages use, as HTML: headings, paragraphs, lists, code blocks, tables, and inline
//! code, bold text and links. Everything is escaped, and a link goes only to `http`, `https` or a place on the box.

use base::escape::html as escape;
use std::fmt::Write;

/// Renders a page.
pub fn render(text: &str) -> String {
    let mut html = String::with_capacity(text.len() * 2);
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_end();
        at = if line.trim().is_empty() {
            at + 1
        } else if let Some(fence) = fence(line) {
            code_block(&mut html, &lines, at, fence)
        } else if let Some((level, title)) = heading(line) {
            let _ = match level {
                1 => writeln!(html, "<h1>{}</h1>", inline(title)),
                _ => {
                    writeln!(html, "<h{level} id=\"{}\">{}</h{level}>", escape(&anchor(title)), inline(title))
                }
            };
            at + 1
        } else if line.starts_with('|') {
            table(&mut html, &lines, at)
        } else if item(line).is_some() {
            list(&mut html, &lines, at)
        } else {
            paragraph(&mut html, &lines, at)
        };
    }
    html
}

fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    let title = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title.trim()))
}

/// What a link to a heading ends in, as the hosts of repositories have it: letters and digits in lower case, a hyphen for
/// each space.
pub fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// An item of a list: whether it is numbered, and its text.
fn item(line: &str) -> Option<(bool, &str)> {
    let text = line.trim_start();
    if let Some(rest) = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")) {
        return Some((false, rest));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.get(digits..)?.strip_prefix(". ")?;
    (digits > 0).then_some((true, rest))
}

fn code_block(html: &mut String, lines: &[&str], start: usize, fence: &str) -> usize {
    let mut at = start + 1;
    html.push_str("<pre><code>");
    while at < lines.len() && !lines[at].starts_with(fence) {
        let _ = writeln!(html, "{}", escape(lines[at]));
        at += 1;
    }
    html.push_str("</code></pre>\n");
    at + 1
}

fn list(html: &mut String, lines: &[&str], start: usize) -> usize {
    let numbered = item(lines[start]).is_some_and(|(numbered, _)| numbered);
    let tag = if numbered { "ol" } else { "ul" };
    let _ = writeln!(html, "<{tag}>");
    let mut at = start;
    while let Some((_, text)) = lines.get(at).and_then(|line| item(line)) {
        let mut whole = text.to_owned();
        at += 1;
        // A line that is indented goes on with the item.
        while let Some(more) = lines.get(at).filter(|line| line.starts_with("  ") && item(line).is_none()) {
            whole.push(' ');
            whole.push_str(more.trim());
            at += 1;
        }
        let _ = writeln!(html, "<li>{}</li>", inline(&whole));
    }
    let _ = writeln!(html, "</{tag}>");
    at
}

fn table(html: &mut String, lines: &[&str], start: usize) -> usize {
    let is_rule = |line: &str| line.chars().all(|c| "|-: ".contains(c));
    let with_head = lines.get(start + 1).is_some_and(|line| line.starts_with('|') && is_rule(line));
    html.push_str("<table>\n");
    let mut at = start;
    while let Some(line) = lines.get(at).filter(|line| line.starts_with('|')) {
        if !(with_head && at == start + 1) {
            let tag = if with_head && at == start { "th" } else { "td" };
            html.push_str("<tr>");
            for cell in cells(line) {
                // In a table a bar that is none is written so; other readers divide at bars in code as well.
                let _ = write!(html, "<{tag}>{}</{tag}>", inline(&cell.trim().replace("\\|", "|")));
            }
            html.push_str("</tr>\n");
        }
        at += 1;
    }
    html.push_str("</table>\n");
    at
}

/// The cells of a row; a bar inside code does not divide.
fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    let mut in_code = false;
    line.split(move |c: char| {
        in_code ^= c == '`';
        c == '|' && !in_code
    })
    .collect()
}

fn paragraph(html: &mut String, lines: &[&str], start: usize) -> usize {
    let mut at = start;
    let mut text = String::new();
    while let Some(line) = lines.get(at).map(|line| line.trim()).filter(|line| {
        !line.is_empty()
            && (at == start || (fence(line).is_none() && heading(line).is_none() && item(line).is_none()))
    }) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(line);
        at += 1;
    }
    let _ = writeln!(html, "<p>{}</p>", inline(&text));
    at
}

/// Inline code, bold text and links of one piece of text.
fn inline(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        html.push_str(&escape(&rest[..at]));
        let from = &rest[at..];
        let (taken, made) = code(from).or_else(|| bold(from)).or_else(|| link(from)).unwrap_or_else(|| {
            let mark = &from[..1];
            (1, mark.to_owned())
        });
        html.push_str(&made);
        rest = &from[taken..];
    }
    html.push_str(&escape(rest));
    html
}

fn code(text: &str) -> Option<(usize, String)> {
    let inner = text.strip_prefix('`')?.split_once('`')?.0;
    Some((inner.len() + 2, format!("<code>{}</code>", escape(inner))))
}

fn bold(text: &str) -> Option<(usize, String)> {
    let inner = text.strip_prefix("**")?.split_once("**")?.0;
    (!inner.is_empty()).then(|| (inner.len() + 4, format!("<strong>{}</strong>", inline(inner))))
}

fn link(text: &str) -> Option<(usize, String)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    let local = !target.contains(':') && !target.starts_with("//");
    let safe = local || target.starts_with("https://") || target.starts_with("http://");
    let made = format!("<a href=\"{}\">{}</a>", escape(target), escape(label));
    safe.then_some((label.len() + target.len() + 4, made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_html() {
        assert_eq!(
            render("## What is `kept`, and how"),
            "<h2 id=\"what-is-kept-and-how\">What is <code>kept</code>, and how</h2>\n"
        );
        let page = "# not_ready\n\nStatus: **409**\nmore `a<b`.\n\n- one\n  still one\n- two\n\n1. first\n\n| a | b |\n\
                    |---|---|\n| `x\\|y` | 2 |\n\n```json\n{\"a\": \"<b>\"}\n```\nEnd.";
        let html = render(page);
        assert!(
            html.contains(
                "<h1>not_ready</h1>\n<p>Status: <strong>409</strong> more <code>a&lt;b</code>.</p>"
            )
        );
        assert!(
            html.contains("<ul>\n<li>one still one</li>\n<li>two</li>\n</ul>\n<ol>\n<li>first</li>\n</ol>")
        );
        assert!(
            html.contains("<tr><th>a</th><th>b</th></tr>\n<tr><td><code>x|y</code></td><td>2</td></tr>"),
            "{html}"
        );
        assert!(
            html.contains("<pre><code>{&quot;a&quot;: &quot;&lt;b&gt;&quot;}\n</code></pre>\n<p>End.</p>")
        );
    }

    #[test]
    fn nothing_gets_through_unescaped() {
        assert_eq!(render("<script>"), "<p>&lt;script&gt;</p>\n");
        assert_eq!(render("[x](javascript:alert)"), "<p>[x](javascript:alert)</p>\n");
        assert_eq!(render("[x](/docs\"y)"), "<p><a href=\"/docs&quot;y\">x</a></p>\n");
        for odd in ["**", "`", "[", "[a](", "****", "* ", "#", "|", "```"] {
            render(odd);
        }
    }
}
