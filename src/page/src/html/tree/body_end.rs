//! "In body": end tags.

use super::{Flow, InsertionMode, Parser, Tag, tags};
use crate::html::dom::names::{self, NameId};

impl Parser<'_> {
    pub(super) fn body_end(&mut self, name: NameId) -> Flow {
        let flags = tags::html(name);
        if flags & tags::BLOCK_END != 0 {
            if self.in_scope(name, tags::SCOPE) {
                self.close_implied(NameId::NONE);
                self.pop_until(name);
            }
        } else if flags & tags::FORMATTING != 0 {
            self.adopt(name);
        } else {
            return self.other_end(name);
        }
        Flow::Done
    }

    fn other_end(&mut self, name: NameId) -> Flow {
        match name {
            names::P => {
                if self.top().flags & tags::P_IN_SCOPE == 0 {
                    self.insert_phantom(names::P);
                }
                self.close_p();
            }
            names::LI => self.close_item(name, tags::SCOPE | tags::LIST_SCOPE),
            names::DD | names::DT => self.close_item(name, tags::SCOPE),
            names::H1 | names::H2 | names::H3 | names::H4 | names::H5 | names::H6 => self.close_heading(),
            names::APPLET | names::MARQUEE | names::OBJECT => {
                if self.in_scope(name, tags::SCOPE) {
                    self.close_implied(NameId::NONE);
                    self.pop_until(name);
                    self.clear_to_marker();
                }
            }
            names::FORM => self.close_form(),
            names::TEMPLATE => return self.template_end(),
            names::BODY | names::HTML => return self.close_body(name),
            names::BR => {
                self.reconstruct();
                self.insert_void(&Tag::bare(names::BR));
                self.frameset_ok = false;
            }
            _ => self.close_any(name),
        }
        Flow::Done
    }

    fn close_item(&mut self, name: NameId, stop: tags::Flags) {
        if self.in_scope(name, stop) {
            self.close_implied(name);
            self.pop_until(name);
        }
    }

    /// Any heading's end tag closes the heading that is open, whatever its level.
    fn close_heading(&mut self) {
        let mut open = self.stack.iter().rev().take(super::OPEN_SCAN_MAX);
        let found = open.find(|open| open.flags & (tags::HEADING | tags::SCOPE) != 0);
        if found.is_none_or(|open| open.flags & tags::HEADING == 0) {
            return;
        }
        self.close_implied(NameId::NONE);
        while self.stack.len() > 1 {
            let heading = self.top().flags & tags::HEADING != 0;
            self.pop();
            if heading {
                return;
            }
        }
    }

    fn close_form(&mut self) {
        if self.has_template() {
            if self.in_scope(names::FORM, tags::SCOPE) {
                self.close_implied(NameId::NONE);
                self.pop_until(names::FORM);
            }
            return;
        }
        let Some(row) = self.form.take() else { return };
        let Some(at) = self.position_open(row) else { return };
        if self.stack[at + 1..].iter().any(|open| open.flags & tags::SCOPE != 0) {
            return;
        }
        self.close_implied(NameId::NONE);
        if at < self.stack.len() {
            self.remove_open(at);
        }
    }

    fn close_body(&mut self, name: NameId) -> Flow {
        let has_body = self.stack.get(1).is_some_and(|open| open.is(names::BODY));
        if !has_body || !self.in_scope(names::BODY, tags::SCOPE) {
            return Flow::Done;
        }
        self.mode = InsertionMode::AfterBody;
        if name == names::HTML { Flow::Again } else { Flow::Done }
    }
}
