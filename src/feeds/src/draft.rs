//! What is gathered of an entry while it is read, and what of a document.
//!
//! Feeds say the same thing in several ways. Each way has a rank, and the best rank that could be read holds, wherever in the
//! entry it stands.

use base::web::WebUrl;

use crate::dates::Date;
use crate::notes::{Notes, Place, Problem, push_bounded, shown};
use crate::{Document, Entry, Format, Limits};

/// A value with its rank: 0 is the best.
type Ranked<T> = Option<(u8, T)>;

fn offer<T>(held: &mut Ranked<T>, rank: u8, value: T) {
    if held.as_ref().is_none_or(|(own, _)| rank < *own) {
        *held = Some((rank, value));
    }
}

fn held<T>(ranked: Ranked<T>) -> Option<T> {
    ranked.map(|(_, value)| value)
}

/// An entry that is being read.
#[derive(Debug)]
pub(crate) struct Draft {
    place: Place,
    url: Ranked<WebUrl>,
    /// The first address that was none.
    bad_url: Option<(Place, Problem)>,
    id: Ranked<String>,
    title: Ranked<String>,
    published: Ranked<Date>,
    updated: Ranked<Date>,
    categories: Vec<String>,
}

impl Draft {
    pub(crate) fn new(place: Place) -> Draft {
        Draft {
            place,
            url: None,
            bad_url: None,
            id: None,
            title: None,
            published: None,
            updated: None,
            categories: Vec::new(),
        }
    }

    /// An address as it is written, relative to `base` or not.
    pub(crate) fn link(&mut self, rank: u8, text: &str, base: &WebUrl, place: Place) {
        if text.trim().is_empty() {
            return;
        }
        match base.join(text) {
            Ok(url) => self.url(rank, url),
            Err(reason) => {
                let problem = Problem::BadUrl { text: shown(text.trim()), reason };
                self.bad_url.get_or_insert((place, problem));
            }
        }
    }

    pub(crate) fn url(&mut self, rank: u8, url: WebUrl) {
        offer(&mut self.url, rank, url);
    }

    pub(crate) fn id(&mut self, rank: u8, id: &str) {
        let id = id.trim();
        if !id.is_empty() {
            offer(&mut self.id, rank, id.to_owned());
        }
    }

    pub(crate) fn title(&mut self, rank: u8, title: Option<String>) {
        if let Some(title) = title {
            offer(&mut self.title, rank, title);
        }
    }

    pub(crate) fn published(&mut self, rank: u8, text: &str, place: Place, notes: &mut Notes) {
        if let Some(date) = date(text, place, notes) {
            offer(&mut self.published, rank, date);
        }
    }

    pub(crate) fn updated(&mut self, rank: u8, text: &str, place: Place, notes: &mut Notes) {
        if let Some(date) = date(text, place, notes) {
            offer(&mut self.updated, rank, date);
        }
    }

    pub(crate) fn category(&mut self, text: Option<String>, limits: &Limits) {
        if let Some(text) = text.filter(|text| !self.categories.contains(text))
            && self.categories.len() < limits.categories
        {
            self.categories.push(text);
        }
    }
}

fn date(text: &str, place: Place, notes: &mut Notes) -> Option<Date> {
    let found = Date::parse(text);
    if found.is_none() && !text.trim().is_empty() {
        notes.add(place, Problem::BadDate { text: shown(text.trim()) });
    }
    found
}

/// A document that is being read.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) document: Document,
    pub(crate) limits: Limits,
    title: Ranked<String>,
}

impl Gathered {
    pub(crate) fn new(format: Format, limits: &Limits) -> Gathered {
        let document = Document {
            format,
            title: None,
            entries: Vec::new(),
            refused: 0,
            truncated: 0,
            next: None,
            first: None,
            previous_archive: None,
            complete: true,
            notes: Vec::new(),
            notes_left_out: 0,
        };
        Gathered { document, limits: limits.clone(), title: None }
    }

    /// An entry that was read to its end.
    pub(crate) fn take(&mut self, draft: Draft, notes: &mut Notes) {
        let Some(url) = held(draft.url) else {
            let (place, problem) = draft.bad_url.unwrap_or((draft.place, Problem::NoUrl));
            notes.add(place, problem);
            self.document.refused += 1;
            return;
        };
        if self.document.entries.len() >= self.limits.entries {
            self.document.truncated += 1;
            return;
        }
        self.document.entries.push(Entry {
            url,
            id: held(draft.id),
            title: held(draft.title),
            published: held(draft.published),
            updated: held(draft.updated),
            categories: draft.categories,
        });
    }

    /// The feed's own title.
    pub(crate) fn title(&mut self, rank: u8, title: Option<String>) {
        if let Some(title) = title {
            offer(&mut self.title, rank, title);
        }
    }

    pub(crate) fn finish(mut self, notes: Notes) -> Document {
        self.document.title = held(self.title);
        self.document.complete = notes.first_break().is_none();
        self.document.notes = notes.list;
        self.document.notes.sort_by_key(|note| (note.line, note.column));
        self.document.notes_left_out = notes.left_out;
        self.document
    }
}

/// The text of an element that is being read.
#[derive(Debug)]
pub(crate) struct Capture<F> {
    /// What the text is for.
    pub(crate) field: F,
    /// The element's depth.
    pub(crate) depth: usize,
    pub(crate) place: Place,
    pub(crate) text: String,
}

impl<F> Capture<F> {
    pub(crate) fn new(field: F, depth: usize, place: Place) -> Capture<F> {
        Capture { field, depth, place, text: String::new() }
    }

    pub(crate) fn push(&mut self, text: &str, limits: &Limits) {
        push_bounded(&mut self.text, text, limits.text_bytes);
    }
}
