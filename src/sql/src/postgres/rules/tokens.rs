//! A statement's words and signs, as the parser gets them.
//!
//! `trim(TRAILING FROM x)` and `trim(FROM x)` say nothing of what is taken away, which is blanks; the parser wants it said.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

/// The tokens of a text, with what the parser wants said.
pub(crate) fn of(sql: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location()?;
    let seen: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let mut bare: Vec<usize> = Vec::new();
    for (at, place) in seen.iter().enumerate() {
        if !is_word(&tokens[*place], &[Keyword::TRIM]) {
            continue;
        }
        let next = |behind: usize| seen.get(at + behind).map(|place| &tokens[*place]);
        if next(1).is_none_or(|open| open.token != Token::LParen) {
            continue;
        }
        let sides = [Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING];
        let behind = if next(2).is_some_and(|side| is_word(side, &sides)) { 3 } else { 2 };
        if next(behind).is_some_and(|from| is_word(from, &[Keyword::FROM])) {
            bare.extend(seen.get(at + behind));
        }
    }
    for place in bare.into_iter().rev() {
        let span = tokens[place].span;
        tokens.insert(place, TokenWithSpan { token: Token::SingleQuotedString(" ".to_owned()), span });
    }
    Ok(tokens)
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn is_word(token: &TokenWithSpan, words: &[Keyword]) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && words.contains(&word.keyword))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn what_is_trimmed_is_blanks_where_nothing_else_is_said() {
        for (sql, expected) in [
            ("SELECT trim(TRAILING FROM a)", "SELECT TRIM(TRAILING ' ' FROM a)"),
            (
                "SELECT TRIM( both  from a), trim(LEADING /* of */ FROM b)",
                "SELECT TRIM(BOTH ' ' FROM a), TRIM(LEADING ' ' FROM b)",
            ),
            ("SELECT trim(FROM a)", "SELECT TRIM(' ' FROM a)"),
            ("SELECT trim(BOTH 'x' FROM a), trim(a) FROM b", "SELECT TRIM(BOTH 'x' FROM a), TRIM(a) FROM b"),
            ("SELECT \"trim\" FROM a", "SELECT \"trim\" FROM a"),
        ] {
            let tokens = of(sql).expect("tokens");
            let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
            assert_eq!(parser.parse_statement().expect("it parses").to_string(), expected);
        }
    }
}
