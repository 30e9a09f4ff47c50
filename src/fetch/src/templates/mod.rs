//! The hosted providers: each is a file of `data/providers` that says how to ask it and how to read its answer.
//!
//! One interpreter serves them all, so a new provider needs no code: a file in `data/providers` that a build takes
//! along, or one in the folder that `providers.dir` names. The language is described in `data/providers/README.md`, for
//! whoever writes such a file; here is how it is carried out:
//! - [`load`] reads a file into a [`Template`], and refuses one that cannot be meant, naming file, key and reason: at the
//!   start of the box and not at the first request;
//! - [`request`] fills a template with an account and a request;
//! - [`answer`] reads what came back: where the page, the target's status and the costs stand, and what it all means;
//! - [`hosted`] puts them together into a provider.
//!
//! Invariants: nothing in a template is carried out but substitution and comparison, so a wrong one can misread and
//! cannot harm; credentials go into the request and into nothing else, an error text that repeats one is blanked; the
//! guard judges the provider's address like any other.

mod account;
pub mod answer;
mod file;
pub mod hosted;
pub mod load;
pub mod request;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use http::header::HeaderName;
use regex::Regex;

pub use account::Account;
pub use hosted::Hosted;

use super::FetchRequest;
use super::fields::{Field, Values};
use super::outcome::AnswerMeaning;
use super::provider::{CreditMatrix, TIER_PREMIUM, TIER_STANDARD};
use base::web::WebUrl;

/// Bytes of a template file.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The setting that says which tier a request for `premium` means, where a provider has several.
pub const PREMIUM_TIER_SETTING: &str = "premiumTier";

macro_rules! shipped {
    ($($name:literal)*) => {
        /// The files that the binary ships with.
        const SHIPPED: &[(&str, &str)] = &[$(
            (concat!("data/providers/", $name, ".toml"), include_str!(concat!("../../../../data/providers/", $name, ".toml")))
        ),*];
    };
}

shipped! {
    "brightdata" "firecrawl" "oxylabs" "scrapedo" "scrapeops" "scraperapi" "scrapfly" "scrapingbee" "zenrows" "zyte"
}

/// A file that cannot be a template: which, where in it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    pub file: String,
    pub key: String,
    pub reason: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" | "." => write!(f, "{}: {}", self.file, self.reason),
            key => write!(f, "{}: {key}: {}", self.file, self.reason),
        }
    }
}

impl std::error::Error for TemplateError {}

/// A hosted provider, as its file describes it.
#[derive(Debug)]
pub struct Template {
    /// The adapter's name in the API.
    pub id: String,
    /// The vendor's own name.
    pub name: String,
    pub about: String,
    /// The vendor's documentation.
    pub docs: String,
    pub base_url: WebUrl,
    pub credentials: Vec<Field>,
    pub settings: Vec<Field>,
    pub credits: CreditMatrix,
    request: RequestTemplate,
    response: ResponseTemplate,
    rules: Vec<AnswerRule>,
}

/// Every template, in the order of their names.
#[derive(Debug, Clone)]
pub struct Templates(Vec<Arc<Template>>);

