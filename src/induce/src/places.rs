//! Where a page shows which values: its visible texts and the attributes that carry values, by the keys of their forms.

use std::collections::HashMap;

use page::extract::{AttributeType, DecimalMark, collapse_space, root_context};
use page::html::{AttrId, Document, NodeId};
use page::xpath::{Fuel, NodeRef};
use url::Url;

use crate::cuts::Cut;
use crate::forms::{Form, Reading, is_image_address};

/// Places that are remembered of one value: who shows a value more often than this shows it everywhere.
const PLACES_OF_VALUE_MAX: usize = 24;
/// Elements within one another that have the same text, the innermost first, of which places are remembered.
const WRAPPERS_MAX: u8 = 3;
/// Bytes of an attribute's value that is looked at.
const ATTRIBUTE_BYTES_MAX: usize = 2048;
/// Texts and attributes that are looked at, each of which costs some normal forms.
pub const LOOKS_MAX: usize = 150_000;
/// Bytes that are brought into normal form.
pub const FORM_BYTES_MAX: usize = 24 << 20;
/// Bytes of the longest text that can be a label.
const LABEL_BYTES_MAX: usize = 48;

/// A page as its reader hands it in.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub document: &'a Document,
    /// What its relative links are resolved against (`page::extract::page_base`).
    pub base: &'a Url,
}

/// A page with what is looked up in it.
#[derive(Debug)]
pub struct Places<'a> {
    pub page: Page<'a>,
    pub mark: Option<DecimalMark>,
    /// The page's first `h1`.
    pub heading: Option<NodeId>,
    by_key: HashMap<String, Vec<NodeRef>>,
    /// Visible text nodes that are not blank, in order.
    texts: Vec<NodeId>,
    /// There was more than is looked at.
    pub is_cut: bool,
}

impl<'a> Page<'a> {
    /// The decimal mark of the page's language.
    pub fn mark(self) -> Option<DecimalMark> {
        let root = root_context(self.document);
        let mut fuel = Fuel::new(10_000);
        DecimalMark::at(self.document, None, root, self.base.host_str(), &mut fuel).unwrap_or_default()
    }
}

impl<'a> Places<'a> {
    /// Looks through a page once. `forms` are those of the values that will be asked for, `text_bytes_max` bounds the texts.
    pub fn new(page: Page<'a>, forms: &[Form], text_bytes_max: usize) -> Places<'a> {
        let mark = page.mark();
        let heading = page.document.lookup_name("h1").and_then(|h1| page.document.elements_named(h1).next());
        let mut places =
            Places { page, mark, heading, by_key: HashMap::new(), texts: Vec::new(), is_cut: false };
        let mut walk = Walk { forms, text_bytes_max, looks: LOOKS_MAX, bytes: FORM_BYTES_MAX, is_cut: false };
        let visible = visible_nodes(page.document);
        let wraps = wrappers(page.document, &visible);
        for node in visible {
            if walk.looks == 0 {
                walk.is_cut = true;
                break;
            }
            if page.document.is_text(node) {
                places.look_at_text(node, &mut walk);
            } else if page.document.is_element(node) {
                // These have the texts of scripts in them, and are no place of a value.
                let is_frame = matches!(page.document.name(node), "html" | "head");
                if !is_frame && wraps[node.0 as usize] < WRAPPERS_MAX {
                    walk.look(&mut places, NodeRef::of(node), page.document.string_value(node), true);
                }
                places.look_at_attributes(node, &mut walk);
            }
        }
        places.is_cut = walk.is_cut;
        places
    }

    pub fn reading(&self) -> Reading<'a> {
        Reading { base: self.page.base, mark: self.mark }
    }

    /// Where a value of one of these keys stands, in document order of each key.
    pub fn of_keys(&self, keys: &[String]) -> Vec<NodeRef> {
        let found = keys.iter().filter_map(|key| self.by_key.get(key)).flatten();
        found.copied().take(2 * PLACES_OF_VALUE_MAX).collect()
    }

    /// Puts others in the place of a key's places; gives those that were there.
    pub fn swap(&mut self, key: String, places: Vec<NodeRef>) -> Vec<NodeRef> {
        self.by_key.insert(key, places).unwrap_or_default()
    }

