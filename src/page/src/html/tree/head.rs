//! Everything before the body: "initial", "before html", "before head", "in head", "in head noscript", "after head",
//! and templates, whose contents are parsed by "in template".

use super::{Flow, InsertionMode, OpenElement, Parser, Tag, tags};
use crate::html::dom::names::{self, NameId};
use crate::html::dom::{Namespace, QuirksMode};
use crate::html::tokenizer::TextMode;

impl Parser<'_> {
    pub(super) fn create_root(&mut self, tag: Tag) {
        let row = self.builder.create_element(names::HTML, Namespace::Html, tag.attributes());
        self.builder.append(0, row);
        self.push(OpenElement::new(
            row,
            names::HTML,
            Namespace::Html,
            tags::flags(names::HTML, Namespace::Html),
        ));
        self.mode = InsertionMode::BeforeHead;
    }

    pub(super) fn create_head(&mut self, tag: Tag) {
        self.head = Some(self.insert_html(&tag));
        self.mode = InsertionMode::InHead;
    }

    pub(super) fn leave_head(&mut self) {
        self.pop();
        self.mode = InsertionMode::AfterHead;
    }

    pub(super) fn leave_noscript(&mut self) {
        self.pop();
        self.mode = InsertionMode::InHead;
    }

    pub(super) fn create_body(&mut self) {
        self.insert_phantom(names::BODY);
        self.mode = InsertionMode::InBody;
    }

    /// One step from "initial", "before html" or "before head" towards the head, for a token that none of them takes.
    pub(super) fn step_towards_head(&mut self) {
        match self.mode {
            InsertionMode::Initial => {
                self.builder.quirks = QuirksMode::Quirks;
                self.mode = InsertionMode::BeforeHtml;
            }
            InsertionMode::BeforeHtml => self.create_root(Tag::bare(names::HTML)),
            _ => self.create_head(Tag::bare(names::HEAD)),
        }
    }

    pub(super) fn before_start(&mut self, tag: &mut Tag) -> Flow {
        match (self.mode, tag.name) {
            (InsertionMode::BeforeHtml, names::HTML) => self.create_root(*tag),
            (InsertionMode::BeforeHead, names::HTML) => return self.body_start(tag),
            (InsertionMode::BeforeHead, names::HEAD) => self.create_head(*tag),
            _ => {
                self.step_towards_head();
                return Flow::Again;
            }
        }
        Flow::Done
    }

    pub(super) fn before_end(&mut self, name: NameId) -> Flow {
        let acts = matches!(name, names::HEAD | names::BODY | names::HTML | names::BR);
        if self.mode == InsertionMode::Initial || acts {
            self.step_towards_head();
            return Flow::Again;
        }
        Flow::Done
    }

    pub(super) fn head_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::HTML => return self.body_start(tag),
            names::BASE | names::BASEFONT | names::BGSOUND | names::LINK | names::META => {
                self.insert_void(tag);
            }
            names::TITLE => self.insert_raw(tag, TextMode::Rcdata),
            names::NOFRAMES | names::STYLE => self.insert_raw(tag, TextMode::Rawtext),
            names::NOSCRIPT => {
                self.insert_html(tag);
                self.mode = InsertionMode::InHeadNoscript;
            }
            names::SCRIPT => self.insert_raw(tag, TextMode::Script),
            names::TEMPLATE => {
                self.insert_html(tag);
                self.push_marker();
                self.frameset_ok = false;
                self.mode = InsertionMode::InTemplate;
                self.template_modes.push(InsertionMode::InTemplate);
            }
            names::HEAD => {}
            _ => {
                self.leave_head();
                return Flow::Again;
            }
        }
        Flow::Done
    }

    pub(super) fn head_end(&mut self, name: NameId) -> Flow {
        match name {
            names::HEAD => self.leave_head(),
            names::BODY | names::HTML | names::BR => {
                self.leave_head();
                return Flow::Again;
            }
            names::TEMPLATE => return self.template_end(),
            _ => {}
        }
        Flow::Done
    }

    pub(super) fn head_noscript_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::HTML => self.body_start(tag),
            names::BASEFONT | names::BGSOUND | names::LINK | names::META | names::NOFRAMES | names::STYLE => {
                self.head_start(tag)
            }
            names::HEAD | names::NOSCRIPT => Flow::Done,
            _ => {
                self.leave_noscript();
                Flow::Again
            }
        }
    }

    pub(super) fn head_noscript_end(&mut self, name: NameId) -> Flow {
        match name {
            names::NOSCRIPT => self.leave_noscript(),
            names::BR => {
                self.leave_noscript();
                return Flow::Again;
            }
            _ => {}
        }
        Flow::Done
    }

    pub(super) fn after_head_start(&mut self, tag: &mut Tag) -> Flow {
        match tag.name {
            names::HTML => self.body_start(tag),
            names::BODY => {
                self.insert_html(tag);
                self.frameset_ok = false;
                self.mode = InsertionMode::InBody;
                Flow::Done
            }
            names::FRAMESET => {
                self.insert_html(tag);
                self.mode = InsertionMode::InFrameset;
                Flow::Done
            }
            name if tags::html(name) & tags::HEAD_PART != 0 => self.start_in_closed_head(tag),
            names::HEAD => Flow::Done,
            _ => {
                self.create_body();
                Flow::Again
            }
        }
    }

    /// A head element after `</head>` still goes into the head.
    fn start_in_closed_head(&mut self, tag: &mut Tag) -> Flow {
        let Some(head) = self.head else { return self.head_start(tag) };
        self.push(OpenElement::new(
            head,
            names::HEAD,
            Namespace::Html,
            tags::flags(names::HEAD, Namespace::Html),
        ));
        let flow = self.head_start(tag);
        if let Some(at) = self.position_open(head) {
            self.remove_open(at);
        }
        flow
    }

    pub(super) fn after_head_end(&mut self, name: NameId) -> Flow {
        match name {
            names::TEMPLATE => self.template_end(),
            names::BODY | names::HTML | names::BR => {
                self.create_body();
                Flow::Again
            }
            _ => Flow::Done,
        }
    }

    pub(super) fn template_end(&mut self) -> Flow {
        if self.has_template() {
            self.close_template();
        }
        Flow::Done
    }

    /// Closes the nearest open template (the caller knows that there is one).
    pub(super) fn close_template(&mut self) {
        self.pop_until(names::TEMPLATE);
        self.clear_to_marker();
        self.template_modes.pop();
        self.reset_mode();
    }

    /// "In template": the first tag decides what kind of content this is.
    pub(super) fn template_start(&mut self, tag: &mut Tag) -> Flow {
        let mode = match tag.name {
            name if tags::html(name) & tags::HEAD_PART != 0 => return self.head_start(tag),
            names::CAPTION | names::COLGROUP | names::TBODY | names::TFOOT | names::THEAD => {
                InsertionMode::InTable
            }
            names::COL => InsertionMode::InColumnGroup,
            names::TR => InsertionMode::InTableBody,
            names::TD | names::TH => InsertionMode::InRow,
            _ => InsertionMode::InBody,
        };
        self.template_modes.pop();
        self.template_modes.push(mode);
        self.mode = mode;
        Flow::Again
    }
}