impl Templates {
    /// The shipped ones, and those in `folder` beside them; one there replaces a shipped one of its id.
    pub fn load(folder: Option<&Path>) -> Result<Self, TemplateError> {
        let mut all = Vec::new();
        for (file, text) in SHIPPED {
            all.push(Arc::new(load::parse(file, text)?));
        }
        let mut templates = Self(all);
        if let Some(folder) = folder {
            templates.read_folder(folder)?;
        }
        templates.0.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(templates)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<(), TemplateError> {
        let error = |path: &Path, reason: String| TemplateError {
            file: path.display().to_string(),
            key: String::new(),
            reason,
        };
        let entries = std::fs::read_dir(folder).map_err(|e| error(folder, format!("cannot be read: {e}")))?;
        let mut own: Vec<Arc<Template>> = Vec::new();
        for entry in entries {
            let path = entry.map_err(|e| error(folder, format!("cannot be read: {e}")))?.path();
            if path.extension().is_none_or(|kind| kind != "toml") {
                continue;
            }
            let bytes = std::fs::metadata(&path).map(|about| about.len()).unwrap_or_default();
            if bytes > FILE_BYTES_MAX {
                return Err(error(&path, format!("is larger than {FILE_BYTES_MAX} bytes")));
            }
            let text =
                std::fs::read_to_string(&path).map_err(|e| error(&path, format!("cannot be read: {e}")))?;
            let template = Arc::new(load::parse(&path.display().to_string(), &text)?);
            if own.iter().any(|other| other.id == template.id) {
                return Err(error(&path, format!("another file in this folder has the id {}", template.id)));
            }
            own.push(template);
        }
        self.0.retain(|shipped| !own.iter().any(|template| template.id == shipped.id));
        self.0.extend(own);
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Template>> {
        self.0.iter()
    }

    pub fn get(&self, id: &str) -> Option<&Arc<Template>> {
        self.0.iter().find(|template| template.id == id)
    }
}

impl Template {
    /// The tier that a request is made in; none when it asks for a better one than there is.
    pub fn tier<'a>(&'a self, settings: &'a Values, premium: bool) -> Option<&'a str> {
        if !premium {
            return Some(TIER_STANDARD);
        }
        let set = settings.get(PREMIUM_TIER_SETTING).and_then(|value| value.as_str());
        set.or(Some(TIER_PREMIUM)).filter(|tier| self.credits.has(tier))
    }

    /// Whether a request is rendered, asked for or not.
    pub fn is_rendered(&self, asked: bool) -> bool {
        match self.request.renders {
            Renders::Never => false,
            Renders::Asked => asked,
            Renders::Always => true,
        }
    }

    /// What of a request this provider cannot do, in words; none when it can do everything.
    pub fn lacks(&self, settings: &Values, request: &FetchRequest) -> Option<String> {
        let lacks = |what: &str| Some(format!("{} does not {what}", self.name));
        if request.render && self.request.renders == Renders::Never {
            return lacks("render pages");
        }
        if self.tier(settings, request.premium).is_none() {
            return lacks("have a premium tier");
        }
        if let Some(country) = &request.country {
            match &self.request.country {
                None => return lacks("take a country"),
                Some(countries) if countries.write(country).is_none() => {
                    return Some(format!("{} does not offer the country {country}", self.name));
                }
                Some(_) => {}
            }
        }
        if !request.headers.is_empty() && !self.request.sends_headers {
            return lacks("pass on headers");
        }
        let facts = self.facts(settings, request);
        let refused = self.request.refusals.iter().find(|(when, _)| when.iter().all(|c| facts.hold(c)));
        refused.map(|(_, reason)| format!("{} {reason}", self.name))
    }

    fn facts<'a>(&'a self, settings: &'a Values, request: &'a FetchRequest) -> RequestFacts<'a> {
        RequestFacts {
            settings,
            tier: self.tier(settings, request.premium).unwrap_or_default(),
            render: self.is_rendered(request.render),
            country: request.country.is_some(),
            headers: !request.headers.is_empty(),
        }
    }
}

/// What a condition of a template asks about a request.
struct RequestFacts<'a> {
    settings: &'a Values,
    tier: &'a str,
    render: bool,
    country: bool,
    headers: bool,
}

impl RequestFacts<'_> {
    fn hold(&self, condition: &Condition) -> bool {
        let holds = match &condition.test {
            ConditionTest::Render => self.render,
            ConditionTest::Country => self.country,
            ConditionTest::Headers => self.headers,
            ConditionTest::Tier(tier) => self.tier == tier,
            ConditionTest::Setting(name) => match self.settings.get(name) {
                None | Some(serde_json::Value::Null | serde_json::Value::Bool(false)) => false,
                Some(serde_json::Value::String(text)) => !text.is_empty(),
                Some(_) => true,
            },
        };
        holds != condition.is_negated
    }
}

/// Whether a provider runs the page's scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renders {
    Never,
    Asked,
    Always,
}

#[derive(Debug)]
struct RequestTemplate {
    is_post: bool,
    path: String,
    basic: Option<[Text; 2]>,
    timeout_ms: (u64, u64),
    renders: Renders,
    country: Option<Countries>,
    /// How the job's own headers go along, when they go as headers or parameters of their own.
    headers: Option<HeaderStyle>,
    /// Whether they go along in any way.
    sends_headers: bool,
    parameters: Vec<Parameter>,
    /// What cannot be asked for together, and why.
    refusals: Vec<(Vec<Condition>, String)>,
}

