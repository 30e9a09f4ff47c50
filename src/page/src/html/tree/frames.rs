//! What follows the body, and framesets: "after body", "after after body", "in frameset", "after frameset",
//! "after after frameset".

use super::{Flow, InsertionMode, Parser, Tag};
use crate::html::dom::names::{self, NameId};

impl Parser<'_> {
    pub(super) fn after_body_start(&mut self, tag: &mut Tag) -> Flow {
        if tag.name == names::HTML {
            return self.body_start(tag);
        }
        self.mode = InsertionMode::InBody;
        Flow::Again
    }

    pub(super) fn after_body_end(&mut self, name: NameId) -> Flow {
        if self.mode == InsertionMode::AfterBody && name == names::HTML {
            if self.context.is_none() {
                self.mode = InsertionMode::AfterAfterBody;
            }
            return Flow::Done;
        }
        self.mode = InsertionMode::InBody;
        Flow::Again
    }

    pub(super) fn frameset_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::HTML => return self.body_start(tag),
            names::NOFRAMES => return self.head_start(tag),
            names::FRAMESET if self.mode == InsertionMode::InFrameset => {
                self.insert_html(tag);
            }
            names::FRAME if self.mode == InsertionMode::InFrameset => {
                self.insert_void(tag);
            }
            _ => {}
        }
        Flow::Done
    }

    pub(super) fn frameset_end(&mut self, name: NameId) -> Flow {
        match (self.mode, name) {
            (InsertionMode::InFrameset, names::FRAMESET) if self.stack.len() > 1 => {
                self.pop();
                if self.context.is_none() && !self.top().is(names::FRAMESET) {
                    self.mode = InsertionMode::AfterFrameset;
                }
            }
            (InsertionMode::AfterFrameset, names::HTML) => self.mode = InsertionMode::AfterAfterFrameset,
            _ => {}
        }
        Flow::Done
    }
}
