//! Reading a provider's answer by its template: what it means, and where page, status, costs and error stand.
//!
//! Nothing is believed for standing where it should: a cost is a number or it is none, a status is one that HTTP has, a
//! page that is said to be Base64 and is not makes the provider faulty and not the page empty.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::Value as Json;
use std::time::{Duration, SystemTime};

use super::account::Account;
use super::{AnswerRule, BodySource, Encoding, HeaderSource, JsonStep, Template, ValueSource};
use crate::outcome::{AnswerMeaning, Detector, Fault, Outcome};
use crate::provider::{Attempt, Page};
use crate::retry_after::retry_after;
use crate::{FetchRequest, PageHeaders};
use base::web::WebUrl;

/// How much of a body that is no JSON a rule looks through.
const SEARCHED_BYTES_MAX: usize = 64 * 1024;
/// Characters of a provider's own error text that are kept.
const ERROR_CHARS_MAX: usize = 300;
/// Credits that an attempt may be said to have cost; more is a mistake of somebody's.
const COST_MAX: f64 = 1e9;

/// What came back.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// After content decoding.
    pub body: Bytes,
    /// On the wire.
    pub bytes_received: u64,
}

/// An answer beside its template.
struct AnswerReader<'a> {
    template: &'a Template,
    account: &'a Account,
    answer: &'a Answer,
    json: Option<Json>,
}

/// What `answer` says about `request`. CPU work in proportion to the body: large ones belong on the blocking pool.
pub fn read(template: &Template, account: &Account, request: &FetchRequest, answer: &Answer) -> Attempt {
    let json = if template.response.reads_json { serde_json::from_slice(&answer.body).ok() } else { None };
    let reading = AnswerReader { template, account, answer, json };
    let mut attempt = reading.attempt(request);
    attempt.bytes = answer.bytes_received;
    attempt
}

