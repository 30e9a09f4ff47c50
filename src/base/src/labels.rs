//! Tags and metadata: what callers hang on URLs and jobs.

use crate::codec::Json;
use crate::limits::{METADATA_BYTES_MAX, TAG_CHARS_MAX, TAGS_MAX};
use crate::printable::has_hidden;
use crate::{Error, Result};
use serde_json::{Map, Value};

/// Checked tags: trimmed, none empty, none twice, in the order they came.
pub fn tags(field: &str, given: Vec<String>) -> Result<Vec<String>> {
    let mut tags: Vec<String> = Vec::with_capacity(given.len().min(TAGS_MAX));
    for (i, tag) in given.into_iter().enumerate() {
        let tag = tag.trim();
        if tag.is_empty() || tag.chars().count() > TAG_CHARS_MAX || has_hidden(tag) {
            let reason = format!(
                "must be 1 to {TAG_CHARS_MAX} characters without control characters, and such as turn the direction of text"
            );
            return Err(Error::invalid(&format!("{field}[{i}]"), reason));
        }
        if tags.iter().any(|known| known == tag) {
            continue;
        }
        // Before it is kept: what each further one is compared with is never more than may be kept.
        if tags.len() == TAGS_MAX {
            return Err(Error::invalid(field, format!("at most {TAGS_MAX} tags are kept")));
        }
        tags.push(tag.to_owned());
    }
    Ok(tags)
}

/// A checked metadata object.
pub fn metadata(field: &str, given: Option<Map<String, Value>>) -> Result<Json> {
    let value = Value::Object(given.unwrap_or_default());
    if value.to_string().len() > METADATA_BYTES_MAX {
        return Err(Error::invalid(field, format!("is larger than {METADATA_BYTES_MAX} bytes of JSON")));
    }
    Ok(Json(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_trimmed_and_unique() {
        let given = ["a ", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(tags("tags", given).unwrap(), ["a", "b"]);
        let error = tags("tags", vec!["x".into(), " ".into()]).unwrap_err();
        assert!(error.detail().unwrap().starts_with("tags[1]: "));
        assert!(tags("tags", (0..40).map(|i| i.to_string()).collect()).is_err());
        let repeated = (0..40_000).map(|i| (i % 32).to_string()).collect();
        assert_eq!(tags("tags", repeated).unwrap().len(), 32, "those that are named again do not count");
    }

    #[test]
    fn a_tag_has_no_character_that_turns_or_hides_text() {
        for bad in ["a\nb", "a\0", "\u{202e}gpj", "x\u{2066}y", "a\u{2028}b"] {
            let error = tags("tags", vec!["fine".into(), bad.into()]).unwrap_err();
            assert!(error.detail().unwrap().starts_with("tags[1]: must be 1 to"), "{bad:?}");
        }
        for good in ["шо́п", "عربي\u{200f}", "👩\u{200d}💻"] {
            assert_eq!(tags("tags", vec![good.into()]).unwrap(), [good]);
        }
    }

    /// The work is bounded by what is kept: were each compared with all before it, this would take an hour.
    #[test]
    fn a_flood_of_tags_is_refused_at_the_first_too_many() {
        let error = tags("tags", (0..2_000_000).map(|i| i.to_string()).collect()).unwrap_err();
        assert!(error.detail().unwrap().starts_with("tags: at most "));
    }
}
