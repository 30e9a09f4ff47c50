//! Why an attribute has no value, or one that is not trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of reason, which programs read. What went wrong in detail stands beside it, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AttributeErrorReason")]
pub enum Reason {
    /// No XPath found a text.
    NotFound,
    /// What was found matches an antiPattern.
    AntiPattern,
    NotANumber,
    NotAUrl,
    /// There is a value, and it fails its validation.
    Invalid,
    /// The value takes more room than a result has.
    TooLarge,
    /// The page asks for more work than is allowed; a value that is there may not be the best one.
    Budget,
    /// The whole body is not what it says it is, such as JSON that breaks off: nothing can be said of any attribute.
    Unreadable,
}

impl Reason {
    const ALL: [Reason; 8] = [
        Reason::NotFound,
        Reason::AntiPattern,
        Reason::NotANumber,
        Reason::NotAUrl,
        Reason::Invalid,
        Reason::TooLarge,
        Reason::Budget,
        Reason::Unreadable,
    ];

    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NotFound => "not_found",
            Reason::AntiPattern => "anti_pattern",
            Reason::NotANumber => "not_a_number",
            Reason::NotAUrl => "not_a_url",
            Reason::Invalid => "invalid",
            Reason::TooLarge => "too_large",
            Reason::Budget => "budget",
            Reason::Unreadable => "unreadable",
        }
    }

    /// Reason and detail as one text, which is how rows keep them; see [`Reason::split`].
    pub fn join(self, detail: &str) -> String {
        if detail.is_empty() { self.as_str().to_owned() } else { format!("{}: {detail}", self.as_str()) }
    }

    /// The two parts of a kept text. Rows of before there were kinds have the detail alone, which tells the kind.
    pub fn split(kept: &str) -> (Reason, Option<&str>) {
        let (kind, detail) =
            kept.split_once(": ").map_or((kept, None), |(kind, detail)| (kind, Some(detail)));
        if let Some(reason) = Reason::ALL.into_iter().find(|reason| reason.as_str() == kind) {
            return (reason, detail);
        }
        let says = |part: &str| kept.contains(part);
        let reason = if says("more work") || says("longer than 8 MB") {
            Reason::Budget
        } else if says("that are kept") || says("for all values") {
            Reason::TooLarge
        } else if says("is not a number") {
            Reason::NotANumber
        } else if says("is not a URL") || says("is not a web address") {
            Reason::NotAUrl
        } else {
            Reason::Invalid
        };
        (reason, Some(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back() {
        for reason in Reason::ALL {
            assert_eq!(Reason::split(&reason.join("")), (reason, None));
            assert_eq!(Reason::split(&reason.join("a: b")), (reason, Some("a: b")));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn rows_of_before_there_were_kinds_are_told_by_their_words() {
        for (kept, reason) in [
            ("xpaths[1]: `one` is not a number", Reason::NotANumber),
            ("shorter than 4 characters; does not match /^x/", Reason::Invalid),
            ("xpaths[0]: the values of the page are longer than 8 MB in all", Reason::Budget),
        ] {
            assert_eq!(Reason::split(kept), (reason, Some(kept)));
        }
    }
}
