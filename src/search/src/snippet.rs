//! Highlights: short fragments of a row's text around what was searched for.
//!
//! Nothing is stored in the index for this: the row's text is analysed again, by the same rules, for the few
//! rows of a page. A phrase is marked where it occurs as a phrase. The fragments are HTML: everything is
//! escaped but the `<em>` marks, so a client may insert them as they are.

use std::collections::HashMap;
use std::ops::Range;

use tantivy::tokenizer::TokenStream;

use super::analyze::{self, TextRole};
use super::parse::{Parsed, QueryTerm};
use super::schema::cut;

/// Characters of one fragment at most, marks and escapes not counted.
pub const FRAGMENT_CHARS_MAX: usize = 160;
/// Fragments of one text at most.
pub const FRAGMENTS_MAX: usize = 3;
/// What of a text is looked at, in bytes.
pub const HIGHLIGHT_BYTES_MAX: usize = 256 * 1024;
/// Characters shown before the first match of a fragment.
const LEAD_CHARS: usize = 40;
/// Matches that are looked at; more do not fit into the fragments.
const MATCHES_MAX: usize = 256;

/// The fragments of `text` in which the query's words occur, in the order of the text; none when there is no
/// such word.
pub fn highlights(text: &str, q: &str) -> Vec<String> {
    let parsed = Parsed::read(q);
    let wanted: Vec<&QueryTerm> = parsed.groups.iter().flatten().collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let text = cut(text, HIGHLIGHT_BYTES_MAX);
    let matches = matches(text, &wanted);
    let mut fragments = Vec::new();
    let mut rest = matches.as_slice();
    while let (Some(first), true) = (rest.first(), fragments.len() < FRAGMENTS_MAX) {
        let fragment = fragment_around(text, first);
        let inside = rest.partition_point(|found| found.end <= fragment.end).max(1);
        fragments.push(render(text, &fragment, &rest[..inside]));
        // A match that the fragment's end cuts in two would start the next fragment with the rest of a word.
        rest = &rest[inside..];
    }
    fragments
}

/// A term of the text with its place.
struct TermMatch {
    position: usize,
    bytes: Range<usize>,
}

/// The byte ranges that match, in order, those that touch or overlap joined.
fn matches(text: &str, wanted: &[&QueryTerm]) -> Vec<Range<usize>> {
    let by_term = occurrences(text, wanted);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for item in wanted {
        match item {
            QueryTerm::Term(term) => {
                ranges.extend(
                    by_term.get(term.as_str()).into_iter().flatten().map(|found| found.bytes.clone()),
                );
            }
            QueryTerm::Prefix(prefix) => {
                let beginning = by_term.iter().filter(|(term, _)| term.starts_with(prefix.as_str()));
                ranges.extend(beginning.flat_map(|(_, found)| found).map(|found| found.bytes.clone()));
            }
            QueryTerm::Phrase(terms) => ranges.extend(phrase_ranges(&by_term, terms)),
        }
    }
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined.truncate(MATCHES_MAX);
    joined
}

/// Where the terms that anything asks for stand in the text; the other terms are not kept.
fn occurrences(text: &str, wanted: &[&QueryTerm]) -> HashMap<String, Vec<TermMatch>> {
    let asked = |term: &str| {
        wanted.iter().any(|item| match item {
            QueryTerm::Term(wanted) => wanted == term,
            QueryTerm::Prefix(prefix) => term.starts_with(prefix.as_str()),
            QueryTerm::Phrase(terms) => terms.iter().any(|(_, wanted)| wanted == term),
        })
    };
    let mut by_term: HashMap<String, Vec<TermMatch>> = HashMap::new();
    let mut analyzer = analyze::analyzer(TextRole::Document);
    let mut stream = analyzer.token_stream(text);
    while stream.advance() {
        let token = stream.token();
        if asked(&token.text) {
            let found = TermMatch { position: token.position, bytes: token.offset_from..token.offset_to };
            by_term.entry(token.text.clone()).or_default().push(found);
        }
    }
    by_term
}

/// The ranges of each whole occurrence of a phrase.
fn phrase_ranges(by_term: &HashMap<String, Vec<TermMatch>>, terms: &[(usize, String)]) -> Vec<Range<usize>> {
    let places = |term: &str| by_term.get(term).map_or(&[][..], Vec::as_slice);
    let Some(((first_at, first), others)) = terms.split_first() else { return Vec::new() };
    let mut ranges = Vec::new();
    for start in places(first) {
        let mut bytes = start.bytes.clone();
        let whole = others.iter().all(|(at, term)| {
            let position = start.position + (at - first_at);
            let places = places(term);
            // Positions only grow along the text.
            match places.binary_search_by_key(&position, |found| found.position) {
                Ok(index) => {
                    bytes.end = bytes.end.max(places[index].bytes.end);
                    true
                }
                Err(_) => false,
            }
        });
        if whole {
            ranges.push(bytes);
        }
    }
    ranges
}

