//! Filling a template with an account and a request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method};
use serde_json::{Map, Value as Json};
use url::form_urlencoded::Serializer;

use super::account::Account;
use super::{HeaderStyle, ParameterTarget, Placeholder, RequestFacts, Template, TextPart, Value};
use crate::body;
use crate::headers::callers_own;
use crate::{FetchRequest, user_agent};
use base::web::WebUrl;

/// What of the time limit is kept for the way to the provider and back, so that its own word about a timeout arrives.
const MARGIN_MS_MAX: u64 = 2_000;

/// A request to a provider, ready to be sent.
#[derive(Debug)]
pub struct Prepared {
    pub place: WebUrl,
    pub path: String,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What the holes of a template are filled with.
struct PlaceholderValues<'a> {
    template: &'a Template,
    account: &'a Account,
    request: &'a FetchRequest,
    /// The job's own headers that may be passed on.
    headers: HeaderMap,
    facts: RequestFacts<'a>,
    country: Option<String>,
    timeout_ms: u64,
}

/// The request that `template` makes of `request` for `account`. Fails in words for a customer: when the provider does
/// not do what is asked for, or when something cannot be written into a request.
pub fn prepare(template: &Template, account: &Account, request: &FetchRequest) -> Result<Prepared, String> {
    if let Some(lack) = template.lacks(&account.settings, request) {
        return Err(lack);
    }
    let spec = &template.request;
    let asked_ms = u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX);
    let filling = PlaceholderValues {
        template,
        account,
        request,
        headers: callers_own(&request.headers),
        facts: template.facts(&account.settings, request),
        country: match (&spec.country, &request.country) {
            (Some(countries), Some(code)) => countries.write(code),
            _ => None,
        },
        timeout_ms: asked_ms
            .saturating_sub((asked_ms / 10).min(MARGIN_MS_MAX))
            .clamp(spec.timeout_ms.0, spec.timeout_ms.1),
    };
    filling.prepare()
}

impl PlaceholderValues<'_> {
    fn prepare(&self) -> Result<Prepared, String> {
        let spec = &self.template.request;
        let mut query = Serializer::new(String::new());
        let mut headers = HeaderMap::new();
        let mut json = Map::new();
        // A vendor that sends the lines of our request on would show the target the box's name beside the job's own headers;
        // without one it sends what it sends for everybody.
        let are_sent_on = matches!(&spec.headers, Some(HeaderStyle::Prefixed(prefix)) if prefix.is_empty());
        if !are_sent_on || self.headers.is_empty() {
            headers.insert(USER_AGENT, header(&user_agent(None))?);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(body::ACCEPT_ENCODING));
        self.pass_on_headers(&mut query, &mut headers)?;
        for parameter in &spec.parameters {
            if !parameter.when.iter().all(|condition| self.facts.hold(condition)) {
                continue;
            }
            let value = self.fill(&parameter.value);
            match &parameter.place {
                ParameterTarget::Query(name) => {
                    query.append_pair(name, &text_of(&value));
                }
                ParameterTarget::Header(name) => {
                    headers.insert(name.clone(), header(&text_of(&value))?);
                }
                ParameterTarget::Json(path) => put(&mut json, path, value),
            }
        }
        if let Some([user, password]) = &spec.basic {
            let pair = format!("{}:{}", self.text(user), self.text(password));
            headers.insert(AUTHORIZATION, header(&format!("Basic {}", STANDARD.encode(pair)))?);
        }
        let body = if spec.is_post {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Bytes::from(Json::Object(json).to_string())
        } else {
            Bytes::new()
        };
        let place = self.account.base_url.as_ref().unwrap_or(&self.template.base_url).clone();
        let query = query.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        let path = format!("{}{}{mark}{query}", place.as_url().path().trim_end_matches('/'), spec.path);
        let method = if spec.is_post { Method::POST } else { Method::GET };
        Ok(Prepared { place, path, method, headers, body })
    }

    /// The job's own headers, where they go as headers or as parameters of their own.
    fn pass_on_headers(
        &self,
        query: &mut Serializer<'_, String>,
        headers: &mut HeaderMap,
    ) -> Result<(), String> {
        let Some(style) = &self.template.request.headers else { return Ok(()) };
        for (name, value) in &self.headers {
            match style {
                HeaderStyle::Prefixed(prefix) => {
                    let name = HeaderName::from_bytes(format!("{prefix}{name}").as_bytes())
                        .map_err(|_| format!("the header {name} cannot be passed on"))?;
                    headers.insert(name, value.clone());
                }
                HeaderStyle::Query(parameter) => {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    query.append_pair(&format!("{parameter}[{name}]"), &value);
                }
            }
        }
        Ok(())
    }

    fn fill(&self, value: &Value) -> Json {
        match value {
            Value::Fixed(json) => json.clone(),
            Value::Text(parts) => match parts.as_slice() {
                [TextPart::Hole(hole)] => self.hole(hole),
                _ => self.text(parts).into(),
            },
            Value::List(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Table(entries) => {
                entries.iter().map(|(name, value)| (name.clone(), self.fill(value))).collect()
            }
        }
    }

    fn text(&self, parts: &[TextPart]) -> String {
        let one = |part: &TextPart| match part {
            TextPart::Literal(text) => text.clone(),
            TextPart::Hole(hole) => text_of(&self.hole(hole)),
        };
        parts.iter().map(one).collect()
    }

    fn hole(&self, hole: &Placeholder) -> Json {
        let values = |values: &Map<String, Json>, name: &str| values.get(name).cloned().unwrap_or_default();
        let text = |value: &HeaderValue| Json::from(String::from_utf8_lossy(value.as_bytes()).into_owned());
        match hole {
            Placeholder::Url => self.request.url.as_str().into(),
            Placeholder::Render => self.facts.render.into(),
            Placeholder::Premium => self.request.premium.into(),
            Placeholder::Tier => self.facts.tier.into(),
            Placeholder::Country => self.country.clone().into(),
            Placeholder::TimeoutMs => self.timeout_ms.into(),
            Placeholder::TimeoutSec => self.timeout_ms.div_ceil(1_000).into(),
            Placeholder::Headers => {
                self.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
            }
            Placeholder::HeaderList => self
                .headers
                .iter()
                .map(|(name, value)| serde_json::json!({ "name": name.as_str(), "value": text(value) }))
                .collect(),
            Placeholder::Credential(name) => values(&self.account.credentials, name),
            Placeholder::Setting(name) => values(&self.account.settings, name),
        }
    }
}

/// A value as it stands in a query or a header.
fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

fn header(text: &str) -> Result<HeaderValue, String> {
    // The text is not repeated: it may be a credential.
    let mut value =
        HeaderValue::from_str(text).map_err(|_| "a value cannot be written into a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Puts a value into an object of objects. A path through something that is no object replaces it: the template's
/// later parameter wins.
fn put(object: &mut Map<String, Json>, path: &[String], value: Json) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        object.insert(name.clone(), value);
        return;
    }
    let inner = object.entry(name.clone()).or_insert_with(|| Json::Object(Map::new()));
    if !inner.is_object() {
        *inner = Json::Object(Map::new());
    }
    if let Json::Object(inner) = inner {
        put(inner, rest, value);
    }
}
