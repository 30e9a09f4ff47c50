//! The extraction schema as it comes in, and compiled.
//!
//! The rules are those of data/docs/api.md, "Extraction". A wrong schema is refused when it is saved, with
//! the place of the field and, for an XPath, the character: `attributes[2].xpaths[0]: unbalanced parenthesis at character 17`.

use std::collections::HashSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::json::PlacedPath;
use crate::xpath::{Fuel, Pattern, XPath};

/// Attributes of one schema.
pub const ATTRIBUTES_MAX: usize = 200;

/// XPaths of one attribute.
pub const XPATHS_MAX: usize = 50;

/// JSONPaths of one attribute.
pub const JSON_PATHS_MAX: usize = 50;

/// antiPatterns of one attribute.
pub const ANTI_PATTERNS_MAX: usize = 50;

/// Characters of an attribute's name.
pub const NAME_CHARACTERS_MAX: usize = 128;

/// Regular expressions of one schema, those inside XPaths included: each takes up to half a megabyte compiled.
pub const PATTERNS_MAX: usize = 500;

/// Bytes of one regular expression.
pub const PATTERN_BYTES_MAX: usize = 2048;

/// One attribute of a schema: what it is called, where it is found, and what it has to look like.
// As it stands in JSON. A row in the store has a shape of its own: fields that are left out here would be missed by a
// format without names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attribute {
    /// Unique within the schema: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most.
    pub name: String,
    /// XPath 1.0 expressions, tried in order until one yields a value.
    #[serde(default)]
    pub xpaths: Vec<String>,
    /// JSONPath queries (RFC 9535) over the JSON that the page is or carries, tried in order behind the XPaths. What stands
    /// before the `$` says in which JSON: nothing is the page itself, or the largest JSON in its scripts; `ld+json` is every
    /// block of linked data; another word is a script's `id`, or the name that a script assigns to. An attribute has at least one
    /// XPath or JSONPath.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_paths: Option<Vec<String>>,
    /// What the found text is made into.
    #[serde(rename = "type")]
    pub kind: AttributeType,
    #[serde(default)]
    pub description: Option<String>,
    /// Regular expressions (case-insensitive); a text that matches one is treated as not found.
    #[serde(default)]
    pub anti_patterns: Option<Vec<String>>,
    #[serde(default)]
    pub semantic_type: Option<SemanticType>,
    /// What a value must satisfy to count as valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AttributeType {
    #[serde(rename = "text")]
    Text,
    #[serde(rename = "number")]
    Number,
    #[serde(rename = "url")]
    Url,
    #[serde(rename = "boolean")]
    Boolean,
    #[serde(rename = "text[]")]
    TextList,
    #[serde(rename = "url[]")]
    UrlList,
}

impl AttributeType {
    pub fn is_list(self) -> bool {
        matches!(self, AttributeType::TextList | AttributeType::UrlList)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SemanticType {
    BrandName,
    ReviewCount,
    ProductId,
    ProductImage,
    StarRating,
    AvailabilityStatus,
}

/// Lengths are in characters and, like `pattern`, are asked of texts (of every member of a list); `min` and `max` of numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// A regular expression that must match somewhere; a number is matched as JSON prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// Why a schema was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// Where, from the root of the body: `attributes[2].xpaths[0]`.
    pub path: String,
    pub message: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for SchemaError {}

/// A checked schema; immutable, and shared between threads.
#[derive(Debug)]
pub struct Schema {
    attributes: Vec<Compiled>,
}

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) name: String,
    pub(super) kind: AttributeType,
    pub(super) xpaths: Vec<XPath>,
    pub(super) json_paths: Vec<PlacedPath>,
    pub(super) anti_patterns: Vec<Pattern>,
    limits: Validation,
    pattern: Option<Pattern>,
}

impl Schema {
    /// Checks and compiles all attributes, or names the first field that is wrong.
    pub fn compile(attributes: &[Attribute]) -> Result<Schema, SchemaError> {
        let fail = |path: &str, message: String| Err(SchemaError { path: path.to_owned(), message });
        if attributes.is_empty() {
            return fail("attributes", "at least one attribute is needed".to_owned());
        }
        if attributes.len() > ATTRIBUTES_MAX {
            return fail("attributes", format!("more than {ATTRIBUTES_MAX} attributes"));
        }
        let mut names = HashSet::new();
        let mut compiled = Vec::with_capacity(attributes.len());
        let mut patterns = 0;
        for (number, attribute) in attributes.iter().enumerate() {
            let path = format!("attributes[{number}]");
            if !names.insert(attribute.name.as_str()) {
                let message = format!("`{}` is the name of another attribute", attribute.name);
                return fail(&format!("{path}.name"), message);
            }
            compiled.push(Compiled::new(attribute, &path)?);
            patterns += compiled.last().map_or(0, Compiled::pattern_count);
            if patterns > PATTERNS_MAX {
                return fail(&path, format!("more than {PATTERNS_MAX} regular expressions in all"));
            }
        }
        Ok(Schema { attributes: compiled })
    }

    pub(super) fn attributes(&self) -> &[Compiled] {
        &self.attributes
    }
}