/// The byte range of the fragment that shows a match: some words before it, then as much as fits. The two
/// ellipses that a cut may need count as characters of the fragment.
fn fragment_around(text: &str, found: &Range<usize>) -> Range<usize> {
    let line_start = text[..found.start].rfind('\n').map_or(0, |at| at + 1);
    let lead = text[line_start..found.start].char_indices().rev().nth(LEAD_CHARS - 1);
    let mut start = lead.map_or(line_start, |(at, _)| line_start + at);
    if start > line_start {
        // Begin with a whole word; in an unspaced script there is none to wait for.
        let blank = text[start..found.start].find(char::is_whitespace);
        start = blank.map_or(start, |at| start + at);
    }
    let start = start + text[start..found.start].len() - text[start..found.start].trim_start().len();
    let room = FRAGMENT_CHARS_MAX - 2;
    let Some((over, _)) = text[start..].char_indices().nth(room) else {
        return start..start + text[start..].trim_end().len();
    };
    let end = start + over;
    // End with a whole word, unless that would take the match itself.
    let whole =
        text[start..end].rfind(char::is_whitespace).map(|at| start + at).filter(|at| *at >= found.end);
    let end = whole.unwrap_or(end);
    start..start + text[start..end].trim_end().len()
}

/// The fragment as HTML, its matches marked.
fn render(text: &str, fragment: &Range<usize>, matches: &[Range<usize>]) -> String {
    let mut html = String::with_capacity(fragment.len() + 64);
    if fragment.start > 0 {
        html.push('…');
    }
    let mut at = fragment.start;
    for found in matches {
        let (start, end) = (found.start.max(at), found.end.min(fragment.end));
        if start >= end {
            continue;
        }
        escape(&text[at..start], &mut html);
        html.push_str("<em>");
        escape(&text[start..end], &mut html);
        html.push_str("</em>");
        at = end;
    }
    escape(&text[at..fragment.end], &mut html);
    if fragment.end < text.trim_end().len() {
        html.push('…');
    }
    html
}

/// Appends text as HTML; line breaks and control characters become blanks.
fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() => html.push(' '),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_phrases_and_beginnings_are_marked() {
        assert_eq!(highlights("A red Café shoe", "cafe"), ["A red <em>Café</em> shoe"]);
        assert_eq!(highlights("wide fit, fit wide", "\"fit wide\""), ["wide fit, <em>fit wide</em>"]);
        assert_eq!(highlights("runner running walk", "run*"), ["<em>runner</em> <em>running</em> walk"]);
        assert_eq!(highlights("新しい手机壳です", "手机壳"), ["新しい<em>手机壳</em>です"]);
        assert_eq!(highlights("red and blue", "blue OR red -and"), ["<em>red</em> and <em>blue</em>"]);
        assert!(highlights("nothing here", "absent").is_empty());
        assert!(highlights("text", "!!!").is_empty());
        assert!(highlights("text", "-text").is_empty());
    }

    #[test]
    fn markup_of_the_page_is_escaped() {
        let html = highlights("<script>alert('x')</script> & \"red\" <em>", "alert red em");
        assert_eq!(html.len(), 1);
        let rest = html[0].replace("<em>", "").replace("</em>", "");
        assert!(!rest.contains(['<', '>', '"', '\'']), "{rest}");
        assert!(html[0].contains("<em>alert</em>") && html[0].contains("&lt;script&gt;"), "{}", html[0]);
    }

    #[test]
    fn fragments_are_short_and_hold_their_match() {
        let filler = "wörter über wörter ".repeat(40);
        let text =
            format!("{filler}needle {filler}needle {filler}{}needle{}", "x".repeat(500), "y".repeat(500));
        for q in ["needle", "needle OR wort*", "wörter", "xxxxxxxxxx*", "\"wörter über\""] {
            let fragments = highlights(&text, q);
            assert!(!fragments.is_empty() && fragments.len() <= FRAGMENTS_MAX);
            for html in fragments {
                let plain = html.replace("<em>", "").replace("</em>", "");
                assert!(plain.chars().count() <= FRAGMENT_CHARS_MAX, "{} {html}", plain.chars().count());
                assert!(html.contains("<em>"), "{html}");
            }
        }
        let hit = &highlights(&text, "needle")[0];
        assert!(hit.starts_with('…') && hit.ends_with('…') && hit.contains(" <em>needle</em> "), "{hit}");
    }

    #[test]
    fn a_match_of_any_length_or_script_is_no_panic() {
        for text in ["", "é", "🦀", "\u{301}", "手", &"手".repeat(400), &"e\u{301}".repeat(400)] {
            for q in ["手手", "é", "e*", "\"手手手\"", "🦀", &"手".repeat(300), &"e".repeat(40)] {
                for html in highlights(text, q) {
                    assert!(html.chars().count() <= FRAGMENT_CHARS_MAX + 9 * MATCHES_MAX, "{html}");
                }
            }
        }
    }
}
