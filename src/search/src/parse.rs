//! What people type into the search box, read without ever failing.
//!
//! Words must all match. `"…"` (also typographic quotes) is a phrase, `-word` and `-"phrase"` exclude,
//! `word*` matches a beginning of at least [`PREFIX_CHARS_MIN`] characters, and `OR` in capitals joins its
//! two neighbours (`red OR green shoes` is (red or green) and shoes). Everything else is literal: there are
//! no field names, ranges, regular expressions or parentheses, so no input reaches beyond the text, and none
//! is an error. A word with punctuation inside (`3.5mm`, an address) is the phrase of its parts.
//!
//! Limits are applied by cutting, not by refusing: [`Q_CHARS_MAX`] characters, [`Q_TERMS_MAX`] terms. A `q`
//! of blanks only is no search at all; one that has characters but nothing to search for (`!!!`) matches
//! nothing, since answering it with everything would look like a match.

use tantivy::tokenizer::TokenStream;

use super::analyze::{self, TextRole};

/// Characters of a query that are read.
pub const Q_CHARS_MAX: usize = 1024;
/// Words and phrases of a query that are read.
pub const Q_TERMS_MAX: usize = 32;
/// Terms of one phrase that are read; an address of that many parts is still told apart from its neighbours.
pub const Q_PHRASE_TERMS_MAX: usize = 64;
/// Shortest beginning that `word*` expands; a shorter one is the word itself. One letter would read half the
/// dictionary.
pub const PREFIX_CHARS_MIN: usize = 2;

/// One thing to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryTerm {
    /// One term.
    Term(String),
    /// Any term with this beginning.
    Prefix(String),
    /// Terms at these distances from the first; at least two.
    Phrase(Vec<(usize, String)>),
}

/// A query as read. Matches what has one of each group and none of the excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub groups: Vec<Vec<QueryTerm>>,
    pub excluded: Vec<QueryTerm>,
    /// The text had characters, whether or not anything to search for.
    given: bool,
}

impl Parsed {
    /// Whether the text said something that can match no document.
    pub fn matches_nothing(&self) -> bool {
        self.given && self.groups.is_empty() && self.excluded.is_empty()
    }

    /// Reads a query; never fails.
    pub fn read(q: &str) -> Parsed {
        let mut reader =
            QueryReader { parsed: Parsed::default(), terms: 0, pending_or: false, after_item: false };
        let mut rest = q.char_indices().nth(Q_CHARS_MAX).map_or(q, |(end, _)| &q[..end]).trim();
        reader.parsed.given = !rest.is_empty();
        let lone = rest;
        while !rest.is_empty() && reader.terms < Q_TERMS_MAX {
            let (piece, after) = QueryPiece::next(rest);
            rest = after.trim_start();
            reader.take(piece);
        }
        if lone == "OR" {
            // Alone it is no operator but Oregon.
            reader.take(QueryPiece { text: "or", excluded: false, quoted: false });
        }
        reader.parsed
    }
}

/// A stretch of the query between blanks or quotes.
#[derive(Clone, Copy)]
struct QueryPiece<'a> {
    text: &'a str,
    excluded: bool,
    quoted: bool,
}

impl<'a> QueryPiece<'a> {
    /// The first piece of `rest` (not empty, no leading blank) and what follows it.
    fn next(rest: &'a str) -> (QueryPiece<'a>, &'a str) {
        let (excluded, body) = match rest.strip_prefix('-') {
            Some(body) if body.starts_with(|c: char| !c.is_whitespace() && c != '-') => (true, body),
            _ => (false, rest),
        };
        if let Some(inner) = body.strip_prefix(is_quote) {
            let end = inner.find(is_quote).unwrap_or(inner.len());
            let after = inner[end..].strip_prefix(is_quote).unwrap_or("");
            return (QueryPiece { text: &inner[..end], excluded, quoted: true }, after);
        }
        let end = body.find(char::is_whitespace).unwrap_or(body.len());
        (QueryPiece { text: &body[..end], excluded, quoted: false }, &body[end..])
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '«' | '»')
}

struct QueryReader {
    parsed: Parsed,
    terms: usize,
    /// An `OR` waits for its right neighbour.
    pending_or: bool,
    /// The piece before was a positive one, so an `OR` has a left neighbour.
    after_item: bool,
}

