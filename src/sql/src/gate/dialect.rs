//! PostgreSQL's dialect as the gate parses it.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

const THEIRS: PostgreSqlDialect = PostgreSqlDialect {};

/// The parser's own, but that the name of an argument (`days => 3`) is a word and no expression. To find out whether an expression
/// is the name of one the parser reads it, and when it is none reads it once more: with every call within a call twice as
/// often. Some thirty of them kept a thread of the server busy for hours.
#[derive(Debug)]
pub(super) struct Postgres;

/// What is as PostgreSQL has it.
macro_rules! theirs {
    ($($name:ident),* $(,)?) => { $(fn $name(&self) -> bool { THEIRS.$name() })* };
}

impl Dialect for Postgres {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        THEIRS.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        THEIRS.is_delimited_identifier_start(letter)
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        THEIRS.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        THEIRS.is_identifier_part(letter)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        THEIRS.is_reserved_for_identifier(word)
    }

    fn is_custom_operator_part(&self, letter: char) -> bool {
        THEIRS.is_custom_operator_part(letter)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        THEIRS.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        THEIRS.prec_value(precedence)
    }

    theirs! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;

    /// What analysts ask, which is compared with PostgreSQL's answers (`tests/it/bi/differential.rs`).
    const ANALYST: &str = include_str!("../../../../tests/it/bi/analyst.sql");

    fn parsed(dialect: &dyn Dialect, sql: &str) -> Result<String, ParserError> {
        let statements: Vec<Statement> = Parser::parse_sql(dialect, sql)?;
        Ok(statements.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_analysts_ask_is_read_as_the_parser_reads_it() {
        let mut statements = 0;
        for sql in ANALYST.lines().filter(|line| !line.starts_with("--")) {
            assert_eq!(parsed(&Postgres, sql), parsed(&THEIRS, sql), "{sql}");
            statements += usize::from(!sql.is_empty());
        }
        assert!(statements > 500, "{statements} statements");
    }
}