/// How a country is written.
#[derive(Debug)]
struct Countries {
    is_upper: bool,
    /// The provider's own names; with one for each country that can be asked for, or none at all.
    names: Vec<(String, String)>,
}

impl Countries {
    /// The provider's word for a code in upper case.
    fn write(&self, code: &str) -> Option<String> {
        if !self.names.is_empty() {
            return self.names.iter().find(|(own, _)| own == code).map(|(_, name)| name.clone());
        }
        Some(if self.is_upper { code.to_owned() } else { code.to_ascii_lowercase() })
    }
}

#[derive(Debug)]
enum HeaderStyle {
    /// As header lines of the request to the provider, behind this prefix.
    Prefixed(String),
    /// As `name[header]=value` in the query.
    Query(String),
}

#[derive(Debug)]
struct Parameter {
    place: ParameterTarget,
    value: Value,
    when: Vec<Condition>,
}

#[derive(Debug)]
enum ParameterTarget {
    Query(String),
    Header(HeaderName),
    /// Where in the JSON body, from outside in.
    Json(Vec<String>),
}

/// A value to be filled in.
#[derive(Debug)]
enum Value {
    Fixed(serde_json::Value),
    /// Text around holes. A text that is one hole and nothing else keeps the hole's type.
    Text(Text),
    List(Vec<Value>),
    Table(Vec<(String, Value)>),
}

type Text = Vec<TextPart>;

#[derive(Debug)]
enum TextPart {
    Literal(String),
    Hole(Placeholder),
}

#[derive(Debug, Clone, PartialEq)]
enum Placeholder {
    Url,
    Render,
    Premium,
    Tier,
    Country,
    TimeoutMs,
    TimeoutSec,
    /// The job's headers as an object.
    Headers,
    /// The job's headers as a list of `{name, value}`.
    HeaderList,
    Credential(String),
    Setting(String),
}

#[derive(Debug)]
struct Condition {
    is_negated: bool,
    test: ConditionTest,
}

#[derive(Debug)]
enum ConditionTest {
    Render,
    Country,
    Headers,
    Tier(String),
    Setting(String),
}

#[derive(Debug)]
struct ResponseTemplate {
    bodies: Vec<BodySource>,
    target_status: Vec<ValueSource>,
    target_headers: Option<HeaderSource>,
    final_url: Vec<ValueSource>,
    content_type: Vec<ValueSource>,
    cost: Vec<ValueSource>,
    error: Vec<ValueSource>,
    /// Whether any place is in a JSON body, which then has to be parsed.
    reads_json: bool,
}

#[derive(Debug)]
struct BodySource {
    from: ValueSource,
    encoding: Encoding,
    only_if: Option<(ValueSource, String)>,
}

/// How a page is written into an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// As the target sent it.
    Bytes,
    /// Decoded by the provider, hence UTF-8 whatever the page says of itself.
    Text,
    Base64,
}

/// Where in an answer something stands.
#[derive(Debug, Clone, PartialEq)]
enum ValueSource {
    /// The status of the answer itself.
    Status,
    Body,
    Header(HeaderName),
    Json(Vec<JsonStep>),
    /// The first of these at which something stands.
    FirstOf(Vec<ValueSource>),
}

#[derive(Debug, Clone, PartialEq)]
enum JsonStep {
    Key(String),
    Index(usize),
    /// The entry of a list whose field has this text, without regard to case.
    Where {
        field: String,
        text: String,
    },
}

/// Where the target's headers stand.
#[derive(Debug)]
enum HeaderSource {
    /// Among the answer's own, behind this prefix.
    Own(String),
    Json(Vec<JsonStep>),
}

#[derive(Debug)]
struct AnswerRule {
    id: String,
    statuses: Vec<(u16, u16)>,
    has: Vec<ValueSource>,
    lacks: Vec<ValueSource>,
    is: Vec<(ValueSource, String)>,
    contains: Vec<(ValueSource, String)>,
    matches: Vec<(ValueSource, Regex)>,
    means: AnswerMeaning,
    /// The target's status, where the rule knows it better than the answer's places do.
    target_status: Option<u16>,
}