    /// Whether these are the keys of the page's own address, which stands wherever the page speaks of itself.
    pub fn is_own_address(&self, keys: &[String]) -> bool {
        let document = self.page.document;
        let links = document.lookup_name("link").into_iter().flat_map(|name| document.elements_named(name));
        let canonical =
            links.take(100).find(|node| document.attribute_named(*node, "rel") == Some("canonical"));
        let canonical = canonical.and_then(|node| document.attribute_named(node, "href"));
        let own = [Some(self.page.base.as_str()), canonical];
        let mut own = own.into_iter().flatten().flat_map(|text| Form::Link.keys(text, self.reading()));
        own.any(|key| keys.contains(&key))
    }

    /// Text nodes that begin or end with a value and have something short beside it, with how it is cut out: "By " before "Ann
    /// Lee", " | Shop" behind a title.
    pub fn within_more(&self, value: &str) -> Vec<(NodeRef, Cut)> {
        let value = collapse_space(value);
        let mut found = Vec::new();
        let is_said = |text: &str, longest: usize| {
            (2..=longest).contains(&text.len()) && text.contains(|c: char| c.is_alphanumeric())
        };
        for text in &self.texts {
            let raw = self.page.document.text(*text);
            if value.is_empty() || raw.len() < value.len() || raw.len() > value.len() + 2 * LABEL_BYTES_MAX {
                continue;
            }
            let shown = collapse_space(raw);
            let shown = shown.trim();
            let place = NodeRef::of(*text);
            match (shown.strip_suffix(&*value), shown.strip_prefix(&*value)) {
                (Some(front), _) if is_said(front, 24) => found.push((place, Cut::Behind(front.to_owned()))),
                (_, Some(back)) if value.len() > 4 && is_said(back, LABEL_BYTES_MAX) => {
                    found.push((place, Cut::Before(back.to_owned())));
                }
                _ => {}
            }
            if found.len() == PLACES_OF_VALUE_MAX {
                break;
            }
        }
        found
    }

    /// The visible texts before a node in document order, the nearest first.
    pub fn texts_before(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.texts.partition_point(|text| *text < node);
        self.texts[..end].iter().rev().copied()
    }

    /// The first visible text behind all that an element has.
    pub fn text_behind(&self, element: NodeId) -> Option<NodeId> {
        let end = self.page.document.subtree_end(element);
        let at = self.texts.partition_point(|text| *text < end);
        self.texts.get(at).copied()
    }

    /// Short texts of the page that could be labels, each once or more.
    pub fn label_texts(&self) -> impl Iterator<Item = String> + '_ {
        self.texts.iter().filter_map(|text| label_text(self.page.document, *text))
    }

    fn look_at_text(&mut self, node: NodeId, walk: &mut Walk<'_>) {
        let document = self.page.document;
        let text = document.text(node);
        if text.trim().is_empty() {
            return;
        }
        self.texts.push(node);
        // A text that is all that its element has is found as that element.
        let parent = document.parent(node).unwrap_or(Document::ROOT);
        if document.string_value(parent).trim().len() > text.trim().len() {
            walk.look(self, NodeRef::of(node), text, true);
        }
    }

    fn look_at_attributes(&mut self, node: NodeId, walk: &mut Walk<'_>) {
        let document = self.page.document;
        for attribute in document.attributes(node).take(64).map(AttrId) {
            let name = document.attr_name(attribute);
            let value = address_within(name, document.attr_value(attribute));
            let place = NodeRef::of_attribute(node, attribute);
            // What a choice stands for is no value of the page.
            let is_choice = name == "value" && matches!(document.name(node), "input" | "option" | "button");
            if value.len() <= ATTRIBUTE_BYTES_MAX && carries_values(name) && !is_choice {
                walk.look(self, place, value, false);
            }
        }
    }
}

/// Of an attribute that has an address among other things, the first address.
fn address_within<'v>(name: &str, value: &'v str) -> &'v str {
    if name.ends_with("srcset") {
        return value.split_ascii_whitespace().next().unwrap_or_default();
    }
    if name == "style" {
        let address = value.split_once("url(").and_then(|(_, rest)| rest.split_once(')'));
        return address.map_or("", |(address, _)| address.trim_matches(['\'', '"', ' ']));
    }
    value
}

