//! JSON into types, with errors that a person can act on.
//!
//! A body is read in two steps: as plain JSON, which finds what is no JSON at all (line and column), and from there into
//! its type through [`LenientDeserializer`], which takes `null` for "left out" (data/docs/api.md, "Conventions") and refuses an array
//! where an object is due, however deep: serde would fill a struct from it, member by member, and nobody means that. Only
//! when that fails is the second step taken again to find the path of the wrong field.

use base::limits::{BODY_BYTES_MAX, JSON_VALUES_MAX, JSON_VALUES_MAX_LARGE};
use base::{Code, Error, Result};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde_json::Value;
use std::borrow::Cow;

/// Plain JSON as `T`.
pub fn typed<T: DeserializeOwned>(value: &Value) -> Result<T> {
    if let Ok(parsed) = T::deserialize(LenientDeserializer(value)) {
        return Ok(parsed);
    }
    serde_path_to_error::deserialize(LenientDeserializer(value)).map_err(|error| {
        let path = error.path().to_string();
        wrong_field(&path, &error.into_inner().to_string())
    })
}

/// A body as plain JSON.
pub fn read(bytes: &[u8]) -> Result<Value> {
    let most = if bytes.len() > BODY_BYTES_MAX { JSON_VALUES_MAX_LARGE } else { JSON_VALUES_MAX };
    if bytes.len() > most && values_at_most(bytes) > most {
        return Err(Error::invalid("body", format!("has more than {most} values")));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or(&text);
        Error::new(Code::InvalidInput).message(format!(
            "The body is not JSON: {reason} at line {}, column {}.",
            error.line(),
            error.column()
        ))
    })
}

/// How many values there can be in a text of JSON: every one but the first stands behind a comma or a bracket. A value in
/// memory is some forty times as large as `0,`, so they are counted before they are made.
fn values_at_most(bytes: &[u8]) -> usize {
    let (mut count, mut rest) = (1, bytes);
    while let Some(quote) = memchr::memchr(b'"', rest) {
        count += separators(&rest[..quote]);
        rest = after_text(&rest[quote + 1..]);
    }
    count + separators(rest)
}

fn separators(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// What follows the quote that ends a text.
fn after_text(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let escaped = usize::from(rest[at] == b'\\');
        let ends = escaped == 0;
        rest = rest.get(at + 1 + escaped..).unwrap_or_default();
        if ends {
            return rest;
        }
    }
    &[]
}

/// The refusal of one field, from where serde was and what it said.
pub(crate) fn wrong_field(path: &str, said: &str) -> Error {
    let path = if path == "." { "" } else { path };
    if let Some(name) = between(said, "missing field `", "`") {
        let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        return Error::invalid(&field, "is required");
    }
    let field = if path.is_empty() { "body" } else { path };
    Error::invalid(field, reword(said))
}

/// serde speaks of Rust's types; a caller knows JSON's.
fn reword(said: &str) -> Cow<'_, str> {
    if let Some((found, expected)) = said
        .strip_prefix("invalid type: ")
        .or_else(|| said.strip_prefix("invalid value: "))
        // The last one: what was found may have the words in it.
        .and_then(|rest| rest.rsplit_once(", expected "))
    {
        return format!("must be {}, not {}", expected_words(expected), found_words(found)).into();
    }
    if let Some(rest) = said.strip_prefix("unknown variant ")
        && let Some((found, expected)) = rest.split_once(", expected ")
    {
        let expected = expected.trim_start_matches("one of ").replace('`', "\"");
        return format!("must be one of {expected}, not {}", found.replace('`', "\"")).into();
    }
    if said.starts_with("UUID parsing failed") {
        return "must be a UUID such as 0193b5c2-6f0e-7a41-9d0c-5b8f3c1e2a77".into();
    }
    Cow::Borrowed(said)
}

fn expected_words(expected: &str) -> Cow<'_, str> {
    match expected {
        "a sequence" => "an array".into(),
        "a map" => "an object".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        other if other.starts_with("struct ") => "an object".into(),
        other if other.starts_with("enum ") => "one of the documented values".into(),
        other => other.into(),
    }
}

fn found_words(found: &str) -> Cow<'_, str> {
    match found {
        "map" => "an object".into(),
        "sequence" => "an array".into(),
        "unit" | "unit value" | "Option value" => "null".into(),
        // Where something else was expected it may be anything: a password, a cookie in the wrong place.
        text if text.starts_with("string ") => "a string".into(),
        other => other.replace('`', "").into(),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split(after).next()
}

/// A JSON value whose objects, where a struct is read from them, seem to lack the members that are `null`. Free-form
/// objects keep theirs.
#[derive(Clone, Copy)]
struct LenientDeserializer<'de>(&'de Value);

