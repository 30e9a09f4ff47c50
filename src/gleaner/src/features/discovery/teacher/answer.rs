//! What a language model answers, read within limits: nothing in it is believed but that it has this shape.

use super::outline::cut;
use crate::features::llm::{Shape, object};
use base::terms::PageType;
use page::extract::{Attribute, AttributeType, Schema};
use serde::Deserialize;
use serde_json::json;

/// Attributes of one answer, XPaths of one attribute and values of one page.
const ATTRIBUTES_MAX: usize = 30;
const XPATHS_MAX: usize = 4;
const XPATH_BYTES_MAX: usize = 500;
const VALUES_MAX: usize = 100;
const TEXT_BYTES_MAX: usize = 16 << 10;
/// What is told of wrong things at most.
const COMPLAINTS_MAX: usize = 10;

/// What a model proposes to read pages by.
#[derive(Debug)]
pub struct Proposed {
    pub page_type: PageType,
    pub attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProposedText {
    page_type: PageType,
    attributes: Vec<AttributeText>,
}

#[derive(Deserialize)]
struct AttributeText {
    name: String,
    #[serde(rename = "type")]
    kind: AttributeType,
    xpaths: Vec<String>,
}

/// The proposal in an answer; else what is wrong with it, in words for the model.
pub fn proposed(content: &str) -> Result<Proposed, String> {
    let text: ProposedText =
        serde_json::from_str(content).map_err(|e| format!("It is not JSON of the schema: {e}"))?;
    // An organization's own is no type that a schema for everybody could be for.
    if text.page_type.is_own() {
        return Err(format!("`{}` is not one of the page types that there are.", text.page_type));
    }
    let (mut attributes, mut wrong): (Vec<Attribute>, Vec<String>) = (Vec::new(), Vec::new());
    for one in text.attributes.into_iter().take(ATTRIBUTES_MAX) {
        let mut xpaths = one.xpaths;
        xpaths.retain(|xpath| xpath.len() <= XPATH_BYTES_MAX);
        xpaths.truncate(XPATHS_MAX);
        let attribute = Attribute {
            name: one.name,
            xpaths,
            json_paths: None,
            kind: one.kind,
            description: None,
            anti_patterns: None,
            semantic_type: None,
            validation: None,
        };
        match Schema::compile(std::slice::from_ref(&attribute)) {
            Ok(_) if attributes.iter().any(|known| known.name == attribute.name) => {}
            Ok(_) => attributes.push(attribute),
            Err(error) if wrong.len() < COMPLAINTS_MAX => {
                wrong.push(format!("{}: {}", cut(&attribute.name, 100), cut(&error.to_string(), 300)));
            }
            Err(_) => {}
        }
    }
    match attributes.is_empty() {
        false => Ok(Proposed { page_type: text.page_type, attributes }),
        true if wrong.is_empty() => Err("It has no attributes.".to_owned()),
        true => Err(wrong.join("\n")),
    }
}

/// What a model reads on a page.
#[derive(Debug, Deserialize)]
pub struct PageValues {
    /// As it was numbered, from 1.
    pub page: usize,
    pub values: Vec<ValueTexts>,
}

#[derive(Debug, Deserialize)]
pub struct ValueTexts {
    pub name: String,
    pub texts: Vec<String>,
}

#[derive(Deserialize)]
struct ReadText {
    pages: Vec<PageValues>,
}

/// The values in an answer.
pub fn values(content: &str) -> Option<Vec<PageValues>> {
    let mut read: ReadText = serde_json::from_str(content).ok()?;
    for page in &mut read.pages {
        page.values.truncate(ATTRIBUTES_MAX);
        for value in &mut page.values {
            value.texts.retain(|text| !text.trim().is_empty() && text.len() <= TEXT_BYTES_MAX);
            value.texts.truncate(VALUES_MAX);
        }
    }
    Some(read.pages)
}

/// What a proposal has to be.
pub fn proposal_shape() -> Shape {
    let types: Vec<&str> = PageType::ALL.iter().map(|page_type| page_type.name()).collect();
    let attribute = object(json!({
        "name": { "type": "string" },
        "type": { "type": "string", "enum": ["text", "number", "url", "text[]", "url[]"] },
        "xpaths": { "type": "array", "items": { "type": "string" } },
    }));
    let schema = object(json!({
        "pageType": { "type": "string", "enum": types },
        "attributes": { "type": "array", "items": attribute },
    }));
    Shape { name: "extraction_schema", about: "Takes what the pages are read by.", schema }
}

/// What values have to be.
pub fn values_shape() -> Shape {
    let value = object(json!({
        "name": { "type": "string" },
        "texts": { "type": "array", "items": { "type": "string" } },
    }));
    let page =
        object(json!({ "page": { "type": "integer" }, "values": { "type": "array", "items": value } }));
    let schema = object(json!({ "pages": { "type": "array", "items": page } }));
    Shape { name: "page_values", about: "Takes the texts on each page.", schema }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_for_what_they_are() {
        let good = r#"{"pageType":"product","attributes":[{"name":"name","type":"text","xpaths":["//h1","//h2["]},
            {"name":"price","type":"number","xpaths":["//p"]},{"name":"price","type":"number","xpaths":["//b"]}]}"#;
        let proposed_good = proposed(good).unwrap();
        assert_eq!((proposed_good.page_type, proposed_good.attributes.len()), (PageType::Product, 1));
        for (bad, part) in [
            ("I cannot help with that.", "not JSON"),
            (r#"{"pageType":"recipe","attributes":[]}"#, "not one of the page types"),
            (r#"{"pageType":"No type","attributes":[]}"#, "not JSON of the schema"),
            (r#"{"pageType":"article","attributes":[]}"#, "no attributes"),
            (r#"{"pageType":"article","attributes":[{"name":"a b","type":"text","xpaths":["//a"]}]}"#, "a b"),
            (
                r#"{"pageType":"article","attributes":[{"name":"a","type":"text","xpaths":["//a["]}]}"#,
                "xpaths[0]",
            ),
        ] {
            assert!(proposed(bad).unwrap_err().contains(part), "{bad}");
        }
        assert!(values("[]").is_none());
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let read =
            format!(r#"{{"pages":[{{"page":1,"values":[{{"name":"a","texts":["", "{long}", "b"]}}]}}]}}"#);
        assert_eq!(values(&read).unwrap()[0].values[0].texts, ["b"]);
    }
}
