//! What a condition node asks: a field of the job, an operation, a value.
//!
//! A field that is not there (no page type, no answer yet) fulfils `is_null`, `ne` and `not_in` and nothing else. A job
//! has several tags: `eq`, `in` and the like hold when one of them fits, `ne` and `not_in` when none does.

use super::config::NodeConfig;
use super::shape::{Fault, one_of, quoted};
use base::terms::PageType;
use base::web::Domain;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Characters of a regular expression.
const PATTERN_CHARS_MAX: usize = 500;
/// Bytes that a compiled one may take, and again what its search may keep.
const PATTERN_BYTES_MAX: usize = 128 << 10;
/// Members of a list.
pub(super) const LIST_MAX: usize = 200;
/// Characters of a value.
pub(super) const VALUE_CHARS_MAX: usize = 2_048;

/// What a walk knows of its job.
#[derive(Clone, Copy, Debug)]
pub struct JobFacts<'a> {
    pub url: &'a str,
    /// The registrable domain.
    pub domain: &'a str,
    pub page_type: Option<PageType>,
    pub tags: &'a [String],
    /// What is the same for every run of the job and for no other job.
    pub job: [u8; 16],
}

/// A field with text in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextField {
    Url,
    Domain,
    PageType,
    Tag,
}

/// A field that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberField {
    Attempts,
    HttpStatus,
}

#[derive(Clone, Debug)]
enum TextOp {
    /// One of these, or none of them when `not`.
    In {
        values: Vec<String>,
        not: bool,
    },
    Contains(String),
    StartsWith(String),
    EndsWith(String),
    Matches(Box<Regex>),
    IsNull {
        not: bool,
    },
}

#[derive(Clone, Debug)]
enum NumberOp {
    In { values: Vec<i64>, not: bool },
    Within { least: i64, most: i64 },
    IsNull { not: bool },
}

/// A condition that was read.
#[derive(Clone, Debug)]
pub struct Condition(Comparison);

#[derive(Clone, Debug)]
enum Comparison {
    Text(TextField, TextOp),
    Number(NumberField, NumberOp),
}

/// The fields, and whether they hold text.
pub(super) const FIELDS: &[(&str, bool)] = &[
    ("url", true),
    ("domain", true),
    ("pageType", true),
    ("tag", true),
    ("attempts", false),
    ("httpStatus", false),
];
pub(super) const TEXT_OPS: &[&str] =
    &["eq", "ne", "in", "not_in", "contains", "starts_with", "ends_with", "matches", "is_null", "not_null"];
pub(super) const NUMBER_OPS: &[&str] =
    &["eq", "ne", "in", "not_in", "lt", "lte", "gt", "gte", "between", "is_null", "not_null"];

impl Condition {
    /// Reads a condition's config; what is wrong with it is reported there.
    pub(super) fn read(config: &mut NodeConfig<'_>) -> Option<Condition> {
        let field = match config.text("field")? {
            "url" => Ok(TextField::Url),
            "domain" => Ok(TextField::Domain),
            "pageType" => Ok(TextField::PageType),
            "tag" => Ok(TextField::Tag),
            "attempts" => Err(NumberField::Attempts),
            "httpStatus" => Err(NumberField::HttpStatus),
            other => {
                let known = one_of(FIELDS.iter().map(|(name, _)| *name));
                config.wrong("field", format!("{} is not a field; one is {known}", quoted(other)));
                return None;
            }
        };
        let op = config.text("op")?;
        let known = if field.is_ok() { TEXT_OPS } else { NUMBER_OPS };
        if !known.contains(&op) {
            let known = one_of(known.iter().copied());
            config.wrong("op", format!("{} is not an operation on this field; one is {known}", quoted(op)));
            return None;
        }
        Some(Condition(match field {
            Ok(field) => Comparison::Text(field, text_op(config, field, op)?),
            Err(field) => Comparison::Number(field, number_op(config, op)?),
        }))
    }

