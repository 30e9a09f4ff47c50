//! JSON in its text form: members, paths, containment, and lists made into JSON.
//!
//! A text that is no JSON has no members: every question about it is answered with NULL, where PostgreSQL would fail when
//! it makes a `json` of it.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use serde_json::{Map, Value};

use super::strings;
use crate::engine::sql::spool::json as cells;

/// What is asked of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
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
}

use Question::{Along, ArrayLength, AtPath, Build, Contains, HasKey, Member, ToJson, TypeOf};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let named = [
        ("json_extract_path", Along { as_text: false }),
        ("jsonb_extract_path", Along { as_text: false }),
        ("json_extract_path_text", Along { as_text: true }),
        ("jsonb_extract_path_text", Along { as_text: true }),
        ("json_array_length", ArrayLength),
        ("jsonb_array_length", ArrayLength),
        ("json_typeof", TypeOf),
        ("jsonb_typeof", TypeOf),
        ("to_json", ToJson),
        ("to_jsonb", ToJson),
        ("json_build_object", Build),
        ("jsonb_build_object", Build),
    ];
    named.into_iter().map(|(name, question)| udf(name, question)).collect()
}

pub(super) fn member(as_text: bool) -> ScalarUDF {
    udf(if as_text { "->>" } else { "->" }, Member { as_text })
}

pub(super) fn at_path(as_text: bool) -> ScalarUDF {
    udf(if as_text { "#>>" } else { "#>" }, AtPath { as_text })
}

pub(super) fn has_key() -> ScalarUDF {
    udf("?", HasKey)
}

pub(super) fn contains() -> ScalarUDF {
    udf("@>", Contains)
}

fn udf(name: &'static str, question: Question) -> ScalarUDF {
    let signature = match question {
        Along { .. } | Build => Signature::variadic_any(Volatility::Immutable),
        ArrayLength | TypeOf | ToJson => Signature::any(1, Volatility::Immutable),
        Member { .. } | AtPath { .. } | HasKey | Contains => Signature::any(2, Volatility::Immutable),
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
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let answer = match (self.question, arrays.as_slice()) {
            (ToJson, [values]) => {
                collect(rows, |row| values.is_valid(row).then(|| cells::value(values, row).to_string()))
            }
            (Build, pairs) => collect(rows, |row| Some(object(pairs, row).to_string())),
            (question, [texts, rest @ ..]) => ask(question, texts, rest)?,
            _ => return exec_err!("{} got no argument", self.name),
        };
        Ok(ColumnarValue::Array(answer))
    }
}

fn collect(rows: usize, text: impl Fn(usize) -> Option<String>) -> ArrayRef {
    std::sync::Arc::new((0..rows).map(text).collect::<StringArray>())
}

fn object(pairs: &[ArrayRef], row: usize) -> Value {
    let name = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let entries = pairs.chunks_exact(2);
    let entry = |pair: &[ArrayRef]| (name(cells::value(&pair[0], row)), cells::value(&pair[1], row));
    Value::Object(entries.map(entry).collect::<Map<_, _>>())
}

/// Asks it of every text.
fn ask(question: Question, texts: &ArrayRef, rest: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = strings(texts)?;
    let texts = texts.as_string::<i32>();
    let steps = rest.iter().map(Step::of).collect::<Result<Vec<_>>>()?;
    let rows = texts.len();
    let parsed = |row: usize| {
        let text = texts.is_valid(row).then(|| texts.value(row))?;
        serde_json::from_str::<Value>(text).ok()
    };
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
            _ => value = steps.first()?.strict(value, row)?,
        }
        Some(value)
    };
    Ok(match question {
        Member { as_text } | AtPath { as_text } | Along { as_text } => {
            collect(rows, |row| if as_text { as_plain(found(row)?) } else { Some(found(row)?.to_string()) })
        }
        ArrayLength => {
            let length = |row| Some(parsed(row)?.as_array()?.len() as i64);
            std::sync::Arc::new((0..rows).map(length).collect::<Int64Array>())
        }
        TypeOf => collect(rows, |row| Some(kind(&parsed(row)?).to_owned())),
        HasKey => {
            let has = |row| Some(has_member(&parsed(row)?, &steps.first()?.text(row)?));
            std::sync::Arc::new((0..rows).map(has).collect::<BooleanArray>())
        }
        _ => {
            let held = |row| serde_json::from_str(&steps.first()?.text(row)?).ok();
            let contains = |row| Some(holds(&parsed(row)?, &held(row)?));
            std::sync::Arc::new((0..rows).map(contains).collect::<BooleanArray>())
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
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
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
        (Value::Array(whole), part) if !part.is_object() => whole.contains(part),
        (Value::Number(whole), Value::Number(part)) => whole.as_f64() == part.as_f64(),
        (whole, part) => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, true),
            (r#"{"a":null}"#, r#"{"b":null}"#, false),
        ] {
            assert_eq!(holds(&json(whole), &json(part)), expected, "{whole} @> {part}");
        }
        assert_eq!(lenient(json("[1,2]"), "-1"), Some(json("2")));
        assert_eq!(lenient(json("[1,2]"), "2"), None);
    }
}
