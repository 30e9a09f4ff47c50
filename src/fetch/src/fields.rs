//! What an adapter asks its account for: credentials and settings, described once, checked and documented from that.
//!
//! A field is a name, a kind, and perhaps a default. [`check`] turns what a person sent into [`Values`] in which every
//! field with a default has a value and nothing else stands; a mistake names the field and says what is expected. The
//! same description gives the JSON Schema of the catalog.

use std::fmt;

use serde_json::{Map, Value, json};

/// Characters of a text that has no other limit.
const TEXT_CHARS_MAX: usize = 2_000;
/// Entries of a list that has no other limit.
const LIST_MAX: usize = 1_000;

/// The values of an account's fields, by name.
pub type Values = Map<String, Value>;

/// One thing that an adapter asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: String,
    /// For people: what it is, and where it is found.
    pub about: String,
    pub kind: FieldKind,
    /// Whether it has to be given. A field with a default never has to.
    pub is_required: bool,
    pub default: Option<Value>,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    Text,
    /// One of these.
    Choice(Vec<String>),
    Integer {
        min: i64,
        max: i64,
    },
    Boolean,
    /// Several texts.
    TextList,
    /// A country: ISO 3166-1 alpha-2 in upper case.
    Country,
}

/// A value that an adapter does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field with the name of its group, as in `settings.premiumTier`.
    pub field: String,
    pub reason: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for FieldError {}

impl Field {
    /// A text that has to be given.
    pub fn text(name: &str, about: &str) -> Self {
        let (name, about) = (name.to_owned(), about.to_owned());
        Self { name, about, kind: FieldKind::Text, is_required: true, default: None }
    }

    /// The same field of another kind, with a default.
    #[must_use]
    pub fn kind(mut self, kind: FieldKind, default: Option<Value>) -> Self {
        self.is_required &= default.is_none();
        self.kind = kind;
        self.default = default;
        self
    }

    /// The same field, which may be left out.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_required = false;
        self
    }

    /// Why `value` is not one for this field.
    pub fn refuse(&self, value: &Value) -> Option<String> {
        match (&self.kind, value) {
            (FieldKind::Text, Value::String(text)) => refuse_text(text),
            (FieldKind::Choice(choices), Value::String(text)) if choices.contains(text) => None,
            (FieldKind::Integer { min, max }, Value::Number(number))
                if number.as_i64().is_some_and(|n| (*min..=*max).contains(&n)) =>
            {
                None
            }
            (FieldKind::Boolean, Value::Bool(_)) => None,
            (FieldKind::TextList, Value::Array(items)) => refuse_list(items),
            (FieldKind::Country, Value::String(code))
                if code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()) =>
            {
                None
            }
            _ => Some(format!("must be {}", self.expected())),
        }
    }

    fn expected(&self) -> String {
        match &self.kind {
            FieldKind::Text => "a text".to_owned(),
            FieldKind::Choice(choices) => format!("one of {}", choices.join(", ")),
            FieldKind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            FieldKind::Boolean => "true or false".to_owned(),
            FieldKind::TextList => "a list of texts".to_owned(),
            FieldKind::Country => "a country code of two capital letters, such as DE".to_owned(),
        }
    }

    fn schema(&self) -> Value {
        let mut schema = match &self.kind {
            FieldKind::Text => json!({ "type": "string", "minLength": 1, "maxLength": TEXT_CHARS_MAX }),
            FieldKind::Choice(choices) => json!({ "type": "string", "enum": choices }),
            FieldKind::Integer { min, max } => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            FieldKind::Boolean => json!({ "type": "boolean" }),
            FieldKind::Country => json!({ "type": "string", "pattern": "^[A-Z]{2}$" }),
            FieldKind::TextList => {
                json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": LIST_MAX })
            }
        };
        schema["description"] = self.about.clone().into();
        if let Some(default) = &self.default {
            schema["default"] = default.clone();
        }
        schema
    }
}

fn refuse_text(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if text.chars().count() > TEXT_CHARS_MAX {
        return Some(format!("must not be longer than {TEXT_CHARS_MAX} characters"));
    }
    // It may come to stand in a header line or in a query.
    text.chars().any(char::is_control).then(|| "must not contain control characters".to_owned())
}

