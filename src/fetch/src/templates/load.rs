//! Reading a template file, and refusing one that cannot be meant.
//!
//! The file's shape is serde's to check; what serde cannot see is checked here: that every hole names something that
//! exists, that places and words are known, that the last rule speaks for everything the others left. An error names
//! the key as it stands in the file (`rule[2].means`).

use std::collections::BTreeMap;

use http::header::HeaderName;
use regex::Regex;

use super::file::{
    AtEntry, CaseEntry, EncodingEntry, FieldEntry, File, HeadersEntry, KindEntry, MethodEntry,
    ParameterEntry, PriceEntry, RendersEntry, RequestEntry, ResponseEntry, RuleEntry, StatusEntry,
};
use super::{
    AnswerRule, BodySource, Condition, ConditionTest, Countries, Encoding, HeaderSource, HeaderStyle,
    JsonStep, PREMIUM_TIER_SETTING, Parameter, ParameterTarget, Placeholder, Renders, RequestTemplate,
    ResponseTemplate, Template, TemplateError, Text, TextPart, Value, ValueSource,
};
use crate::fields::{Field, FieldKind};
use crate::headers;
use crate::outcome::AnswerMeaning;
use crate::provider::{CreditMatrix, TIER_STANDARD, TierPrice};
use base::web::WebUrl;

/// Bytes of a compiled expression in a rule.
const REGEX_BYTES_MAX: usize = 64 << 10;

/// Where in the file a check stands, so that it can say so.
struct FileContext<'a> {
    file: &'a str,
    credentials: &'a [Field],
    settings: &'a [Field],
    tiers: &'a [String],
}

type LoadResult<T> = Result<T, TemplateError>;

fn refuse<T>(file: &str, key: impl Into<String>, reason: impl Into<String>) -> LoadResult<T> {
    Err(TemplateError { file: file.to_owned(), key: key.into(), reason: reason.into() })
}

/// A template from the text of the file named `file`.
pub fn parse(file: &str, text: &str) -> Result<Template, TemplateError> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let error: toml::de::Error = error;
            return refuse(file, "", error.to_string().trim());
        }
    };
    let entry: File = match serde_path_to_error::deserialize(toml::Value::Table(table)) {
        Ok(entry) => entry,
        Err(error) => return refuse(file, error.path().to_string(), error.inner().message().trim()),
    };
    if entry.id.is_empty()
        || !entry.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    {
        return refuse(file, "id", "must be lower-case letters, digits and _");
    }
    if matches!(entry.id.as_str(), "direct" | "proxy" | "browser") {
        return refuse(file, "id", "is the name of a built-in adapter");
    }
    let base_url = match WebUrl::parse(&entry.base_url) {
        Ok(url) if url.as_url().query().is_none() => url,
        Ok(_) => return refuse(file, "base_url", "must not have a query"),
        Err(error) => return refuse(file, "base_url", format!("the URL {error}")),
    };
    let credentials = fields(file, "credential", &entry.credential)?;
    let settings = fields(file, "setting", &entry.setting)?;
    let credits = credits(file, entry.credits)?;
    let tiers: Vec<String> = credits.tiers().iter().map(|row| row.tier.clone()).collect();
    if let Some(field) = settings.iter().find(|field| field.name == PREMIUM_TIER_SETTING) {
        match &field.kind {
            FieldKind::Choice(choices) if choices.iter().all(|tier| tiers.contains(tier)) => {}
            _ => {
                return refuse(
                    file,
                    "setting",
                    format!("{PREMIUM_TIER_SETTING} must choose among the tiers"),
                );
            }
        }
    }
    let check = FileContext { file, credentials: &credentials, settings: &settings, tiers: &tiers };
    let request = check.request(entry.request)?;
    let (response, rules) = (check.response(entry.response)?, check.rules(entry.rule)?);
    let rules_read_json = rules.iter().any(AnswerRule::reads_json);
    Ok(Template {
        id: entry.id,
        name: entry.name,
        about: entry.about,
        docs: entry.docs,
        base_url,
        response: ResponseTemplate { reads_json: response.reads_json || rules_read_json, ..response },
        request,
        rules,
        credits,
        credentials,
        settings,
    })
}

