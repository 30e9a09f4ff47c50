//! Insertion: where a new node goes (foster parenting included), and the ways to make one.

use super::tags;
use super::{InsertionLocation, InsertionMode, OPEN_SCAN_MAX, OpenElement, Parser, Tag};
use crate::html::dom::Namespace;
use crate::html::dom::names::{self, NameId};
use crate::html::tokenizer::TextMode;

impl Parser<'_> {
    /// "The appropriate place for inserting a node", for a given target.
    pub(super) fn place(&self, target: OpenElement) -> InsertionLocation {
        if !self.fostering || target.flags & tags::TABLE_OUTER == 0 {
            return InsertionLocation::Append(target.row);
        }
        for (at, open) in self.stack.iter().enumerate().rev().take(OPEN_SCAN_MAX) {
            if open.is(names::TEMPLATE) {
                return InsertionLocation::Append(open.row);
            }
            if open.is(names::TABLE) {
                return match self.builder.parent(open.row) {
                    Some(_) => InsertionLocation::Before(open.row),
                    None => InsertionLocation::Append(self.stack[at.saturating_sub(1)].row),
                };
            }
        }
        InsertionLocation::Append(self.stack[0].row)
    }

    pub(super) fn put(&mut self, place: InsertionLocation, row: u32) {
        match place {
            InsertionLocation::Append(parent) => self.builder.append(parent, row),
            InsertionLocation::Before(sibling) => self.builder.insert_before(sibling, row),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, row: u32) {
        let top = self.top();
        if self.fostering {
            let place = self.place(top);
            self.put(place, row);
        } else {
            self.builder.append(top.row, row);
        }
    }

    #[inline]
    pub(super) fn insert_text(&mut self, start: u32, end: u32) {
        let top = self.top();
        if !self.fostering {
            return self.builder.append_text(top.row, start, end);
        }
        match self.place(top) {
            InsertionLocation::Append(parent) => self.builder.append_text(parent, start, end),
            InsertionLocation::Before(sibling) => self.builder.insert_text_before(sibling, start, end),
        }
    }

    /// Inserts an HTML element for a tag and opens it.
    #[inline]
    pub(super) fn insert_html(&mut self, tag: &Tag) -> u32 {
        let row = self.insert_void(tag);
        let flags = tags::flags(tag.name, Namespace::Html);
        self.push(OpenElement { row, key: tag.name.0, flags });
        row
    }

    /// Inserts an HTML element that has no content.
    #[inline]
    pub(super) fn insert_void(&mut self, tag: &Tag) -> u32 {
        let row = self.builder.create_element(tag.name, Namespace::Html, tag.attributes());
        self.insert(row);
        row
    }

    pub(super) fn insert_phantom(&mut self, name: NameId) -> u32 {
        self.insert_html(&Tag::bare(name))
    }

    /// Inserts an element whose content is text alone, and has the tokenizer read it so.
    pub(super) fn insert_raw(&mut self, tag: &Tag, raw: TextMode) {
        self.insert_html(tag);
        self.raw = raw;
        self.raw_name = tag.name;
        self.original_mode = self.mode;
        self.mode = InsertionMode::Text;
    }

    /// Adds to `<html>` (0) or `<body>` (1) the attributes of a further tag that it does not have yet.
    pub(super) fn merge_attributes(&mut self, which: usize, tag: &Tag) {
        let row = self.stack[which].row;
        let builder = &mut self.builder;
        let seen = self.merged[which].get_or_insert_with(|| {
            builder.attributes(builder.element_attributes(row)).map(|attribute| attribute.name).collect()
        });
        for at in tag.attributes() {
            let attribute = builder.attribute(at);
            if seen.insert(attribute.name) {
                builder.add_late_attribute(row, attribute);
            }
        }
    }

    pub(super) fn attribute_text(&self, tag: &Tag, name: NameId) -> Option<&str> {
        let row = self.builder.attributes(tag.attributes()).find(|attribute| attribute.name == name)?;
        Some(self.builder.text(self.source, row.start, row.end))
    }
}
