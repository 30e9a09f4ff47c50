//! What a page says of itself: its title, its language, and whether it offers a product.

use page::html::names;
use page::html::{Document, NodeId};

/// Bytes of a title; what is longer is cut at a word.
const TITLE_BYTES_MAX: usize = 500;
/// Bytes of a language tag (RFC 5646 names no limit; 35 are enough for all but private use).
const LANGUAGE_BYTES_MAX: usize = 35;
/// Headings of the first rank that are compared with the page's title.
const HEADINGS_MAX: usize = 8;
/// Bytes of JSON-LD that are looked through for its types.
const LINKED_DATA_BYTES_MAX: usize = 200_000;
/// What stands between a page's title and its site's name.
const TITLE_SEPARATORS: [&str; 8] = [" | ", " - ", " – ", " — ", " · ", " » ", " « ", " :: "];

/// What kind of page it is, as far as that changes what its content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Genre {
    /// Says that it offers one product: its content is more than its longest text.
    Product,
    Other,
}

/// Reads `og:type`, microdata and JSON-LD.
pub fn genre(document: &Document) -> Genre {
    if let Some(kind) = meta(document, "og:type") {
        if kind.contains("product") {
            return Genre::Product;
        }
        if kind.contains("article") {
            return Genre::Other;
        }
    }
    let is_product = |row: &u32| {
        let value = document.attr_value(page::html::AttrId(*row)).trim_end_matches('/');
        value.len() < 60 && value.ends_with("schema.org/Product")
    };
    let items = document.attribute_postings(names::ITEMTYPE);
    // Several of them are a list.
    if items.iter().filter(|row| is_product(row)).take(2).count() == 1 || declares_product(document) {
        return Genre::Product;
    }
    Genre::Other
}

/// True where the JSON-LD has a product and nothing that is read.
fn declares_product(document: &Document) -> bool {
    let mut is_product = false;
    let mut left = LINKED_DATA_BYTES_MAX;
    for script in document.elements_named(names::SCRIPT) {
        if document.attribute(script, names::TYPE) != Some("application/ld+json") {
            continue;
        }
        let text = document.string_value(script);
        let text = &text[..text.floor_char_boundary(left)];
        left -= text.len();
        for (at, key) in text.match_indices("\"@type\"") {
            let rest = text[at + key.len()..].trim_start().trim_start_matches([':', ' ', '[', '\n', '"']);
            let kind = rest.split('"').next().unwrap_or_default();
            if kind.ends_with("Article") || kind == "BlogPosting" || kind == "Recipe" {
                return false;
            }
            is_product |= kind == "Product" || kind == "ProductGroup";
        }
    }
    is_product
}

/// The content of a `<meta>` by its `property` or `name`.
fn meta<'a>(document: &'a Document, name: &str) -> Option<&'a str> {
    document.elements_named(names::META).find_map(|element| {
        let named = [names::PROPERTY, names::NAME].iter().any(|key| {
            document.attribute(element, *key).is_some_and(|value| value.eq_ignore_ascii_case(name))
        });
        let content = document.attribute(element, names::CONTENT).map(str::trim);
        content.filter(|content| named && !content.is_empty())
    })
}

/// The language that the page declares, as it writes it; not checked against its words.
pub fn language(document: &Document) -> Option<String> {
    let root = document.elements_named(names::HTML).next();
    let declared = root.and_then(|root| {
        document.attribute(root, names::LANG).or_else(|| document.attribute(root, names::XML_LANG))
    });
    let declared = declared.or_else(|| pragma(document)).or_else(|| meta(document, "og:locale"))?;
    let tag = declared.trim().replace('_', "-");
    let is_tag = !tag.is_empty()
        && tag.len() <= LANGUAGE_BYTES_MAX
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_tag.then_some(tag)
}

/// `<meta http-equiv=content-language>`; one with several languages says for whom the page is.
fn pragma(document: &Document) -> Option<&str> {
    document.elements_named(names::META).find_map(|element| {
        let kind = document.attribute(element, names::HTTP_EQUIV)?;
        let content = document.attribute(element, names::CONTENT)?;
        (kind.eq_ignore_ascii_case("content-language") && !content.contains(',')).then_some(content)
    })
}

/// The title of the content: the heading that the page's title repeats, else what it names itself for others, else its
/// title without the site's name, else its first heading.
pub fn title(document: &Document) -> Option<String> {
    let page = document.title().unwrap_or_default();
    let site = meta(document, "og:site_name").map(collapse).unwrap_or_default();
    let social = meta(document, "og:title").map(|title| without_name(&collapse(title), &site));
    let headings: Vec<String> = document
        .elements_named(names::H1)
        .take(HEADINGS_MAX)
        .map(|heading| text_of(document, heading))
        .collect();
    let repeats = |heading: &&String| {
        heading.len() > 2
            && (page.contains(heading.as_str())
                || social.as_ref().is_some_and(|social| social.contains(heading.as_str())))
    };
    let repeated = headings.iter().filter(repeats).max_by_key(|heading| heading.len()).cloned();
    let title = repeated
        .or(social)
        .or_else(|| Some(without_site(&page)).filter(|title| !title.is_empty()))
        .or_else(|| headings.into_iter().find(|heading| !heading.is_empty()))?;
    let cut = title[..title.floor_char_boundary(TITLE_BYTES_MAX)].trim_end();
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// A title without the name of its site behind it.
fn without_name(title: &str, site: &str) -> String {
    let separated = title.strip_suffix(site).filter(|_| !site.is_empty());
    let bare = separated
        .and_then(|title| TITLE_SEPARATORS.iter().find_map(|mark| title.strip_suffix(mark)))
        .map(str::trim_end);
    bare.filter(|title| !title.is_empty()).unwrap_or(title).to_owned()
}

/// A page's title up to the site's name, which stands last and is the shorter part.
fn without_site(title: &str) -> String {
    let last = TITLE_SEPARATORS.iter().filter_map(|mark| title.rfind(mark).map(|at| (at, mark.len()))).max();
    match last {
        Some((at, length)) if at >= title.len() - at - length => title[..at].trim().to_owned(),
        _ => title.to_owned(),
    }
}

/// The text of an element as it is read, on one line.
pub fn text_of(document: &Document, element: NodeId) -> String {
    let first_bytes = document.string_value(element);
    // A heading of megabytes is none; what counts stands in front.
    collapse(&first_bytes[..first_bytes.floor_char_boundary(TITLE_BYTES_MAX * 4)])
}

/// Words with one space between.
pub fn collapse(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !collapsed.is_empty() {
            collapsed.push(' ');
        }
        collapsed.push_str(word);
    }
    collapsed
}
