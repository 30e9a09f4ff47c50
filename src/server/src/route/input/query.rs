//! The query string as a struct.
//!
//! Unknown parameters are ignored, an empty value means none was given, a repeated name fills a `Vec` (and is refused
//! elsewhere, since nobody could say which one counts). Numbers and booleans are read from their text. The struct may
//! hold scalars, enums of names, options and vectors of them; `#[serde(flatten)]` is not supported, because serde
//! forgets the types through it.

use crate::call::request::Call;
use crate::route::input::Input;
use crate::route::input::json::wrong_field;
use crate::route::operation::Operation;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::de::value::{Error as Failure, MapDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use std::borrow::Cow;
use std::collections::HashMap;

/// Values of one parameter: each row of a list may be held against all of them.
const VALUES_MAX: usize = 100;

/// The parameters of the query string.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send> Input for Query<T> {
    async fn extract(call: &mut Call) -> Result<Self> {
        parse(call.query()).map(Query)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.query_parameters::<T>();
    }
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T> {
    let mut parameters: Vec<(Cow<'_, str>, ParameterValues<'_>)> = Vec::new();
    // By name: a head has room for some twenty thousand, too many to look through for each.
    let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if value.is_empty() {
            continue;
        }
        match places.get(&name) {
            Some(place) => {
                let values = &mut parameters[*place].1.0;
                if values.len() == VALUES_MAX {
                    return Err(Error::invalid(&name, format!("is given more than {VALUES_MAX} times")));
                }
                values.push(value);
            }
            None => {
                places.insert(name.clone(), parameters.len());
                parameters.push((name, ParameterValues(vec![value])));
            }
        }
    }
    let parameters = MapDeserializer::new(parameters.into_iter());
    serde_path_to_error::deserialize(parameters).map_err(|error| {
        let path = error.path().to_string();
        wrong_field(&path, &error.into_inner().to_string())
    })
}

/// What was given under one name; at least one.
struct ParameterValues<'a>(Vec<Cow<'a, str>>);

impl ParameterValues<'_> {
    /// The value where only one may be.
    fn single(mut self) -> Result<String, Failure> {
        match (self.0.pop(), self.0.is_empty()) {
            (Some(value), true) => Ok(value.into_owned()),
            _ => Err(de::Error::custom("is given more than once")),
        }
    }
}

impl<'de> IntoDeserializer<'de, Failure> for ParameterValues<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty, $words:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            let text = self.single()?;
            let digits = text.trim();
            let number: $type = digits.parse().map_err(|_| {
                if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return de::Error::custom("is too large a number");
                }
                de::Error::custom(format_args!(concat!("must be ", $words, ", not \"{}\""), text))
            })?;
            visitor.$visit(number)
        }
    )*};
}

impl<'de> Deserializer<'de> for ParameterValues<'_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_string(self.single()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.single()?.as_str() {
            "true" | "1" => visitor.visit_bool(true),
            "false" | "0" => visitor.visit_bool(false),
            other => Err(de::Error::custom(format_args!("must be true or false, not \"{other}\""))),
        }
    }

    numbers! {
        deserialize_u8 visit_u64 u64, "a whole number, 0 or more";
        deserialize_u16 visit_u64 u64, "a whole number, 0 or more";
        deserialize_u32 visit_u64 u64, "a whole number, 0 or more";
        deserialize_u64 visit_u64 u64, "a whole number, 0 or more";
        deserialize_i8 visit_i64 i64, "a whole number";
        deserialize_i16 visit_i64 i64, "a whole number";
        deserialize_i32 visit_i64 i64, "a whole number";
        deserialize_i64 visit_i64 i64, "a whole number";
        deserialize_f32 visit_f64 f64, "a number";
        deserialize_f64 visit_f64 f64, "a number";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter().map(|value| ParameterValues(vec![value]))))
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
        let text: StringDeserializer<Failure> = self.single()?.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Filter {
        status: Option<Status>,
        #[serde(default)]
        tag: Vec<String>,
        page_size: Option<u16>,
        fresh: Option<bool>,
        score: Option<f64>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Status {
        Running,
        Done,
    }

    fn refusal(query: &str) -> String {
        parse::<Filter>(query).unwrap_err().detail().unwrap().to_owned()
    }

    #[test]
    fn values_are_read_by_their_type() {
        let filter: Filter =
            parse("status=done&tag=a%20b&tag=c&pageSize=7&fresh=true&score=0.5&unknown=1&unknown=2").unwrap();
        assert_eq!(
            filter,
            Filter {
                status: Some(Status::Done),
                tag: vec!["a b".into(), "c".into()],
                page_size: Some(7),
                fresh: Some(true),
                score: Some(0.5),
            }
        );
        assert_eq!(parse::<Filter>("status=&tag=&pageSize=").unwrap(), Filter::default());
    }

    /// As many as a head has room for; each once compared with all before it took a second of the runtime's.
    #[test]
    fn many_parameters_are_read_in_one_go() {
        let query: Vec<String> = (0..200_000).map(|i| format!("p{i}=1")).collect();
        assert_eq!(parse::<Filter>(&query.join("&")).unwrap(), Filter::default());
        assert_eq!(refusal(&"tag=a&".repeat(101)), "tag: is given more than 100 times");
    }

    #[test]
    fn errors_name_the_parameter() {
        assert_eq!(refusal("pageSize=ten"), "pageSize: must be a whole number, 0 or more, not \"ten\"");
        assert_eq!(
            refusal("pageSize=70000"),
            "pageSize: must be a whole number, 0 or more, not integer 70000"
        );
        assert_eq!(refusal("pageSize=99999999999999999999"), "pageSize: is too large a number");
        assert_eq!(refusal("pageSize=1&pageSize=2"), "pageSize: is given more than once");
        assert_eq!(refusal("fresh=maybe"), "fresh: must be true or false, not \"maybe\"");
        assert!(refusal("status=gone").starts_with("status: must be one of \"running\""));
    }
}
