//! The OpenAPI 3.1 document, made from the table that routes.
//!
//! Every gate, input and output writes its own part into an [`Operation`], so the document says what the code does. Its
//! order is the table's, so that two builds of one source write the same bytes and a golden file can hold it.
//!
//! Schemas come from schemars, once as they are read and once as they are written: a field with a default is optional in
//! a request and always there in a response; one that may be left out of a response is never null there, while null in a
//! request means left out. Where both ways differ, the request's schema is named `…Input`.

use crate::base::Code;
use crate::http::builtin;
use crate::http::envelope::STRUCTURED;
use crate::http::permit::Needs;
use crate::http::route::{Route, RouteGroup};
use http::StatusCode;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "/api/v1";
const DEFINITIONS: &str = "#/components/schemas/";

/// Marks a member of a response that may be left out and may be null, each with its own meaning
/// (`#[schemars(extend("x-nullable" = true))]`). It does not reach the document.
const NULLABLE: &str = "x-nullable";

/// One operation while its handler describes itself.
pub struct Operation<'a> {
    route: &'static Route,
    schemas: &'a mut Schemas,
    security: Value,
    notes: Vec<String>,
    permission: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: BTreeMap<u16, Value>,
    codes: BTreeMap<u16, Vec<Code>>,
}

/// The two ways a type has a schema.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let settings =
            || SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
        Schemas {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }
}

