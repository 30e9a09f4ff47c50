//! A statement's parameters, `$1` and on, given their values.
//!
//! A value becomes a literal in the place of its parameter, before anything else looks at the text: a text between quotes with
//! its own quotes doubled, which is all there is to escape (no backslash means anything there), a number by its digits. Only
//! what the tokenizer takes for a parameter is one: `'$1'` and `$$1$$` stay texts. A text that stands where a time or number is
//! compared is read as one, as PostgreSQL reads a parameter of unknown type.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use serde_json::Value;

use super::errors::{ErrorCode, QueryError};

/// Most parameters of a statement.
pub const PARAMETERS_MAX: usize = 100;

/// The statement with its parameters' values. An error names the parameter.
pub fn with_parameters(sql: &str, values: &[Value]) -> Result<String, QueryError> {
    let refused = |message: String| QueryError::new(ErrorCode::InvalidSql, message);
    if !sql.contains('$') && values.is_empty() {
        return Ok(sql.to_owned());
    }
    if values.len() > PARAMETERS_MAX {
        return Err(refused(format!(
            "params: has {} values; at most {PARAMETERS_MAX} are allowed.",
            values.len()
        )));
    }
    let literals = values
        .iter()
        .enumerate()
        .map(|(place, value)| literal(value).map_err(|why| refused(format!("params[{place}]: {why}."))));
    let literals = literals.collect::<Result<Vec<_>, _>>()?;
    let mut used = 0;
    let mut text = String::with_capacity(sql.len() + 64);
    let mut behind = 0;
    for (at, name) in parameters(sql) {
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let Some(number) = number else { continue };
        used = used.max(number);
        let literal = match number.checked_sub(1).and_then(|place| literals.get(place)) {
            Some(literal) => literal,
            None if number == 0 => return Err(refused("Parameters are counted from $1.".to_owned())),
            None => {
                let given = match values.len() {
                    0 => "none is".to_owned(),
                    1 => "one is".to_owned(),
                    count => format!("{count} are"),
                };
                return Err(refused(format!(
                    "params: the statement has the parameter ${number}, and {given} given; send a value for each."
                )));
            }
        };
        text.push_str(&sql[behind..at]);
        text.push_str(literal);
        behind = at + name.len();
    }
    text.push_str(&sql[behind..]);
    if used < values.len() {
        let names = match used {
            0 => "no parameter".to_owned(),
            used => format!("no parameter beyond ${used}"),
        };
        return Err(refused(format!("params: has {} values, and the statement has {names}.", values.len())));
    }
    Ok(text)
}

/// The parameters of a text with the places of their first bytes; none of a text that is no SQL, which the parser tells.
fn parameters(sql: &str) -> Vec<(usize, String)> {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location() else {
        return Vec::new();
    };
    let mut named = tokens.into_iter().filter_map(|token| match token.token {
        Token::Placeholder(name) => Some(((token.span.start.line, token.span.start.column), name)),
        _ => None,
    });
    let mut found = Vec::new();
    let Some(mut next) = named.next() else { return found };
    let (mut line, mut column) = (1, 1);
    for (at, char) in sql.char_indices() {
        if (line, column) == next.0 && sql[at..].starts_with(next.1.as_str()) {
            found.push((at, next.1));
            match named.next() {
                Some(other) => next = other,
                None => break,
            }
        }
        (line, column) = if char == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    found
}

/// A value as it stands in a statement.
fn literal(value: &Value) -> Result<String, String> {
    Ok(match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(true) => "TRUE".to_owned(),
        Value::Bool(false) => "FALSE".to_owned(),
        Value::String(text) if text.contains('\0') => return Err("must not contain a zero byte".to_owned()),
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        // A sign belongs to the number, whatever stands in front of it.
        Value::Number(number) => format!("({number})"),
        Value::Array(_) | Value::Object(_) => {
            return Err("must be a text, a number, true, false or null".to_owned());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_stand_where_parameters_stood() {
        for (sql, values, expected) in [
            (
                "SELECT $1, x-$2 FROM t WHERE a = $1 AND b IN ($3, $4) AND c = '$1'",
                json!(["it's; DROP TABLE t --", -5, true, null]),
                "SELECT 'it''s; DROP TABLE t --', x-(-5) FROM t WHERE a = 'it''s; DROP TABLE t --' AND b IN (TRUE, NULL) AND c = '$1'",
            ),
            (
                "SELECT $$a $1$$, E'\\'$1', \"$1\" -- $1\n, $1",
                json!([1.5]),
                "SELECT $$a $1$$, E'\\'$1', \"$1\" -- $1\n, (1.5)",
            ),
            ("SELECT 'a''b' /* $2 */ || $1", json!(["\\"]), "SELECT 'a''b' /* $2 */ || '\\'"),
            ("SELECT 1", json!([]), "SELECT 1"),
            ("SELECT U&'\\0061', $1", json!([1]), "SELECT U&'\\0061', (1)"),
        ] {
            let given = with_parameters(sql, values.as_array().expect("a list"));
            assert_eq!(given.expect("values for all"), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (sql, values, part) in [
            ("SELECT $1", json!([]), "the parameter $1, and none is given"),
            ("SELECT $1, $3", json!([1, 2]), "the parameter $3, and 2 are given"),
            ("SELECT $1", json!([1, 2]), "has 2 values, and the statement has no parameter beyond $1"),
            ("SELECT 1", json!([1]), "has 1 values, and the statement has no parameter"),
            ("SELECT $0", json!([1]), "counted from $1"),
            ("SELECT $1", json!([[1]]), "params[0]: must be a text"),
            ("SELECT $1, $2", json!([1, "a\u{0}b"]), "params[1]: must not contain a zero byte"),
        ] {
            let error = with_parameters(sql, values.as_array().expect("a list")).expect_err(sql);
            assert_eq!(error.code, ErrorCode::InvalidSql);
            assert!(error.message.contains(part), "{} for {part}", error.message);
        }
        let many = vec![Value::Null; PARAMETERS_MAX + 1];
        assert!(with_parameters("SELECT $1", &many).is_err());
    }
}
