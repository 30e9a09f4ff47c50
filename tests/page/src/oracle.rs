//! html5ever as an oracle: a tree sink of our own, and its tree in html5lib's notation.

use std::cell::{Cell, RefCell};

use html5ever::interface::{ElemName, ElementFlags, NodeOrText, QuirksMode as OracleQuirks, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ParseOpts, QualName, ns};

use crate::notation::line;

enum Data {
    Document,
    Fragment,
    Doctype(String, String, String),
    Element(QualName, Vec<(String, String)>, Option<usize>, bool),
    Text(String),
    Comment(String),
}

struct Row {
    data: Data,
    parent: Option<usize>,
    children: Vec<usize>,
}

#[derive(Default)]
struct Oracle {
    rows: RefCell<Vec<Row>>,
    quirks: Cell<Option<OracleQuirks>>,
}

impl Oracle {
    fn add(&self, data: Data) -> usize {
        let mut rows = self.rows.borrow_mut();
        rows.push(Row { data, parent: None, children: Vec::new() });
        rows.len() - 1
    }

    fn insert(&self, parent: usize, at: usize, child: NodeOrText<usize>) {
        let child = match child {
            NodeOrText::AppendText(text) => {
                let mut rows = self.rows.borrow_mut();
                if let Some(before) = at.checked_sub(1).map(|at| rows[parent].children[at])
                    && let Data::Text(existing) = &mut rows[before].data
                {
                    existing.push_str(&text);
                    return;
                }
                drop(rows);
                self.add(Data::Text(text.to_string()))
            }
            NodeOrText::AppendNode(child) => {
                self.remove_from_parent(&child);
                child
            }
        };
        let mut rows = self.rows.borrow_mut();
        rows[child].parent = Some(parent);
        let at = at.min(rows[parent].children.len());
        rows[parent].children.insert(at, child);
    }

    /// Writes the children of `row`, joining texts that touch, as our tree does.
    fn serialize(&self, row: usize, out: &mut String) {
        let rows = self.rows.borrow();
        let mut work: Vec<(usize, usize)> =
            rows[row].children.iter().rev().map(|child| (*child, 0)).collect();
        let mut text: Option<(usize, String)> = None;
        while let Some((row, depth)) = work.pop() {
            if let Data::Text(piece) = &rows[row].data {
                match &mut text {
                    Some((at, joined)) if *at == depth => joined.push_str(piece),
                    _ => {
                        flush(&mut text, out);
                        text = Some((depth, piece.clone()));
                    }
                }
                continue;
            }
            flush(&mut text, out);
            match &rows[row].data {
                Data::Document | Data::Fragment | Data::Text(_) => {}
                Data::Comment(comment) => line(out, depth, format_args!("<!-- {comment} -->")),
                Data::Doctype(name, public, system) if public.is_empty() && system.is_empty() => {
                    line(out, depth, format_args!("<!DOCTYPE {name}>"));
                }
                Data::Doctype(name, public, system) => {
                    line(out, depth, format_args!("<!DOCTYPE {name} \"{public}\" \"{system}\">"));
                }
                Data::Element(name, attributes, content, _) => {
                    let prefix = match name.ns {
                        ns!(svg) => "svg ",
                        ns!(mathml) => "math ",
                        _ => "",
                    };
                    line(out, depth, format_args!("<{prefix}{}>", name.local));
                    let mut attributes = attributes.clone();
                    attributes.sort();
                    for (name, value) in attributes {
                        line(out, depth + 1, format_args!("{name}=\"{value}\""));
                    }
                    let children = match content {
                        Some(content) => {
                            line(out, depth + 1, format_args!("content"));
                            &rows[*content].children
                        }
                        None => &rows[row].children,
                    };
                    let inner = depth + 1 + usize::from(content.is_some());
                    work.extend(children.iter().rev().map(|child| (*child, inner)));
                }
            }
        }
        flush(&mut text, out);
    }
}

fn flush(text: &mut Option<(usize, String)>, out: &mut String) {
    if let Some((depth, text)) = text.take() {
        line(out, depth, format_args!("\"{text}\""));
    }
}

/// An element's name, owned because the rows are behind a `RefCell`.
#[derive(Debug)]
struct Name(QualName);

impl ElemName for Name {
    fn ns(&self) -> &html5ever::Namespace {
        &self.0.ns
    }
    fn local_name(&self) -> &html5ever::LocalName {
        &self.0.local
    }
}

impl TreeSink for Oracle {
    type Handle = usize;
    type Output = Self;
    type ElemName<'a> = Name;

