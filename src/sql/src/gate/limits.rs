//! Limits on the text, before anything recursive sees it.
//!
//! A chain of 2,000 `1+1+…` (4 KB), 2,000 ORs or 3,000 UNIONs builds a tree as deep as it is long, and walking that
//! overflows the stack, which aborts the process. The tokenizer is flat, so it counts.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::errors::{ErrorCode, QueryError};

/// Longest statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 64 << 10;
/// Most tokens, blanks and comments not counted.
const TOKENS_MAX: usize = 10_000;
/// Most operators in one chain, that is between two commas, clauses or brackets.
const CHAIN_OPERATORS_MAX: usize = 500;
/// Most UNION, INTERSECT and EXCEPT in all.
const SET_OPERATORS_MAX: usize = 500;
/// Deepest brackets.
const BRACKETS_DEPTH_MAX: usize = 200;

/// Refuses a text that is too long; the server asks before it spends a process on it.
pub(crate) fn check_length(sql: &str) -> Result<(), QueryError> {
    if sql.len() > STATEMENT_BYTES_MAX {
        let kib = STATEMENT_BYTES_MAX >> 10;
        return Err(QueryError::invalid(format!("The statement is longer than {kib} KiB.")));
    }
    Ok(())
}

/// Checks all limits.
pub(super) fn check(sql: &str) -> Result<(), QueryError> {
    check_length(sql)?;
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize()
        .map_err(|error| QueryError::new(ErrorCode::SyntaxError, error.to_string()))?;
    let mut chains = vec![0_usize];
    let mut set_operators = 0;
    let mut count = 0;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        count += 1;
        match kind(token) {
            Kind::Open => chains.push(0),
            Kind::Close if chains.len() > 1 => {
                chains.pop();
            }
            Kind::Break => chains.last_mut().into_iter().for_each(|chain| *chain = 0),
            Kind::Operator => chains.last_mut().into_iter().for_each(|chain| *chain += 1),
            Kind::SetOperator => {
                set_operators += 1;
                chains.last_mut().into_iter().for_each(|chain| *chain = 0);
            }
            Kind::Subscript => {
                if chains.len() > 1 {
                    chains.pop();
                }
                chains.last_mut().into_iter().for_each(|chain| *chain += 1);
            }
            Kind::Close | Kind::Other => {}
        }
        let refusal = if count > TOKENS_MAX {
            Some(format!("The statement has more than {TOKENS_MAX} words and signs."))
        } else if chains.last().is_some_and(|chain| *chain > CHAIN_OPERATORS_MAX) {
            Some(format!("The statement chains more than {CHAIN_OPERATORS_MAX} operators."))
        } else if set_operators > SET_OPERATORS_MAX {
            Some(format!("The statement combines more than {SET_OPERATORS_MAX} queries."))
        } else if chains.len() > BRACKETS_DEPTH_MAX {
            Some("The statement is nested too deeply.".to_owned())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return Err(QueryError::invalid(refusal));
        }
    }
    Ok(())
}

enum Kind {
    Open,
    Close,
    Subscript,
    Break,
    Operator,
    SetOperator,
    Other,
}

fn kind(token: &Token) -> Kind {
    match token {
        Token::LParen | Token::LBrace | Token::LBracket => Kind::Open,
        Token::RParen | Token::RBrace => Kind::Close,
        // A subscript lengthens the chain that it ends.
        Token::RBracket => Kind::Subscript,
        Token::Comma | Token::SemiColon => Kind::Break,
        Token::Word(word) if word.quote_style.is_none() => match word.keyword {
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => Kind::SetOperator,
            Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::GROUP | Keyword::ORDER => Kind::Break,
            Keyword::HAVING | Keyword::LIMIT | Keyword::WHEN | Keyword::THEN | Keyword::ELSE => Kind::Break,
            Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::IS | Keyword::IN => Kind::Operator,
            Keyword::LIKE | Keyword::ILIKE | Keyword::BETWEEN | Keyword::JOIN | Keyword::AT => Kind::Operator,
            Keyword::COLLATE | Keyword::DIV | Keyword::XOR | Keyword::REGEXP | Keyword::RLIKE => {
                Kind::Operator
            }
            _ => Kind::Other,
        },
        Token::Word(_)
        | Token::Number(..)
        | Token::Char(_)
        | Token::EOF
        | Token::Whitespace(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_) => Kind::Other,
        // Every other token is an operator's sign, also `::`, `.` and unary signs.
        _ => Kind::Operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_are_refused_and_long_lists_are_not() {
        for bad in [
            format!("SELECT {}1", "1+".repeat(2000)),
            format!("SELECT 1 WHERE {}true", "true OR ".repeat(2000)),
            format!("SELECT 1 {}", "UNION ALL SELECT 1 ".repeat(3000)),
            format!("SELECT {}1", "- ".repeat(600)),
            format!("SELECT 1{}", "::int".repeat(600)),
            format!("SELECT {}1{}", "(".repeat(300), ")".repeat(300)),
            format!("SELECT {}", "1 ".repeat(11_000)),
            "x".repeat(70_000),
        ] {
            assert_eq!(check(&bad).expect_err("refused").code, ErrorCode::InvalidSql, "{}", &bad[..30]);
        }
        let list = format!("SELECT 1 WHERE 1 IN ({}1)", "1, ".repeat(4000));
        check(&list).expect("a long list is flat");
        check(&format!("SELECT {}1", "a+b, c*d, ".repeat(600))).expect("many short expressions");
        assert_eq!(check("SELECT 'open").expect_err("refused").code, ErrorCode::SyntaxError);
    }
}