fn fields(file: &str, group: &str, entries: &[FieldEntry]) -> LoadResult<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let key = |part: &str| format!("{group}[{i}].{part}");
        if !entry.name.bytes().all(|b| b.is_ascii_alphanumeric()) || entry.name.is_empty() {
            return refuse(file, key("name"), "must be letters and digits");
        }
        if fields.iter().any(|field| field.name == entry.name) {
            return refuse(file, key("name"), format!("{} is given twice", entry.name));
        }
        let kind = match entry.kind {
            KindEntry::Boolean => FieldKind::Boolean,
            KindEntry::Integer => {
                FieldKind::Integer { min: entry.min.unwrap_or(i64::MIN), max: entry.max.unwrap_or(i64::MAX) }
            }
            KindEntry::Text if entry.choices.is_empty() => FieldKind::Text,
            KindEntry::Text => FieldKind::Choice(entry.choices.clone()),
        };
        let default = entry.default.as_ref().map(json_of).transpose();
        let default = default.or_else(|reason| refuse(file, key("default"), reason))?;
        let mut field = Field::text(&entry.name, &entry.about).kind(kind, default);
        if entry.optional {
            field = field.optional();
        }
        if let Some(reason) = field.default.as_ref().and_then(|default| field.refuse(default)) {
            return refuse(file, key("default"), reason);
        }
        fields.push(field);
    }
    Ok(fields)
}

fn credits(file: &str, entries: BTreeMap<String, PriceEntry>) -> LoadResult<CreditMatrix> {
    if !entries.contains_key(TIER_STANDARD) {
        return refuse(file, "credits", format!("has no tier {TIER_STANDARD}"));
    }
    let mut tiers: Vec<TierPrice> = entries
        .into_iter()
        .map(|(tier, price)| TierPrice { tier, plain: price.plain, render: price.render })
        .collect();
    tiers.sort_by_key(|row| (row.tier != TIER_STANDARD, row.plain, row.render));
    Ok(CreditMatrix::new(tiers))
}

fn json_of(value: &toml::Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(truth) => (*truth).into(),
        toml::Value::Datetime(_) => return Err("a date is no value for a request".to_owned()),
        toml::Value::Array(items) => items.iter().map(json_of).collect::<Result<_, _>>()?,
        toml::Value::Table(table) => serde_json::Value::Object(
            table
                .iter()
                .map(|(key, value)| Ok((key.clone(), json_of(value)?)))
                .collect::<Result<_, String>>()?,
        ),
    })
}

