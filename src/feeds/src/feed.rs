//! RSS in all its versions, and Atom.
//!
//! One reader for both families: what differs is which element says what. An entry's address is, in this order: what
//! FeedBurner or Pheedo put aside when they counted clicks, its `link`, an `alternate` link of Atom, a `guid` that is a permanent
//! link, `rdf:about`, the source of its content.

use base::web::WebUrl;

use crate::draft::{Capture, Draft, Gathered};
use crate::names::{Namespace, absolute, collapsed, plain};
use crate::xml::{Event, Reader, Tag};
use crate::{Document, Format, Limits};

/// What the text of an element is for. Numbers are ranks.
#[derive(Debug, Clone, Copy)]
enum Field {
    FeedTitle(u8, Markup),
    Link(u8),
    Guid { is_link: bool },
    Id(u8),
    Title(u8, Markup),
    Published(u8),
    Updated(u8),
    Category,
}

/// Whether text holds markup as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Markup {
    Plain,
    Html,
}

/// Ranks of addresses.
const ORIGINAL: u8 = 0;
const LINK: u8 = 1;
const ALTERNATE: u8 = 2;
const ALTERNATE_OF_OTHER_TYPE: u8 = 3;
const GUID: u8 = 4;
const ABOUT: u8 = 5;
const CONTENT: u8 = 6;

/// Which feed a root begins, if any.
pub(crate) fn format_of(root: &Tag) -> Option<Format> {
    match root.local().to_ascii_lowercase().as_str() {
        "rss" => Some(match root.attribute("version").map(str::trim) {
            Some("0.90") => Format::Rss090,
            Some("0.91") => Format::Rss091,
            Some("0.92" | "0.93" | "0.94") => Format::Rss092,
            Some("1.0") => Format::Rss10,
            _ => Format::Rss20,
        }),
        "rdf" if root.namespace() == Namespace::Rdf => {
            let is_old = root.attribute("xmlns").map(Namespace::of) == Some(Namespace::Rss090);
            Some(if is_old { Format::Rss090 } else { Format::Rss10 })
        }
        "channel" if root.namespace() == Namespace::Rss20 => Some(Format::Rss11),
        "feed" | "entry" => match root.namespace() {
            Namespace::Atom03 => Some(Format::Atom03),
            Namespace::Atom10 => Some(Format::Atom10),
            Namespace::None if root.attribute("version") == Some("0.3") => Some(Format::Atom03),
            Namespace::None if root.local() == "feed" => Some(Format::Atom10),
            _ => None,
        },
        _ => None,
    }
}

/// Reads the rest of a document whose root was just started.
pub(crate) fn read(mut reader: Reader<'_>, format: Format, limits: &Limits) -> Document {
    let mut feed = Feed {
        root: reader.tag().namespace(),
        is_atom: matches!(format, Format::Atom03 | Format::Atom10),
        gathered: Gathered::new(format, limits),
        entry: None,
        capture: None,
    };
    // The root may be the one entry of its document (RFC 4287, section 2).
    feed.start(&mut reader);
    loop {
        match reader.next() {
            Event::Start if feed.capture.is_some() => {}
            Event::Start => feed.start(&mut reader),
            Event::Text => {
                if let Some(capture) = &mut feed.capture {
                    capture.push(reader.text(), limits);
                }
            }
            Event::End => feed.end(&mut reader),
            Event::Done => return feed.gathered.finish(reader.finish().0),
        }
    }
}

struct Feed {
    root: Namespace,
    is_atom: bool,
    gathered: Gathered,
    /// The entry that is being read, with the depth of its element.
    entry: Option<(usize, Draft)>,
    capture: Option<Capture<Field>>,
}

impl Feed {
    fn start(&mut self, reader: &mut Reader<'_>) {
        let depth = reader.depth();
        if self.is_entry(reader) {
            let mut draft = Draft::new(reader.place());
            if let Some(about) = reader.tag().attribute_of_any("about").filter(|_| !self.is_atom) {
                draft.id(1, about);
                draft.link(ABOUT, about, reader.base(), reader.place());
            }
            // Still open: the one before was not closed.
            if let Some((_, unclosed)) = self.entry.replace((depth, draft)) {
                self.gathered.take(unclosed, &mut reader.notes);
            }
            return;
        }
        let field = match &self.entry {
            Some((at, _)) if at + 1 == depth => self.field_of_entry(reader),
            None if self.is_channel(reader) => self.field_of_feed(reader),
            _ => None,
        };
        self.capture = field.map(|field| Capture::new(field, depth, reader.place()));
    }

