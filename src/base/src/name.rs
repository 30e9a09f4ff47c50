//! The name that a person gives to something: themselves, an organization, a key.

use crate::limits::NAME_CHARS_MAX;
use crate::printable::{has_hidden, is_visible};
use crate::{Error, Result};

/// 1 to [`NAME_CHARS_MAX`] characters without control characters (bidirectional ones among them) and without space at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Trims `text`; a refusal names `field`.
    pub fn parse(field: &str, text: &str) -> Result<Name> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::invalid(field, "must not be empty"));
        }
        let chars = text.chars().count();
        if chars > NAME_CHARS_MAX {
            return Err(Error::invalid(
                field,
                format_args!("has {chars} characters; at most {NAME_CHARS_MAX} are allowed"),
            ));
        }
        if has_hidden(text) {
            let reason = "must not contain control characters, nor such as turn the direction of text";
            return Err(Error::invalid(field, reason));
        }
        if !is_visible(text) {
            return Err(Error::invalid(field, "must have a character that can be seen"));
        }
        Ok(Name(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(Name::parse("name", "  Ada Łovelace ").unwrap().as_str(), "Ada Łovelace");
        assert!(Name::parse("name", &"ł".repeat(NAME_CHARS_MAX)).is_ok());
        for bad in ["", " \t", "a\nb", "\u{202e}gpj.exe", "\u{200b}", &"x".repeat(NAME_CHARS_MAX + 1)] {
            let refused = Name::parse("label", bad).unwrap_err();
            assert!(refused.detail().unwrap().starts_with("label: "), "{bad:?}");
        }
    }
}