    fn finish(self) -> Self {
        self
    }
    fn parse_error(&self, _: std::borrow::Cow<'static, str>) {}
    fn get_document(&self) -> usize {
        if self.rows.borrow().is_empty() {
            self.add(Data::Document);
        }
        0
    }
    fn elem_name<'a>(&'a self, target: &'a usize) -> Name {
        match &self.rows.borrow()[*target].data {
            Data::Element(name, ..) => Name(name.clone()),
            _ => panic!("not an element"),
        }
    }
    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> usize {
        let content = flags.template.then(|| self.add(Data::Fragment));
        let attributes = attributes.iter().map(shown).collect();
        self.add(Data::Element(name, attributes, content, flags.mathml_annotation_xml_integration_point))
    }
    fn create_comment(&self, text: StrTendril) -> usize {
        self.add(Data::Comment(text.to_string()))
    }
    fn create_pi(&self, _: StrTendril, _: StrTendril) -> usize {
        unreachable!("html5ever makes no processing instructions of HTML")
    }
    fn append(&self, parent: &usize, child: NodeOrText<usize>) {
        let end = self.rows.borrow()[*parent].children.len();
        self.insert(*parent, end, child);
    }
    fn append_based_on_parent_node(&self, element: &usize, previous: &usize, child: NodeOrText<usize>) {
        let has_parent = self.rows.borrow()[*element].parent.is_some();
        if has_parent {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }
    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        let row = self.add(Data::Doctype(name.to_string(), public.to_string(), system.to_string()));
        self.append(&0, NodeOrText::AppendNode(row));
    }
    fn get_template_contents(&self, target: &usize) -> usize {
        match self.rows.borrow()[*target].data {
            Data::Element(_, _, Some(content), _) => content,
            _ => panic!("not a template"),
        }
    }
    fn same_node(&self, a: &usize, b: &usize) -> bool {
        a == b
    }
    fn set_quirks_mode(&self, mode: OracleQuirks) {
        self.quirks.set(Some(mode));
    }
    fn append_before_sibling(&self, sibling: &usize, child: NodeOrText<usize>) {
        if let NodeOrText::AppendNode(child) = &child {
            self.remove_from_parent(child);
        }
        let parent = self.rows.borrow()[*sibling].parent.expect("a sibling has a parent");
        let at = self.rows.borrow()[parent].children.iter().position(|child| child == sibling);
        self.insert(parent, at.expect("a child of its parent"), child);
    }
    fn add_attrs_if_missing(&self, target: &usize, new: Vec<Attribute>) {
        let mut rows = self.rows.borrow_mut();
        let Data::Element(_, attributes, ..) = &mut rows[*target].data else { panic!("not an element") };
        for (name, value) in new.iter().map(shown) {
            if attributes.iter().all(|(existing, _)| *existing != name) {
                attributes.push((name, value));
            }
        }
    }
    fn remove_from_parent(&self, target: &usize) {
        let mut rows = self.rows.borrow_mut();
        if let Some(parent) = rows[*target].parent.take() {
            rows[parent].children.retain(|child| child != target);
        }
    }
    fn reparent_children(&self, node: &usize, new_parent: &usize) {
        let mut rows = self.rows.borrow_mut();
        let children = std::mem::take(&mut rows[*node].children);
        for child in &children {
            rows[*child].parent = Some(*new_parent);
        }
        rows[*new_parent].children.extend(children);
    }
    fn is_mathml_annotation_xml_integration_point(&self, target: &usize) -> bool {
        matches!(self.rows.borrow()[*target].data, Data::Element(_, _, _, true))
    }
}

fn shown(attribute: &Attribute) -> (String, String) {
    let local = attribute.name.local.to_string();
    let prefix = attribute.name.prefix.as_ref().filter(|prefix| !prefix.is_empty());
    let name = prefix.map_or(local.clone(), |prefix| format!("{prefix} {local}"));
    (name, attribute.value.to_string())
}

fn oracle_options() -> ParseOpts {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    ParseOpts { tree_builder, ..ParseOpts::default() }
}

pub fn oracle_page(text: &str) -> String {
    let mut parser = html5ever::parse_document(Oracle::default(), oracle_options());
    parser.process(text.into());
    let oracle = parser.finish();
    let mut out = String::new();
    oracle.serialize(0, &mut out);
    out
}

pub fn oracle_fragment(text: &str, context: &str) -> String {
    let name = QualName::new(None, ns!(html), context.into());
    let mut parser = html5ever::parse_fragment(Oracle::default(), oracle_options(), name, Vec::new(), false);
    parser.process(text.into());
    let oracle = parser.finish();
    let mut out = String::new();
    let root = oracle.rows.borrow()[0].children[0];
    oracle.serialize(root, &mut out);
    out
}