impl FileContext<'_> {
    fn refuse<T>(&self, key: impl Into<String>, reason: impl Into<String>) -> LoadResult<T> {
        refuse(self.file, key, reason)
    }

    fn request(&self, entry: RequestEntry) -> LoadResult<RequestTemplate> {
        if !entry.path.starts_with('/') || entry.path.contains(['?', '#']) {
            return self.refuse("request.path", "must begin with / and have no query");
        }
        if entry.timeout_ms.min > entry.timeout_ms.max || entry.timeout_ms.max == 0 {
            return self.refuse("request.timeout_ms", "min must not be above max");
        }
        let is_post = matches!(entry.method, MethodEntry::Post);
        let headers = match entry.headers {
            None => None,
            Some(HeadersEntry { prefix: Some(prefix), query: None }) => {
                if HeaderName::from_bytes(format!("{prefix}x").as_bytes()).is_err() {
                    return self.refuse("request.headers.prefix", "cannot begin a header's name");
                }
                Some(HeaderStyle::Prefixed(prefix))
            }
            Some(HeadersEntry { prefix: None, query: Some(name) }) => Some(HeaderStyle::Query(name)),
            Some(_) => return self.refuse("request.headers", "give either prefix or query"),
        };
        let mut parameters = Vec::with_capacity(entry.parameter.len());
        for (i, parameter) in entry.parameter.into_iter().enumerate() {
            parameters.push(self.parameter(&format!("request.parameter[{i}]"), parameter, is_post)?);
        }
        if !parameters.iter().any(|parameter| holes(&parameter.value).contains(&&Placeholder::Url)) {
            return self.refuse("request.parameter", "none of them holds {url}");
        }
        let in_a_parameter = |parameter: &Parameter| {
            holes(&parameter.value)
                .iter()
                .any(|hole| matches!(hole, Placeholder::Headers | Placeholder::HeaderList))
        };
        let basic = match entry.basic {
            None => None,
            Some([user, password]) => {
                Some([self.text("request.basic[0]", &user)?, self.text("request.basic[1]", &password)?])
            }
        };
        let mut refusals = Vec::with_capacity(entry.refuse.len());
        for (i, refusal) in entry.refuse.into_iter().enumerate() {
            let key = format!("request.refuse[{i}].when");
            if refusal.when.is_empty() {
                return self.refuse(key, "has no condition, so every request would be refused");
            }
            let when: LoadResult<Vec<_>> = refusal.when.iter().map(|c| self.condition(&key, c)).collect();
            refusals.push((when?, refusal.reason));
        }
        Ok(RequestTemplate {
            is_post,
            path: entry.path,
            basic,
            timeout_ms: (entry.timeout_ms.min, entry.timeout_ms.max),
            renders: match entry.renders {
                RendersEntry::Never => Renders::Never,
                RendersEntry::Asked => Renders::Asked,
                RendersEntry::Always => Renders::Always,
            },
            country: entry.country.map(|country| Countries {
                is_upper: country.case == CaseEntry::Upper,
                names: country.names.into_iter().collect(),
            }),
            sends_headers: headers.is_some() || parameters.iter().any(in_a_parameter),
            headers,
            parameters,
            refusals,
        })
    }

    fn parameter(&self, key: &str, entry: ParameterEntry, is_post: bool) -> LoadResult<Parameter> {
        let place = match (entry.query, entry.header, entry.json) {
            (Some(name), None, None) => ParameterTarget::Query(name),
            (None, Some(name), None) => match HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => match headers::refusal(&name) {
                    Some(why) => return self.refuse(format!("{key}.header"), format!("{name} {why}")),
                    None => ParameterTarget::Header(name),
                },
                Err(_) => return self.refuse(format!("{key}.header"), format!("{name} is no header's name")),
            },
            (None, None, Some(path)) if is_post => {
                ParameterTarget::Json(path.split('.').map(str::to_owned).collect())
            }
            (None, None, Some(_)) => {
                return self.refuse(format!("{key}.json"), "a GET has no body; use method = \"POST\"");
            }
            _ => return self.refuse(key, "needs exactly one of query, header and json"),
        };
        let value = self.value(&format!("{key}.value"), &entry.value)?;
        let when = entry.when.iter().map(|text| self.condition(&format!("{key}.when"), text));
        Ok(Parameter { place, value, when: when.collect::<Result<_, _>>()? })
    }

    fn value(&self, key: &str, value: &toml::Value) -> LoadResult<Value> {
        Ok(match value {
            toml::Value::String(text) => {
                let parts = self.text(key, text)?;
                match parts.as_slice() {
                    [] => Value::Fixed("".into()),
                    [TextPart::Literal(literal)] => Value::Fixed(literal.as_str().into()),
                    _ => Value::Text(parts),
                }
            }
            toml::Value::Array(items) => {
                Value::List(items.iter().map(|item| self.value(key, item)).collect::<Result<_, _>>()?)
            }
            toml::Value::Table(table) => Value::Table(
                table
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.value(&format!("{key}.{name}"), value)?)))
                    .collect::<Result<_, TemplateError>>()?,
            ),
            other => Value::Fixed(json_of(other).or_else(|reason| self.refuse(key, reason))?),
        })
    }

    /// Text with holes: `{url}`, `{credential.apiKey}`. Braces that are meant as such are written twice.
    fn text(&self, key: &str, text: &str) -> LoadResult<Text> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let Some((name, after)) = after.split_once('}').filter(|_| brace == "{") else {
                return self.refuse(key, format!("has a single {brace} (write it twice when it is meant)"));
            };
            if !literal.is_empty() {
                parts.push(TextPart::Literal(std::mem::take(&mut literal)));
            }
            parts.push(TextPart::Hole(self.hole(key, name)?));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TextPart::Literal(literal));
        }
        Ok(parts)
    }

    fn hole(&self, key: &str, name: &str) -> LoadResult<Placeholder> {
        let known = |fields: &[Field], name: &str| fields.iter().any(|field| field.name == name);
        Ok(match name {
            "url" => Placeholder::Url,
            "render" => Placeholder::Render,
            "premium" => Placeholder::Premium,
            "tier" => Placeholder::Tier,
            "country" => Placeholder::Country,
            "timeout_ms" => Placeholder::TimeoutMs,
            "timeout_sec" => Placeholder::TimeoutSec,
            "headers" => Placeholder::Headers,
            "header_list" => Placeholder::HeaderList,
            _ => match name.split_once('.') {
                Some(("credential", field)) if known(self.credentials, field) => {
                    Placeholder::Credential(field.to_owned())
                }
                Some(("setting", field)) if known(self.settings, field) => {
                    Placeholder::Setting(field.to_owned())
                }
                _ => return self.refuse(key, format!("{{{name}}} is nothing that can be filled in")),
            },
        })
    }

    fn condition(&self, key: &str, text: &str) -> LoadResult<Condition> {
        let (is_negated, text) = match text.strip_prefix('!') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let test = match (text, text.split_once(['=', '.'])) {
            ("render", _) => ConditionTest::Render,
            ("country", _) => ConditionTest::Country,
            ("headers", _) => ConditionTest::Headers,
            (_, Some(("tier", tier))) if self.tiers.iter().any(|known| known == tier) => {
                ConditionTest::Tier(tier.to_owned())
            }
            (_, Some(("setting", name))) if self.settings.iter().any(|field| field.name == name) => {
                ConditionTest::Setting(name.to_owned())
            }
            _ => return self.refuse(key, format!("{text:?} is no condition")),
        };
        Ok(Condition { is_negated, test })
    }

    fn response(&self, entry: ResponseEntry) -> LoadResult<ResponseTemplate> {
        if entry.body.is_empty() {
            return self.refuse("response.body", "names no place");
        }
        let mut bodies = Vec::new();
        for (i, body) in entry.body.into_iter().enumerate() {
            let key = format!("response.body[{i}]");
            let only_if = match body.only_if {
                None => None,
                Some(condition) => {
                    Some((self.place(&format!("{key}.only_if"), &condition.at)?, condition.text))
                }
            };
            let encoding = match body.encoding {
                EncodingEntry::Bytes => Encoding::Bytes,
                EncodingEntry::Text => Encoding::Text,
                EncodingEntry::Base64 => Encoding::Base64,
            };
            bodies.push(BodySource {
                from: self.place(&format!("{key}.from"), &body.from)?,
                encoding,
                only_if,
            });
        }
        let target_headers = match entry.target_headers.as_deref() {
            None => None,
            Some(text) => match (text.strip_prefix("header:"), text.strip_prefix("json:")) {
                (Some(pattern), _) if pattern.ends_with('*') => {
                    Some(HeaderSource::Own(pattern.trim_end_matches('*').to_ascii_lowercase()))
                }
                (_, Some(path)) => Some(HeaderSource::Json(self.steps("response.target_headers", path)?)),
                _ => {
                    return self.refuse("response.target_headers", "must be header:PREFIX* or json:PATH");
                }
            },
        };
        let places = |key: &str, texts: &[String]| -> LoadResult<Vec<ValueSource>> {
            texts.iter().map(|text| self.place(&format!("response.{key}"), text)).collect()
        };
        let response = ResponseTemplate {
            target_status: places("target_status", &entry.target_status)?,
            final_url: places("final_url", &entry.final_url)?,
            content_type: places("content_type", &entry.content_type)?,
            cost: places("cost", &entry.cost)?,
            error: places("error", &entry.error)?,
            target_headers,
            bodies,
            reads_json: false,
        };
        if response.target_status.is_empty() {
            return self.refuse("response.target_status", "names no place");
        }
        let reads_json = response.places().any(ValueSource::is_json)
            || matches!(response.target_headers, Some(HeaderSource::Json(_)));
        Ok(ResponseTemplate { reads_json, ..response })
    }

    fn rules(&self, entries: Vec<RuleEntry>) -> LoadResult<Vec<AnswerRule>> {
        let mut rules: Vec<AnswerRule> = Vec::with_capacity(entries.len());
        for (i, entry) in entries.into_iter().enumerate() {
            let key = |part: &str| format!("rule[{i}].{part}");
            if rules.iter().any(|rule| rule.id == entry.id) {
                return self.refuse(key("id"), format!("{} is given twice", entry.id));
            }
            let Some(means) = AnswerMeaning::named(&entry.means) else {
                return self.refuse(key("means"), format!("must be one of {}", AnswerMeaning::WORDS));
            };
            let places = |part: &str, texts: &[String]| -> LoadResult<Vec<ValueSource>> {
                texts.iter().map(|text| self.place(&key(part), text)).collect()
            };
            let pairs = |part: &str, entries: Vec<AtEntry>| -> LoadResult<Vec<(ValueSource, String)>> {
                entries.into_iter().map(|e| Ok((self.place(&key(part), &e.at)?, e.text))).collect()
            };
            let matches = pairs("matches", entry.matches)?.into_iter().map(|(place, text)| {
                let regex = regex::RegexBuilder::new(&text).size_limit(REGEX_BYTES_MAX).build();
                regex.map(|regex| (place, regex)).or_else(|e| self.refuse(key("matches"), e.to_string()))
            });
            rules.push(AnswerRule {
                statuses: self.statuses(&key("status"), entry.status)?,
                has: places("has", &entry.has)?,
                lacks: places("lacks", &entry.lacks)?,
                is: pairs("is", entry.is)?,
                contains: pairs("contains", entry.contains)?,
                matches: matches.collect::<LoadResult<Vec<(ValueSource, Regex)>>>()?,
                means,
                target_status: entry.target_status,
                id: entry.id,
            });
        }
        let last = rules.len().saturating_sub(1);
        match rules.iter().position(AnswerRule::is_unconditional) {
            Some(at) if at == last => Ok(rules),
            Some(at) => self
                .refuse(format!("rule[{at}]"), "has no condition, so the rules after it would never speak"),
            None => self.refuse("rule", "the last rule must have no condition, to speak for everything else"),
        }
    }

    fn statuses(&self, key: &str, entries: Vec<StatusEntry>) -> LoadResult<Vec<(u16, u16)>> {
        let parse = |entry| match entry {
            StatusEntry::One(status) => Some((status, status)),
            StatusEntry::Range(text) => {
                let (low, high) = text.split_once('-')?;
                Some((low.parse().ok()?, high.parse().ok()?)).filter(|(low, high)| low <= high)
            }
        };
        let all: Option<Vec<_>> = entries.into_iter().map(parse).collect();
        all.map_or_else(|| self.refuse(key, "must be statuses (404) or ranges of them (\"500-599\")"), Ok)
    }

    fn place(&self, key: &str, text: &str) -> LoadResult<ValueSource> {
        if text.contains('|') {
            let places = text.split('|').map(|one| self.place(key, one.trim()));
            return Ok(ValueSource::FirstOf(places.collect::<Result<_, _>>()?));
        }
        match text.split_once(':') {
            None if text == "status" => Ok(ValueSource::Status),
            None if text == "body" => Ok(ValueSource::Body),
            Some(("header", name)) => match HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => Ok(ValueSource::Header(name)),
                Err(_) => self.refuse(key, format!("{name} is no header's name")),
            },
            Some(("json", path)) => Ok(ValueSource::Json(self.steps(key, path)?)),
            _ => self
                .refuse(key, format!("{text:?} is no place; write status, body, header:NAME or json:PATH")),
        }
    }

    /// `results.0.content`, `headers[name=content-type].value`.
    fn steps(&self, key: &str, path: &str) -> LoadResult<Vec<JsonStep>> {
        let mut steps = Vec::new();
        for segment in path.split('.') {
            let (name, filter) = match segment.split_once('[') {
                None => (segment, None),
                Some((name, filter)) => match filter.strip_suffix(']').and_then(|f| f.split_once('=')) {
                    Some(filter) => (name, Some(filter)),
                    None => {
                        return self.refuse(key, format!("{segment:?} is no step; write list[field=text]"));
                    }
                },
            };
            match name.parse::<usize>() {
                _ if name.is_empty() => return self.refuse(key, format!("{path:?} has an empty step")),
                Ok(index) => steps.push(JsonStep::Index(index)),
                Err(_) => steps.push(JsonStep::Key(name.to_owned())),
            }
            if let Some((field, text)) = filter {
                steps.push(JsonStep::Where { field: field.to_owned(), text: text.to_owned() });
            }
        }
        Ok(steps)
    }
}