    fn end(&mut self, reader: &mut Reader<'_>) {
        let depth = reader.depth();
        if let Some(capture) = self.capture.take_if(|capture| capture.depth == depth) {
            self.set(&capture, reader);
        }
        if let Some((_, draft)) = self.entry.take_if(|(at, _)| *at == depth) {
            self.gathered.take(draft, &mut reader.notes);
        }
    }

    /// Whether a namespace is the feed's own.
    fn is_core(&self, namespace: Namespace) -> bool {
        namespace == self.root && namespace != Namespace::Rdf
            || match namespace {
                Namespace::None | Namespace::Rss090 | Namespace::Rss10 | Namespace::Rss20 => !self.is_atom,
                Namespace::Atom03 | Namespace::Atom10 => self.is_atom,
                _ => false,
            }
    }

    fn is_entry(&self, reader: &Reader<'_>) -> bool {
        let name = if self.is_atom { "entry" } else { "item" };
        let tag = reader.tag();
        if !self.is_core(tag.namespace()) || !tag.local().eq_ignore_ascii_case(name) {
            return false;
        }
        let is_inside = match reader.parent() {
            None => self.is_atom,
            Some((parent, _)) => ["channel", "rss", "rdf", "feed", "items", name]
                .iter()
                .any(|own| parent.eq_ignore_ascii_case(own)),
        };
        // Deeper in an entry it is somebody's content.
        is_inside && self.entry.as_ref().is_none_or(|(at, _)| at + 1 == reader.depth())
    }

    /// Whether the element stands right in what describes the feed.
    fn is_channel(&self, reader: &Reader<'_>) -> bool {
        let name = if self.is_atom { "feed" } else { "channel" };
        reader
            .parent()
            .is_some_and(|(parent, namespace)| parent.eq_ignore_ascii_case(name) && self.is_core(namespace))
    }

    fn field_of_feed(&mut self, reader: &Reader<'_>) -> Option<Field> {
        let tag = reader.tag();
        match (tag.namespace(), tag.local().to_ascii_lowercase().as_str()) {
            (namespace, "title") if self.is_core(namespace) => Some(Field::FeedTitle(0, self.markup(tag))),
            (Namespace::DublinCore, "title") => Some(Field::FeedTitle(1, Markup::Plain)),
            (namespace, "link") if namespace.is_atom() || (self.is_atom && self.is_core(namespace)) => {
                let url = reader.base().join(tag.attribute("href")?).ok()?;
                let document = &mut self.gathered.document;
                let held = match relation(tag) {
                    "next" => &mut document.next,
                    "first" => &mut document.first,
                    "prev-archive" => &mut document.previous_archive,
                    _ => return None,
                };
                held.get_or_insert(url);
                None
            }
            _ => None,
        }
    }

    /// What an element right in an entry says; links in attributes are taken at once.
    fn field_of_entry(&mut self, reader: &Reader<'_>) -> Option<Field> {
        let tag = reader.tag();
        let name = tag.local().to_ascii_lowercase();
        match tag.namespace() {
            namespace if self.is_core(namespace) && self.is_atom => self.atom(&name, reader),
            namespace if self.is_core(namespace) => self.rss(&name, reader),
            Namespace::Atom03 | Namespace::Atom10 => match name.as_str() {
                "link" => self.atom(&name, reader),
                "id" => Some(Field::Id(2)),
                "title" => Some(Field::Title(2, self.markup(tag))),
                "published" => Some(Field::Published(2)),
                "updated" => Some(Field::Updated(0)),
                _ => None,
            },
            Namespace::DublinCore => match name.as_str() {
                "title" => Some(Field::Title(1, Markup::Plain)),
                "date" => Some(Field::Published(1)),
                "subject" => Some(Field::Category),
                _ => None,
            },
            Namespace::DublinTerms => match name.as_str() {
                "issued" => Some(Field::Published(3)),
                "created" => Some(Field::Published(4)),
                "modified" => Some(Field::Updated(1)),
                _ => None,
            },
            Namespace::FeedBurner | Namespace::Pheedo if name == "origlink" => Some(Field::Link(ORIGINAL)),
            _ => None,
        }
    }