impl Operation<'_> {
    /// No credential is needed.
    pub fn anonymous(&mut self) {
        self.security = json!([]);
    }

    /// A credential is needed; `who` says whose, in a sentence.
    pub fn authenticated(&mut self, who: &str) {
        self.notes.push(who.to_owned());
        self.error(Code::AuthMissing);
        self.error(Code::AuthInvalid);
    }

    /// A member of an organization who fulfils `needs`.
    pub fn organization(&mut self, needs: &Needs) {
        let bi = self.route.is_bi();
        let pick = |plain, console| if bi { console } else { plain };
        let mut wants = vec!["a member of an organization".to_owned()];
        self.error(pick(Code::OrgNotFound, Code::NoOrg));
        if let Some(plan) = self.route.plan {
            wants.push(format!("a plan with {}", plan.name()));
            self.error(pick(Code::PlanRequired, Code::FeatureDisabled));
        }
        if needs.verified || bi {
            wants.push("a verified email address".to_owned());
            self.error(pick(Code::AuthForbidden, Code::EmailNotVerified));
        }
        if let Some(permission) = needs.permission {
            wants.push(format!("the permission {}", permission.name()));
            self.permission = Some(permission.name());
            self.error(pick(Code::AuthForbidden, Code::InsufficientPermissions));
        }
        if needs.browser {
            wants.push("an access token, not an API key".to_owned());
            self.error(Code::AuthForbidden);
        }
        if needs.quota {
            wants.push("credits left".to_owned());
            self.error(Code::PaymentRequired);
            self.error(Code::QuotaExceeded);
        }
        self.authenticated(&format!("Needs {}.", wants.join(", ")));
    }

    /// An error that the operation can answer with.
    pub fn error(&mut self, code: Code) {
        self.error_as(code.status(), code);
    }

    /// An error that the operation can answer with under another status than the code's own.
    pub fn error_as(&mut self, status: u16, code: Code) {
        let codes = self.codes.entry(status).or_default();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }

    /// The schemas of the path's variables, in order.
    ///
    /// # Panics
    /// When the path has not as many variables, which is an error of the program.
    pub fn path_parameters(&mut self, schemas: Vec<Value>) {
        let names: Vec<_> = self.route.variables().collect();
        assert!(
            names.len() == schemas.len(),
            "{} has {} variables and its handler takes {}",
            self.route.path(),
            names.len(),
            schemas.len()
        );
        for (name, schema) in names.into_iter().zip(schemas) {
            self.parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
        self.error(Code::NotFound);
    }

    /// One parameter for every field of `T`.
    pub fn query_parameters<T: JsonSchema>(&mut self) {
        let schema = Value::from(T::json_schema(&mut self.schemas.read));
        let required: BTreeSet<_> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut property = property.clone();
            let description = property.as_object_mut().and_then(|p| p.shift_remove("description"));
            let mut parameter = json!({ "name": name, "in": "query", "schema": without_null(property) });
            if let Some(description) = description {
                parameter["description"] = description;
            }
            if required.contains(name.as_str()) {
                parameter["required"] = true.into();
            }
            self.parameters.push(parameter);
        }
        self.error(Code::InvalidInput);
    }

    /// The parameters of a list page.
    pub fn page_parameters(&mut self) {
        self.parameters.push(json!({
            "name": "limit", "in": "query", "description": "Rows of a page; a larger number counts as 200.",
            "schema": { "type": "integer", "minimum": 1, "default": 50 },
        }));
        self.parameters.push(json!({
            "name": "cursor", "in": "query", "description": "The nextCursor of the page before.",
            "schema": { "type": "string" },
        }));
        self.error(Code::InvalidInput);
    }

    /// A request header, optional.
    pub fn header_parameter(&mut self, name: &str, description: &str, schema: Value) {
        self.parameters.push(json!({
            "name": name, "in": "header", "description": description, "schema": schema,
        }));
    }

    /// A JSON body.
    pub fn json_body<T: JsonSchema>(&mut self, required: bool) {
        let schema = self.schemas.read.subschema_for::<T>();
        self.body =
            Some(json!({ "required": required, "content": { "application/json": { "schema": schema } } }));
        self.error(Code::InvalidInput);
        self.error(Code::RequestTimeout);
        self.error(Code::PayloadTooLarge);
        self.error(Code::UnsupportedMediaType);
        self.error(Code::RateLimited);
    }

    /// A body of any kind.
    pub fn raw_body(&mut self) {
        self.body = Some(json!({ "required": true, "content": { "*/*": {} } }));
        self.error(Code::RequestTimeout);
        self.error(Code::PayloadTooLarge);
        self.error(Code::UnsupportedMediaType);
        self.error(Code::RateLimited);
    }

    /// A JSON response.
    pub fn json_response<T: JsonSchema>(&mut self, status: StatusCode) {
        let schema = self.schemas.written.subschema_for::<T>();
        self.response(status, json!({ "application/json": { "schema": schema } }));
    }

    /// The 200 comes in another media type, too, for callers who accept that.
    pub fn also_as(&mut self, media_type: &str) {
        if let Some(ok) = self.responses.get_mut(&200) {
            ok["content"][media_type] = json!({});
        }
        self.header_parameter("Accept", &format!("{media_type} for that form of the answer."), text());
    }

    /// A response without a body.
    pub fn empty_response(&mut self, status: StatusCode) {
        self.response(status, Value::Null);
    }

    /// A response that is no JSON.
    pub fn binary_response(&mut self) {
        self.response(StatusCode::OK, json!({ "*/*": {} }));
    }

    /// A file whole or in part, and the refusal of a part that it does not have.
    pub fn file_response(&mut self) {
        self.binary_response();
        self.header_parameter("Range", "One range of bytes, to go on with a download.", text());
        let condition = "The ETag or Last-Modified of the download that is gone on with.";
        self.header_parameter("If-Range", condition, text());
        self.response(StatusCode::PARTIAL_CONTENT, json!({ "*/*": {} }));
        self.error_as(StatusCode::RANGE_NOT_SATISFIABLE.as_u16(), Code::InvalidInput);
        self.tagged();
    }

    /// The answer to a GET has an entity tag.
    pub fn tagged(&mut self) {
        if self.route.method() == "GET" {
            let header = json!({ "ETag": { "schema": text() } });
            for status in [StatusCode::OK, StatusCode::PARTIAL_CONTENT] {
                if let Some(response) = self.responses.get_mut(&status.as_u16()) {
                    response["headers"] = header.clone();
                }
            }
            let tags = "Entity tags that the caller has; a match is a 304.";
            self.header_parameter("If-None-Match", tags, text());
            self.empty_response(StatusCode::NOT_MODIFIED);
        }
    }

    fn response(&mut self, status: StatusCode, content: Value) {
        let mut response = json!({ "description": status.canonical_reason().unwrap_or("Done") });
        if !content.is_null() {
            response["content"] = content;
        }
        self.responses.insert(status.as_u16(), response);
    }

    fn finish(mut self, tag: &str) -> Value {
        let described: BTreeSet<_> = self.parameters.iter().filter_map(|p| p["name"].as_str()).collect();
        let undescribed: Vec<_> = self.route.variables().filter(|name| !described.contains(name)).collect();
        for name in undescribed {
            let schema = json!({ "type": "string" });
            self.parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
        for code in self.route.codes {
            self.error(*code);
        }
        for (status, code) in self.route.codes_as {
            self.error_as(*status, *code);
        }
        self.error(Code::InternalError);
        self.error(Code::ServiceUnavailable);
        let mut operation = Map::new();
        operation.insert("operationId".into(), self.route.id().into());
        operation.insert("tags".into(), json!([tag]));
        if !self.route.about.is_empty() {
            operation.insert("summary".into(), self.route.about.into());
        }
        if !self.notes.is_empty() {
            operation.insert("description".into(), self.notes.join(" ").into());
        }
        operation.insert("security".into(), self.security);
        if let Some(permission) = self.permission {
            operation.insert("x-permission".into(), permission.into());
        }
        if !self.parameters.is_empty() {
            operation.insert("parameters".into(), self.parameters.into());
        }
        if let Some(body) = self.body {
            operation.insert("requestBody".into(), body);
        }
        let mut responses: BTreeMap<_, _> = self.responses;
        for (status, codes) in &self.codes {
            responses.entry(*status).or_insert_with(|| error_response(self.route.is_bi(), *status, codes));
        }
        let responses = responses.into_iter().map(|(status, response)| (status.to_string(), response));
        operation.insert("responses".into(), Value::Object(responses.collect()));
        operation.into()
    }
}

