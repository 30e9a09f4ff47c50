//! JSON in its text form: members, paths, containment, and lists made into JSON.
//!
//! A text that is no JSON has no members: every question about it is answered with NULL, where PostgreSQL would fail when
//! it makes a `json` of it.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use serde_json::{Map, Value};

use super::json_text::{NUMBER, number, parse, written};
use super::{refused, strings};
use crate::spool::json as cells;

/// What is asked of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// The member of this name, or the element at this place; as text or as JSON.
    Member {
        as_text: bool,
    },
    /// The same at the end of a path in PostgreSQL's notation, `{a,b,0}`.
    AtPath {
        as_text: bool,
    },
    /// The same at the end of a path of one argument a step.
    Along {
        as_text: bool,
    },
    HasKey,
    Contains,
    ArrayLength,
    TypeOf,
    /// Any value as JSON.
    ToJson,
    /// An object of names and values in turn.
    Build,
    /// A list of the values.
    List,
    /// An object of a list of names and one of values.
    Object,
    /// The text, marked as JSON: it is put into other JSON as it is.
    Marked,
    /// The text as it is: what a cast to JSON gives, by which it is known as such (`rules/jsons.rs`).
    Named,
    /// Two objects or lists put together.
    Concat,
    /// A list's elements, as text or as JSON.
    Elements {
        as_text: bool,
    },
    /// An object's names.
    Keys,
    /// Its members in the same order, as text or as JSON.
    Members {
        as_text: bool,
    },
    /// Without members that are null.
    Stripped,
}

use Question::{
    Along, ArrayLength, AtPath, Build, Concat, Contains, Elements, HasKey, Keys, List, Marked, Member,
    Members, Named, Object, Stripped, ToJson, TypeOf,
};

/// The type of texts that are marked as JSON; no table and no other function has it.
const MARKED: DataType = DataType::LargeUtf8;

fn member(as_text: bool) -> ScalarUDF {
    udf(if as_text { "->>" } else { "->" }, Member { as_text })
}

/// `json -> 'a' ->> 'b'`: one step more behind those that the value is taken out by, if it is. A chain is one call, so that the text
/// is read once, and named once.
pub(super) fn member_of(value: Expr, as_text: bool, step: Expr) -> Expr {
    let mut arguments = match value {
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Json>() {
            Some(Json { question: Member { as_text: false }, .. }) => call.args,
            _ => vec![Expr::ScalarFunction(call)],
        },
        value => vec![value],
    };
    arguments.push(step);
    member(as_text).call(arguments)
}

pub(super) fn at_path(as_text: bool) -> ScalarUDF {
    udf(if as_text { "#>>" } else { "#>" }, AtPath { as_text })
}

/// `||` of two texts that are JSON; a chain of them is one call.
pub(crate) fn concatenation(left: Expr, right: Expr) -> Expr {
    let mut texts = match left {
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Json>() {
            Some(Json { question: Concat, .. }) => call.args,
            _ => vec![Expr::ScalarFunction(call)],
        },
        left => vec![left],
    };
    texts.push(right);
    udf("||", Concat).call(texts)
}

/// What marks texts, and lists of them, as JSON.
pub(crate) fn marked() -> ScalarUDF {
    udf("json_value", Marked)
}

/// The type of a text, or of a list of them, that is marked as JSON.
fn marked_type(kind: &DataType) -> DataType {
    match kind {
        DataType::List(item) => {
            let own = marked_type(item.data_type());
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(own)))
        }
        kind if kind.is_string() => MARKED,
        other => other.clone(),
    }
}

pub(super) fn has_key() -> ScalarUDF {
    udf("?", HasKey)
}

pub(super) fn contains() -> ScalarUDF {
    udf("@>", Contains)
}