impl ValueSource {
    fn is_json(&self) -> bool {
        match self {
            ValueSource::Json(_) => true,
            ValueSource::FirstOf(places) => places.iter().any(ValueSource::is_json),
            ValueSource::Status | ValueSource::Body | ValueSource::Header(_) => false,
        }
    }
}

impl AnswerRule {
    fn is_unconditional(&self) -> bool {
        self.statuses.is_empty() && self.places().next().is_none()
    }

    fn reads_json(&self) -> bool {
        self.places().any(ValueSource::is_json)
    }

    fn places(&self) -> impl Iterator<Item = &ValueSource> {
        let pairs = self.is.iter().chain(&self.contains).map(|(place, _)| place);
        let matches = self.matches.iter().map(|(place, _)| place);
        self.has.iter().chain(&self.lacks).chain(pairs).chain(matches)
    }
}

impl ResponseTemplate {
    fn places(&self) -> impl Iterator<Item = &ValueSource> {
        let lists = [&self.target_status, &self.final_url, &self.content_type, &self.cost, &self.error];
        let conditions = self.bodies.iter().filter_map(|body| body.only_if.as_ref().map(|(place, _)| place));
        lists.into_iter().flatten().chain(self.bodies.iter().map(|body| &body.from)).chain(conditions)
    }
}

/// Every hole of a value.
fn holes(value: &Value) -> Vec<&Placeholder> {
    match value {
        Value::Fixed(_) => Vec::new(),
        Value::Text(parts) => parts
            .iter()
            .filter_map(|part| match part {
                TextPart::Hole(hole) => Some(hole),
                TextPart::Literal(_) => None,
            })
            .collect(),
        Value::List(items) => items.iter().flat_map(holes).collect(),
        Value::Table(entries) => entries.iter().flat_map(|(_, value)| holes(value)).collect(),
    }
}
