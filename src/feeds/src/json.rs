//! JSON Feed (jsonfeed.org), read item by item: what stands before a break is kept.

use std::fmt;
use std::io::BufReader;

use base::web::WebUrl;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::draft::{Draft, Gathered};
use crate::input::Input;
use crate::names::{absolute, plain};
use crate::notes::{Notes, Place, Problem, push_bounded, shown};
use crate::{Document, FeedError, Format, Limits};

/// Every version's address begins so.
const VERSION: &str = "jsonfeed.org/version/";

/// Reads a document that begins like JSON.
pub(crate) fn read(
    mut input: Input<'_>,
    document: &WebUrl,
    limits: &Limits,
    notes: Notes,
) -> Result<Document, FeedError> {
    let start = input.place();
    let mut feed = Feed {
        base: document,
        gathered: Gathered::new(Format::JsonFeed, limits),
        notes,
        version: None,
        items: 0,
    };
    let result = {
        let mut json = serde_json::Deserializer::from_reader(BufReader::new(&mut input));
        let read = Top(&mut feed).deserialize(&mut json);
        read.and_then(|()| json.end())
    };
    input.settle(&mut feed.notes);
    if let Err(error) = result {
        let line = (error.line() as u64).max(1);
        // The first line may begin behind white space; a column is counted from it.
        let before = if line == 1 { start.column - 1 } else { 0 };
        let place = Place { line: line + start.line - 1, column: (error.column() as u64).max(1) + before };
        feed.notes.add(place, Problem::BrokenJson { reason: reason(&error) });
    }
    match &feed.version {
        Some(version) if version.contains(VERSION) => Ok(feed.gathered.finish(feed.notes)),
        _ => Err(match feed.notes.first_break() {
            Some(note) => FeedError::Broken(note),
            None => FeedError::NotAFeed { what: "JSON that is no JSON Feed".to_owned() },
        }),
    }
}

/// What is wrong, without the place that the library appends.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    shown(text.split(" at line ").next().unwrap_or_default())
}

struct Feed<'a> {
    base: &'a WebUrl,
    gathered: Gathered,
    notes: Notes,
    version: Option<String>,
    items: u64,
}

/// A string, or a number as people may write an id; anything else is nothing. Bounded.
struct Scalar(usize);

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<String>;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar {
    type Value = Option<String>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        let mut kept = String::new();
        push_bounded(&mut kept, text, self.0);
        Ok(Some(kept))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// The whole document.
struct Top<'f, 'a>(&'f mut Feed<'a>);

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON Feed")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let feed = self.0;
        let bytes_max = feed.gathered.limits.text_bytes;
        while let Some(key) = map.next_key_seed(Scalar(bytes_max))? {
            match key.as_deref().unwrap_or_default() {
                "version" => feed.version = map.next_value_seed(Scalar(bytes_max))?,
                "title" => {
                    let title = map.next_value_seed(Scalar(bytes_max))?;
                    feed.gathered.title(0, title.and_then(|title| plain(&title, false)));
                }
                "next_url" => {
                    let next = map.next_value_seed(Scalar(bytes_max))?;
                    feed.gathered.document.next = next.and_then(|next| feed.base.join(&next).ok());
                }
                "items" => map.next_value_seed(Items(feed))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

struct Items<'f, 'a>(&'f mut Feed<'a>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of items")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Item(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// One item. It has no place of its own, as the library tells none: a note on it stands at its number, in line 0.
struct Item<'f, 'a>(&'f mut Feed<'a>);

impl<'de> DeserializeSeed<'de> for Item<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Err(E::custom("an item that is null"))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Feed { base, gathered, notes, items, .. } = self.0;
        *items += 1;
        let place = Place { line: 0, column: *items };
        let mut draft = Draft::new(place);
        let bytes_max = gathered.limits.text_bytes;
        while let Some(key) = map.next_key_seed(Scalar(bytes_max))? {
            let key = key.unwrap_or_default();
            if key == "tags" {
                map.next_value_seed(Tags(&mut draft, &gathered.limits))?;
                continue;
            }
            if !["id", "url", "external_url", "title", "date_published", "date_modified"]
                .contains(&key.as_str())
            {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let Some(text) = map.next_value_seed(Scalar(bytes_max))? else { continue };
            match key.as_str() {
                "id" => {
                    draft.id(0, &text);
                    if let Some(url) = absolute(&text) {
                        draft.url(2, url);
                    }
                }
                "url" => draft.link(0, &text, base, place),
                "external_url" => draft.link(1, &text, base, place),
                "title" => draft.title(0, plain(&text, false)),
                "date_published" => draft.published(0, &text, place, notes),
                _ => draft.updated(0, &text, place, notes),
            }
        }
        gathered.take(draft, notes);
        Ok(())
    }
}

struct Tags<'f>(&'f mut Draft, &'f Limits);

impl<'de> DeserializeSeed<'de> for Tags<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tags<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tags")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, tag: &str) -> Result<(), E> {
        let mut kept = String::new();
        push_bounded(&mut kept, tag, self.1.text_bytes);
        self.0.category(plain(&kept, false), self.1);
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(tag) = list.next_element_seed(Scalar(self.1.text_bytes))? {
            self.0.category(tag.and_then(|tag| plain(&tag, false)), self.1);
        }
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("tags that are no list"))
    }
}
