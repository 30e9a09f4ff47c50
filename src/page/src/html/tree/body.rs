//! "In body": start tags, and text in every mode.

use super::{Flow, InsertionMode, OPEN_SCAN_MAX, OpenElement, Parser, Tag, tags};
use crate::html::dom::names::{self, NameId};
use crate::html::dom::{Namespace, QuirksMode};
use crate::html::tokenizer::TextMode;

impl Parser<'_> {
    pub(super) fn body_start(&mut self, tag: &mut Tag) -> Flow {
        let flags = tags::html(tag.name);
        if flags & tags::BLOCK_START != 0 {
            self.close_p();
            self.insert_html(tag);
        } else if flags & tags::HEAD_PART != 0 {
            return self.head_start(tag);
        } else if flags & (tags::FORMATTING | tags::HEADING) != 0 {
            self.phrase_start(tag, flags);
        } else if flags & tags::TABLE_PART == 0 {
            self.other_start(tag);
        }
        Flow::Done
    }

    /// Headings and formatting elements.
    fn phrase_start(&mut self, tag: &Tag, flags: tags::Flags) {
        if flags & tags::HEADING != 0 {
            self.close_p();
            if self.top().flags & tags::HEADING != 0 {
                self.pop();
            }
            self.insert_html(tag);
            return;
        }
        if tag.name == names::A {
            self.close_active(names::A);
        }
        self.reconstruct();
        if tag.name == names::NOBR && self.in_scope_counted(names::NOBR, tags::SCOPE) {
            self.adopt(names::NOBR);
            self.reconstruct();
        }
        self.insert_formatting(tag);
    }

    fn other_start(&mut self, tag: &mut Tag) {
        match tag.name {
            names::SPAN => self.ordinary_start(tag),
            names::LI => self.item_start(tag, &[names::LI]),
            names::DD | names::DT => self.item_start(tag, &[names::DD, names::DT]),
            names::IMG | names::BR | names::AREA | names::EMBED | names::KEYGEN | names::WBR => {
                self.void_start(tag);
            }
            names::IMAGE => {
                tag.name = names::IMG;
                self.void_start(tag);
            }
            names::PARAM | names::SOURCE | names::TRACK => {
                self.insert_void(tag);
            }
            names::INPUT | names::SELECT | names::OPTION | names::OPTGROUP | names::HR => {
                self.control_start(tag);
            }
            names::FORM => self.form_start(tag),
            names::TABLE => {
                if self.builder.quirks != QuirksMode::Quirks {
                    self.close_p();
                }
                self.insert_html(tag);
                self.frameset_ok = false;
                self.mode = InsertionMode::InTable;
            }
            names::SVG => self.foreign_root(tag, Namespace::Svg),
            names::MATH => self.foreign_root(tag, Namespace::MathMl),
            names::HTML | names::BODY | names::FRAMESET => self.document_start(tag),
            names::HEAD | names::FRAME => {}
            names::RB | names::RTC | names::RP | names::RT => self.ruby_start(tag),
            _ => self.rarer_start(tag),
        }
    }

    fn rarer_start(&mut self, tag: &Tag) {
        match tag.name {
            names::PRE | names::LISTING => {
                self.close_p();
                self.insert_html(tag);
                self.ignore_line_feed = true;
                self.frameset_ok = false;
            }
            names::BUTTON => {
                if self.in_scope_counted(names::BUTTON, tags::SCOPE) {
                    self.close_implied(NameId::NONE);
                    self.pop_until(names::BUTTON);
                }
                self.ordinary_start(tag);
                self.frameset_ok = false;
            }
            names::TEXTAREA => {
                self.insert_raw(tag, TextMode::Rcdata);
                self.ignore_line_feed = true;
                self.frameset_ok = false;
            }
            names::IFRAME => {
                self.frameset_ok = false;
                self.insert_raw(tag, TextMode::Rawtext);
            }
            names::NOEMBED => self.insert_raw(tag, TextMode::Rawtext),
            names::XMP => {
                self.close_p();
                self.reconstruct();
                self.frameset_ok = false;
                self.insert_raw(tag, TextMode::Rawtext);
            }
            names::PLAINTEXT => {
                self.close_p();
                self.insert_html(tag);
                self.raw = TextMode::Plaintext;
            }
            names::APPLET | names::MARQUEE | names::OBJECT => {
                self.ordinary_start(tag);
                self.push_marker();
                self.frameset_ok = false;
            }
            _ => self.ordinary_start(tag),
        }
    }

    fn ordinary_start(&mut self, tag: &Tag) {
        self.reconstruct();
        self.insert_html(tag);
    }

    fn void_start(&mut self, tag: &Tag) {
        self.reconstruct();
        self.insert_void(tag);
        self.frameset_ok = false;
    }

    fn foreign_root(&mut self, tag: &mut Tag, namespace: Namespace) {
        self.reconstruct();
        self.insert_foreign(tag, namespace);
    }

    /// A further `<html>`, `<body>` or `<frameset>`.
    fn document_start(&mut self, tag: &Tag) {
        let body = self.stack.get(1).copied().filter(|open| open.is(names::BODY));
        match tag.name {
            names::HTML if !self.has_template() => self.merge_attributes(0, tag),
            names::BODY if body.is_some() && !self.has_template() => {
                self.frameset_ok = false;
                self.merge_attributes(1, tag);
            }
            names::FRAMESET if self.frameset_ok => {
                let Some(body) = body else { return };
                self.builder.detach(body.row);
                self.truncate_stack(1);
                self.insert_html(tag);
                self.mode = InsertionMode::InFrameset;
            }
            _ => {}
        }
    }

    /// `<li>`, `<dd>` and `<dt>` close the item before them.
    fn item_start(&mut self, tag: &Tag, closes: &[NameId]) {
        self.frameset_ok = false;
        let length = self.stack.len();
        for at in (length.saturating_sub(OPEN_SCAN_MAX)..length).rev() {
            let open = self.stack[at];
            if closes.contains(&open.html_name()) {
                self.close_implied(open.html_name());
                self.truncate_stack(at);
                break;
            }
            let passes = matches!(open.html_name(), names::ADDRESS | names::DIV | names::P);
            if open.flags & tags::SPECIAL != 0 && !passes {
                break;
            }
        }
        self.close_p();
        self.insert_html(tag);
    }

    fn form_start(&mut self, tag: &Tag) {
        let in_template = self.has_template();
        if self.form.is_some() && !in_template {
            return;
        }
        self.close_p();
        let row = self.insert_html(tag);
        if !in_template {
            self.form = Some(row);
        }
    }

    /// Select and what stands in it, by the rules since selects may hold any content.
    fn control_start(&mut self, tag: &Tag) {
        let in_select = self.in_scope_counted(names::SELECT, tags::SCOPE);
        let select_is_context = self.context.is_some_and(|context| context.is(names::SELECT));
        match tag.name {
            names::INPUT => {
                if select_is_context {
                    return;
                }
                if in_select {
                    self.pop_until(names::SELECT);
                }
                let kind = self.attribute_text(tag, names::TYPE);
                let hidden = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("hidden"));
                let frameset_ok = self.frameset_ok;
                self.void_start(tag);
                self.frameset_ok = frameset_ok && hidden;
            }
            names::SELECT if select_is_context => {}
            names::SELECT if in_select => self.pop_until(names::SELECT),
            names::SELECT => {
                self.ordinary_start(tag);
                self.frameset_ok = false;
            }
            names::HR => {
                self.close_p();
                if in_select {
                    self.close_implied(NameId::NONE);
                }
                self.insert_void(tag);
                self.frameset_ok = false;
            }
            _ => {
                if in_select {
                    let keep = if tag.name == names::OPTION { names::OPTGROUP } else { NameId::NONE };
                    self.close_implied(keep);
                } else if self.top().is(names::OPTION) {
                    self.pop();
                }
                self.ordinary_start(tag);
            }
        }
    }

    fn ruby_start(&mut self, tag: &Tag) {
        if self.in_scope_counted(names::RUBY, tags::SCOPE) {
            let keep = if matches!(tag.name, names::RP | names::RT) { names::RTC } else { NameId::NONE };
            self.close_implied(keep);
        }
        self.insert_html(tag);
    }
}

