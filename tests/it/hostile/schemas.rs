//! Bodies made from the document's schemas: a right one, and each that is wrong in one place.

use serde_json::{Map, Value, json};

/// A body with one thing wrong, and the path that must be named.
pub struct Wrong {
    pub field: String,
    pub body: Value,
}

/// The schemas of a document.
pub struct Schemas<'a>(pub &'a Value);

impl<'a> Schemas<'a> {
    /// The schema itself, behind its reference; of several, the one that says most.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.resolve(self.0.pointer(reference.trim_start_matches('#')).unwrap());
        }
        let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        let Some(choices) = choices else { return schema };
        let resolved = choices.iter().map(|choice| self.resolve(choice));
        let weight = |schema: &&Value| match schema["type"].as_str() {
            Some("object") => 2,
            Some("null") | None => 0,
            Some(_) => 1,
        };
        resolved.max_by_key(weight).unwrap()
    }

    /// What a schema comes down to.
    pub fn plain(&self, schema: &'a Value) -> Value {
        self.resolve(schema).clone()
    }

    /// The JSON types that a schema allows; none when it says nothing.
    pub fn types(&self, schema: &'a Value) -> Vec<&'a str> {
        if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            return choices.iter().flat_map(|choice| self.types(choice)).collect();
        }
        if schema["$ref"].is_string() {
            return self.types(self.resolve(schema));
        }
        match &schema["type"] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// A value that fits, with every member.
    pub fn right(&self, schema: &'a Value) -> Value {
        let schema = self.resolve(schema);
        if let Some(value) = schema["enum"].get(0).or(schema.get("const")) {
            return value.clone();
        }
        match self.types(schema).first().copied() {
            Some("string") => match schema["format"].as_str() {
                Some("uuid") => json!("01890a5d-ac96-774b-bcce-b302099a8057"),
                Some("date-time") => json!("2031-02-03T04:05:06Z"),
                Some("email") => json!("ada@example.com"),
                _ => json!("text"),
            },
            Some("integer") => schema["minimum"].as_i64().unwrap_or(1).into(),
            Some("number") => json!(0.5),
            Some("boolean") => json!(true),
            Some("array") => json!([self.right(&schema["items"])]),
            Some("object") => {
                let members = schema["properties"].as_object().into_iter().flatten();
                Value::Object(members.map(|(name, schema)| (name.clone(), self.right(schema))).collect())
            }
            _ => Value::Null,
        }
    }

    /// Every body that is wrong in one place: a type, a name, a number out of range, a required member left out.
    pub fn wrong(&self, schema: &'a Value) -> Vec<Wrong> {
        let mut all = Vec::new();
        self.walk(schema, "", &mut |field, value| all.push((field, value)));
        let right = self.right(schema);
        all.into_iter()
            .map(|(field, value)| {
                let mut body = right.clone();
                put(&mut body, &field, value);
                Wrong { field, body }
            })
            .collect()
    }

    fn walk(&self, schema: &'a Value, field: &str, add: &mut impl FnMut(String, Option<Value>)) {
        let allowed = self.types(schema);
        if !field.is_empty() {
            self.wrong_values(schema, &allowed).for_each(|value| add(field.to_owned(), Some(value)));
        }
        let schema = self.resolve(schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let inner = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
            let required = schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
            if required {
                add(inner.clone(), None);
                add(inner.clone(), Some(Value::Null));
            }
            self.walk(property, &inner, add);
        }
        if self.types(schema).contains(&"array") {
            self.walk(&schema["items"], &format!("{field}[0]"), add);
        }
    }

    fn wrong_values(&self, schema: &'a Value, allowed: &[&str]) -> impl Iterator<Item = Value> + use<'a> {
        const TYPED: &[(&str, &str)] = &[
            ("string", "\"text\""),
            ("integer", "7"),
            ("number", "1.5"),
            ("number", "-1e300"),
            ("boolean", "true"),
            ("array", "[]"),
            ("array", "[[]]"),
            ("array", "[\"http://example.com/\", true, 1, null]"),
            ("object", "{}"),
            ("object", "{\"$gt\": \"\"}"),
        ];
        let is_free = allowed.is_empty();
        let fits = |kind: &str| allowed.contains(&kind) || (kind == "integer" && allowed.contains(&"number"));
        let mut values: Vec<Value> = TYPED
            .iter()
            .filter(|(kind, _)| !is_free && !fits(kind))
            .map(|(_, text)| serde_json::from_str(text).unwrap())
            .collect();
        let schema = self.resolve(schema);
        if schema.get("enum").is_some() {
            values.extend([json!("no such name"), json!(""), json!("x".repeat(100_000))]);
        }
        if matches!(schema["format"].as_str(), Some("uuid" | "date-time")) {
            values.extend(["", "7", "\u{0}", "2026-02-30T00:00:00Z"].map(Value::from));
        }
        if schema["format"] == "uuid" {
            values.push(json!([1, 145, 251, 181, 94, 242, 114, 170, 168, 220, 90, 187, 35, 134, 235, 24]));
        }
        if allowed.contains(&"integer") && schema["minimum"] == 0 {
            values.push(json!(-1));
            values.extend(schema["maximum"].as_u64().map(|most| json!(most + 1)));
            values.push(json!(1e30));
        }
        values.into_iter()
    }
}

/// Sets the place that `field` names, or takes it away.
pub fn put(body: &mut Value, field: &str, value: Option<Value>) {
    let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value)),
        (Value::Object(members), None) => drop(Map::shift_remove(members, name)),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        (other, _) => panic!("{field} is not in {other}"),
    }
}