/// Attributes whose values a reader of the page sees, follows or hears.
fn carries_values(name: &str) -> bool {
    matches!(name, "content" | "href" | "src" | "datetime" | "value" | "alt" | "title" | "aria-label")
        || matches!(name, "srcset" | "imagesrcset" | "style")
        || name.starts_with("data-")
}

/// Whether a page shows a value, as its structured data or its teacher writes it, in a text or an attribute of an element. Of a list, most
/// of its members.
pub fn shows(page: Page<'_>, kind: AttributeType, form: Form, texts: &[String]) -> bool {
    let longest = texts.iter().map(String::len).max().unwrap_or(0);
    let places = Places::new(page, &[form], longest);
    let is_there = |text: &&String| !places.of_keys(&form.label_keys(text, places.reading())).is_empty();
    let count = texts.iter().filter(is_there).count();
    if kind.is_list() { 2 * count > texts.len() } else { count > 0 }
}

/// What one walk over a page may still do.
struct Walk<'a> {
    forms: &'a [Form],
    text_bytes_max: usize,
    looks: usize,
    bytes: usize,
    /// Something was not looked at because of these.
    is_cut: bool,
}

impl Walk<'_> {
    /// Remembers a place under the keys of its text. Links and images stand in attributes, the other forms in both.
    fn look(&mut self, places: &mut Places<'_>, place: NodeRef, text: &str, is_text: bool) {
        if text.len() > 2 * self.text_bytes_max.max(64) + 64 {
            return;
        }
        if self.looks == 0 || self.bytes < text.len() {
            self.is_cut = true;
            return;
        }
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.looks -= 1;
        self.bytes -= text.len();
        let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
        let reading = places.reading();
        for form in self.forms {
            let fits = match form {
                Form::Link => !is_text,
                // A title or a caption is none, whatever it is resolved to.
                Form::Image => !is_text && may_be_image(places, place, text),
                Form::Date | Form::Duration => has_digit,
                Form::Number => has_digit || !text.is_ascii(),
                Form::Text | Form::Availability => true,
            };
            if !fits || text.len() > form.bytes_max() {
                continue;
            }
            for key in form.keys(text, reading) {
                let places = places.by_key.entry(key).or_default();
                if places.len() < PLACES_OF_VALUE_MAX {
                    places.push(place);
                }
            }
        }
    }
}

/// Whether an attribute may have an image's address: a title or caption has none, whatever it is resolved to, and a link only that of a
/// file.
fn may_be_image(places: &Places<'_>, place: NodeRef, text: &str) -> bool {
    let name = place.attribute().map(|attribute| places.page.document.attr_name(attribute));
    match name.unwrap_or_default() {
        "href" => is_image_address(text),
        "src" => true,
        _ => text.contains('/'),
    }
}

/// Nodes outside of scripts, styles, templates and noscript, in order.
fn visible_nodes(document: &Document) -> Vec<NodeId> {
    let mut visible = Vec::new();
    let end = document.subtree_end(Document::ROOT);
    let mut at = NodeId(1);
    while at < end {
        if document.is_hidden_element(at) {
            at = document.subtree_end(at);
            continue;
        }
        visible.push(at);
        at = NodeId(at.0 + 1);
    }
    visible
}

/// For each element how many below it have the same text, counted to a few.
fn wrappers(document: &Document, visible: &[NodeId]) -> Vec<u8> {
    let mut wraps = vec![0_u8; document.node_count()];
    for node in visible.iter().rev().filter(|node| document.is_element(**node)) {
        let Some(parent) = document.parent(*node) else { continue };
        let same = document.string_value(parent).len() == document.string_value(*node).len();
        if same && wraps[parent.0 as usize] <= wraps[node.0 as usize] {
            wraps[parent.0 as usize] = wraps[node.0 as usize].saturating_add(1);
        }
    }
    wraps
}

/// What a text node says, where it is short enough for a label and has a letter.
pub fn label_text(document: &Document, text: NodeId) -> Option<String> {
    let said = document.text(text).trim();
    let fits = said.len() <= LABEL_BYTES_MAX && said.len() > 1 && said.contains(char::is_alphabetic);
    // XPath's `normalize-space()` knows four kinds of white space.
    let is_plain = |text: &str| !text.contains(|c: char| c.is_whitespace() && !c.is_ascii_whitespace());
    (fits && is_plain(said)).then(|| collapse_space(said).into_owned())
}
