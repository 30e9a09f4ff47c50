//! The JSON that a page carries in its scripts, by the names that queries have for it before their `$`: linked data, what stands in
//! scripts with an id (`__NEXT_DATA__`), and what scripts assign to a name (`window.__STATE__ = {…}`).
//!
//! What is read here only says where to look: every query is tried with the evaluator that extraction uses.

use page::html::{Document, NodeId, names};
use page::xpath::Fuel;
use serde_json::{Deserializer, Value as Json};
use std::collections::HashSet;

use crate::answers::{is_linked_data, parse_linked_data};

/// What stands before the `$` of queries over linked data.
pub const LINKED_DATA: &str = "ld+json";

/// Bytes of a page's scripts that are looked through.
pub const SCRIPT_BYTES_MAX: usize = 2 << 20;
/// Scripts of one page, and values of one script that are tried.
const SCRIPTS_MAX: usize = 200;
const ASSIGNED_MAX: usize = 20;
/// What scripts call by less are helpers of theirs.
const NAME_BYTES_MIN: usize = 3;
/// Bytes of an id or name.
const NAME_BYTES_MAX: usize = 60;

/// JSON of a page, and its name; no name for what is only found as the largest of the page.
#[derive(Debug)]
pub struct Block {
    pub name: String,
    pub json: Json,
}

/// What a page has, in order. Of a name that stands there twice the first counts.
pub fn blocks(document: &Document, fuel: &mut Fuel) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut names = HashSet::new();
    let mut room = SCRIPT_BYTES_MAX;
    for script in document.elements_named(names::SCRIPT).take(SCRIPTS_MAX) {
        let text = document.string_value(script);
        let Some(left) = room.checked_sub(text.len()) else { continue };
        room = left;
        if fuel.spend(text.len() as u64 / 8).is_err() {
            break;
        }
        if is_linked_data(document, script) {
            let json = parse_linked_data(text);
            found.extend(json.map(|json| Block { name: LINKED_DATA.to_owned(), json }));
        } else if is_json(document, script) {
            let name = id(document, script).unwrap_or_default().to_owned();
            let json = serde_json::from_str(text.trim()).ok();
            let json = json.filter(|_| name.is_empty() || names.insert(name.clone()));
            found.extend(json.map(|json| Block { name, json }));
        } else {
            assigned(text, (&mut found, &mut names), fuel);
        }
    }
    found
}

fn is_json(document: &Document, script: NodeId) -> bool {
    let media = document.attribute_named(script, "type").unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The id of a script, where a query can name it.
fn id(document: &Document, script: NodeId) -> Option<&str> {
    document.attribute_named(script, "id").filter(|id| is_name(id))
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_plain)
}

/// Adds what a script assigns to names as JSON.
fn assigned(script: &str, (found, names): (&mut Vec<Block>, &mut HashSet<String>), fuel: &mut Fuel) {
    let mut behind = 0;
    let mut tries = ASSIGNED_MAX;
    for (at, _) in script.match_indices('=') {
        let value = script[at + 1..].trim_start();
        if at < behind || !value.starts_with(['{', '[']) {
            continue;
        }
        let Some(name) = name_before(&script[..at]) else { continue };
        if tries == 0 {
            return;
        }
        tries -= 1;
        if names.contains(name) {
            continue;
        }
        let mut values = Deserializer::from_str(value).into_iter::<Json>();
        let read = values.next();
        // Of what is no JSON the reader does not say how far it came.
        let bytes = match &read {
            Some(Err(error)) if error.line() == 1 => error.column().min(value.len()),
            Some(Err(_)) => value.len(),
            _ => values.byte_offset(),
        };
        if fuel.spend(bytes as u64 / 8).is_err() {
            return;
        }
        if let Some(Ok(json)) = read {
            behind = script.len() - value.len() + bytes;
            names.insert(name.to_owned());
            found.push(Block { name: name.to_owned(), json });
        }
    }
}

/// The name with which a text ends: `window.NAME`, `window["NAME"]`, `var NAME`.
fn name_before(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let text = text.strip_suffix("']").or_else(|| text.strip_suffix("\"]")).unwrap_or(text);
    let front = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let name = &text[front.len()..];
    let is_whole = !front.ends_with(|c: char| c.is_alphanumeric() || c == '$');
    (is_whole && is_name(name) && name.len() >= NAME_BYTES_MIN).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_by_the_name_that_queries_have_for_it() {
        let page = r#"<script type="application/ld+json">{"@type":"Product"}</script>
            <script type="application/json" id="__NEXT_DATA__">{"a":1}</script>
            <script type="application/json">[2]</script>
            <script>if (x == {}) {} var y={b:1}; window.__STATE__ = {"c":"a={1}"}; window["other"]=[4];self.q={"d":5}</script>"#;
        let found = blocks(&Document::parse(page.to_owned()), &mut Fuel::for_page());
        let found: Vec<(&str, String)> =
            found.iter().map(|block| (block.name.as_str(), block.json.to_string())).collect();
        let told = [
            ("ld+json", r#"{"@type":"Product"}"#),
            ("__NEXT_DATA__", r#"{"a":1}"#),
            ("", "[2]"),
            ("__STATE__", r#"{"c":"a={1}"}"#),
            ("other", "[4]"),
        ];
        assert_eq!(found, told.map(|(name, json)| (name, json.to_owned())));
    }
}