impl Compiled {
    fn new(attribute: &Attribute, path: &str) -> Result<Compiled, SchemaError> {
        check_name(&attribute.name, path)?;
        let given = attribute.json_paths.as_deref().unwrap_or_default();
        if attribute.xpaths.is_empty() && given.is_empty() {
            let message = "at least one is needed, here or in jsonPaths".to_owned();
            return Err(SchemaError { path: format!("{path}.xpaths"), message });
        }
        for (field, count, most) in
            [("xpaths", attribute.xpaths.len(), XPATHS_MAX), ("jsonPaths", given.len(), JSON_PATHS_MAX)]
        {
            if count > most {
                return Err(SchemaError {
                    path: format!("{path}.{field}"),
                    message: format!("more than {most}"),
                });
            }
        }
        let mut json_paths = Vec::with_capacity(given.len());
        for (number, query) in given.iter().enumerate() {
            let compiled = PlacedPath::compile(query).map_err(|error| SchemaError {
                path: format!("{path}.jsonPaths[{number}]"),
                message: error.to_string(),
            })?;
            json_paths.push(compiled);
        }
        let mut xpaths = Vec::with_capacity(attribute.xpaths.len());
        for (number, xpath) in attribute.xpaths.iter().enumerate() {
            let compiled = XPath::compile(xpath).map_err(|error| SchemaError {
                path: format!("{path}.xpaths[{number}]"),
                message: error.to_string(),
            })?;
            xpaths.push(compiled);
        }
        let patterns = attribute.anti_patterns.as_deref().unwrap_or_default();
        if patterns.len() > ANTI_PATTERNS_MAX {
            let message = format!("more than {ANTI_PATTERNS_MAX}");
            return Err(SchemaError { path: format!("{path}.antiPatterns"), message });
        }
        let mut anti_patterns = Vec::with_capacity(patterns.len());
        for (number, pattern) in patterns.iter().enumerate() {
            anti_patterns.push(regex(pattern, "i", || format!("{path}.antiPatterns[{number}]"))?);
        }
        let limits = attribute.validation.clone().unwrap_or_default();
        check_limits(&limits, path)?;
        let place = || format!("{path}.validation.pattern");
        let pattern = limits.pattern.as_deref().map(|text| regex(text, "", place)).transpose()?;
        Ok(Compiled {
            name: attribute.name.clone(),
            kind: attribute.kind,
            xpaths,
            json_paths,
            anti_patterns,
            limits,
            pattern,
        })
    }

    fn pattern_count(&self) -> usize {
        let in_xpaths: usize = self.xpaths.iter().map(XPath::pattern_count).sum();
        in_xpaths + self.anti_patterns.len() + usize::from(self.pattern.is_some())
    }

    /// What a value fails, in words; empty where it passes. A value that there is no fuel to validate with does not pass.
    pub(super) fn validate(&self, value: &Json, fuel: &mut Fuel) -> Vec<String> {
        let mut failures = Vec::new();
        match value {
            Json::Array(members) => {
                // One member is enough to name: the others would say the same.
                let first =
                    members.iter().map(|member| self.validate(member, fuel)).find(|found| !found.is_empty());
                failures.extend(first.unwrap_or_default());
            }
            Json::String(text) => {
                let pattern = self.pattern.as_ref().map_or(0, |pattern| pattern.cost(text.len()));
                if let Err(error) = fuel.spend(1 + text.len() as u64 / 8 + pattern) {
                    return vec![format!("validation: {error}")];
                }
                let characters = text.chars().count() as u64;
                if let Some(least) = self.limits.min_length.filter(|least| characters < *least) {
                    failures.push(format!("shorter than {least} characters"));
                }
                if let Some(most) = self.limits.max_length.filter(|most| characters > *most) {
                    failures.push(format!("longer than {most} characters"));
                }
                failures.extend(self.mismatch(text));
            }
            Json::Number(number) => {
                let quantity = number.as_f64().unwrap_or(f64::NAN);
                if let Some(least) = self.limits.min.filter(|least| quantity < *least) {
                    failures.push(format!("below {least}"));
                }
                if let Some(most) = self.limits.max.filter(|most| quantity > *most) {
                    failures.push(format!("above {most}"));
                }
                failures.extend(self.mismatch(&number.to_string()));
            }
            _ => {}
        }
        failures
    }

    fn mismatch(&self, text: &str) -> Option<String> {
        let pattern = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text))?;
        Some(format!("does not match /{}/", pattern.regex().as_str()))
    }
}

fn check_name(name: &str, path: &str) -> Result<(), SchemaError> {
    let fail = |message: String| Err(SchemaError { path: format!("{path}.name"), message });
    if name.chars().count() > NAME_CHARACTERS_MAX {
        return fail(format!("longer than {NAME_CHARACTERS_MAX} characters"));
    }
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !starts_well || !goes_on_well {
        return fail("must be a letter or `_`, then letters, digits, `_` or `-`".to_owned());
    }
    Ok(())
}

fn check_limits(limits: &Validation, path: &str) -> Result<(), SchemaError> {
    let fail = |field: &str, message: &str| {
        Err(SchemaError { path: format!("{path}.validation.{field}"), message: message.to_owned() })
    };
    if limits.min_length.zip(limits.max_length).is_some_and(|(least, most)| least > most) {
        return fail("minLength", "is greater than maxLength");
    }
    if limits.min.zip(limits.max).is_some_and(|(least, most)| least > most) {
        return fail("min", "is greater than max");
    }
    if limits.min.is_some_and(f64::is_nan) || limits.max.is_some_and(f64::is_nan) {
        return fail("min", "is not a number");
    }
    Ok(())
}

fn regex(pattern: &str, flags: &str, path: impl Fn() -> String) -> Result<Pattern, SchemaError> {
    let fail = |message: String| SchemaError { path: path(), message };
    if pattern.is_empty() {
        return Err(fail("an empty pattern matches everything".to_owned()));
    }
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(fail(format!("longer than {PATTERN_BYTES_MAX} bytes")));
    }
    Pattern::compile(pattern, flags).map_err(fail)
}