fn refuse_list(items: &[Value]) -> Option<String> {
    if !(1..=LIST_MAX).contains(&items.len()) {
        return Some(format!("must have 1 to {LIST_MAX} entries"));
    }
    (0..).zip(items).find_map(|(i, item)| match item {
        Value::String(text) => refuse_text(text).map(|reason| format!("[{i}] {reason}")),
        _ => Some(format!("[{i}] must be a text")),
    })
}

/// The values that `given` makes of `fields`: those that are there, and the defaults of those that are not. `null` is
/// as good as left out. `group` stands before a field's name in an error.
pub fn check(group: &str, fields: &[Field], given: &Values) -> Result<Values, FieldError> {
    let error = |name: &str, reason: String| FieldError { field: format!("{group}.{name}"), reason };
    if let Some(name) = given.keys().find(|name| !fields.iter().any(|field| field.name == **name)) {
        let known: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(error(name, format!("is not a field of this adapter; its fields are: {known}")));
    }
    let mut values = Values::new();
    for field in fields {
        match given.get(&field.name).filter(|value| !value.is_null()).or(field.default.as_ref()) {
            Some(value) => {
                if let Some(reason) = field.refuse(value) {
                    return Err(error(&field.name, reason));
                }
                values.insert(field.name.clone(), value.clone());
            }
            None if field.is_required => return Err(error(&field.name, "is missing".to_owned())),
            None => {}
        }
    }
    Ok(values)
}

/// The JSON Schema of an object with these fields.
pub fn schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.clone(), field.schema())).collect();
    let required: Vec<_> =
        fields.iter().filter(|field| field.is_required).map(|field| field.name.as_str()).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<Field> {
        let choice = FieldKind::Choice(vec!["premium".to_owned(), "ultra".to_owned()]);
        vec![
            Field::text("apiKey", "The key."),
            Field::text("tier", "Which.").kind(choice, Some("premium".into())),
            Field::text("pause", "Seconds.").kind(FieldKind::Integer { min: 1, max: 60 }, None).optional(),
            Field::text("loud", "Whether.").kind(FieldKind::Boolean, Some(false.into())),
            Field::text("places", "Where.").kind(FieldKind::TextList, None).optional(),
        ]
    }

    fn checked(given: Value) -> Result<Values, String> {
        let Value::Object(given) = given else { unreachable!("a literal object") };
        check("settings", &fields(), &given).map_err(|e| e.to_string())
    }

    #[test]
    fn fills_in_defaults_and_keeps_what_is_given() {
        let values = checked(json!({ "apiKey": "k", "pause": 5, "loud": null })).unwrap();
        assert_eq!(
            Value::Object(values),
            json!({ "apiKey": "k", "tier": "premium", "pause": 5, "loud": false })
        );
    }

    #[test]
    fn a_mistake_is_named() {
        for (given, error) in [
            (json!({}), "settings.apiKey: is missing"),
            (json!({ "apiKey": null }), "settings.apiKey: is missing"),
            (json!({ "apiKey": "" }), "settings.apiKey: must not be empty"),
            (json!({ "apiKey": 7 }), "settings.apiKey: must be a text"),
            (json!({ "apiKey": "a\nb" }), "settings.apiKey: must not contain control characters"),
            (json!({ "apiKey": "x".repeat(2_001) }), "settings.apiKey: must not be longer than 2000"),
            (json!({ "apiKey": "k", "tier": "best" }), "settings.tier: must be one of premium, ultra"),
            (json!({ "apiKey": "k", "pause": 61 }), "settings.pause: must be a whole number from 1 to 60"),
            (json!({ "apiKey": "k", "pause": 1.5 }), "settings.pause: must be a whole number"),
            (json!({ "apiKey": "k", "loud": "yes" }), "settings.loud: must be true or false"),
            (json!({ "apiKey": "k", "places": [] }), "settings.places: must have 1 to 1000"),
            (json!({ "apiKey": "k", "places": ["a", 1] }), "settings.places: [1] must be a text"),
            (
                json!({ "apikey": "k" }),
                "settings.apikey: is not a field of this adapter; its fields are: apiKey, tier",
            ),
        ] {
            let found = checked(given.clone()).unwrap_err();
            assert!(found.contains(error), "{given}: {found}");
        }
    }

    #[test]
    fn the_schema_says_the_same() {
        let schema = schema(&fields());
        assert_eq!(schema["required"], json!(["apiKey"]));
        assert_eq!(schema["properties"]["tier"]["enum"], json!(["premium", "ultra"]));
        assert_eq!(schema["properties"]["loud"]["default"], json!(false));
    }
}