/// The response of a status that stands for errors.
fn error_response(bi: bool, status: u16, codes: &[Code]) -> Value {
    let lines: Vec<_> = codes.iter().map(|code| format!("`{}`: {}.", code.name(), code.sentence())).collect();
    let flat = json!({ "schema": { "$ref": format!("{DEFINITIONS}FlatError") } });
    // One code has a member beside the envelope.
    let structured = if codes.contains(&Code::NotReady) { "NotReadyError" } else { "StructuredError" };
    let structured = json!({ "schema": { "$ref": format!("{DEFINITIONS}{structured}") } });
    let quota = json!({ "schema": { "$ref": format!("{DEFINITIONS}QuotaError") } });
    let content = match (status, bi) {
        (401, _) => json!({ "application/json": flat }),
        (_, true) => json!({ "application/json": structured }),
        (402, false) => json!({ "application/json": quota, STRUCTURED: structured }),
        (_, false) => json!({ "application/json": flat, STRUCTURED: structured }),
    };
    json!({ "description": lines.join(" "), "content": content })
}

fn text() -> Value {
    json!({ "type": "string" })
}

/// A parameter cannot be null, nor can a member that a response may leave out: the null of an option is dropped.
fn without_null(mut schema: Value) -> Value {
    let Some(object) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.shift_remove("default");
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            // What stands beside the choice, as its description, stays.
            let mut only = only.clone();
            object.shift_remove("anyOf");
            only.extend(std::mem::take(object));
            return only.into();
        }
    }
    schema
}

