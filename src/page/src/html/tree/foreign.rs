//! Foreign content: SVG and MathML inside HTML, with the names that the standard spells in mixed case.
//!
//! An attribute in a namespace keeps its prefix in its name (`xlink:href`), as XPath users of lxml write it.

use super::{Flow, OpenElement, Parser, Tag, tags};
use crate::html::dom::Namespace;
use crate::html::dom::names::{self, NameId};

/// SVG elements whose name is not lower case.
const SVG_ELEMENTS: &[&str] = &[
    "altGlyph",
    "altGlyphDef",
    "altGlyphItem",
    "animateColor",
    "animateMotion",
    "animateTransform",
    "clipPath",
    "feBlend",
    "feColorMatrix",
    "feComponentTransfer",
    "feComposite",
    "feConvolveMatrix",
    "feDiffuseLighting",
    "feDisplacementMap",
    "feDistantLight",
    "feDropShadow",
    "feFlood",
    "feFuncA",
    "feFuncB",
    "feFuncG",
    "feFuncR",
    "feGaussianBlur",
    "feImage",
    "feMerge",
    "feMergeNode",
    "feMorphology",
    "feOffset",
    "fePointLight",
    "feSpecularLighting",
    "feSpotLight",
    "feTile",
    "feTurbulence",
    "foreignObject",
    "glyphRef",
    "linearGradient",
    "radialGradient",
    "textPath",
];

/// SVG attributes whose name is not lower case.
const SVG_ATTRIBUTES: &[&str] = &[
    "attributeName",
    "attributeType",
    "baseFrequency",
    "baseProfile",
    "calcMode",
    "clipPathUnits",
    "diffuseConstant",
    "edgeMode",
    "filterUnits",
    "glyphRef",
    "gradientTransform",
    "gradientUnits",
    "kernelMatrix",
    "kernelUnitLength",
    "keyPoints",
    "keySplines",
    "keyTimes",
    "lengthAdjust",
    "limitingConeAngle",
    "markerHeight",
    "markerUnits",
    "markerWidth",
    "maskContentUnits",
    "maskUnits",
    "numOctaves",
    "pathLength",
    "patternContentUnits",
    "patternTransform",
    "patternUnits",
    "pointsAtX",
    "pointsAtY",
    "pointsAtZ",
    "preserveAlpha",
    "preserveAspectRatio",
    "primitiveUnits",
    "refX",
    "refY",
    "repeatCount",
    "repeatDur",
    "requiredExtensions",
    "requiredFeatures",
    "specularConstant",
    "specularExponent",
    "spreadMethod",
    "startOffset",
    "stdDeviation",
    "stitchTiles",
    "surfaceScale",
    "systemLanguage",
    "tableValues",
    "targetX",
    "targetY",
    "textLength",
    "viewBox",
    "viewTarget",
    "xChannelSelector",
    "yChannelSelector",
    "zoomAndPan",
];

/// The spelling of a lower-case name in a table that is sorted without regard to case.
fn adjusted(table: &'static [&'static str], name: &str) -> Option<&'static str> {
    let order = |entry: &&str| entry.bytes().map(|byte| byte.to_ascii_lowercase()).cmp(name.bytes());
    table.binary_search_by(order).ok().map(|at| table[at])
}