    /// What it takes beside itself, bytes. An expression counts with its automata and with what two searches at a time
    /// keep for them, there and back, each as large as it may become: nobody can ask it how large it is.
    pub(super) fn memory_bytes(&self) -> usize {
        const TEXT_BYTES: usize = size_of::<String>();
        let texts = |values: &[String]| values.iter().map(|text| TEXT_BYTES + text.len()).sum();
        match &self.0 {
            Comparison::Text(_, TextOp::Matches(_)) => 6 * PATTERN_BYTES_MAX,
            Comparison::Text(_, TextOp::In { values, .. }) => texts(values),
            Comparison::Text(
                _,
                TextOp::Contains(text) | TextOp::StartsWith(text) | TextOp::EndsWith(text),
            ) => text.len(),
            Comparison::Number(_, NumberOp::In { values, .. }) => values.len() * size_of::<i64>(),
            Comparison::Text(_, TextOp::IsNull { .. })
            | Comparison::Number(_, NumberOp::Within { .. } | NumberOp::IsNull { .. }) => 0,
        }
    }

    /// Whether it holds for a job after `attempts` attempts, the last of which was answered with `http_status`.
    pub fn holds(&self, facts: &JobFacts<'_>, attempts: u32, http_status: Option<u16>) -> bool {
        match &self.0 {
            Comparison::Text(TextField::Url, op) => op.holds(&[facts.url]),
            Comparison::Text(TextField::Domain, op) => op.holds(&[facts.domain]),
            Comparison::Text(TextField::PageType, op) => match facts.page_type {
                Some(page_type) => op.holds(&[page_type.name()]),
                None => op.holds::<&str>(&[]),
            },
            Comparison::Text(TextField::Tag, op) => op.holds(facts.tags),
            Comparison::Number(NumberField::Attempts, op) => op.holds(Some(attempts.into())),
            Comparison::Number(NumberField::HttpStatus, op) => op.holds(http_status.map(i64::from)),
        }
    }
}

impl TextOp {
    fn holds<T: AsRef<str>>(&self, values: &[T]) -> bool {
        let any = |fits: &dyn Fn(&str) -> bool| values.iter().any(|value| fits(value.as_ref()));
        match self {
            TextOp::In { values, not } => any(&|text| values.iter().any(|value| value == text)) != *not,
            TextOp::Contains(part) => any(&|text| text.contains(part.as_str())),
            TextOp::StartsWith(part) => any(&|text| text.starts_with(part.as_str())),
            TextOp::EndsWith(part) => any(&|text| text.ends_with(part.as_str())),
            TextOp::Matches(pattern) => any(&|text| pattern.is_match(text)),
            TextOp::IsNull { not } => values.is_empty() != *not,
        }
    }
}

impl NumberOp {
    fn holds(&self, value: Option<i64>) -> bool {
        match self {
            NumberOp::In { values, not } => value.is_some_and(|n| values.contains(&n)) != *not,
            NumberOp::Within { least, most } => value.is_some_and(|n| (*least..=*most).contains(&n)),
            NumberOp::IsNull { not } => value.is_none() != *not,
        }
    }
}

fn text_op(config: &mut NodeConfig<'_>, field: TextField, op: &str) -> Option<TextOp> {
    let not = matches!(op, "ne" | "not_in" | "not_null");
    match op {
        "is_null" | "not_null" => return Some(TextOp::IsNull { not }),
        "in" | "not_in" => {
            let values = list(config, |value| checked_text(field, value))?;
            return Some(TextOp::In { values, not });
        }
        _ => {}
    }
    let value = config.required("value")?;
    // Only a whole value can be brought into its normal form: a part of a domain is no domain.
    let field = if matches!(op, "eq" | "ne") { field } else { TextField::Url };
    let text = match checked_text(field, value) {
        Ok(text) => text,
        Err(reason) => {
            config.wrong("value", reason);
            return None;
        }
    };
    Some(match op {
        "contains" => TextOp::Contains(text),
        "starts_with" => TextOp::StartsWith(text),
        "ends_with" => TextOp::EndsWith(text),
        "matches" => TextOp::Matches(Box::new(pattern(config, &text)?)),
        _ => TextOp::In { values: vec![text], not },
    })
}