impl AnswerReader<'_> {
    fn attempt(&self, request: &FetchRequest) -> Attempt {
        // The last rule speaks always, or the template would not have been taken.
        let Some(rule) = self.template.rules.iter().find(|rule| self.speaks(rule)) else {
            return Attempt::faulty(Fault::Down, format!("{} gave no answer", self.template.name));
        };
        let mut attempt = match rule.means.outcome() {
            None => self.of_target(rule, request),
            Some(outcome) => Attempt {
                fault: rule.means.fault(),
                http_status: rule.target_status,
                rule: Some(format!("{}_{}", self.template.id, rule.id)),
                ..Attempt::failed(outcome, self.account_of(rule.means))
            },
        };
        attempt.retry_after = match attempt.fault {
            Some(_) => retry_after(&self.answer.headers, SystemTime::now()),
            None => self.target_retry_after(),
        };
        let table = self.template.credits_of(self.account, request);
        attempt.priced(table, self.cost())
    }

    /// The target answered: its status and its page decide.
    fn of_target(&self, rule: &AnswerRule, request: &FetchRequest) -> Attempt {
        let status = rule.target_status.or_else(|| self.target_status_if_told()).unwrap_or(200);
        let (body, is_text) = match self.body() {
            Some(Ok(found)) => found,
            None if !(200..300).contains(&status) => (Bytes::new(), false),
            None => return self.without_page("answered without the page"),
            Some(Err(reason)) => return self.without_page(reason),
        };
        let headers = self.target_headers(is_text);
        let verdict = Detector::builtin().classify(status, &headers, &body);
        let page = (verdict.outcome == Outcome::Success).then(|| Page {
            redirects: Vec::new(),
            url: self.final_url().unwrap_or_else(|| request.url.clone()),
            headers: PageHeaders::from_map(&headers),
            body,
        });
        Attempt {
            http_status: Some(status),
            error: verdict.message(status),
            rule: verdict.rule,
            page,
            ..Attempt::failed(verdict.outcome, "")
        }
    }

    fn without_page(&self, reason: &str) -> Attempt {
        Attempt::faulty(Fault::Down, format!("{} {reason}", self.template.name))
    }

    /// What happened, in words: what the rule says, and the provider's own text.
    fn account_of(&self, means: AnswerMeaning) -> String {
        let name = &self.template.name;
        let what = match means {
            AnswerMeaning::Target | AnswerMeaning::TargetError => "could not bring the page".to_owned(),
            AnswerMeaning::Blocked => "was blocked by the target".to_owned(),
            AnswerMeaning::Timeout => "ran out of time".to_owned(),
            AnswerMeaning::Unreachable => "could not reach the target".to_owned(),
            AnswerMeaning::Fault(Fault::BadKey) => "refused the credentials".to_owned(),
            AnswerMeaning::Fault(Fault::NoCredits) => "says that the plan is used up".to_owned(),
            AnswerMeaning::Fault(Fault::Throttled) => "says that the plan's rate is exceeded".to_owned(),
            AnswerMeaning::Fault(Fault::Down) => format!("failed ({})", self.answer.status),
            AnswerMeaning::Fault(Fault::Unsupported) => {
                format!("refused the request ({})", self.answer.status)
            }
        };
        match self.error() {
            Some(error) => format!("{name} {what}: {error}"),
            None => format!("{name} {what}"),
        }
    }

    /// The provider's own error text, short, in one line, and without the account's credentials, which some repeat.
    fn error(&self) -> Option<String> {
        let text = self.first(&self.template.response.error).filter(|text| !text.trim().is_empty())?;
        let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        for secret in self.account.credentials.values().filter_map(Json::as_str) {
            if secret.len() >= 4 {
                let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
                text = text.replace(secret, "***").replace(&encoded, "***");
            }
        }
        // Cut last: half a secret would not be found.
        Some(text.trim().chars().take(ERROR_CHARS_MAX).collect())
    }

    fn speaks(&self, rule: &AnswerRule) -> bool {
        let status = self.answer.status;
        let holds = |(place, text): &(ValueSource, String)| {
            self.text(place).is_some_and(|found| found.eq_ignore_ascii_case(text))
        };
        let contains = |(place, text): &(ValueSource, String)| {
            let found = self.text(place).unwrap_or_default().to_ascii_lowercase();
            found.contains(&text.to_ascii_lowercase())
        };
        (rule.statuses.is_empty() || rule.statuses.iter().any(|(low, high)| (*low..=*high).contains(&status)))
            && rule.has.iter().all(|place| self.is_there(place))
            && !rule.lacks.iter().any(|place| self.is_there(place))
            && rule.is.iter().all(holds)
            && rule.contains.iter().all(contains)
            && rule
                .matches
                .iter()
                .all(|(place, regex)| self.text(place).is_some_and(|found| regex.is_match(&found)))
    }

    fn is_there(&self, place: &ValueSource) -> bool {
        match place {
            ValueSource::Status => true,
            ValueSource::Body => !self.answer.body.is_empty(),
            ValueSource::Header(name) => self.answer.headers.contains_key(name),
            ValueSource::Json(steps) => self.json(steps).is_some(),
            ValueSource::FirstOf(places) => places.iter().any(|place| self.is_there(place)),
        }
    }

    fn json(&self, steps: &[JsonStep]) -> Option<&Json> {
        walk(self.json.as_ref()?, steps)
    }

    /// What stands at a place, as text.
    fn text(&self, place: &ValueSource) -> Option<String> {
        match place {
            ValueSource::Status => Some(self.answer.status.to_string()),
            ValueSource::Body => {
                let body = &self.answer.body;
                Some(String::from_utf8_lossy(&body[..body.len().min(SEARCHED_BYTES_MAX)]).into_owned())
            }
            ValueSource::Header(name) => {
                self.answer.headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            }
            ValueSource::Json(steps) => match self.json(steps)? {
                Json::String(text) => Some(text.clone()),
                other @ (Json::Number(_) | Json::Bool(_)) => Some(other.to_string()),
                _ => None,
            },
            ValueSource::FirstOf(places) => self.first(places),
        }
    }

    fn first(&self, places: &[ValueSource]) -> Option<String> {
        places.iter().find_map(|place| self.text(place))
    }

    fn target_status_if_told(&self) -> Option<u16> {
        let places = &self.template.response.target_status;
        let status = |place| self.text(place)?.trim().parse::<u16>().ok();
        places.iter().find_map(status).filter(|status| StatusCode::from_u16(*status).is_ok())
    }

    /// What the provider says that this cost. Parts of a credit are counted whole.
    fn cost(&self) -> Option<u64> {
        let cost: f64 = self.first(&self.template.response.cost)?.trim().parse().ok()?;
        // Between these bounds the conversion is exact.
        (cost.is_finite() && (0.0..=COST_MAX).contains(&cost)).then(|| cost.ceil() as u64)
    }

    fn final_url(&self) -> Option<WebUrl> {
        WebUrl::parse(&self.first(&self.template.response.final_url)?).ok()
    }

    /// The page, and whether the provider decoded it to text.
    fn body(&self) -> Option<Result<(Bytes, bool), &'static str>> {
        let applies = |place: &&BodySource| match &place.only_if {
            None => true,
            Some((at, text)) => self.text(at).is_some_and(|found| found.eq_ignore_ascii_case(text)),
        };
        let bodies = self.template.response.bodies.iter();
        bodies.filter(applies).find_map(|place| self.body_at(place))
    }

    fn body_at(&self, place: &BodySource) -> Option<Result<(Bytes, bool), &'static str>> {
        let raw = match &place.from {
            ValueSource::Body => self.answer.body.clone(),
            ValueSource::Json(steps) => match self.json(steps)? {
                Json::String(text) => Bytes::copy_from_slice(text.as_bytes()),
                _ => return Some(Err("answered with something that is no page")),
            },
            other => Bytes::from(self.text(other)?),
        };
        Some(match place.encoding {
            Encoding::Bytes => Ok((raw, false)),
            Encoding::Text => Ok((raw, true)),
            Encoding::Base64 => match STANDARD.decode(&raw) {
                Ok(page) => Ok((page.into(), false)),
                Err(_) => Err("answered with a page that is not valid Base64"),
            },
        })
    }

    /// The target's headers as far as the provider hands them over. A page that came as text is UTF-8 now, whatever its
    /// headers or itself said.
    fn target_headers(&self, is_text: bool) -> HeaderMap {
        let mut headers = match &self.template.response.target_headers {
            None => HeaderMap::new(),
            Some(HeaderSource::Own(prefix)) => own_headers(&self.answer.headers, prefix),
            Some(HeaderSource::Json(steps)) => self.json(steps).map(json_headers).unwrap_or_default(),
        };
        if let Some(kind) = self.first(&self.template.response.content_type)
            && let Ok(value) = HeaderValue::from_str(&kind)
        {
            headers.insert(CONTENT_TYPE, value);
        }
        if is_text {
            let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("text/html");
            let kind = kind.split(';').next().unwrap_or("text/html").trim();
            if let Ok(value) = HeaderValue::from_str(&format!("{kind}; charset=utf-8")) {
                headers.insert(CONTENT_TYPE, value);
            }
        }
        headers
    }

    fn target_retry_after(&self) -> Option<Duration> {
        let headers = self.target_headers(false);
        headers.get(RETRY_AFTER)?;
        retry_after(&headers, SystemTime::now())
    }
}