impl Parser<'_> {
    /// The current node, or the context of a fragment where only the root is open.
    #[inline]
    pub(super) fn adjusted_top(&self) -> Option<OpenElement> {
        match self.context {
            Some(context) if self.stack.len() == 1 => Some(context),
            _ => self.stack.last().copied(),
        }
    }

    #[inline]
    pub(in crate::html) fn is_foreign(&self) -> bool {
        self.adjusted_top().is_some_and(|open| open.flags & tags::FOREIGN != 0)
    }

    /// True where a start tag follows the rules for foreign content.
    #[inline]
    pub(super) fn is_foreign_for_start(&self, name: NameId) -> bool {
        let Some(top) = self.adjusted_top().filter(|open| open.flags & tags::FOREIGN != 0) else {
            return false;
        };
        if top.flags & tags::HTML_INTEGRATION != 0 {
            return false;
        }
        if top.flags & tags::TEXT_INTEGRATION != 0 {
            return matches!(name, names::MGLYPH | names::MALIGNMARK);
        }
        let is_annotation = top.namespace() == Namespace::MathMl && top.name() == names::ANNOTATION_XML;
        !(is_annotation && name == names::SVG)
    }

    pub(super) fn foreign_text(&mut self, start: u32, end: u32, nul: bool) {
        if nul {
            let start = self.builder.side_end();
            self.builder.side_mut().push(char::REPLACEMENT_CHARACTER);
            return self.insert_text(start, self.builder.side_end());
        }
        if self.frameset_ok && !self.is_white(start, end) {
            self.frameset_ok = false;
        }
        self.insert_text(start, end);
    }

    pub(super) fn foreign_start(&mut self, mut tag: Tag) {
        if self.breaks_out(&tag) {
            self.leave_foreign();
            while self.start_by_mode(&mut tag) == Flow::Again {}
            return;
        }
        let namespace = self.adjusted_top().map_or(Namespace::Html, OpenElement::namespace);
        self.insert_foreign(&mut tag, namespace);
    }

    fn breaks_out(&self, tag: &Tag) -> bool {
        match tag.name {
            names::FONT => {
                let mut rows = self.builder.attributes(tag.attributes());
                rows.any(|row| matches!(row.name, names::COLOR | names::FACE | names::SIZE))
            }
            name => is_break_out(name),
        }
    }

    fn leave_foreign(&mut self) {
        let ends = tags::HTML_INTEGRATION | tags::TEXT_INTEGRATION;
        while self.top().flags & tags::FOREIGN != 0 && self.top().flags & ends == 0 {
            self.pop();
        }
    }

    /// Inserts an SVG or MathML element; without self-closing syntax it is opened.
    pub(super) fn insert_foreign(&mut self, tag: &mut Tag, namespace: Namespace) {
        if namespace == Namespace::Svg
            && let Some(spelling) = adjusted(SVG_ELEMENTS, self.builder.names.text(tag.name))
        {
            tag.name = self.builder.names.intern(spelling);
        }
        self.adjust_attributes(tag, namespace);
        let mut flags = tags::flags(tag.name, namespace);
        if namespace == Namespace::MathMl && tag.name == names::ANNOTATION_XML && self.holds_html(tag) {
            flags |= tags::HTML_INTEGRATION;
        }
        let row = self.builder.create_element(tag.name, namespace, tag.attributes());
        self.insert(row);
        if !tag.self_closing {
            self.push(OpenElement::new(row, tag.name, namespace, flags));
        }
    }

    fn holds_html(&self, tag: &Tag) -> bool {
        let encoding = self.attribute_text(tag, names::ENCODING);
        encoding.is_some_and(|encoding| {
            encoding.eq_ignore_ascii_case("text/html")
                || encoding.eq_ignore_ascii_case("application/xhtml+xml")
        })
    }

    fn adjust_attributes(&mut self, tag: &Tag, namespace: Namespace) {
        for at in tag.attributes() {
            let name = self.builder.attribute(at).name;
            let spelling = match namespace {
                Namespace::Svg => adjusted(SVG_ATTRIBUTES, self.builder.names.text(name)),
                Namespace::MathMl if name == names::DEFINITION_URL_LOWER => Some("definitionURL"),
                _ => None,
            };
            if let Some(spelling) = spelling {
                let name = self.builder.names.intern(spelling);
                self.builder.rename_attribute(at, name);
            }
        }
    }

    /// An end tag whose current node is foreign; false where the HTML rules are to deal with it.
    pub(super) fn foreign_end(&mut self, name: NameId) -> bool {
        if matches!(name, names::BR | names::P) {
            self.leave_foreign();
            return false;
        }
        let length = self.stack.len();
        if length == 1 {
            return true;
        }
        let from = length.saturating_sub(super::OPEN_SCAN_MAX).max(1);
        for at in (from..length).rev() {
            let open = self.stack[at];
            if at + 1 < length && open.flags & tags::FOREIGN == 0 {
                return false;
            }
            let text = self.builder.names.text(open.name());
            if open.name() == name || text.eq_ignore_ascii_case(self.builder.names.text(name)) {
                self.truncate_stack(at);
                return true;
            }
        }
        from > 1
    }
}

/// Start tags that end foreign content.
fn is_break_out(name: NameId) -> bool {
    matches!(
        name,
        names::B
            | names::BIG
            | names::BLOCKQUOTE
            | names::BODY
            | names::BR
            | names::CENTER
            | names::CODE
            | names::DD
            | names::DIV
            | names::DL
            | names::DT
            | names::EM
            | names::EMBED
            | names::H1
            | names::H2
            | names::H3
            | names::H4
            | names::H5
            | names::H6
            | names::HEAD
            | names::HR
            | names::I
            | names::IMG
            | names::LI
            | names::LISTING
            | names::MENU
            | names::META
            | names::NOBR
            | names::OL
            | names::P
            | names::PRE
            | names::RUBY
            | names::S
            | names::SMALL
            | names::SPAN
            | names::STRONG
            | names::STRIKE
            | names::SUB
            | names::SUP
            | names::TABLE
            | names::TT
            | names::U
            | names::UL
            | names::VAR
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_tables_are_sorted_for_binary_search() {
        for table in [SVG_ELEMENTS, SVG_ATTRIBUTES] {
            for entry in table {
                assert_eq!(adjusted(table, &entry.to_ascii_lowercase()), Some(*entry));
            }
            assert_eq!(adjusted(table, "nothing"), None);
        }
    }
}