impl QueryReader {
    fn take(&mut self, piece: QueryPiece<'_>) {
        if piece.text == "OR" && !piece.quoted && !piece.excluded {
            self.pending_or = self.after_item;
            return;
        }
        let Some(item) = item(piece) else { return };
        self.terms += 1;
        if piece.excluded {
            self.parsed.excluded.push(item);
            (self.pending_or, self.after_item) = (false, false);
            return;
        }
        match self.parsed.groups.last_mut() {
            Some(group) if self.pending_or => group.push(item),
            _ => self.parsed.groups.push(vec![item]),
        }
        (self.pending_or, self.after_item) = (false, true);
    }
}

/// The piece as something to look for; `None` when it holds no letter and no digit.
fn item(piece: QueryPiece<'_>) -> Option<QueryTerm> {
    let mut analyzer = analyze::analyzer(TextRole::Query);
    let (mut terms, mut end): (Vec<(usize, String)>, usize) = (Vec::new(), 0);
    let mut stream = analyzer.token_stream(piece.text);
    while terms.len() < Q_PHRASE_TERMS_MAX && stream.advance() {
        let token = stream.token();
        terms.push((token.position, token.text.clone()));
        end = token.offset_to;
    }
    match terms.len() {
        0 => None,
        1 => {
            let (_, term) = terms.pop()?;
            let starred = !piece.quoted && &piece.text[end..] == "*";
            let long_enough = term.chars().count() >= PREFIX_CHARS_MIN;
            Some(if starred && long_enough { QueryTerm::Prefix(term) } else { QueryTerm::Term(term) })
        }
        _ => Some(QueryTerm::Phrase(terms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(text: &str) -> QueryTerm {
        QueryTerm::Term(text.to_owned())
    }

    fn phrase(terms: &[&str]) -> QueryTerm {
        QueryTerm::Phrase(terms.iter().enumerate().map(|(at, text)| (at, (*text).to_owned())).collect())
    }

    #[test]
    fn the_syntax_as_people_use_it() {
        let parsed = Parsed::read(r#"Red OR green shoes -kids "wide fit" -"second hand" run*"#);
        assert_eq!(
            parsed.groups,
            [
                vec![term("red"), term("green")],
                vec![term("shoes")],
                vec![phrase(&["wide", "fit"])],
                vec![QueryTerm::Prefix("run".into())]
            ]
        );
        assert_eq!(parsed.excluded, [term("kids"), phrase(&["second", "hand"])]);
    }

    #[test]
    fn everything_else_is_literal() {
        assert_eq!(Parsed::read("org:x").groups, [vec![phrase(&["org", "x"])]]);
        assert_eq!(Parsed::read("a* [1 TO 5] /x.*/").groups.len(), 5);
        assert_eq!(Parsed::read("\"unclosed end").groups, [vec![phrase(&["unclosed", "end"])]]);
        assert_eq!(Parsed::read("OR").groups, [vec![term("or")]]);
        assert_eq!(Parsed::read("OR fish OR -meat OR").groups, [vec![term("fish")]]);
        assert_eq!(Parsed::read("fish OR -meat").excluded, [term("meat")]);
        assert_eq!(Parsed::read("a - b --c").groups.len(), 3);
        assert_eq!(Parsed::read("“guten Tag”").groups, [vec![phrase(&["guten", "tag"])]]);
        assert_eq!(Parsed::read("手机*").groups, [vec![QueryTerm::Prefix("手机".into())]]);
    }

    #[test]
    fn nothing_to_search_for_matches_nothing_and_blank_is_no_search() {
        assert!(Parsed::read("!!! ** --").matches_nothing());
        assert!(Parsed::read("\"\"").matches_nothing());
        assert!(!Parsed::read(" \t ").matches_nothing());
        assert!(!Parsed::read("-only").matches_nothing());
    }

    #[test]
    fn hostile_input_is_bounded() {
        assert_eq!(Parsed::read(&"x ".repeat(10_000)).groups.len(), Q_TERMS_MAX);
        let long = Parsed::read(&"é".repeat(100_000));
        assert_eq!(long.groups, [vec![term(&"e".repeat(analyze::TERM_CHARS_MAX))]]);
        for q in ["\"", "-", "-\"", "*", "-*", "\"\" \"", "OR OR OR", "\u{0}\u{0}", "((((", "\\\"", "🦀 🦀"]
        {
            Parsed::read(q);
        }
    }
}
