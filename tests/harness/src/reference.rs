//! Whether answers are what the reference says: each has a status that its operation declares, a media type of that status,
//! the shape, the bounds and the formats of its schema and nothing beside, each error a code that its operation names.

use crate::text;
use http::Method;
use serde_json::Value;
use server::client::{Client, Reply};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Statuses whose answers are not described by the operation: the router gives them.
const UNDESCRIBED: [u16; 1] = [405];

/// The document, and what did not keep to it.
pub struct Reference {
    document: Value,
    findings: Vec<String>,
    /// Operations with the statuses and media types that were seen.
    seen: BTreeSet<String>,
}

impl Reference {
    pub fn new(document: Value) -> Reference {
        Reference { document, findings: Vec::new(), seen: BTreeSet::new() }
    }

    /// What was seen so far, as in `GET /api/v1/jobs 200 application/json`.
    pub fn seen(&self) -> &BTreeSet<String> {
        &self.seen
    }

    /// # Panics
    /// When an answer was not as the document says.
    pub fn assert_kept(&self) {
        assert!(self.findings.is_empty(), "{}", self.findings.join("\n"));
    }

    /// Sends a request and holds its answer against the operation at `path`, a path of the document.
    pub async fn call(
        &mut self,
        client: &Client,
        method: Method,
        path: &str,
        id: &str,
        body: Option<&Value>,
    ) -> Reply {
        let (plain, query) =
            path.split_once('?').map_or((path, ""), |(plain, _)| (plain, &path[plain.len()..]));
        let at = plain.replace("{id}", id).replace("{name}", id);
        let reply = client.send(method.clone(), &format!("{at}{query}"), body).await.expect("an answer");
        let place = format!("{method} {at}{query} {}: {}", body.unwrap_or(&Value::Null), reply.status);
        self.hold(&place, method.as_str(), plain, &reply);
        reply
    }

    /// Holds an answer against the operation at `path`, a path of the document.
    pub fn hold(&mut self, place: &str, method: &str, path: &str, reply: &Reply) {
        let status = reply.status.as_u16();
        if UNDESCRIBED.contains(&status) {
            return;
        }
        let document = self.document.clone();
        let response = &document["paths"][path][method.to_lowercase()]["responses"][status.to_string()];
        if response.is_null() {
            return self.findings.push(format!("{place}: the status is not declared"));
        }
        let media_type = reply.header("content-type").split(';').next().unwrap_or_default().trim();
        self.seen.insert(format!("{method} {path} {status} {media_type}").trim_end().to_owned());
        let Some(content) = response["content"].as_object() else {
            if !reply.bytes.is_empty() {
                self.findings.push(format!("{place}: has a body that is not declared"));
            }
            return;
        };
        let Some(form) = content.get(media_type) else {
            return self.findings.push(format!("{place}: {media_type:?} is not declared"));
        };
        if media_type == "application/json" || media_type.ends_with("+json") {
            let mut findings = Vec::new();
            Schema { document: &document, findings: &mut findings }.check("", &form["schema"], &reply.json);
            self.findings.extend(findings.into_iter().map(|finding| format!("{place}: {finding}")));
        }
        if let Some(code) = reply.json["error"]["code"].as_str()
            && status >= 400
            && !text(response, "description").contains(&format!("`{code}`"))
        {
            self.findings.push(format!("{place}: {code} is not declared"));
        }
    }
}

/// As much of JSON Schema as the document uses.
struct Schema<'a> {
    document: &'a Value,
    findings: &'a mut Vec<String>,
}

impl Schema<'_> {
    fn check(&mut self, at: &str, schema: &Value, value: &Value) {
        if let Some(reference) = schema["$ref"].as_str() {
            let mut target =
                self.document.pointer(reference.trim_start_matches('#')).expect("a definition").clone();
            // What stands beside a reference holds as well: which of several forms it is, say.
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                target["properties"][name] = property.clone();
            }
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            match target["required"].as_array_mut() {
                Some(all) => all.extend(required),
                None => target["required"] = required.into(),
            }
            return self.check(at, &target, value);
        }
        if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let fits = |choice: &Value| {
                let mut findings = Vec::new();
                Schema { document: self.document, findings: &mut findings }.check(at, choice, value);
                findings.is_empty()
            };
            if !choices.iter().any(fits) {
                self.findings.push(format!("{at}: {value} is none of the choices"));
            }
            return;
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if !types.is_empty() && !types.contains(&kind) {
            self.findings.push(format!("{at}: {value} is no {types:?}"));
        }
        let listed = schema["enum"].as_array().is_none_or(|values| value.is_null() || values.contains(value));
        let constant = schema.get("const").is_none_or(|constant| constant == value);
        let number = value.as_f64();
        let least = schema["minimum"].as_f64().zip(number).is_none_or(|(least, number)| number >= least);
        let most = schema["maximum"].as_f64().zip(number).is_none_or(|(most, number)| number <= most);
        let format = value.as_str().is_none_or(|text| match schema["format"].as_str() {
            Some("uuid") => Uuid::parse_str(text).is_ok(),
            Some("date-time") => text.len() == "2026-11-21T12:22:44.734Z".len() && text.ends_with('Z'),
            Some("uri") => url::Url::parse(text).is_ok(),
            _ => true,
        });
        if !(listed && constant && least && most && format) {
            self.findings.push(format!("{at}: {value} is not as {schema} says"));
        }
        if let (Some(members), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = required.filter(|name| !members.contains_key(*name));
            self.findings.extend(missing.map(|name| format!("{at}.{name} is missing")));
            for (name, member) in members {
                match properties.get(name) {
                    Some(property) => self.check(&format!("{at}.{name}"), property, member),
                    None => self.findings.push(format!("{at}.{name} is not in the schema")),
                }
            }
        }
        for item in value.as_array().into_iter().flatten() {
            if let Some(items) = schema.get("items") {
                self.check(&format!("{at}[]"), items, item);
            }
        }
    }
}
