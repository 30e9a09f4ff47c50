//! One operation of the reference: what its gate, its inputs and its output say about themselves.
//!
//! Schemas come from schemars, once as they are read and once as they are written: a field with a default is optional in
//! a request and always there in a response; one that may be left out of a response is never null there, while null in a
//! request means left out. Where both ways differ, the request's schema is named `…Input` (`schemas.rs`).

mod schemas;

pub(crate) use schemas::{Schemas, merge};

use crate::spec::mount::Mount;
use crate::spec::permit::{Needs, QuotaNeed};
use crate::spec::route::RouteSpec;
use crate::wire::envelope::STRUCTURED;
use base::Code;
use base::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use http::StatusCode;
use schemars::JsonSchema;
use schemas::without_null;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DEFINITIONS: &str = "#/components/schemas/";
/// The media type of bytes of which nothing more is said.
pub(crate) const OCTETS: &str = "application/octet-stream";

/// One operation while its handler describes itself.
pub struct Operation<'a> {
    route: &'static RouteSpec,
    mount: &'static Mount,
    schemas: &'a mut Schemas,
    security: Value,
    notes: Vec<String>,
    permission: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: BTreeMap<u16, Value>,
    codes: BTreeMap<u16, Vec<Code>>,
}

impl<'a> Operation<'a> {
    /// One of which only what its route and its mount say is known.
    pub(crate) fn new(
        route: &'static RouteSpec,
        mount: &'static Mount,
        schemas: &'a mut Schemas,
    ) -> Operation<'a> {
        Operation {
            route,
            mount,
            schemas,
            security: json!([{ "bearer": [] }]),
            notes: Vec::new(),
            permission: None,
            parameters: Vec::new(),
            body: None,
            responses: BTreeMap::new(),
            codes: BTreeMap::new(),
        }
    }

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
        let refusals = &self.mount.refusals;
        let mut wants = vec!["a member of an organization".to_owned()];
        self.error(refusals.org);
        if let Some(plan) = self.route.plan.or(self.mount.plan) {
            wants.push(format!("a plan with {}", plan.name()));
            self.error(refusals.plan);
        }
        if needs.verified || self.mount.verified {
            wants.push("a verified email address".to_owned());
            self.error(refusals.unverified);
        }
        if let Some(permission) = needs.permission {
            wants.push(format!("the permission {}", permission.name()));
            self.permission = Some(permission.name());
            self.error(refusals.permission);
        }
        if needs.browser {
            wants.push("an access token, not an API key".to_owned());
            self.error(Code::AuthForbidden);
        }
        if needs.quota != QuotaNeed::None {
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
            "name": "limit", "in": "query",
            "description": format!("Rows of a page; a larger number counts as {PAGE_ROWS_MAX}."),
            "schema": { "type": "integer", "minimum": 1, "default": PAGE_ROWS_DEFAULT },
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
        self.body = Some(json!({ "required": true, "content": bytes() }));
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
            ok["content"][essence(media_type)] = binary();
        }
        self.header_parameter("Accept", &format!("{media_type} for that form of the answer."), text());
    }

    /// A response without a body.
    pub fn empty_response(&mut self, status: StatusCode) {
        self.response(status, Value::Null);
    }

    /// A response that is no JSON, of any of these media types.
    pub fn binary_response(&mut self, media_types: &[&str]) {
        self.response(StatusCode::OK, bytes_as(media_types));
    }

    /// A file whole or in part, of any of these media types, and the refusal of a part that it does not have.
    pub fn file_response(&mut self, media_types: &[&str]) {
        let content = files_as(media_types);
        self.response(StatusCode::OK, content.clone());
        self.header_parameter("Range", "One range of bytes, to go on with a download.", text());
        let condition = "The ETag or Last-Modified of the download that is gone on with.";
        self.header_parameter("If-Range", condition, text());
        self.response(StatusCode::PARTIAL_CONTENT, content);
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

    /// Its part of the document.
    pub(crate) fn finish(mut self, tag: &str) -> Value {
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
        // What every operation does: it refuses names that it does not have to whoever asks for that.
        self.error(Code::InvalidInput);
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
            responses.entry(*status).or_insert_with(|| error_response(self.mount.structured, *status, codes));
        }
        let responses = responses.into_iter().map(|(status, response)| (status.to_string(), response));
        operation.insert("responses".into(), Value::Object(responses.collect()));
        operation.into()
    }
}

/// The response of a status that stands for errors; whether they are structured always.
fn error_response(is_structured: bool, status: u16, codes: &[Code]) -> Value {
    let lines: Vec<_> = codes.iter().map(|code| format!("`{}`: {}.", code.name(), code.sentence())).collect();
    let flat = json!({ "schema": { "$ref": format!("{DEFINITIONS}FlatError") } });
    // Two have members beside the envelope.
    let structured = match status {
        402 => "StructuredQuotaError",
        _ if codes.contains(&Code::NotReady) => "NotReadyError",
        _ => "StructuredError",
    };
    let structured = json!({ "schema": { "$ref": format!("{DEFINITIONS}{structured}") } });
    let quota = json!({ "schema": { "$ref": format!("{DEFINITIONS}QuotaError") } });
    let content = match (status, is_structured) {
        (401, _) => json!({ "application/json": flat }),
        (_, true) => json!({ "application/json": structured }),
        (402, false) => json!({ "application/json": quota, STRUCTURED: structured }),
        (_, false) => json!({ "application/json": flat, STRUCTURED: structured }),
    };
    json!({ "description": lines.join(" "), "content": content })
}

/// Bytes of whatever kind. Generators of clients know this one.
fn bytes() -> Value {
    bytes_as(&[OCTETS])
}

fn bytes_as(media_types: &[&str]) -> Value {
    let entries = media_types.iter().map(|media_type| (essence(media_type).to_owned(), binary()));
    Value::Object(entries.collect())
}

/// A file's own media types, and [`OCTETS`] in front: generated clients know it, where they do not know the others, and
/// whoever accepts that alone is answered by it.
fn files_as(media_types: &[&str]) -> Value {
    bytes_as(&[&[OCTETS], media_types].concat())
}

fn binary() -> Value {
    json!({ "schema": { "type": "string", "format": "binary" } })
}

/// A media type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

fn text() -> Value {
    json!({ "type": "string" })
}
