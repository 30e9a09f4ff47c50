//! The parser: whole pages, fragments and bytes of any charset, against the tree's invariants and against html5ever.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;

use page::html::{AttrId, Document, Namespace, NodeId, NodeKind, decode};

use crate::Target;
use page_oracle::notation::{difference, serialize};
use page_oracle::oracle::{oracle_fragment, oracle_page};
use page_oracle::soup::{ATTRIBUTES, Random, TAGS, TEXTS, generated, is_known_difference, mutated};

/// As `src/page/src/html` has it: nodes (and copied attributes) that any page may have beside one for each byte.
const NODES_BASE: usize = 16_384;
/// Deeper than this, or with more to compare, our limits of searching may show, and html5ever takes its time.
const ORACLE_BYTES_MAX: usize = 6_000;

const CONTEXTS: [&str; 14] = [
    "div",
    "table",
    "tr",
    "td",
    "select",
    "template",
    "body",
    "html",
    "title",
    "script",
    "colgroup",
    "caption",
    "frameset",
    "plaintext",
];
const CHARSETS: [&str; 12] = [
    "utf-8",
    "utf-16le",
    "utf-16be",
    "windows-1252",
    "shift_jis",
    "iso-2022-jp",
    "gb18030",
    "big5",
    "euc-kr",
    "koi8-r",
    "x-user-defined",
    "nonsense",
];

#[derive(Clone, Copy, Debug)]
pub enum How {
    Page,
    Fragment(&'static str, Namespace),
    /// The text's bytes (its characters below 256 each one byte), with a charset in the header or without.
    Bytes(Option<&'static str>),
    /// A page too long for the oracle.
    Bomb,
}

pub struct ParserTarget {
    pages: Vec<String>,
    compared: Cell<usize>,
    known: Cell<usize>,
}

impl ParserTarget {
    pub fn new() -> ParserTarget {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let shared = ["../shared", "../../shared"].map(|shared| here.join(shared).join("data/pages"));
        let folders = ["swde", "lists", "serps", "articles"];
        let pages: Vec<String> = shared
            .iter()
            .filter(|shared| shared.exists())
            .take(1)
            .flat_map(|shared| folders.map(|folder| some(&shared.join(folder))))
            .flatten()
            .collect();
        println!("{} real pages to mutate", pages.len());
        ParserTarget { pages, compared: Cell::new(0), known: Cell::new(0) }
    }
}

/// A few pages of a folder.
fn some(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let html = paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "html"));
    html.step_by(6).take(8).flat_map(std::fs::read).map(|bytes| decode(&bytes, None).text).collect()
}

/// One token of markup.
fn token(random: &mut Random) -> String {
    match random.below(10) {
        0 | 1 => random.pick(TEXTS).to_owned(),
        2 | 3 => format!("</{}>", random.pick(TAGS)),
        _ => format!("<{}{}>", random.pick(TAGS), random.pick(ATTRIBUTES)),
    }
}

/// A few tokens, then some repeated very often, then a few.
fn bomb(random: &mut Random) -> String {
    let tokens = |random: &mut Random, most: usize| -> String {
        (0..random.below(most + 1)).map(|_| token(random)).collect()
    };
    let mut text = String::new();
    for _ in 0..1 + random.below(3) {
        text += &tokens(random, 5);
        let unit = format!("{}{}", token(random), tokens(random, 3));
        let bytes = 1 << (6 + random.below(15));
        text += &unit.repeat(bytes / unit.len() + 1);
    }
    text + &tokens(random, 3)
}

/// Breaks characters: any may become any other.
fn scrambled(random: &mut Random, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(12) {
        if characters.is_empty() {
            break;
        }
        let at = random.below(characters.len());
        match random.below(4) {
            0 => drop(characters.remove(at)),
            1 => characters.insert(at, char::from(random.below(256) as u8)),
            2 => {
                characters[at] = random
                    .pick(&["<", ">", "&", "\"", "'", "/", "=", "!", "-", "\0", "\r"])
                    .chars()
                    .next()
                    .unwrap_or('<')
            }
            _ => characters[at] = char::from_u32(random.number() as u32 % 0x11_0000).unwrap_or('\u{fffd}'),
        }
    }
    characters.into_iter().collect()
}

impl Target for ParserTarget {
    type How = How;

    fn generate(&self, random: &mut Random) -> (How, String) {
        if random.below(150) == 0 {
            return (How::Bomb, bomb(random));
        }
        let mut text = match random.below(3) {
            0 if !self.pages.is_empty() => {
                let at = random.below(self.pages.len());
                mutated(random, &self.pages[at])
            }
            _ => generated(random),
        };
        if random.below(3) == 0 {
            text = scrambled(random, &text);
        }
        let how = match random.below(10) {
            0 | 1 => How::Fragment(CONTEXTS[random.below(CONTEXTS.len())], Namespace::Html),
            2 => How::Fragment(["svg", "desc", "g"][random.below(3)], Namespace::Svg),
            3 => How::Bytes((random.below(2) == 0).then(|| CHARSETS[random.below(CHARSETS.len())])),
            _ => How::Page,
        };
        (how, text)
    }

