//! Where in a statement an error is: line and column, both from 1, as the parser's own messages count them.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use crate::errors::{ErrorCode, QueryError};

/// How the parser says that a text is over too soon.
const AT_THE_END: &str = "found: EOF";

/// The error with the place of the piece of the statement that it is about, if that is found.
pub(crate) fn placed(mut error: QueryError, sql: &str) -> QueryError {
    // The parser gives no place to what it missed at the end.
    if error.code == ErrorCode::SyntaxError && error.message.ends_with(AT_THE_END) {
        let line = sql.lines().count().max(1);
        let column = sql.lines().next_back().map_or(0, |last| last.chars().count()) + 1;
        error.message.push_str(&format!(" at Line: {line}, Column: {column}"));
    }
    if let Some(about) = error.about.take()
        && let Some(at) = find(sql, &about)
    {
        tell(&mut error, at);
    }
    error
}

/// The error with a place that the syntax tree tells.
pub(super) fn placed_at(mut error: QueryError, span: Span) -> QueryError {
    error.about = None;
    // Whatever has no place is said to be in line 0.
    if span.start.line > 0 {
        tell(&mut error, span.start);
    }
    error
}

fn tell(error: &mut QueryError, at: Location) {
    error.message.push_str(&format!(" (line {}, column {})", at.line, at.column));
}

/// The first place of a piece, word by word; upper and lower case are one.
fn find(sql: &str, about: &str) -> Option<Location> {
    let tokens = |text: &str| -> Option<Vec<TokenWithSpan>> {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
        Some(tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect())
    };
    let (whole, piece) = (tokens(sql)?, tokens(about)?);
    if piece.is_empty() {
        return None;
    }
    let found = whole
        .windows(piece.len())
        .find(|window| window.iter().zip(&piece).all(|(left, right)| is_same(&left.token, &right.token)));
    // A column under the name of its table may stand there without it.
    let found = found.and_then(|window| window.first()).map(|token| token.span.start);
    found.or_else(|| {
        let (_, last) = about.rsplit_once('.')?;
        find(sql, last)
    })
}

fn is_same(left: &Token, right: &Token) -> bool {
    match (left, right) {
        (Token::Word(left), Token::Word(right)) => left.value.eq_ignore_ascii_case(&right.value),
        (left, right) => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_found_where_it_first_stands() {
        let sql = "SELECT r.url,\n  Lenght(r.\"Prise\") -- prise\nFROM readings r WHERE price::int = 'abc'";
        for (about, expected) in [
            ("lenght", Some((2, 3))),
            ("r.prise", Some((2, 10))),
            ("x.price", Some((3, 23))),
            ("'abc'", Some((3, 36))),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(find(sql, about).map(|at| (at.line, at.column)), expected, "{about}");
        }
        let error = placed(QueryError::invalid("There is no column \"prise\".").about("prise"), sql);
        assert_eq!(error.message, "There is no column \"prise\". (line 2, column 12)");
    }
}
