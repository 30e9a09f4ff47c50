//! Tables: "in table", "in table text", "in caption", "in column group", "in table body", "in row", "in cell".

use super::{Flow, InsertionMode, Parser, Tag, tags};
use crate::html::dom::names::{self, NameId};

impl Parser<'_> {
    pub(super) fn table_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::CAPTION => {
                self.pop_to_context(tags::TABLE_SCOPE);
                self.push_marker();
                self.insert_html(tag);
                self.mode = InsertionMode::InCaption;
            }
            names::COLGROUP => {
                self.pop_to_context(tags::TABLE_SCOPE);
                self.insert_html(tag);
                self.mode = InsertionMode::InColumnGroup;
            }
            names::COL => {
                self.pop_to_context(tags::TABLE_SCOPE);
                self.insert_phantom(names::COLGROUP);
                self.mode = InsertionMode::InColumnGroup;
                return Flow::Again;
            }
            names::TBODY | names::TFOOT | names::THEAD => {
                self.pop_to_context(tags::TABLE_SCOPE);
                self.insert_html(tag);
                self.mode = InsertionMode::InTableBody;
            }
            names::TD | names::TH | names::TR => {
                self.pop_to_context(tags::TABLE_SCOPE);
                let row = self.insert_phantom(names::TBODY);
                self.builder.mark_implied(row);
                self.mode = InsertionMode::InTableBody;
                return Flow::Again;
            }
            names::TABLE => return if self.close_table() { Flow::Again } else { Flow::Done },
            names::STYLE | names::SCRIPT | names::TEMPLATE => return self.head_start(tag),
            names::INPUT if self.is_hidden_input(tag) => {
                self.insert_void(tag);
            }
            names::FORM => {
                if self.form.is_none() && !self.has_template() {
                    let row = self.insert_html(tag);
                    self.form = Some(row);
                    self.pop();
                }
            }
            _ => self.fostered(|parser| parser.body_start(tag)),
        }
        Flow::Done
    }

    fn is_hidden_input(&self, tag: &Tag) -> bool {
        self.attribute_text(tag, names::TYPE).is_some_and(|kind| kind.eq_ignore_ascii_case("hidden"))
    }

    /// Runs the rules of the body with foster parenting on. They never ask for the token again.
    fn fostered(&mut self, rules: impl FnOnce(&mut Self) -> Flow) {
        self.fostering = true;
        rules(self);
        self.fostering = false;
    }

    fn close_table(&mut self) -> bool {
        let open = self.in_scope(names::TABLE, tags::TABLE_SCOPE);
        if open {
            self.pop_until(names::TABLE);
            self.reset_mode();
        }
        open
    }

    pub(super) fn table_end(&mut self, name: NameId) -> Flow {
        match name {
            names::TABLE => {
                self.close_table();
            }
            names::BODY | names::HTML => {}
            _ if tags::html(name) & tags::TABLE_PART != 0 => {}
            names::TEMPLATE => return self.template_end(),
            _ => self.fostered(|parser| parser.body_end(name)),
        }
        Flow::Done
    }

    /// Text in a table waits, because it is fostered as a whole if any of it is visible.
    pub(super) fn table_text(&mut self, start: u32, end: u32) {
        let top = self.top();
        if top.flags & tags::TABLE_OUTER == 0 && !top.is(names::TEMPLATE) {
            self.fostering = true;
            self.body_text(start, end);
            self.fostering = false;
            return;
        }
        if start < end {
            self.pending_visible |= !self.is_white(start, end);
            self.pending.push((start, end));
        }
    }

    pub(super) fn flush_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let visible = std::mem::take(&mut self.pending_visible);
        let mut pending = std::mem::take(&mut self.pending);
        for (start, end) in pending.drain(..) {
            if visible {
                self.fostering = true;
                self.body_text(start, end);
                self.fostering = false;
            } else {
                self.insert_text(start, end);
            }
        }
        self.pending = pending;
    }

    pub(super) fn caption_start(&mut self, tag: &mut Tag) -> Flow {
        if tags::html(tag.name) & tags::TABLE_PART == 0 {
            return self.body_start(tag);
        }
        if self.close_caption() { Flow::Again } else { Flow::Done }
    }

    fn close_caption(&mut self) -> bool {
        let open = self.in_scope(names::CAPTION, tags::TABLE_SCOPE);
        if open {
            self.close_implied(NameId::NONE);
            self.pop_until(names::CAPTION);
            self.clear_to_marker();
            self.mode = InsertionMode::InTable;
        }
        open
    }

    pub(super) fn caption_end(&mut self, name: NameId) -> Flow {
        match name {
            names::CAPTION => {
                self.close_caption();
                Flow::Done
            }
            names::TABLE => {
                if self.close_caption() {
                    Flow::Again
                } else {
                    Flow::Done
                }
            }
            names::BODY | names::HTML => Flow::Done,
            _ if tags::html(name) & tags::TABLE_PART != 0 => Flow::Done,
            _ => self.body_end(name),
        }
    }

    pub(super) fn column_group_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::HTML => self.body_start(tag),
            names::COL => {
                self.insert_void(tag);
                Flow::Done
            }
            names::TEMPLATE => self.head_start(tag),
            _ => self.leave_column_group(),
        }
    }

    fn leave_column_group(&mut self) -> Flow {
        if !self.top().is(names::COLGROUP) {
            return Flow::Done;
        }
        self.pop();
        self.mode = InsertionMode::InTable;
        Flow::Again
    }

    pub(super) fn column_group_end(&mut self, name: NameId) -> Flow {
        match name {
            names::COLGROUP => {
                self.leave_column_group();
                Flow::Done
            }
            names::COL => Flow::Done,
            names::TEMPLATE => self.template_end(),
            _ => self.leave_column_group(),
        }
    }

    pub(super) fn table_body_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::TR => {
                self.pop_to_context(tags::BODY_CONTEXT);
                self.insert_html(tag);
                self.mode = InsertionMode::InRow;
                Flow::Done
            }
            names::TH | names::TD => {
                self.pop_to_context(tags::BODY_CONTEXT);
                self.insert_phantom(names::TR);
                self.mode = InsertionMode::InRow;
                Flow::Again
            }
            names::CAPTION | names::COL | names::COLGROUP | names::TBODY | names::TFOOT | names::THEAD => {
                self.leave_table_body()
            }
            _ => self.table_start(tag),
        }
    }

    fn leave_table_body(&mut self) -> Flow {
        let any = [names::TBODY, names::THEAD, names::TFOOT];
        if !any.into_iter().any(|name| self.in_scope(name, tags::TABLE_SCOPE)) {
            return Flow::Done;
        }
        self.pop_to_context(tags::BODY_CONTEXT);
        self.pop();
        self.mode = InsertionMode::InTable;
        Flow::Again
    }

    pub(super) fn table_body_end(&mut self, name: NameId) -> Flow {
        match name {
            names::TBODY | names::TFOOT | names::THEAD => {
                if self.in_scope(name, tags::TABLE_SCOPE) {
                    self.pop_to_context(tags::BODY_CONTEXT);
                    self.pop();
                    self.mode = InsertionMode::InTable;
                }
                Flow::Done
            }
            names::TABLE => self.leave_table_body(),
            _ => self.table_end(name),
        }
    }

    pub(super) fn row_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::TH | names::TD => {
                self.pop_to_context(tags::ROW_CONTEXT);
                self.insert_html(tag);
                self.mode = InsertionMode::InCell;
                self.push_marker();
                Flow::Done
            }
            name if tags::html(name) & tags::TABLE_PART != 0 => self.leave_row(),
            _ => self.table_start(tag),
        }
    }

    fn leave_row(&mut self) -> Flow {
        if !self.in_scope(names::TR, tags::TABLE_SCOPE) {
            return Flow::Done;
        }
        self.pop_to_context(tags::ROW_CONTEXT);
        self.pop();
        self.mode = InsertionMode::InTableBody;
        Flow::Again
    }

    pub(super) fn row_end(&mut self, name: NameId) -> Flow {
        match name {
            names::TR => {
                self.leave_row();
                Flow::Done
            }
            names::TABLE => self.leave_row(),
            names::TBODY | names::TFOOT | names::THEAD if !self.in_scope(name, tags::TABLE_SCOPE) => {
                Flow::Done
            }
            names::TBODY | names::TFOOT | names::THEAD => self.leave_row(),
            _ => self.table_end(name),
        }
    }

    fn close_cell(&mut self) {
        self.close_implied(NameId::NONE);
        while self.stack.len() > 1 {
            let cell = self.top().flags & tags::CELL != 0;
            self.pop();
            if cell {
                break;
            }
        }
        self.clear_to_marker();
        self.mode = InsertionMode::InRow;
    }

    pub(super) fn cell_start(&mut self, tag: &mut Tag) -> Flow {
        if tags::html(tag.name) & tags::TABLE_PART == 0 {
            return self.body_start(tag);
        }
        let scope = tags::TABLE_SCOPE;
        if !self.in_scope(names::TD, scope) && !self.in_scope(names::TH, scope) {
            return Flow::Done;
        }
        self.close_cell();
        Flow::Again
    }

    pub(super) fn cell_end(&mut self, name: NameId) -> Flow {
        match name {
            names::TD | names::TH => {
                if self.in_scope(name, tags::TABLE_SCOPE) {
                    self.close_implied(NameId::NONE);
                    self.pop_until(name);
                    self.clear_to_marker();
                    self.mode = InsertionMode::InRow;
                }
                Flow::Done
            }
            names::BODY | names::CAPTION | names::COL | names::COLGROUP | names::HTML => Flow::Done,
            names::TABLE | names::TBODY | names::TFOOT | names::THEAD | names::TR => {
                if !self.in_scope(name, tags::TABLE_SCOPE) {
                    return Flow::Done;
                }
                self.close_cell();
                Flow::Again
            }
            _ => self.body_end(name),
        }
    }
}