/// Lets no member that may be left out be null, unless its schema says [`NULLABLE`].
fn drop_nulls(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let required: BTreeSet<String> = members
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect();
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                for (name, property) in properties.iter_mut() {
                    let is_nullable =
                        property.as_object_mut().and_then(|p| p.shift_remove(NULLABLE)).is_some();
                    if !required.contains(name) && !is_nullable {
                        *property = without_null(property.take());
                    }
                }
            }
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The document of these routes, to which the trunk adds its own under the prefix.
pub fn document(groups: &[RouteGroup]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let mut tags = Vec::new();
    let trunk: RouteGroup = ("reference", builtin::PUBLIC_ROUTES);
    for (tag, routes) in groups.iter().chain([&trunk]) {
        for route in routes.iter().filter(|route| route.path().starts_with(PREFIX)) {
            let mut operation = Operation {
                route,
                schemas: &mut schemas,
                security: json!([{ "bearer": [] }]),
                notes: Vec::new(),
                permission: None,
                parameters: Vec::new(),
                body: None,
                responses: BTreeMap::new(),
                codes: BTreeMap::new(),
            };
            route.endpoint.describe(&mut operation);
            let operation = operation.finish(tag);
            paths.entry(route.path()).or_insert_with(|| json!({}))[route.method().to_lowercase()] = operation;
            if !tags.contains(tag) {
                tags.push(*tag);
            }
        }
    }
    let tags: Vec<_> = tags.into_iter().map(|tag| json!({ "name": tag })).collect();
    let mut paths = Value::Object(paths);
    let schemas = merge(schemas, &mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gleaner",
            "version": "1",
            "summary": "Web data collection: collect pages, extract typed values, search them, query them with SQL.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http", "scheme": "bearer",
                    "description": "An access token from login, or an API key of an organization.",
                },
            },
            "schemas": schemas,
        },
    })
}

/// One table of schemas from the two ways, with the envelopes; sorted by name.
fn merge(mut schemas: Schemas, paths: &mut Value) -> Value {
    let mut all: BTreeMap<String, Value> = schemas.written.take_definitions(true).into_iter().collect();
    all.values_mut().for_each(drop_nulls);
    let mut read = Value::Object(schemas.read.take_definitions(true));
    let differ: Vec<String> = read
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, schema)| all.get(*name).is_some_and(|written| written != *schema))
        .map(|(name, _)| name.clone())
        .collect();
    rename_references(&mut read, &differ);
    for operation in
        paths.as_object_mut().into_iter().flatten().filter_map(|(_, p)| p.as_object_mut()).flatten()
    {
        for part in ["parameters", "requestBody"] {
            if let Some(part) = operation.1.get_mut(part) {
                rename_references(part, &differ);
            }
        }
    }
    for (name, schema) in read.as_object().into_iter().flatten() {
        let name = if differ.contains(name) { format!("{name}Input") } else { name.clone() };
        all.insert(name, schema.clone());
    }
    all.extend(envelopes());
    Value::Object(all.into_iter().collect())
}

fn rename_references(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(text) if key == "$ref" => {
                        if text.strip_prefix(DEFINITIONS).is_some_and(|name| names.iter().any(|n| n == name))
                        {
                            text.push_str("Input");
                        }
                    }
                    other => rename_references(other, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_references(item, names)),
        _ => {}
    }
}

/// The shapes of errors (written by `envelope.rs`).
fn envelopes() -> [(String, Value); 4] {
    let flat = json!({
        "type": "object",
        "properties": {
            "error": { "type": "string", "description": "A short sentence, stable for its cause." },
            "message": { "type": "string", "description": "More, where there is more." },
        },
        "required": ["error"],
    });
    let structured = json!({
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "code": { "type": "string", "description": "Stable and machine-readable." },
                    "message": { "type": "string" },
                    "docs_url": {
                        "type": "string", "format": "uri", "description": "The page about the code.",
                    },
                    "request_id": { "type": "string", "description": "As in the X-Request-ID header." },
                },
                "required": ["code", "message", "docs_url", "request_id"],
            },
        },
        "required": ["error"],
    });
    let mut not_ready = structured.clone();
    not_ready["properties"]["status"] = json!({
        "type": "string", "enum": ["queued", "running", "failed", "canceled"],
        "description": "Where it stands; only beside the code not_ready, and always there.",
    });
    let quota = json!({
        "type": "object",
        "properties": {
            "error": { "type": "string", "const": "QUOTA_EXCEEDED" },
            "message": { "type": "string" },
            "plan": { "type": "string" },
            "remainingCredits": { "type": "integer" },
            "isTrialExpired": { "type": "boolean" },
        },
        "required": ["error", "message", "plan", "remainingCredits", "isTrialExpired"],
    });
    [
        ("FlatError".into(), flat),
        ("StructuredError".into(), structured),
        ("NotReadyError".into(), not_ready),
        ("QuotaError".into(), quota),
    ]
}
