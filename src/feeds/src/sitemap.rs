//! Sitemaps: URL sets, indexes, and lists of addresses as plain text (sitemaps.org/protocol.html).
//!
//! Of an entry its address and `lastmod` are read; `changefreq` and `priority` are what their authors wish, and images, videos
//! and news have addresses of their own that are no pages. Elements count by the namespace of the root, because every second
//! program writes another one.

use base::web::WebUrl;

use crate::draft::{Capture, Draft, Gathered};
use crate::input::Input;
use crate::names::Namespace;
use crate::notes::{Notes, Problem, shown};
use crate::xml::{Event, Reader};
use crate::{Document, FeedError, Format, Limits};

#[derive(Debug, Clone, Copy)]
enum Field {
    Loc,
    LastMod,
}

/// Reads the rest of a document whose root was just started.
pub(crate) fn read(mut reader: Reader<'_>, format: Format, limits: &Limits) -> Document {
    let root = reader.tag().namespace();
    let name = if format == Format::SitemapIndex { "sitemap" } else { "url" };
    let mut gathered = Gathered::new(format, limits);
    let mut entry: Option<(usize, Draft)> = None;
    let mut capture: Option<Capture<Field>> = None;
    loop {
        match reader.next() {
            Event::Start if capture.is_some() => {}
            Event::Start => {
                let tag = reader.tag();
                let is_own = matches!(tag.namespace(), Namespace::None | Namespace::Sitemap)
                    || tag.namespace() == root;
                // Before the last one was closed: a sitemap has nothing of this name deeper down.
                if is_own && tag.local().eq_ignore_ascii_case(name) {
                    if let Some((_, draft)) = entry.replace((reader.depth(), Draft::new(reader.place()))) {
                        gathered.take(draft, &mut reader.notes);
                    }
                } else if is_own && entry.as_ref().is_some_and(|(depth, _)| depth + 1 == reader.depth()) {
                    let field = field_of(tag.local());
                    capture = field.map(|field| Capture::new(field, reader.depth(), reader.place()));
                }
            }
            Event::Text => {
                if let Some(capture) = &mut capture {
                    capture.push(reader.text(), limits);
                }
            }
            Event::End => {
                let depth = reader.depth();
                if let Some(ended) = capture.take_if(|capture| capture.depth == depth)
                    && let Some((_, draft)) = &mut entry
                {
                    set(draft, &ended, &mut reader);
                }
                if let Some((_, draft)) = entry.take_if(|(at, _)| *at == depth) {
                    gathered.take(draft, &mut reader.notes);
                }
            }
            Event::Done => return gathered.finish(reader.finish().0),
        }
    }
}

fn field_of(local: &str) -> Option<Field> {
    if local.eq_ignore_ascii_case("loc") {
        Some(Field::Loc)
    } else if local.eq_ignore_ascii_case("lastmod") {
        Some(Field::LastMod)
    } else {
        None
    }
}

fn set(draft: &mut Draft, ended: &Capture<Field>, reader: &mut Reader<'_>) {
    match ended.field {
        Field::Loc => draft.link(0, &ended.text, reader.base(), ended.place),
        Field::LastMod => draft.updated(0, &ended.text, ended.place, &mut reader.notes),
    }
}

/// A text sitemap: an address a line, in full.
pub(crate) fn read_text(
    mut input: Input<'_>,
    limits: &Limits,
    mut notes: Notes,
) -> Result<Document, FeedError> {
    let mut gathered = Gathered::new(Format::TextSitemap, limits);
    let mut line = String::new();
    while input.peek().is_some() {
        let place = input.place();
        line.clear();
        input.take_until(|byte| byte == b'\n' || byte == b'\r', &mut line, limits.text_bytes);
        if input.peek().is_some() {
            input.advance(1);
        }
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        match WebUrl::parse(text) {
            Ok(url) => {
                let mut draft = Draft::new(place);
                draft.url(0, url);
                gathered.take(draft, &mut notes);
            }
            Err(reason) => {
                gathered.document.refused += 1;
                notes.add(place, Problem::BadUrl { text: shown(text), reason });
            }
        }
    }
    input.settle(&mut notes);
    Ok(gathered.finish(notes))
}