pub(super) fn udf(name: &'static str, question: Question) -> ScalarUDF {
    let signature = match question {
        Along { .. } | Member { .. } | Build | List | Concat => {
            Signature::variadic_any(Volatility::Immutable)
        }
        ArrayLength
        | TypeOf
        | ToJson
        | Marked
        | Named
        | Elements { .. }
        | Keys
        | Members { .. }
        | Stripped => Signature::any(1, Volatility::Immutable),
        AtPath { .. } | HasKey | Contains | Object => Signature::any(2, Volatility::Immutable),
    };
    ScalarUDF::from(Json { name, question, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Json {
    name: &'static str,
    question: Question,
    signature: Signature,
}

impl ScalarUDFImpl for Json {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if self.question == Build && !arguments.len().is_multiple_of(2) {
            return plan_err!("the function {} needs a value for each name", self.name);
        }
        Ok(match self.question {
            HasKey | Contains => DataType::Boolean,
            ArrayLength => DataType::Int64,
            Marked => arguments.first().map_or(MARKED, marked_type),
            // What DataFusion's own gives, in whose stead it is called.
            Concat if arguments.contains(&DataType::Utf8View) => DataType::Utf8View,
            Elements { .. } | Keys | Members { .. } => DataType::new_list(DataType::Utf8, true),
            _ => DataType::Utf8,
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match <[Expr; 1]>::try_from(args) {
            Ok([text]) if self.question == Named && info.get_data_type(&text)? == DataType::Utf8 => {
                Ok(ExprSimplifyResult::Simplified(text))
            }
            Ok(args) => Ok(ExprSimplifyResult::Original(args.into())),
            Err(args) => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        if has_no_name(self.question, &arrays) {
            return refused("The name of a member of JSON may not be NULL.".to_owned());
        }
        let answer = match (self.question, arrays.as_slice()) {
            (ToJson, [values]) => {
                collect(rows, |row| values.is_valid(row).then(|| written(&plain(values, row))))
            }
            (List, values) => collect(rows, |row| {
                Some(written(&Value::Array(values.iter().map(|values| plain(values, row)).collect())))
            }),
            (Object, [names, values]) => collect(rows, |row| aggregated(names, values, row)),
            (Marked, [values]) => cast(values, &marked_type(values.data_type()))?,
            (Named, [texts]) => strings(texts)?,
            (Concat, texts) => {
                let texts = texts.iter().map(|text| cast(text, &MARKED)).collect::<Result<Vec<_>, _>>()?;
                let whole = collect(rows, |row| {
                    let values = texts.iter().map(|texts| Some(plain(texts, row)));
                    Some(written(&values.reduce(|left, right| concatenated(left?, right?))??))
                });
                cast(&whole, args.return_field.data_type())?
            }
            (Elements { .. } | Keys | Members { .. }, [texts]) => lists(self.question, &strings(texts)?),
            (Stripped, [texts]) => {
                let texts = strings(texts)?;
                let texts = texts.as_string::<i32>();
                let parsed = |row| parse(texts.is_valid(row).then(|| texts.value(row))?);
                collect(rows, |row| Some(written(&stripped(parsed(row)?))))
            }
            (Build, pairs) => collect(rows, |row| Some(written(&object(pairs, row)))),
            (question, [texts, rest @ ..]) => ask(question, texts, rest)?,
            _ => return exec_err!("{} got no argument", self.name),
        };
        Ok(ColumnarValue::Array(answer))
    }
}

fn collect(rows: usize, text: impl Fn(usize) -> Option<String>) -> ArrayRef {
    Arc::new((0..rows).map(text).collect::<StringArray>())
}

/// Whether an object is made of values one of which has no name.
fn has_no_name(question: Question, arrays: &[ArrayRef]) -> bool {
    match (question, arrays) {
        (Build, pairs) => pairs.iter().step_by(2).any(|names| names.logical_null_count() > 0),
        (Object, [names, _]) => match names.as_list_opt::<i32>() {
            Some(lists) => lists.iter().flatten().any(|names| names.logical_null_count() > 0),
            None => false,
        },
        _ => false,
    }
}

fn object(pairs: &[ArrayRef], row: usize) -> Value {
    let entries = pairs.chunks_exact(2);
    let entry = |pair: &[ArrayRef]| (name_of(plain(&pair[0], row)), plain(&pair[1], row));
    Value::Object(entries.map(entry).collect::<Map<_, _>>())
}

/// A value as a member's name.
fn name_of(value: Value) -> String {
    match value {
        Value::String(text) => text.trim_start_matches(NUMBER).to_owned(),
        other => written(&other),
    }
}

/// A value as JSON: a number with all its digits is a number, and what is marked as JSON is that.
fn plain(values: &ArrayRef, row: usize) -> Value {
    if values.is_null(row) {
        return Value::Null;
    }
    let parsed = |value: Value| match &value {
        Value::String(text) => parse(text).unwrap_or(value),
        _ => value,
    };
    match values.data_type() {
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Int64 => {
            parsed(cells::value(values, row))
        }
        kind if *kind == MARKED => parsed(cells::value(values, row)),
        DataType::List(_) => {
            let items = values.as_list::<i32>().value(row);
            Value::Array((0..items.len()).map(|item| plain(&items, item)).collect())
        }
        _ => cells::value(values, row),
    }
}

/// The object of a list of names and a list of values.
fn aggregated(names: &ArrayRef, values: &ArrayRef, row: usize) -> Option<String> {
    let (Value::Array(names), Value::Array(values)) = (plain(names, row), plain(values, row)) else {
        return None;
    };
    Some(written(&Value::Object(names.into_iter().map(name_of).zip(values).collect())))
}

/// Objects have the members of both, the right one's going before; anything else is a list.
fn concatenated(left: Value, right: Value) -> Option<Value> {
    let list = |value: Value| match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    Some(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Object(mut left), Value::Object(right)) => {
            left.extend(right);
            Value::Object(left)
        }
        (left, right) => Value::Array(list(left).into_iter().chain(list(right)).collect()),
    })
}

/// Without the members of objects that are null.
fn stripped(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let left = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(left.map(|(name, value)| (name, stripped(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(stripped).collect()),
        other => other,
    }
}

/// Elements or names, a list for each text.
fn lists(question: Question, texts: &ArrayRef) -> ArrayRef {
    let texts = texts.as_string::<i32>();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..texts.len() {
        let parsed = texts.is_valid(row).then(|| parse(texts.value(row))).flatten();
        let items: Option<Vec<Option<String>>> = match (question, parsed) {
            (Elements { as_text: true }, Some(Value::Array(items))) => {
                Some(items.into_iter().map(as_plain).collect())
            }
            (Elements { .. }, Some(Value::Array(items))) => {
                Some(items.iter().map(|item| Some(written(item))).collect())
            }
            (Members { as_text }, Some(Value::Object(members))) => {
                let shown = |value: Value| if as_text { as_plain(value) } else { Some(written(&value)) };
                Some(members.into_iter().map(|(_, value)| shown(value)).collect())
            }
            (Keys, Some(Value::Object(members))) => {
                Some(members.into_iter().map(|(name, _)| Some(name)).collect())
            }
            _ => None,
        };
        lists.append_option(items);
    }
    Arc::new(lists.finish())
}

/// Asks it of every text.
fn ask(question: Question, texts: &ArrayRef, rest: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = strings(texts)?;
    let texts = texts.as_string::<i32>();
    let steps = rest.iter().map(Step::of).collect::<Result<Vec<_>>>()?;
    let rows = texts.len();
    let parsed = |row: usize| parse(texts.is_valid(row).then(|| texts.value(row))?);
    let found = |row: usize| -> Option<Value> {
        let mut value = parsed(row)?;
        match question {
            AtPath { .. } => {
                for step in path(&steps.first()?.text(row)?) {
                    value = lenient(value, &step)?;
                }
            }
            Along { .. } => {
                for step in &steps {
                    value = lenient(value, &step.text(row)?)?;
                }
            }
            _ => {
                for step in &steps {
                    value = step.strict(value, row)?;
                }
            }
        }
        Some(value)
    };
    Ok(match question {
        Member { as_text } | AtPath { as_text } | Along { as_text } => {
            collect(rows, |row| if as_text { as_plain(found(row)?) } else { Some(written(&found(row)?)) })
        }
        ArrayLength => {
            let length = |row| Some(parsed(row)?.as_array()?.len() as i64);
            Arc::new((0..rows).map(length).collect::<Int64Array>())
        }
        TypeOf => collect(rows, |row| Some(kind(&parsed(row)?).to_owned())),
        HasKey => {
            let has = |row| Some(has_member(&parsed(row)?, &steps.first()?.text(row)?));
            Arc::new((0..rows).map(has).collect::<BooleanArray>())
        }
        _ => {
            let held = |row| parse(&steps.first()?.text(row)?);
            let contains = |row| Some(holds(&parsed(row)?, &held(row)?));
            Arc::new((0..rows).map(contains).collect::<BooleanArray>())
        }
    })
}

/// One argument behind the text.
enum Step {
    Name(ArrayRef),
    Place(ArrayRef),
}

impl Step {
    fn of(argument: &ArrayRef) -> Result<Step> {
        if argument.data_type().is_integer() {
            return Ok(Step::Place(cast(argument, &DataType::Int64)?));
        }
        strings(argument).map(Step::Name)
    }

    fn text(&self, row: usize) -> Option<String> {
        match self {
            Step::Name(names) => {
                let names = names.as_string::<i32>();
                names.is_valid(row).then(|| names.value(row).to_owned())
            }
            Step::Place(places) => {
                let places = places.as_primitive::<Int64Type>();
                places.is_valid(row).then(|| places.value(row).to_string())
            }
        }
    }

    /// A name is one of an object, a number a place in a list.
    fn strict(&self, value: Value, row: usize) -> Option<Value> {
        match (self, value) {
            (Step::Name(_), Value::Object(mut members)) => members.remove(&self.text(row)?),
            (Step::Place(_), value @ Value::Array(_)) => lenient(value, &self.text(row)?),
            _ => None,
        }
    }
}

/// In a path, a number is a place in a list and a name in an object. Places below zero count from the end.
fn lenient(value: Value, step: &str) -> Option<Value> {
    match value {
        Value::Object(mut members) => members.remove(step),
        Value::Array(mut items) => {
            let place: i64 = step.parse().ok()?;
            let place = if place < 0 { place + items.len() as i64 } else { place };
            let place = usize::try_from(place).ok().filter(|place| *place < items.len())?;
            Some(items.swap_remove(place))
        }
        _ => None,
    }
}

/// The steps of `{a,"b c",0}`.
fn path(text: &str) -> Vec<String> {
    let inner = text.trim().trim_start_matches('{').trim_end_matches('}');
    if inner.is_empty() {
        return Vec::new();
    }
    inner.split(',').map(|step| step.trim().trim_matches('"').to_owned()).collect()
}

/// A text without its quotes; JSON's null is NULL.
fn as_plain(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.trim_start_matches(NUMBER).to_owned()),
        other => Some(written(&other)),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(text) if text.starts_with(NUMBER) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_member(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(members) => members.contains_key(name),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(name)),
        Value::String(text) => text == name,
        _ => false,
    }
}

/// PostgreSQL's containment: objects by their members, lists as sets.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|own| holds(own, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|own| holds(own, value)))
        }
        (Value::Array(whole), part) if !part.is_object() => {
            whole.iter().any(|own| !own.is_array() && holds(own, part))
        }
        (whole, part) => match (number(whole), number(part)) {
            (Some(whole), Some(part)) => whole == part,
            _ => whole == part,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for text in [
            r#"{"a":1.50,"b":[1e3,"1.50","\"2.0\""],"c":12345678901234567890123}"#,
            "1.0",
            "-0",
            "[1,2.5]",
            "\"x\"",
        ] {
            assert_eq!(parse(text).map(|value| written(&value)).as_deref(), Some(text));
        }
        assert_eq!(as_plain(parse("1.50").expect("JSON")).as_deref(), Some("1.50"));
        assert_eq!(
            (kind(&parse("1.50").expect("JSON")), number(&parse("1e3").expect("JSON"))),
            ("number", Some(1000.0))
        );
        // The mark itself does not come from outside.
        for (text, expected) in [
            (r#"{"t":"\u00005,\"x\":1","n":1.0}"#, r#"{"t":"\ufffd5,\"x\":1","n":1.0}"#),
            (r#"["\\u0000"]"#, r#"["\\u0000"]"#),
            (r#"["\\\u0000é\\"]"#, r#"["\\\ufffdé\\"]"#),
        ] {
            let expected = serde_json::from_str::<Value>(expected).expect("JSON").to_string();
            assert_eq!(parse(text).map(|value| written(&value)), Some(expected), "{text}");
        }
        for bad in ["1.5.0", "{", "\"x", "01", "1 2", "nul"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_mark_comes_out() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![r#"{"a":1.50,"b":[2.0,"x"],"c":"y"}"#]));
        for (as_text, expected) in
            [(false, ["1.50", r#"[2.0,"x"]"#, "\"y\""]), (true, ["1.50", r#"[2.0,"x"]"#, "y"])]
        {
            let members = lists(Members { as_text }, &texts).as_list::<i32>().value(0);
            let members: Vec<_> = members.as_string::<i32>().iter().flatten().map(str::to_owned).collect();
            assert_eq!(members, expected);
        }
        assert_eq!(name_of(parse("1.50").expect("JSON")), "1.50");
        assert!(holds(&parse("[1.50]").expect("JSON"), &parse("1.5").expect("JSON")));
    }

    #[test]
    fn paths_and_containment_follow_postgresql() {
        assert_eq!(path("{a, \"b c\",0}"), ["a", "b c", "0"]);
        assert_eq!(path("{}"), Vec::<String>::new());
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        for (whole, part, expected) in [
            (r#"{"a":1,"b":[1,2,3]}"#, r#"{"b":[3,1]}"#, true),
            (r#"{"a":1}"#, r#"{"a":1.0}"#, true),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
            ("[1,[2]]", "[[2]]", true),
            ("[1,2]", "2", true),
            ("[1,[2]]", "2", false),
            (r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, true),
            (r#"{"a":null}"#, r#"{"b":null}"#, false),
        ] {
            assert_eq!(holds(&json(whole), &json(part)), expected, "{whole} @> {part}");
        }
        assert_eq!(lenient(json("[1,2]"), "-1"), Some(json("2")));
        assert_eq!(lenient(json("[1,2]"), "2"), None);
    }
}
