//! How numbers are written where a page comes from: with a decimal point or a decimal comma.
//!
//! Only a number that could be read both ways ("1.204") is decided by this, see [`super::number`]. What counts is the
//! language of the element that carries the number (the nearest `lang` above it, as HTML has it), then the one that the page
//! declares in `<meta http-equiv=content-language>`, then the country that the site's domain names. Which language writes how
//! is from Unicode's CLDR.

use crate::html::{Document, NodeId};
use crate::xpath::{EvalError, Fuel};

/// The mark between whole and parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecimalMark {
    Point,
    Comma,
}

/// Languages that write a decimal comma, unless the country says otherwise.
const COMMA_LANGUAGES: [&str; 54] = [
    "af", "ast", "az", "be", "bg", "br", "bs", "ca", "cs", "da", "de", "el", "eo", "es", "et", "eu", "fi",
    "fo", "fr", "fur", "fy", "gl", "hr", "hu", "hy", "id", "is", "it", "ka", "kk", "kl", "ky", "lb", "lt",
    "lv", "mk", "nb", "nl", "nn", "no", "oc", "pl", "pt", "ro", "ru", "sc", "sk", "sl", "sq", "sr", "sv",
    "tr", "uk", "vi",
];

/// Languages of which only so much is sure: they write a decimal point.
const POINT_LANGUAGES: [&str; 25] = [
    "bn", "cy", "en", "fil", "ga", "gu", "he", "hi", "ja", "km", "kn", "ko", "ml", "mr", "ms", "mt", "pa",
    "rm", "si", "sw", "ta", "te", "th", "ur", "zh",
];

/// Countries whose sites write a decimal point although the language elsewhere writes a comma (es-MX, de-CH).
const POINT_COUNTRIES: [&str; 13] =
    ["ch", "do", "gt", "hn", "li", "mx", "ni", "pa", "pe", "pr", "sv", "us", "gb"];

/// Domains of countries of which one way is the rule. South Africa and Canada have both and are absent.
const COMMA_DOMAINS: [&str; 44] = [
    "al", "am", "ar", "at", "az", "ba", "be", "bg", "br", "by", "cl", "co", "cz", "de", "dk", "ee", "es",
    "fi", "fr", "ge", "gr", "hr", "hu", "id", "is", "it", "kz", "lt", "lu", "lv", "mk", "nl", "no", "pl",
    "pt", "ro", "rs", "ru", "se", "si", "sk", "tr", "ua", "vn",
];
const POINT_DOMAINS: [&str; 22] = [
    "au", "ch", "cn", "hk", "ie", "il", "in", "jp", "kr", "li", "lk", "mt", "mx", "my", "nz", "ph", "pk",
    "sg", "th", "tw", "uk", "us",
];

/// Elements above a number that are asked for their language. Deeper pages have it further down, or nowhere.
const ANCESTORS_MAX: usize = 1_000;

impl DecimalMark {
    /// Of a language tag such as `de` or `es-MX` (BCP 47); `None` for a language that is not known here.
    pub fn of_language(tag: &str) -> Option<DecimalMark> {
        let mut parts = tag.trim().split(['-', '_']);
        let language = parts.next()?.to_ascii_lowercase();
        // A script may stand between the two: zh-Hant-TW.
        let country = parts.find(|part| part.len() == 2).map(str::to_ascii_lowercase);
        let is_in = |list: &[&str], word: &str| list.contains(&word);
        if is_in(&COMMA_LANGUAGES, &language) {
            let by_point = country.is_some_and(|country| is_in(&POINT_COUNTRIES, &country));
            // French-speaking Switzerland writes both; prices, which are most of what is read, have a point.
            return Some(if by_point { DecimalMark::Point } else { DecimalMark::Comma });
        }
        let is_south_africa = country.as_deref() == Some("za");
        (is_in(&POINT_LANGUAGES, &language) && !is_south_africa).then_some(DecimalMark::Point)
    }