type Failure = serde_json::Error;

macro_rules! scalars {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            self.0.$method(visitor)
        }
    )*};
}

impl<'de> IntoDeserializer<'de, Failure> for LenientDeserializer<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for LenientDeserializer<'de> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(LenientDeserializer));
                let value = visitor.visit_seq(&mut items)?;
                items.end().map(|()| value)
            }
            Value::Object(members) => visitor.visit_map(MapDeserializer::new(
                members.iter().map(|(k, v)| (k.as_str(), LenientDeserializer(v))),
            )),
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match self.0 {
            Value::Object(members) => {
                let given = members.iter().filter(|(_, value)| !value.is_null());
                visitor
                    .visit_map(MapDeserializer::new(given.map(|(k, v)| (k.as_str(), LenientDeserializer(v)))))
            }
            Value::Array(_) => Err(de::Error::invalid_type(Unexpected::Seq, &"a map")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    // Whoever asks for a scalar gets one: an id would also take an array of its sixteen bytes.
    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string
    }

    serde::forward_to_deserialize_any! {
        i128 u128 bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        typed(&read(bytes)?)
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Order {
        name: String,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        count_max: u32,
        #[serde(default)]
        lines: Vec<Line>,
        kind: Option<Kind>,
        #[serde(default)]
        notes: BTreeMap<String, Value>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Line {
        paths: Vec<String>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Big,
        Small,
    }

    fn refusal(text: &str) -> String {
        parse::<Order>(text.as_bytes()).unwrap_err().detail().unwrap().to_owned()
    }

    #[test]
    fn null_means_left_out_except_in_free_form_objects() {
        let order: Order =
            parse(br#"{"name":"a","tags":null,"countMax":null,"kind":null,"notes":{"x":null}}"#).unwrap();
        assert_eq!(order.tags, Vec::<String>::new());
        assert_eq!(order.notes["x"], Value::Null);
        assert_eq!(refusal(r#"{"name":null}"#), "name: is required");
    }

    #[test]
    fn what_is_no_json_is_named_by_line_and_column() {
        assert_eq!(
            refusal("{\n  \"name\": oops\n}"),
            "The body is not JSON: expected value at line 2, column 11."
        );
        assert!(refusal(&"[".repeat(1000)).contains("recursion limit"));
        assert!(refusal("{} {}").contains("trailing characters"));
        assert!(parse::<Order>(b"{\"name\":\"\xff\"}").is_err());
    }

    #[test]
    fn values_are_counted_before_they_are_made() {
        for (text, count) in
            [("", 1), ("7", 1), ("[1,2,3]", 4), (r#"{"a,[{":["b\\",",,"],"c\"[":{}}"#, 6), (r#""open \"#, 1)]
        {
            let found = values_at_most(text.as_bytes());
            assert_eq!(found, count, "{text}");
        }
        let many = format!("[{}0]", "0,".repeat(JSON_VALUES_MAX));
        assert!(refusal(&many).starts_with("body: has more than "), "{}", refusal(&many));
        let texts = format!("[\"{}\"]", ",".repeat(JSON_VALUES_MAX * 2));
        assert_eq!(refusal(&texts), "body: must be an object, not an array");
    }

    #[test]
    fn a_wrong_field_is_named_by_its_path() {
        assert_eq!(refusal("{}"), "name: is required");
        assert_eq!(refusal("[]"), "body: must be an object, not an array");
        let secret = refusal(r#"{"name":"a","tags":"opensesame, expected x"}"#);
        assert_eq!(
            secret, "tags: must be an array, not a string",
            "what stands in the wrong place may be a secret"
        );
        assert_eq!(
            refusal(r#"{"name":"a","lines":[{"paths":["x"]},{"paths":[1]}]}"#),
            "lines[1].paths[0]: must be a string, not integer 1"
        );
        let bytes = br#"{"id":[1,145,251,181,94,242,114,170,168,220,90,187,35,134,235,24]}"#;
        let error = parse::<BTreeMap<String, uuid::Uuid>>(bytes).unwrap_err();
        assert!(error.detail().unwrap().starts_with("id: must be "), "{error}");
        assert_eq!(refusal(r#"{"name":"a","lines":[{}]}"#), "lines[0].paths: is required");
        assert_eq!(refusal(r#"{"name":"a","lines":[[["x"]]]}"#), "lines[0]: must be an object, not an array");
        assert_eq!(
            refusal(r#"{"name":"a","countMax":-1}"#),
            "countMax: must be a whole number, 0 or more, not integer -1"
        );
        assert_eq!(
            refusal(r#"{"name":"a","kind":"huge"}"#),
            "kind: must be one of \"big\" or \"small\", not \"huge\""
        );
    }
}