/// Text.
impl Parser<'_> {
    /// Characters from the data state or a CDATA section; NULs are told apart here.
    #[inline]
    pub(in crate::html) fn characters(&mut self, start: u32, end: u32) {
        if !self.has_nul {
            return self.text(start, end, false);
        }
        let mut from = start;
        while from < end {
            let rest = self.builder.text(self.source, from, end).as_bytes();
            match memchr::memchr(0, rest) {
                Some(0) => {
                    self.text(from, from, true);
                    from += 1;
                }
                Some(length) => {
                    self.text(from, from + length as u32, false);
                    from += length as u32;
                }
                None => {
                    self.text(from, end, false);
                    return;
                }
            }
        }
    }

    /// Text without NULs, or (`nul`, with an empty range) one NUL.
    pub(in crate::html) fn text(&mut self, mut start: u32, end: u32, nul: bool) {
        if self.ignore_line_feed {
            self.ignore_line_feed = false;
            if self.builder.text(self.source, start, end).starts_with('\n') {
                start += 1;
            }
        }
        if start == end && !nul {
            return;
        }
        if self.is_foreign_for_text() {
            return self.foreign_text(start, end, nul);
        }
        while let Some(rest) = self.text_by_mode(start, end, nul) {
            start = rest;
        }
    }

    /// Deals with text in the current mode; gives the start of what must be dealt with in the mode that is current then.
    fn text_by_mode(&mut self, start: u32, end: u32, nul: bool) -> Option<u32> {
        match self.mode {
            InsertionMode::InBody
            | InsertionMode::InCell
            | InsertionMode::InCaption
            | InsertionMode::InTemplate => {
                self.body_text(start, end);
                None
            }
            InsertionMode::Text => {
                self.insert_text(start, end);
                None
            }
            InsertionMode::InTable | InsertionMode::InTableBody | InsertionMode::InRow => {
                self.table_text(start, end);
                None
            }
            InsertionMode::InFrameset | InsertionMode::AfterFrameset | InsertionMode::AfterAfterFrameset => {
                self.white_space_only(start, end);
                None
            }
            _ => {
                let text = self.builder.text(self.source, start, end);
                let spaces = text.bytes().take_while(|byte| is_white_space(*byte)).count() as u32;
                let rest = start + spaces;
                if spaces > 0 {
                    self.leading_white_space(start, rest);
                }
                if rest == end && !nul { None } else { self.visible_text_begins(rest, end) }
            }
        }
    }

    #[inline]
    pub(super) fn body_text(&mut self, start: u32, end: u32) {
        if start == end {
            return;
        }
        self.reconstruct();
        self.insert_text(start, end);
        if self.frameset_ok && !self.is_white(start, end) {
            self.frameset_ok = false;
        }
    }

    pub(super) fn is_white(&self, start: u32, end: u32) -> bool {
        self.builder.text(self.source, start, end).bytes().all(is_white_space)
    }

    /// White space before the first visible character, in the modes that treat the two differently.
    fn leading_white_space(&mut self, start: u32, end: u32) {
        match self.mode {
            InsertionMode::Initial | InsertionMode::BeforeHtml | InsertionMode::BeforeHead => {}
            InsertionMode::AfterBody | InsertionMode::AfterAfterBody => self.body_text(start, end),
            _ => self.insert_text(start, end),
        }
    }

    /// The first visible character changes the mode; gives where the rest starts, or `None` where it is dropped.
    fn visible_text_begins(&mut self, rest: u32, end: u32) -> Option<u32> {
        match self.mode {
            InsertionMode::Initial | InsertionMode::BeforeHtml | InsertionMode::BeforeHead => {
                self.step_towards_head()
            }
            InsertionMode::InHead => self.leave_head(),
            InsertionMode::InHeadNoscript => self.leave_noscript(),
            InsertionMode::AfterHead => self.create_body(),
            InsertionMode::InColumnGroup if !self.top().is(names::COLGROUP) => {
                self.white_space_only(rest, end);
                return None;
            }
            InsertionMode::InColumnGroup => {
                self.pop();
                self.mode = InsertionMode::InTable;
            }
            _ => self.mode = InsertionMode::InBody,
        }
        Some(rest)
    }

    /// Frameset modes keep white space and drop everything else.
    fn white_space_only(&mut self, start: u32, end: u32) {
        let text = self.builder.text(self.source, start, end).as_bytes();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (at, byte) in text.iter().enumerate() {
            let at = start + at as u32;
            if !is_white_space(*byte) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.1 == at => run.1 += 1,
                _ => runs.push((at, at + 1)),
            }
        }
        for (start, end) in runs {
            // After everything, white space follows the rules of the body.
            if self.mode == InsertionMode::AfterAfterFrameset {
                self.reconstruct();
            }
            self.insert_text(start, end);
        }
    }

    /// True where text does not follow the HTML rules.
    #[inline]
    fn is_foreign_for_text(&self) -> bool {
        self.is_foreign()
            && self.adjusted_top().is_some_and(|open: OpenElement| {
                open.flags & (tags::HTML_INTEGRATION | tags::TEXT_INTEGRATION) == 0
            })
    }
}

#[inline]
pub(super) fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\x0C' | b'\r')
}
