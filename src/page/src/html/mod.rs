//! Pages: bytes to characters ([`charset`]), characters to a tree ([`Document`]).
//!
//! The tree is the one that the WHATWG's parser makes with scripting off (so `<noscript>` is parsed), with the content of
//! a `<template>` as its children. Nothing here recurses, allocates for each node, or takes more than linear time; what a
//! page may cost is bounded by its length, and a budget that ends is told by [`Document::truncated`].

pub mod charset;
pub mod dom;
mod entities;
mod tokenizer;
mod tree;

pub use charset::{Decoded, decode};
pub use dom::names;
pub use dom::{AttrId, Budget, Document, NameId, Namespace, NodeId, NodeKind, QuirksMode};
pub use entities::named_character;

use tree::Parser;

/// How much of a page is read, unless the caller says otherwise.
pub const SOURCE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Addresses are 32 bits wide and cover source and side buffer (which may hold most of the source again, changed, several
/// times over), so no caller may allow more than this.
const SOURCE_BYTES_LIMIT: usize = 1 << 28;

impl Document {
    /// Parses a page of at most [`SOURCE_BYTES_MAX`] bytes. A byte order mark in front is skipped.
    pub fn parse(text: String) -> Document {
        Document::parse_limited(text, SOURCE_BYTES_MAX)
    }

    /// As [`Document::parse`], reading at most `source_bytes_max` bytes.
    pub fn parse_limited(mut text: String, source_bytes_max: usize) -> Document {
        if text.starts_with('\u{FEFF}') {
            text.drain(..'\u{FEFF}'.len_utf8());
        }
        parse_source(text, source_bytes_max)
    }

    /// Decodes and parses a page; `content_type` is the value of its HTTP header, if it had one.
    pub fn parse_bytes(bytes: &[u8], content_type: Option<&str>) -> Document {
        let cut = &bytes[..bytes.len().min(SOURCE_BYTES_MAX)];
        let mut document = parse_source(decode(cut, content_type).text, SOURCE_BYTES_LIMIT);
        if cut.len() < bytes.len() {
            document.mark_truncated(Budget::SourceBytes);
        }
        document
    }

    /// Parses text as the content of an element (what browsers do for `innerHTML`). The result's top-level nodes are the
    /// children of its document node.
    pub fn parse_fragment(text: String, context: &str, namespace: Namespace) -> Document {
        let (source, truncated) = prepare(text, SOURCE_BYTES_MAX);
        let (mut builder, root) = Parser::new(&source).fragment(context, namespace);
        builder.truncated = builder.truncated.or(truncated);
        builder.finish(source, root)
    }
}

fn parse_source(text: String, source_bytes_max: usize) -> Document {
    let (source, truncated) = prepare(text, source_bytes_max);
    let mut builder = Parser::new(&source).page();
    builder.truncated = builder.truncated.or(truncated);
    builder.finish(source, 0)
}

/// Cuts the text to its limit (at a character) and normalizes its newlines.
fn prepare(mut text: String, source_bytes_max: usize) -> (String, Option<Budget>) {
    let limit = source_bytes_max.min(SOURCE_BYTES_LIMIT);
    let mut truncated = None;
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        truncated = Some(Budget::SourceBytes);
    }
    (normalize_newlines(text), truncated)
}

/// CR LF and lone CR become LF, in place.
fn normalize_newlines(text: String) -> String {
    let Some(first) = memchr::memchr(b'\r', text.as_bytes()) else { return text };
    let mut bytes = text.into_bytes();
    let (mut read, mut write) = (first, first);
    while read < bytes.len() {
        // Here `read` stands on a CR.
        bytes[write] = b'\n';
        write += 1;
        read += 1;
        if bytes.get(read) == Some(&b'\n') {
            read += 1;
        }
        let length = memchr::memchr(b'\r', &bytes[read..]).unwrap_or(bytes.len() - read);
        bytes.copy_within(read..read + length, write);
        write += length;
        read += length;
    }
    bytes.truncate(write);
    // Only ASCII bytes were taken out, so this is UTF-8 still; the lossy way is there because it cannot fail.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