    fn check(&self, how: How, text: &str) -> Result<(), String> {
        let doc = match how {
            How::Page | How::Bomb => Document::parse(text.to_owned()),
            How::Fragment(context, namespace) => {
                Document::parse_fragment(text.to_owned(), context, namespace)
            }
            How::Bytes(charset) => {
                let bytes: Vec<u8> = text.chars().map(|character| character as u32 as u8).collect();
                let header = charset.map(|charset| format!("text/html; charset={charset}"));
                Document::parse_bytes(&bytes, header.as_deref())
            }
        };
        invariants(&doc, text.len())?;
        let theirs = match how {
            _ if text.len() > ORACLE_BYTES_MAX => return Ok(()),
            How::Page => oracle_page(text),
            How::Fragment(context, Namespace::Html) => oracle_fragment(text, context),
            _ => return Ok(()),
        };
        let context = if let How::Fragment(context, _) = how { Some(context) } else { None };
        self.compared.set(self.compared.get() + 1);
        let ours = serialize(&doc);
        if ours == theirs {
            return Ok(());
        }
        if is_known_difference(text, context) {
            self.known.set(self.known.get() + 1);
            return Ok(());
        }
        Err(difference(&ours, &theirs))
    }

    fn covered(&self) -> String {
        format!(
            "{} trees compared with html5ever's, {} of them differ in known ways",
            self.compared.get(),
            self.known.get()
        )
    }
}

/// What every tree must be, whatever the page was.
fn invariants(doc: &Document, source_bytes: usize) -> Result<(), String> {
    // Bytes may grow threefold when they are decoded.
    let nodes_max = source_bytes * 3 + NODES_BASE + 8;
    if doc.node_count() > nodes_max || doc.attribute_count() > 2 * nodes_max {
        return Err(format!("{} nodes, {} attributes", doc.node_count(), doc.attribute_count()));
    }
    let mut all_text = String::new();
    let mut attributes_end = 0;
    for node in (0..doc.node_count() as u32).map(NodeId) {
        structure(doc, node).map_err(|what| format!("node {}: {what}", node.0))?;
        if doc.is_text(node) {
            all_text.push_str(doc.text(node));
        }
        let rows = doc.attributes(node);
        if !rows.is_empty() {
            if rows.start != attributes_end {
                return Err(format!("attributes of node {} are not in order", node.0));
            }
            attributes_end = rows.end;
            let names: HashSet<_> = rows.clone().map(|row| doc.attr_name_id(AttrId(row))).collect();
            if names.len() != rows.len() || rows.clone().any(|row| doc.attr_owner(AttrId(row)) != node) {
                return Err(format!("attributes of node {} are double or another's", node.0));
            }
        }
    }
    if attributes_end as usize != doc.attribute_count() {
        return Err("attributes without an element".to_owned());
    }
    if doc.string_value(Document::ROOT) != all_text {
        return Err("the document's string value is not its texts".to_owned());
    }
    indexes(doc)?;
    let _ = (doc.title(), doc.base_href(), doc.visible_text(Document::ROOT), doc.quirks_mode());
    Ok(())
}

fn structure(doc: &Document, node: NodeId) -> Result<(), &'static str> {
    let end = doc.subtree_end(node);
    if end <= node || end.0 as usize > doc.node_count() {
        return Err("ends before it starts, or after the document");
    }
    if let Some(parent) = doc.parent(node) {
        if parent >= node || doc.subtree_end(parent) < end {
            return Err("is not inside its parent");
        }
        match doc.prev_sibling(node) {
            Some(previous) if doc.parent(previous) != Some(parent) || doc.subtree_end(previous) != node => {
                return Err("does not follow its previous sibling");
            }
            None if node.0 != parent.0 + 1 => return Err("has no previous sibling and is not the first"),
            _ => {}
        }
    } else if node != Document::ROOT {
        return Err("has no parent");
    }
    match doc.last_child(node) {
        Some(last) if doc.parent(last) != Some(node) || doc.subtree_end(last) != end => {
            return Err("has a last child that is not");
        }
        None if end.0 != node.0 + 1 => return Err("has descendants and no last child"),
        _ => {}
    }
    let touches = || doc.next_sibling(node).is_some_and(|next| doc.is_text(next));
    if doc.is_text(node) && (doc.text(node).is_empty() || touches()) {
        return Err("is an empty text, or has a text beside it");
    }
    let has_children = doc.first_child(node).is_some();
    if has_children && !matches!(doc.kind(node), NodeKind::Element | NodeKind::Document) {
        return Err("has children and is no element");
    }
    Ok(())
}

/// The side indexes say what a scan says.
fn indexes(doc: &Document) -> Result<(), String> {
    let elements: Vec<NodeId> =
        (0..doc.node_count() as u32).map(NodeId).filter(|node| doc.is_element(*node)).collect();
    let some = elements.iter().step_by(1 + elements.len() / 4);
    for element in some {
        let name = doc.name_id(*element);
        let scanned: Vec<u32> =
            elements.iter().filter(|node| doc.name_id(**node) == name).map(|node| node.0).collect();
        if doc.element_postings(name) != scanned {
            return Err(format!("the index of <{}>", doc.name(*element)));
        }
        if let Some(class) = doc.attribute_named(*element, "class")
            && let Some(token) = class.split_ascii_whitespace().last()
        {
            let has = |node: &&NodeId| {
                doc.attribute_named(**node, "class")
                    .is_some_and(|class| class.split_ascii_whitespace().any(|other| other == token))
            };
            let scanned: Vec<NodeId> = elements.iter().filter(has).copied().collect();
            if doc.elements_with_class(token) != scanned {
                return Err(format!("the index of class {token}"));
            }
        }
        if let Some(id) = doc.attribute_named(*element, "id") {
            let has = |node: &&NodeId| doc.attribute_named(**node, "id") == Some(id);
            let scanned: Vec<NodeId> = elements.iter().filter(has).copied().collect();
            if doc.elements_with_id(id) != scanned {
                return Err(format!("the index of id {id}"));
            }
        }
    }
    Ok(())
}
