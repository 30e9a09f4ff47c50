//! The stack of open elements: scope searches, implied end tags, the insertion mode that follows from it.

use super::tags::{self, Flags};
use super::{InsertionMode, OPEN_SCAN_MAX, OpenElement, Parser};
use crate::html::dom::names::{self, NameId};

impl Parser<'_> {
    /// The current node. The root is never popped, so there always is one once the root exists.
    #[inline]
    pub(super) fn top(&self) -> OpenElement {
        self.stack[self.stack.len() - 1]
    }

    /// Adds to an entry what it inherits from the one below it. Entries that end the button scope inherit nothing; no such
    /// entry, and no `<p>`, is ever taken out of the middle of the stack, so what was inherited stays true.
    #[inline]
    pub(super) fn inheriting(mut open: OpenElement, below: Option<&OpenElement>) -> OpenElement {
        if open.is(names::P) {
            open.flags |= tags::P_IN_SCOPE;
        } else if open.flags & (tags::SCOPE | tags::BUTTON_SCOPE) == 0 {
            open.flags |= below.map_or(0, |below| below.flags & tags::P_IN_SCOPE);
        }
        open
    }

    #[inline]
    pub(super) fn push(&mut self, open: OpenElement) {
        let open = Self::inheriting(open, self.stack.last());
        if open.flags & tags::COUNTED != 0 {
            self.counts[open.key as usize] += 1;
        }
        self.stack.push(open);
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        if self.stack.len() > 1
            && let Some(open) = self.stack.pop()
        {
            self.closed(open);
        }
    }

    #[inline]
    pub(super) fn closed(&mut self, open: OpenElement) {
        if open.flags & tags::COUNTED != 0 {
            self.counts[open.key as usize] -= 1;
        }
        if open.flags & tags::FORMATTING != 0 {
            self.builder.set_open(open.row, false);
        }
    }

    pub(super) fn truncate_stack(&mut self, length: usize) {
        while self.stack.len() > length.max(1) {
            self.pop();
        }
    }

    /// Takes an element out of the middle of the stack.
    pub(super) fn remove_open(&mut self, at: usize) {
        let open = self.stack.remove(at);
        self.closed(open);
    }

    pub(super) fn position_open(&self, row: u32) -> Option<usize> {
        let from = self.stack.len().saturating_sub(OPEN_SCAN_MAX);
        self.stack[from..].iter().rposition(|open| open.row == row).map(|at| from + at)
    }

    #[inline]
    pub(super) fn in_scope(&self, name: NameId, stop: Flags) -> bool {
        for open in self.stack.iter().rev().take(OPEN_SCAN_MAX) {
            if open.is(name) {
                return true;
            }
            if open.flags & stop != 0 {
                return false;
            }
        }
        false
    }

    /// As `in_scope` for the names that are counted while open.
    #[inline]
    pub(super) fn in_scope_counted(&self, name: NameId, stop: Flags) -> bool {
        self.counts[name.0 as usize] != 0 && self.in_scope(name, stop)
    }

    #[inline]
    pub(super) fn has_template(&self) -> bool {
        self.counts[names::TEMPLATE.0 as usize] != 0
    }

    #[inline]
    pub(super) fn close_implied(&mut self, except: NameId) {
        while self.top().flags & tags::IMPLIED != 0 && !self.top().is(except) {
            self.pop();
        }
    }

    /// Pops up to and including the nearest element of this name (the caller knows that there is one).
    pub(super) fn pop_until(&mut self, name: NameId) {
        while self.stack.len() > 1 {
            let found = self.top().is(name);
            self.pop();
            if found {
                return;
            }
        }
    }

    /// Pops until the current node has one of the flags.
    pub(super) fn pop_to_context(&mut self, flags: Flags) {
        while self.stack.len() > 1 && self.top().flags & flags == 0 {
            self.pop();
        }
    }

    #[inline]
    pub(super) fn close_p(&mut self) {
        if self.top().flags & tags::P_IN_SCOPE != 0 {
            self.close_implied(names::P);
            self.pop_until(names::P);
        }
    }

    /// "Reset the insertion mode appropriately".
    pub(super) fn reset_mode(&mut self) {
        self.mode = InsertionMode::InBody;
        for (at, open) in self.stack.iter().enumerate().rev().take(OPEN_SCAN_MAX) {
            let last = at == 0;
            let open = match self.context {
                Some(context) if last => context,
                _ => *open,
            };
            let mode = match open.html_name() {
                names::TD | names::TH if !last => InsertionMode::InCell,
                names::TR => InsertionMode::InRow,
                names::TBODY | names::THEAD | names::TFOOT => InsertionMode::InTableBody,
                names::CAPTION => InsertionMode::InCaption,
                names::COLGROUP => InsertionMode::InColumnGroup,
                names::TABLE => InsertionMode::InTable,
                names::TEMPLATE => self.template_modes.last().copied().unwrap_or(InsertionMode::InTemplate),
                names::HEAD if !last => InsertionMode::InHead,
                names::BODY => InsertionMode::InBody,
                names::FRAMESET => InsertionMode::InFrameset,
                names::HTML if self.head.is_none() => InsertionMode::BeforeHead,
                names::HTML => InsertionMode::AfterHead,
                _ => continue,
            };
            self.mode = mode;
            return;
        }
    }
}