    fn rss(&mut self, name: &str, reader: &Reader<'_>) -> Option<Field> {
        let tag = reader.tag();
        match name {
            "title" => Some(Field::Title(0, Markup::Html)),
            "link" => {
                // As in Atom, where somebody mixed the two up.
                if let Some(href) = tag.attribute("href").filter(|_| relation(tag) == "alternate") {
                    self.link(ALTERNATE, href, reader);
                }
                Some(Field::Link(LINK))
            }
            "guid" => {
                let told = tag.attribute_of_any("isPermaLink");
                Some(Field::Guid {
                    is_link: !told.is_some_and(|told| told.trim().eq_ignore_ascii_case("false")),
                })
            }
            "pubdate" => Some(Field::Published(0)),
            "category" => Some(Field::Category),
            // Atom's, without its namespace.
            "id" => Some(Field::Id(2)),
            "published" => Some(Field::Published(2)),
            "updated" => Some(Field::Updated(2)),
            _ => None,
        }
    }

    fn atom(&mut self, name: &str, reader: &Reader<'_>) -> Option<Field> {
        let tag = reader.tag();
        match name {
            "title" => Some(Field::Title(0, self.markup(tag))),
            "link" => {
                let is_page =
                    tag.attribute("type").is_none_or(|kind| kind.to_ascii_lowercase().contains("html"));
                let rank = match (self.is_atom, is_page) {
                    (_, false) => ALTERNATE_OF_OTHER_TYPE,
                    (true, true) => LINK,
                    (false, true) => ALTERNATE,
                };
                if relation(tag) != "alternate" {
                    return None;
                }
                // Without an address it may hold one as its text, as in RSS.
                let Some(href) = tag.attribute("href") else { return Some(Field::Link(rank)) };
                self.link(rank, href, reader);
                None
            }
            "id" => Some(Field::Id(0)),
            "published" | "issued" => Some(Field::Published(0)),
            "created" => Some(Field::Published(4)),
            "updated" | "modified" => Some(Field::Updated(0)),
            "category" => {
                let text = tag.attribute("term").or_else(|| tag.attribute("label")).map(collapsed);
                let limits = &self.gathered.limits;
                if let Some((_, draft)) = &mut self.entry {
                    draft.category(text.filter(|text| !text.is_empty()), limits);
                }
                None
            }
            "content" => {
                if let Some(source) = tag.attribute("src") {
                    self.link(CONTENT, source, reader);
                }
                None
            }
            _ => None,
        }
    }

    /// Whether the text of this element is HTML written as text.
    fn markup(&self, tag: &Tag) -> Markup {
        if !self.is_atom && !tag.namespace().is_atom() {
            return Markup::Html;
        }
        let kind = tag.attribute("type").unwrap_or_default().to_ascii_lowercase();
        // Atom 0.3 says beside the type how it is written; unless it says so, markup stands as elements.
        let is_escaped = tag.namespace() != Namespace::Atom03 || tag.attribute("mode") == Some("escaped");
        if matches!(kind.as_str(), "html" | "text/html") && is_escaped { Markup::Html } else { Markup::Plain }
    }

    fn link(&mut self, rank: u8, text: &str, reader: &Reader<'_>) {
        if let Some((_, draft)) = &mut self.entry {
            draft.link(rank, text, reader.base(), reader.place());
        }
    }

    /// Takes the text of an element that has ended.
    fn set(&mut self, capture: &Capture<Field>, reader: &mut Reader<'_>) {
        let (text, place) = (capture.text.as_str(), capture.place);
        if let Field::FeedTitle(rank, markup) = capture.field {
            self.gathered.title(rank, plain(text, markup == Markup::Html));
            return;
        }
        let Some((_, draft)) = &mut self.entry else { return };
        match capture.field {
            Field::FeedTitle(..) => {}
            Field::Link(rank) => draft.link(rank, text, reader.base(), place),
            Field::Guid { is_link } => {
                draft.id(0, text);
                if let Some(url) = permanent(text, is_link) {
                    draft.url(GUID, url);
                }
            }
            Field::Id(rank) => draft.id(rank, text),
            Field::Title(rank, markup) => draft.title(rank, plain(text, markup == Markup::Html)),
            Field::Published(rank) => draft.published(rank, text, place, &mut reader.notes),
            Field::Updated(rank) => draft.updated(rank, text, place, &mut reader.notes),
            Field::Category => draft.category(plain(text, !self.is_atom), &self.gathered.limits),
        }
    }
}

/// A `guid` that is a permanent link, which it is unless it says otherwise; many are neither, and say nothing.
fn permanent(guid: &str, is_link: bool) -> Option<WebUrl> {
    if is_link { absolute(guid) } else { None }
}

/// The relation of a link; IANA's may be written as addresses (RFC 4287, section 4.2.7.2).
fn relation(tag: &Tag) -> &str {
    let relation = tag.attribute("rel").unwrap_or("alternate").trim();
    relation.strip_prefix("http://www.iana.org/assignments/relation/").unwrap_or(relation)
}