fn checked_text(field: TextField, value: &Value) -> Result<String, String> {
    let text = value.as_str().ok_or("must be text")?;
    if text.is_empty() || text.chars().count() > VALUE_CHARS_MAX {
        return Err(format!("must have 1 to {VALUE_CHARS_MAX} characters"));
    }
    match field {
        TextField::Domain => Domain::parse(text).map(|domain| domain.to_string()).map_err(|e| e.to_string()),
        TextField::PageType if PageType::named(text).is_none() => {
            let known = one_of(PageType::ALL.iter().map(|kind| kind.name()));
            Err(format!("{} is not a page type; one is {known}", quoted(text)))
        }
        _ => Ok(text.to_owned()),
    }
}

fn pattern(config: &mut NodeConfig<'_>, text: &str) -> Option<Regex> {
    if text.chars().count() > PATTERN_CHARS_MAX {
        config.wrong("value", format!("a regular expression has at most {PATTERN_CHARS_MAX} characters"));
        return None;
    }
    let built =
        RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build();
    match built {
        Ok(pattern) => Some(pattern),
        Err(regex::Error::CompiledTooBig(_)) => {
            config.wrong("value", "is a regular expression that takes too much memory");
            None
        }
        Err(error) => {
            // Its last line says what is wrong; the others draw the place.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            config.wrong("value", format!("is not a regular expression: {reason}"));
            None
        }
    }
}

fn number_op(config: &mut NodeConfig<'_>, op: &str) -> Option<NumberOp> {
    let not = matches!(op, "ne" | "not_in" | "not_null");
    match op {
        "is_null" | "not_null" => return Some(NumberOp::IsNull { not }),
        "in" | "not_in" => return Some(NumberOp::In { values: list(config, whole_number)?, not }),
        "between" => {
            let values = list(config, whole_number)?;
            let [least, most] = values[..] else {
                config.wrong("value", "must be two numbers, the least and the most");
                return None;
            };
            if least > most {
                config.wrong("value", "has the larger number first, so nothing lies between them");
                return None;
            }
            return Some(NumberOp::Within { least, most });
        }
        _ => {}
    }
    let value = match whole_number(config.required("value")?) {
        Ok(value) => value,
        Err(reason) => {
            config.wrong("value", reason);
            return None;
        }
    };
    Some(match op {
        "lt" => NumberOp::Within { least: i64::MIN, most: value.saturating_sub(1) },
        "lte" => NumberOp::Within { least: i64::MIN, most: value },
        "gt" => NumberOp::Within { least: value.saturating_add(1), most: i64::MAX },
        "gte" => NumberOp::Within { least: value, most: i64::MAX },
        _ => NumberOp::In { values: vec![value], not },
    })
}

fn whole_number(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| "must be a whole number".to_owned())
}

/// The members of `value`, each read by `member`.
fn list<T>(config: &mut NodeConfig<'_>, member: impl Fn(&Value) -> Result<T, String>) -> Option<Vec<T>> {
    let Some(values) = config.required("value")?.as_array() else {
        config.wrong("value", "must be an array");
        return None;
    };
    if values.is_empty() || values.len() > LIST_MAX {
        config.wrong("value", format!("must have 1 to {LIST_MAX} members"));
        return None;
    }
    let mut read = Vec::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        match member(value) {
            Ok(value) => read.push(value),
            Err(reason) => config.add(&format!("value[{i}]"), Fault::BadConfig, reason),
        }
    }
    (read.len() == values.len()).then_some(read)
}
