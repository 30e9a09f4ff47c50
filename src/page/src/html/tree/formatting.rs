//! The list of active formatting elements: reconstruction, the Noah's Ark clause, the adoption agency.
//!
//! Whether an entry's element is open is a bit of its row, because reconstruction asks it at every piece of text. Copies of
//! an element share its attribute rows until the tree is written out; the budget counts them as if they did not.

use super::{FORMATTING_MAX, OPEN_SCAN_MAX, OpenElement, Parser, Tag, tags};
use crate::html::dom::names::{NameId, hash};
use crate::html::dom::{Budget, Namespace};

const MARKER: u32 = u32::MAX;

/// An active formatting element, or a marker (`row` is [`MARKER`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct FormattingEntry {
    row: u32,
    name: NameId,
    /// Of the attributes, whatever their order; made when there is another element to compare with.
    attributes_hash: Option<u64>,
}

impl Parser<'_> {
    pub(super) fn push_marker(&mut self) {
        self.formats.push(FormattingEntry { row: MARKER, name: NameId::NONE, attributes_hash: None });
    }

    pub(super) fn clear_to_marker(&mut self) {
        while let Some(format) = self.formats.pop() {
            if format.row == MARKER {
                return;
            }
        }
    }

    /// Inserts a formatting element and makes it active.
    pub(super) fn insert_formatting(&mut self, tag: &Tag) {
        let row = self.insert_html(tag);
        if self.copies_left == 0 {
            return;
        }
        self.builder.set_open(row, true);
        self.formats.push(FormattingEntry { row, name: tag.name, attributes_hash: None });
        self.apply_noahs_ark();
    }

    /// Ends reopening for the rest of the page: what is open stays open, nothing is active any more.
    fn forget_formats(&mut self) {
        self.formats.retain(|format| format.row == MARKER);
        self.builder.truncated = self.builder.truncated.or(Some(Budget::Formatting));
    }

    /// The attributes' hash of the entry at `at`, made once.
    fn attributes_hash(&mut self, at: usize) -> u64 {
        let FormattingEntry { row, attributes_hash, .. } = self.formats[at];
        if let Some(known) = attributes_hash {
            return known;
        }
        let range = self.builder.element_attributes(row);
        let count = u64::from(range.end - range.start);
        let each = self.builder.attributes(range).map(|row| {
            let value = self.builder.text(self.source, row.start, row.end);
            (u64::from(row.name.0) ^ hash(value.as_bytes())).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let made = each.fold(count, u64::wrapping_add);
        self.formats[at].attributes_hash = Some(made);
        made
    }

    /// At most three like elements since the last marker, and never more than [`FORMATTING_MAX`] in all; the newest is
    /// the last entry.
    fn apply_noahs_ark(&mut self) {
        let newest = self.formats.len() - 1;
        let name = self.formats[newest].name;
        let since = self.formats.iter().rposition(|format| format.row == MARKER).map_or(0, |at| at + 1);
        if newest - since >= FORMATTING_MAX {
            self.formats.remove(since);
            return;
        }
        if self.formats[since..newest].iter().all(|format| format.name != name) {
            return;
        }
        for at in since..newest {
            if self.formats[at].name == name {
                self.attributes_hash(at);
            }
        }
        // The hash is seeded and 64 bits wide: where it and the name agree, all attributes agree.
        let wanted = Some(self.attributes_hash(newest));
        let alike = |format: &FormattingEntry| format.name == name && format.attributes_hash == wanted;
        let family = &self.formats[since..newest];
        if family.iter().filter(|format| alike(format)).count() >= 3
            && let Some(earliest) = family.iter().position(alike)
        {
            self.formats.remove(since + earliest);
        }
    }

    fn is_open_or_marker(&self, format: &FormattingEntry) -> bool {
        format.row == MARKER || self.builder.is_open(format.row)
    }

    /// "Reconstruct the active formatting elements".
    #[inline]
    pub(super) fn reconstruct(&mut self) {
        match self.formats.last() {
            Some(last) if !self.is_open_or_marker(last) => self.reopen_formats(),
            _ => {}
        }
    }

    fn reopen_formats(&mut self) {
        let from =
            self.formats.iter().rposition(|format| self.is_open_or_marker(format)).map_or(0, |at| at + 1);
        for at in from..self.formats.len() {
            if self.copies_left == 0 {
                return self.forget_formats();
            }
            let FormattingEntry { row, name, .. } = self.formats[at];
            let copy = self.copy_element(row, name);
            self.insert(copy);
            self.push(OpenElement::new(copy, name, Namespace::Html, tags::flags(name, Namespace::Html)));
            self.builder.set_open(copy, true);
            self.formats[at].row = copy;
            self.check_budget();
            if self.stopped {
                return;
            }
        }
    }

    fn copy_element(&mut self, row: u32, name: NameId) -> u32 {
        self.copies_left = self.copies_left.saturating_sub(1);
        let attributes = self.builder.element_attributes(row);
        self.builder.create_element(name, Namespace::Html, attributes)
    }

    fn position_active(&self, row: u32) -> Option<usize> {
        let from = self.formats.len().saturating_sub(FORMATTING_MAX);
        self.formats[from..].iter().rposition(|format| format.row == row).map(|at| from + at)
    }

    /// The nearest active element of this name since the last marker.
    pub(super) fn active_named(&self, name: NameId) -> Option<usize> {
        let since = self.formats.iter().rposition(|format| format.row == MARKER).map_or(0, |at| at + 1);
        self.formats[since..].iter().rposition(|format| format.name == name).map(|at| since + at)
    }

    /// A second `<a>` closes the first, wherever that was opened.
    pub(super) fn close_active(&mut self, name: NameId) {
        let Some(at) = self.active_named(name) else { return };
        let row = self.formats[at].row;
        self.adopt(name);
        if let Some(at) = self.position_active(row) {
            self.formats.remove(at);
        }
        if self.builder.is_open(row)
            && let Some(at) = self.position_open(row)
        {
            self.remove_open(at);
        }
    }

    /// The adoption agency algorithm for an end tag of this name.
    pub(super) fn adopt(&mut self, name: NameId) {
        let top = self.top();
        if top.is(name) && self.position_active(top.row).is_none() {
            return self.pop();
        }
        for _ in 0..8 {
            let Some(active) = self.active_named(name) else { return self.close_any(name) };
            let row = self.formats[active].row;
            if !self.builder.is_open(row) {
                self.formats.remove(active);
                return;
            }
            let Some(position) = self.position_open(row) else { return };
            let above = &self.stack[position + 1..];
            if above.iter().any(|open| open.flags & tags::SCOPE != 0) {
                return;
            }
            let Some(offset) = above.iter().position(|open| open.flags & tags::SPECIAL != 0) else {
                self.truncate_stack(position);
                self.formats.remove(active);
                return;
            };
            self.adopt_block(active, position, position + 1 + offset);
            self.check_budget();
            if self.stopped {
                return;
            }
            if self.copies_left == 0 {
                return self.forget_formats();
            }
        }
    }

    /// One round of the algorithm: the formatting element at `position` on the stack gives its place to a copy inside the
    /// furthest block, which is at `block` on the stack.
    fn adopt_block(&mut self, active: usize, position: usize, block: usize) {
        let FormattingEntry { row, name, attributes_hash } = self.formats[active];
        let (ancestor, furthest) = (self.stack[position - 1], self.stack[block].row);
        let mut bookmark = active;
        let mut last = furthest;
        let mut rounds = 0;
        for at in (position + 1..block).rev() {
            rounds += 1;
            let open = self.stack[at];
            let is_formatting = open.flags & tags::FORMATTING != 0;
            let mut found = if is_formatting { self.position_active(open.row) } else { None };
            if let Some(index) = found
                && rounds > 3
            {
                self.formats.remove(index);
                bookmark -= usize::from(index < bookmark);
                found = None;
            }
            let Some(index) = found else {
                self.remove_open(at);
                continue;
            };
            let copy = self.copy_element(open.row, open.html_name());
            self.builder.set_open(open.row, false);
            self.builder.set_open(copy, true);
            self.formats[index].row = copy;
            self.stack[at].row = copy;
            if last == furthest {
                bookmark = index + 1;
            }
            self.builder.detach(last);
            self.builder.append(copy, last);
            last = copy;
        }
        self.builder.detach(last);
        let fostering = std::mem::replace(&mut self.fostering, true);
        let place = self.place(ancestor);
        self.fostering = fostering;
        self.put(place, last);

        let copy = self.copy_element(row, name);
        self.builder.move_children(furthest, copy);
        self.builder.append(furthest, copy);
        self.move_format(row, bookmark, FormattingEntry { row: copy, name, attributes_hash });
        self.move_open(row, furthest, copy);
    }

    /// Replaces the entry of `row` in the list by `format`, placed where the bookmark stands.
    fn move_format(&mut self, row: u32, mut bookmark: usize, format: FormattingEntry) {
        if let Some(old) = self.position_active(row) {
            self.formats.remove(old);
            bookmark -= usize::from(old < bookmark);
        }
        self.formats.insert(bookmark.min(self.formats.len()), format);
    }

    /// Takes `row` off the stack and puts its copy right above the furthest block.
    fn move_open(&mut self, row: u32, furthest: u32, copy: u32) {
        let Some(old) = self.position_open(row) else { return };
        let mut open = self.stack[old];
        self.remove_open(old);
        open.row = copy;
        let above = self.position_open(furthest).map_or(self.stack.len(), |at| at + 1);
        if open.flags & tags::COUNTED != 0 {
            self.counts[open.key as usize] += 1;
        }
        open.flags &= !tags::P_IN_SCOPE;
        let open = Self::inheriting(open, self.stack.get(above - 1));
        self.stack.insert(above, open);
        self.builder.set_open(copy, true);
    }

    /// "Any other end tag" in body.
    pub(super) fn close_any(&mut self, name: NameId) {
        let length = self.stack.len();
        for at in (length.saturating_sub(OPEN_SCAN_MAX)..length).rev() {
            let open = self.stack[at];
            if open.is(name) {
                self.close_implied(name);
                return self.truncate_stack(at);
            }
            if open.flags & tags::SPECIAL != 0 {
                return;
            }
        }
    }
}
