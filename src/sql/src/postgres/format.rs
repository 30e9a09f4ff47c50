//! `format('%s costs %s', …)`, and texts quoted for SQL.
//!
//! PostgreSQL's manual, 9.4.1: `%[position][flags][width]type` with the types `s`, `I`, `L` and `%`. The arguments come as
//! texts (`rules/calls.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::strings;
use crate::errors::{QueryError, told};

/// Widest field: a wider one would be blanks and nothing else.
const WIDTH_MAX: usize = 10_000;

pub(super) fn udf(work: Work) -> ScalarUDF {
    let signature = match work {
        Work::Format => Signature::variadic_any(Volatility::Immutable),
        Work::Identifier | Work::Literal | Work::Nullable => Signature::any(1, Volatility::Immutable),
    };
    ScalarUDF::from(Format { work, signature })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Format,
    Identifier,
    Literal,
    Nullable,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Format {
    work: Work,
    signature: Signature,
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &str {
        match self.work {
            Work::Format => "format",
            Work::Identifier => "quote_ident",
            Work::Literal => "quote_literal",
            Work::Nullable => "quote_nullable",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| strings(&arg.to_array(rows)?)).collect::<Result<Vec<_>>>()?;
        let texts: Vec<&StringArray> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
        let [first, rest @ ..] = texts.as_slice() else { return internal_err!("a text of no value") };
        let at = |array: &StringArray, row| array.is_valid(row).then(|| array.value(row).to_owned());
        let mut written = Vec::with_capacity(rows);
        for row in 0..rows {
            let value = at(first, row);
            written.push(match (self.work, value) {
                (Work::Format, Some(picture)) => {
                    let values: Vec<Option<String>> = rest.iter().map(|array| at(array, row)).collect();
                    Some(
                        filled(&picture, &values).map_err(|why| {
                            told(QueryError::failed(format!("format: {why}.")).about("format"))
                        })?,
                    )
                }
                (Work::Identifier, Some(text)) => Some(identifier(&text)),
                (Work::Literal | Work::Nullable, Some(text)) => Some(quoted(&text)),
                (Work::Nullable, None) => Some("NULL".to_owned()),
                (_, None) => None,
            });
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(written))))
    }
}

/// A text as a literal; with backslashes as one of PostgreSQL's escaped ones.
fn quoted(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// A name, in double quotes where it needs them.
fn identifier(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c == '_' || c.is_ascii_lowercase())
        && chars.all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
    if plain && !is_reserved(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Whether a word means something in SQL, so that it is no name without quotes.
fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

/// Words that PostgreSQL puts in quotes (its `pg_get_keywords()`), sorted.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
    "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
    "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
    "dec", "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest",
    "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer",
    "intersect", "interval", "into", "is", "isnull", "join", "lateral", "leading", "least", "left", "like",
    "limit", "localtime", "localtimestamp", "national", "natural", "nchar", "none", "normalize", "not",
    "notnull", "null", "nullif", "numeric", "offset", "on", "only", "or", "order", "out", "outer", "overlaps",
    "overlay", "placing", "position", "precision", "primary", "real", "references", "returning", "right",
    "row", "select", "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric",
    "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim", "true", "union",
    "unique", "user", "using", "values", "varchar", "variadic", "verbose", "when", "where", "window", "with",
    "xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse",
    "xmlpi", "xmlroot", "xmlserialize", "xmltable",
];

/// The picture with its fields filled.
fn filled(picture: &str, values: &[Option<String>]) -> Result<String, String> {
    let mut text = String::with_capacity(picture.len() + 16);
    let mut rest = picture;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            text.push('%');
            rest = behind;
            continue;
        }
        let mut take = |place: Option<usize>| -> Result<Option<String>, String> {
            let place = place.unwrap_or(next);
            next = place + 1;
            values
                .get(place)
                .cloned()
                .ok_or_else(|| "there are fewer arguments than the text asks for".to_owned())
        };
        let place = position(&mut rest)?;
        let mut to_left = false;
        while let Some(behind) = rest.strip_prefix('-') {
            (to_left, rest) = (true, behind);
        }
        let mut width = 0_i64;
        if let Some(behind) = rest.strip_prefix('*') {
            rest = behind;
            let of = position(&mut rest)?;
            let given = take(of)?.unwrap_or_default();
            width = if given.is_empty() {
                0
            } else {
                given.trim().parse().map_err(|_| "a width is a whole number".to_owned())?
            };
        } else if let Some(digits) = digits(&mut rest) {
            width = digits.parse().map_err(|_| "a width is too large".to_owned())?;
        }
        let kind = rest.chars().next().ok_or("the text ends within a field")?;
        rest = &rest[kind.len_utf8()..];
        let value = take(place)?;
        let value = match kind {
            's' => value.unwrap_or_default(),
            'I' => identifier(&value.ok_or("NULL is no name, and %I asks for one")?),
            'L' => value.map_or_else(|| "NULL".to_owned(), |value| quoted(&value)),
            other => return Err(format!("%{other} is no field: there are %s, %I, %L and %%")),
        };
        let wanted = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        if wanted > WIDTH_MAX {
            return Err(format!("a width is at most {WIDTH_MAX}"));
        }
        let blanks = " ".repeat(wanted.saturating_sub(value.chars().count()));
        match to_left || width < 0 {
            true => text.extend([value.as_str(), &blanks]),
            false => text.extend([blanks.as_str(), &value]),
        }
    }
    text.push_str(rest);
    Ok(text)
}

/// `2$`: the place of the argument, counted from 0.
fn position(rest: &mut &str) -> Result<Option<usize>, String> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let Some(behind) = rest[length..].strip_prefix('$').filter(|_| length > 0) else { return Ok(None) };
    let place: usize = rest[..length].parse().map_err(|_| "a position is too large".to_owned())?;
    *rest = behind;
    place.checked_sub(1).map(Some).ok_or_else(|| "positions are counted from 1".to_owned())
}

fn digits<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, behind) = rest.split_at(length);
    *rest = behind;
    (length > 0).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_filled_as_postgresql_fills_them() {
        let values = |texts: &[&str]| -> Vec<Option<String>> {
            texts.iter().map(|text| (*text != "NULL").then(|| (*text).to_owned())).collect()
        };
        for (picture, given, expected) in [
            ("Hello %s, %% %s", values(&["World", "NULL"]), Ok("Hello World, % ")),
            ("%2$s %1$s %s", values(&["a", "b"]), Ok("b a b")),
            ("|%10s|%-5s|", values(&["foo", "x"]), Ok("|       foo|x    |")),
            ("|%*s|%-*s|", values(&["4", "x", "3", "y"]), Ok("|   x|y  |")),
            ("|%*s|", values(&["-4", "x"]), Ok("|x   |")),
            ("%I %I %I", values(&["plain", "Foo\"bar", "select"]), Ok("plain \"Foo\"\"bar\" \"select\"")),
            ("%L %L", values(&["O'Reilly", "NULL"]), Ok("'O''Reilly' NULL")),
            ("%s", values(&[]), Err("there are fewer arguments than the text asks for")),
            ("%", values(&["a"]), Err("the text ends within a field")),
            ("%d", values(&["a"]), Err("%d is no field: there are %s, %I, %L and %%")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(filled(picture, &given), expected, "{picture}");
        }
        assert_eq!(quoted("a\\b"), "E'a\\\\b'");
    }
}
