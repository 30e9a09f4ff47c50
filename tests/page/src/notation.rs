//! Our trees in the notation of html5lib's cases, and how two of them differ.

use std::fmt::Write as _;

use page::html::{AttrId, Document, Namespace, NodeId, NodeKind};

/// Attributes that carry a namespace, as html5lib writes them.
const NAMESPACED: &[&str] = &[
    "xlink:actuate",
    "xlink:arcrole",
    "xlink:href",
    "xlink:role",
    "xlink:show",
    "xlink:title",
    "xlink:type",
    "xml:lang",
    "xml:space",
    "xmlns:xlink",
];

pub fn line(out: &mut String, depth: usize, text: std::fmt::Arguments<'_>) {
    out.push_str("| ");
    out.extend(std::iter::repeat_n(' ', depth * 2));
    let _ = out.write_fmt(text);
    out.push('\n');
}

/// The tree as html5lib's cases write it.
pub fn serialize(doc: &Document) -> String {
    let mut out = String::new();
    let mut depths = vec![0_usize; doc.node_count()];
    for node in doc.descendants(NodeId(0)) {
        let parent = doc.parent(node).expect("a descendant has a parent");
        let in_template = doc.name(parent) == "template" && doc.namespace(parent) == Namespace::Html;
        let depth = if parent.0 == 0 { 0 } else { depths[parent.0 as usize] + 1 + usize::from(in_template) };
        depths[node.0 as usize] = depth;
        match doc.kind(node) {
            NodeKind::Element => serialize_element(doc, node, depth, &mut out),
            NodeKind::Text => line(&mut out, depth, format_args!("\"{}\"", doc.text(node))),
            NodeKind::Comment => line(&mut out, depth, format_args!("<!-- {} -->", doc.text(node))),
            NodeKind::Pi => line(&mut out, depth, format_args!("<?{} {}?>", doc.name(node), doc.text(node))),
            NodeKind::Doctype => {
                let ids = doc.doctype_ids().expect("a doctype has ids");
                let name = doc.name(node);
                match (&ids.public, &ids.system) {
                    (None, None) => line(&mut out, depth, format_args!("<!DOCTYPE {name}>")),
                    (public, system) => {
                        let (public, system) = (public.as_deref(), system.as_deref());
                        let (public, system) = (public.unwrap_or(""), system.unwrap_or(""));
                        line(&mut out, depth, format_args!("<!DOCTYPE {name} \"{public}\" \"{system}\">"));
                    }
                }
            }
            NodeKind::Document => unreachable!("only the root is a document"),
        }
    }
    out
}

fn serialize_element(doc: &Document, node: NodeId, depth: usize, out: &mut String) {
    let prefix = match doc.namespace(node) {
        Namespace::Html => "",
        Namespace::Svg => "svg ",
        Namespace::MathMl => "math ",
    };
    line(out, depth, format_args!("<{prefix}{}>", doc.name(node)));
    let foreign = doc.namespace(node) != Namespace::Html;
    let mut attributes: Vec<(String, &str)> = doc
        .attributes(node)
        .map(|row| {
            let name = doc.attr_name(AttrId(row));
            let shown =
                if foreign && NAMESPACED.contains(&name) { name.replacen(':', " ", 1) } else { name.into() };
            (shown, doc.attr_value(AttrId(row)))
        })
        .collect();
    attributes.sort();
    for (name, value) in attributes {
        line(out, depth + 1, format_args!("{name}=\"{value}\""));
    }
    if doc.name(node) == "template" && !foreign {
        line(out, depth + 1, format_args!("content"));
    }
}

/// The first lines in which two trees differ.
pub fn difference(ours: &str, theirs: &str) -> String {
    let at = ours.lines().zip(theirs.lines()).take_while(|(a, b)| a == b).count();
    let show = |tree: &str| tree.lines().skip(at.saturating_sub(3)).take(8).collect::<Vec<_>>().join("\n");
    format!("line {at}\n--- ours\n{}\n--- oracle\n{}", show(ours), show(theirs))
}