    /// Of the country that a host's last label names.
    pub fn of_host(host: &str) -> Option<DecimalMark> {
        let label = host.trim_end_matches('.').rsplit('.').next()?.to_ascii_lowercase();
        if COMMA_DOMAINS.contains(&label.as_str()) {
            return Some(DecimalMark::Comma);
        }
        POINT_DOMAINS.contains(&label.as_str()).then_some(DecimalMark::Point)
    }

    /// Of a place on a page: its element's language, the page's, the country of the host. `node` is `None` for a text that
    /// stands nowhere (`string(…)`); then the root element is asked. Costs fuel by the elements that are asked.
    pub fn at(
        document: &Document,
        node: Option<NodeId>,
        root: NodeId,
        host: Option<&str>,
        fuel: &mut Fuel,
    ) -> Result<Option<DecimalMark>, EvalError> {
        let names = [document.lookup_name("lang"), document.lookup_name("xml:lang")];
        let mut next = Some(node.unwrap_or(root));
        for _ in 0..ANCESTORS_MAX {
            let Some(element) = next else { break };
            fuel.spend(1)?;
            let tag = names.iter().flatten().find_map(|name| document.attribute(element, *name));
            // An empty one says that the language is not known (HTML, "the lang attribute"); the site's country still is.
            if let Some(tag) = tag {
                return Ok(DecimalMark::of_language(tag).or_else(|| host.and_then(DecimalMark::of_host)));
            }
            next = document.parent(element);
        }
        let declared = declared_language(document, fuel)?.and_then(DecimalMark::of_language);
        Ok(declared.or_else(|| host.and_then(DecimalMark::of_host)))
    }
}

/// `<meta http-equiv=content-language content=de>`: HTML's pragma-set default language.
fn declared_language<'a>(document: &'a Document, fuel: &mut Fuel) -> Result<Option<&'a str>, EvalError> {
    let Some(name) = document.lookup_name("meta") else { return Ok(None) };
    for meta in document.elements_named(name) {
        fuel.spend(1)?;
        let is_language = document
            .attribute_named(meta, "http-equiv")
            .is_some_and(|kind| kind.eq_ignore_ascii_case("content-language"));
        if is_language {
            let content = document.attribute_named(meta, "content").unwrap_or_default();
            // More than one language says for whom the page is, and not in what it is written.
            return Ok(Some(content).filter(|content| !content.contains(',')));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_and_countries() {
        for tag in ["de", "DE", "fr-CA", "pt-BR", "es-ES", "sr-Latn-RS", "nb", "de_AT"] {
            assert_eq!(DecimalMark::of_language(tag), Some(DecimalMark::Comma), "{tag}");
        }
        for tag in ["en", "en-US", "de-CH", "es-MX", "zh-Hant-TW", "ja", "it-CH"] {
            assert_eq!(DecimalMark::of_language(tag), Some(DecimalMark::Point), "{tag}");
        }
        for tag in ["", "xx", "en-ZA", "ar", "tlh"] {
            assert_eq!(DecimalMark::of_language(tag), None, "{tag}");
        }
        assert_eq!(DecimalMark::of_host("shop.example.de"), Some(DecimalMark::Comma));
        assert_eq!(DecimalMark::of_host("shop.co.uk."), Some(DecimalMark::Point));
        for host in ["shop.example", "shop.com", "192.0.2.1", "shop.ca", ""] {
            assert_eq!(DecimalMark::of_host(host), None, "{host}");
        }
    }

    /// Whoever adds one to a list sorts nothing in twice.
    #[test]
    fn nothing_is_in_two_lists() {
        let twice = |one: &[&str], other: &[&str]| one.iter().any(|word| other.contains(word));
        assert!(!twice(&COMMA_LANGUAGES, &POINT_LANGUAGES));
        assert!(!twice(&COMMA_DOMAINS, &POINT_DOMAINS));
    }
}