fn walk<'a>(mut json: &'a Json, steps: &[JsonStep]) -> Option<&'a Json> {
    for step in steps {
        json = match step {
            JsonStep::Key(key) => json.get(key)?,
            JsonStep::Index(index) => json.get(index)?,
            JsonStep::Where { field, text } => json.as_array()?.iter().find(|entry| {
                entry.get(field).and_then(Json::as_str).is_some_and(|found| found.eq_ignore_ascii_case(text))
            })?,
        };
    }
    (!json.is_null()).then_some(json)
}

/// The headers behind `prefix`, without it.
fn own_headers(headers: &HeaderMap, prefix: &str) -> HeaderMap {
    headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(prefix)?;
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value.clone()))
        })
        .collect()
}

/// Headers written as an object or as a list of `{name, value}`. A value may be a list of its own.
fn json_headers(json: &Json) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &Json| {
        let texts = match value {
            Json::Array(values) => values.iter().filter_map(Json::as_str).collect(),
            other => Vec::from_iter(other.as_str()),
        };
        for text in texts {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(text)) {
                headers.append(name, value);
            }
        }
    };
    match json {
        Json::Object(map) => map.iter().for_each(|(name, value)| add(name, value)),
        Json::Array(list) => {
            for entry in list {
                if let (Some(name), Some(value)) =
                    (entry.get("name").and_then(Json::as_str), entry.get("value"))
                {
                    add(name, value);
                }
            }
        }
        _ => {}
    }
    headers
}
