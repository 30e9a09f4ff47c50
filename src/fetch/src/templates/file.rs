//! The shape of a template file: what serde reads and checks. What each key means is in `data/providers/README.md`; what
//! serde cannot see is checked in `load.rs`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest time limit that is told to a provider, unless its template says otherwise, ms.
const TIMEOUT_MS_MAX: u64 = 120_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub id: String,
    pub name: String,
    pub about: String,
    pub docs: String,
    pub base_url: String,
    #[serde(default)]
    pub credential: Vec<FieldEntry>,
    #[serde(default)]
    pub setting: Vec<FieldEntry>,
    pub request: RequestEntry,
    pub response: ResponseEntry,
    pub rule: Vec<RuleEntry>,
    pub credits: BTreeMap<String, PriceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldEntry {
    pub name: String,
    pub about: String,
    #[serde(default)]
    pub kind: KindEntry,
    #[serde(default)]
    pub choices: Vec<String>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub default: Option<toml::Value>,
    #[serde(default)]
    pub optional: bool,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindEntry {
    #[default]
    Text,
    Integer,
    Boolean,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceEntry {
    pub plain: u64,
    pub render: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestEntry {
    pub method: MethodEntry,
    pub path: String,
    pub basic: Option<[String; 2]>,
    #[serde(default)]
    pub timeout_ms: TimeoutEntry,
    #[serde(default)]
    pub renders: RendersEntry,
    pub country: Option<CountryEntry>,
    pub headers: Option<HeadersEntry>,
    pub parameter: Vec<ParameterEntry>,
    #[serde(default)]
    pub refuse: Vec<RefuseEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefuseEntry {
    pub when: Vec<String>,
    pub reason: String,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) enum MethodEntry {
    #[serde(rename = "GET")]
    Get,
    #[serde(rename = "POST")]
    Post,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeoutEntry {
    #[serde(default)]
    pub min: u64,
    #[serde(default = "timeout_max")]
    pub max: u64,
}

fn timeout_max() -> u64 {
    TIMEOUT_MS_MAX
}

impl Default for TimeoutEntry {
    fn default() -> Self {
        Self { min: 0, max: TIMEOUT_MS_MAX }
    }
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum RendersEntry {
    Never,
    #[default]
    Asked,
    Always,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountryEntry {
    #[serde(default)]
    pub case: CaseEntry,
    #[serde(default)]
    pub names: BTreeMap<String, String>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum CaseEntry {
    #[default]
    Lower,
    Upper,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadersEntry {
    pub prefix: Option<String>,
    pub query: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParameterEntry {
    pub query: Option<String>,
    pub header: Option<String>,
    pub json: Option<String>,
    pub value: toml::Value,
    #[serde(default)]
    pub when: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseEntry {
    pub body: Vec<BodyEntry>,
    pub target_status: Vec<String>,
    pub target_headers: Option<String>,
    #[serde(default)]
    pub final_url: Vec<String>,
    #[serde(default)]
    pub content_type: Vec<String>,
    #[serde(default)]
    pub cost: Vec<String>,
    #[serde(default)]
    pub error: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BodyEntry {
    pub from: String,
    pub encoding: EncodingEntry,
    pub only_if: Option<AtEntry>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum EncodingEntry {
    Bytes,
    Text,
    Base64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtEntry {
    pub at: String,
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    pub id: String,
    /// For the reader of the file.
    #[serde(rename = "about")]
    pub _about: String,
    #[serde(default)]
    pub status: Vec<StatusEntry>,
    #[serde(default)]
    pub has: Vec<String>,
    #[serde(default)]
    pub lacks: Vec<String>,
    #[serde(default)]
    pub is: Vec<AtEntry>,
    #[serde(default)]
    pub contains: Vec<AtEntry>,
    #[serde(default)]
    pub matches: Vec<AtEntry>,
    pub means: String,
    pub target_status: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum StatusEntry {
    One(u16),
    Range(String),
}
