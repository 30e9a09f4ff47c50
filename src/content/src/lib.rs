//! The main content of a page: what a reader came for, without navigation, comments, notices and what else stands beside it,
//! as Markdown or plain text.
//!
//! Bytes in memory and nothing else: no runtime, no store, no network. The same page gives the same bytes, in time linear
//! in its length, and no more of them than the caller allows. How content is told from the rest is in [`select`].

mod about;
mod cut;
pub mod diff;
mod escape;
mod grid;
mod hints;
mod html;
mod layout;
mod links;
mod markdown;
pub mod select;
mod sums;
mod tables;
mod text;
mod walk;

use page::html::Document;
use url::Url;

use layout::Layout;
use links::Links;
use select::Selection;

/// Bytes of content that are written, unless the caller says otherwise.
pub const CONTENT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes that the last text and the ends of open elements may take beyond a limit.
const CLOSING_BYTES: usize = 4_096;

/// A page whose content is known, ready to be written in any form.
#[derive(Debug)]
pub struct Content<'a> {
    document: &'a Document,
    links: Links,
    layout: Layout,
    selection: Selection,
    title: Option<String>,
}

/// Content in some form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    pub text: String,
    /// True if there was more of it than the caller allowed.
    pub is_truncated: bool,
}

impl<'a> Content<'a> {
    /// Finds the content of a page; `url` is the address it was fetched from.
    pub fn of(document: &'a Document, url: Option<&Url>) -> Content<'a> {
        let layout = layout::lay_out(document);
        let title = about::title(document);
        let mut selection = select::select(document, &layout);
        if let Some(title) = &title {
            selection.drop_title(document, &layout, title);
        }
        Content { document, links: Links::new(document, url), layout, selection, title }
    }

    /// The title of the content, on one line. It is not repeated in the content.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The language that the page declares (BCP 47).
    pub fn language(&self) -> Option<String> {
        about::language(self.document)
    }

    /// CommonMark with GitHub's tables, of at most about `bytes_max` bytes.
    pub fn markdown(&self, bytes_max: usize) -> Written {
        let mut writer = markdown::Markdown::new(bytes_max);
        let is_whole = self.write(&mut writer);
        cut(writer.finish(), bytes_max, is_whole)
    }

    /// Plain text, of at most about `bytes_max` bytes.
    pub fn text(&self, bytes_max: usize) -> Written {
        let mut writer = text::Text::new(bytes_max);
        let is_whole = self.write(&mut writer);
        cut(writer.finish(), bytes_max, is_whole)
    }

    /// HTML of a few plain elements, of at most about `bytes_max` bytes; what is open at the limit is closed.
    pub fn html(&self, bytes_max: usize) -> Written {
        let mut writer = html::Html::new(bytes_max.saturating_sub(CLOSING_BYTES));
        let is_whole = self.write(&mut writer);
        let (text, is_cut) = writer.finish();
        Written { text, is_truncated: is_cut || !is_whole }
    }

    fn write(&self, writer: &mut impl walk::Writer) -> bool {
        walk::walk(self.document, &self.layout, &self.selection, self.links.clone(), writer)
    }
}

/// What ends marks and tables may have gone a little over the limit.
fn cut(mut text: String, bytes_max: usize, is_whole: bool) -> Written {
    let is_truncated = !is_whole || text.len() > bytes_max;
    text.truncate(text.floor_char_boundary(bytes_max));
    Written { text, is_truncated }
}

#[cfg(test)]
mod tests;
