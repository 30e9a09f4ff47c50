//! Expressions as they are written, put together and looked at.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, Query, Statement, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

/// Takes an expression out of its place.
pub(super) fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

pub(super) fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}

pub(super) fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

pub(super) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The text of a literal.
pub(super) fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// Whether an unquoted identifier is this word.
pub(super) fn is(name: &Ident, word: &str) -> bool {
    name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word)
}

/// A statement, for tests of what becomes of it.
#[cfg(test)]
pub(super) fn parsed(sql: &str) -> Statement {
    Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("it parses").remove(0)
}

/// A query to be filled in.
pub(super) fn template() -> Query {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT 1 FROM (SELECT 1) AS q");
    match parsed.map(|mut statements| statements.pop()) {
        Ok(Some(Statement::Query(query))) => *query,
        other => unreachable!("a constant text is one query, and not {other:?}"),
    }
}
