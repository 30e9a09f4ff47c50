//! Which URLs are meant: texts in which `*` stands for anything, compared with the whole normalized URL.

use base::printable::has_hidden;
use base::{Error, Result};

/// Patterns of a list.
pub(super) const PATTERNS_MAX: usize = 50;
/// Characters of one.
pub(super) const PATTERN_CHARS_MAX: usize = 500;

/// A checked list.
pub(super) fn checked(field: &str, given: Vec<String>) -> Result<Vec<String>> {
    if given.len() > PATTERNS_MAX {
        return Err(Error::invalid(field, format!("at most {PATTERNS_MAX} patterns are kept")));
    }
    let check = |(at, pattern): (usize, String)| {
        let pattern = pattern.trim();
        if pattern.is_empty() || pattern.chars().count() > PATTERN_CHARS_MAX || has_hidden(pattern) {
            let reason = format!("must be 1 to {PATTERN_CHARS_MAX} characters without control characters");
            return Err(Error::invalid(&format!("{field}[{at}]"), reason));
        }
        Ok(pattern.to_owned())
    };
    given.into_iter().enumerate().map(check).collect()
}

/// Whether one is wanted: by one of `include`, where there are any, and by none of `exclude`.
pub(super) fn wants(include: &[String], exclude: &[String], url: &str) -> bool {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, url));
    (include.is_empty() || any(include)) && !any(exclude)
}

/// Whether the pattern is the whole text. The parts between two stars are looked for from the left, each behind the one
/// before it: the first place is never worse than a later one, so nothing is tried twice.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let Some((between, last)) = rest.rsplit_once('*') else { return text.ends_with(rest) };
    for part in between.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let url = "https://shop.example/products/blue-kettle?size=2";
        for right in ["*", "https://shop.example/*", "*kettle*", "*/products/*size=2", "https://*/*-*=2", url]
        {
            assert!(matches(right, url), "{right}");
        }
        for wrong in ["", "products", "*/products", "https://shop.example/products/*x", "*kettle*products*"] {
            assert!(!matches(wrong, url), "{wrong}");
        }
        assert!(!matches("ab*ba", "aba"), "the two ends do not share a letter");
        assert!(matches("ab*ba", "abba") && matches("a**b", "ab") && matches("**", ""));
    }

    #[test]
    fn a_list_of_patterns_is_an_or_and_exclude_wins() {
        let [all, a, b] = ["*", "*/a/*", "*/b/*"].map(|pattern| vec![pattern.to_owned()]);
        assert!(wants(&[], &[], "https://x.example/"));
        assert!(wants(&a, &[], "https://x.example/a/1") && !wants(&a, &[], "https://x.example/b/1"));
        assert!(!wants(&all, &b, "https://x.example/b/1") && wants(&all, &b, "https://x.example/a/1"));
    }

    #[test]
    fn many_stars_take_no_longer() {
        let pattern = "*a".repeat(PATTERN_CHARS_MAX / 2);
        let text = "a".repeat(8_192);
        let begun = std::time::Instant::now();
        assert!(matches(&pattern, &text) && !matches(&format!("{pattern}b"), &text));
        assert!(begun.elapsed() < std::time::Duration::from_secs(1));
    }

    #[test]
    fn a_wrong_pattern_is_named() {
        let error = checked("include", vec!["*".into(), " ".into()]).unwrap_err();
        assert!(error.detail().unwrap().starts_with("include[1]: must be"), "{error}");
        assert!(checked("include", vec!["*".into(); PATTERNS_MAX + 1]).is_err());
    }
}
