//! XML as feeds have it: a forgiving pull parser over a window of text.
//!
//! It gives starts, texts and ends; every start but those of a broken tail has its end, whatever the document does: an end tag
//! closes what stands open inside its element, one that closes nothing is read over, and `&` and `<` that cannot be markup are
//! text. Prefixes are resolved (XML Namespaces 1.0), and so is `xml:base`. A document type declaration is read over.
//!
//! What is kept: the names of open elements, declared namespaces, the bases, and one tag, each within [`Limits`] or a bound
//! below. Every byte is looked at a fixed number of times.

use base::web::WebUrl;

use crate::Limits;
use crate::input::Input;
use crate::names::{Namespace, REFERENCE_BYTES_MAX, character, resolved};
use crate::notes::{Notes, Place, Problem, shown};

/// The longest name that is told from another one.
const NAME_BYTES_MAX: usize = 128;
/// Namespace declarations in force at once.
const BINDINGS_MAX: usize = 128;
/// What must be in memory to tell what a `<` begins: `<![CDATA[`, `<!DOCTYPE`.
const LOOK_AHEAD_BYTES: usize = 9;

/// What comes next; its text, tag or name is asked of the [`Reader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Start,
    Text,
    End,
    Done,
}

#[derive(Debug, Default)]
struct Attribute {
    name: String,
    value: String,
}

/// A start tag.
#[derive(Debug)]
pub(crate) struct Tag {
    name: String,
    namespace: Namespace,
    attributes: Vec<Attribute>,
    is_empty: bool,
}

impl Tag {
    /// As it is written, with its prefix.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn local(&self) -> &str {
        local(&self.name)
    }

    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// The value of an attribute, by its name as it is written.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| attribute.name == name);
        found.map(|attribute| attribute.value.as_str())
    }

    /// The value of the first attribute with this local name, whatever its prefix.
    pub(crate) fn attribute_of_any(&self, local_name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| local(&attribute.name) == local_name);
        found.map(|attribute| attribute.value.as_str())
    }
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// An element whose end is to come.
struct Open {
    name: String,
    namespace: Namespace,
}

struct Binding {
    /// How many elements were open where it was declared, that element included.
    depth: usize,
    prefix: String,
    namespace: Namespace,
}

pub(crate) struct Reader<'r> {
    input: Input<'r>,
    pub(crate) notes: Notes,
    limits: Limits,
    document: WebUrl,
    open: Vec<Open>,
    bindings: Vec<Binding>,
    /// `xml:base`, with the depth of its element.
    bases: Vec<(usize, WebUrl)>,
    tag: Tag,
    text: String,
    /// Where the last event stood.
    place: Place,
    /// Ends that are due: of an empty element, or of those that an end tag closes.
    ends: usize,
    /// Whether the last event was an end, whose element is still the innermost.
    has_ended: bool,
    in_cdata: bool,
    is_done: bool,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(input: Input<'r>, document: &WebUrl, limits: &Limits, notes: Notes) -> Reader<'r> {
        let place = input.place();
        Reader {
            input,
            notes,
            limits: limits.clone(),
            document: document.clone(),
            open: Vec::new(),
            bindings: Vec::new(),
            bases: Vec::new(),
            tag: Tag {
                name: String::new(),
                namespace: Namespace::None,
                attributes: Vec::new(),
                is_empty: false,
            },
            text: String::new(),
            place,
            ends: 0,
            has_ended: false,
            in_cdata: false,
            is_done: false,
        }
    }

    /// Elements that are open; at a start or an end, that element included.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// The tag of the last start.
    pub(crate) fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Of the last text event, or of the `text` of anything else: nothing.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The element around the one that starts or ends: its local name and namespace.
    pub(crate) fn parent(&self) -> Option<(&str, Namespace)> {
        let parent = self.open.len().checked_sub(2)?;
        Some((local(&self.open[parent].name), self.open[parent].namespace))
    }

    /// Where the last event stood.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// What relative addresses are resolved against, here.
    pub(crate) fn base(&self) -> &WebUrl {
        self.bases.last().map_or(&self.document, |(_, base)| base)
    }

    /// The notes, and where the reading ended.
    pub(crate) fn finish(mut self) -> (Notes, Place) {
        self.input.settle(&mut self.notes);
        (self.notes, self.input.place())
    }

    pub(crate) fn next(&mut self) -> Event {
        if std::mem::take(&mut self.has_ended) {
            self.pop();
        }
        if self.ends > 0 {
            self.ends -= 1;
            self.has_ended = true;
            return Event::End;
        }
        self.text.clear();
        while !self.is_done {
            self.place = self.input.place();
            if self.in_cdata {
                if self.cdata() {
                    return Event::Text;
                }
                continue;
            }
            let found = match self.input.peek() {
                None => break,
                Some(b'<') => self.markup(),
                Some(b'&') => Some(self.reference()),
                Some(_) => Some(self.characters()),
            };
            if let Some(event) = found {
                return event;
            }
        }
        self.end_of_input();
        Event::Done
    }

    fn end_of_input(&mut self) {
        self.input.settle(&mut self.notes);
        if let Some(open) = self.open.last().filter(|_| !self.is_done) {
            let name = shown(&open.name);
            self.notes.add(self.input.place(), Problem::EndsInside { name });
        }
        self.is_done = true;
    }

    /// Forgets the innermost element and what held in it only.
    fn pop(&mut self) {
        let depth = self.open.len();
        while self.bindings.last().is_some_and(|binding| binding.depth >= depth) {
            self.bindings.pop();
        }
        while self.bases.last().is_some_and(|(at, _)| *at >= depth) {
            self.bases.pop();
        }
        self.open.pop();
    }

    /// Text up to the next `<` or `&`, or as much of it as is in memory.
    fn characters(&mut self) -> Event {
        let rest = self.input.rest();
        let length = memchr::memchr2(b'<', b'&', rest.as_bytes()).unwrap_or(rest.len());
        self.text.push_str(&rest[..length]);
        self.input.advance(length);
        Event::Text
    }

    /// Text of a CDATA section as far as it is in memory; false where there was none.
    fn cdata(&mut self) -> bool {
        self.input.need(3);
        let rest = self.input.rest();
        let length = match memchr::memmem::find(rest.as_bytes(), b"]]>") {
            Some(0) => {
                self.input.advance(3);
                self.in_cdata = false;
                return false;
            }
            Some(length) => length,
            None if rest.len() < 3 => {
                self.in_cdata = false;
                rest.len()
            }
            // Its end may stand at the end of the window; one character is always taken.
            None => rest.floor_char_boundary(rest.len() - 2).max(rest.ceil_char_boundary(1)),
        };
        self.text.push_str(&rest[..length]);
        self.input.advance(length);
        length > 0
    }

    /// `&name;` as the text that it stands for, or as it is written.
    fn reference(&mut self) -> Event {
        self.input.need(REFERENCE_BYTES_MAX);
        let rest = &self.input.rest()[1..];
        let window = &rest.as_bytes()[..rest.len().min(REFERENCE_BYTES_MAX)];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"#._-:".contains(byte);
        let end =
            window.iter().position(|byte| !is_name(byte)).filter(|end| *end > 0 && window[*end] == b';');
        let Some(end) = end else {
            self.notes.add(self.place, Problem::BareAmpersand);
            self.text.push('&');
            self.input.advance(1);
            return Event::Text;
        };
        match character(&rest[..end]) {
            Some(value) => self.text.push_str(&value),
            None => {
                let name = shown(&rest[..end]);
                self.text.push_str(&self.input.rest()[..end + 2]);
                self.notes.add(self.place, Problem::UnknownReference { name });
            }
        }
        self.input.advance(end + 2);
        Event::Text
    }

    /// What a `<` begins; nothing where it is none of ours.
    fn markup(&mut self) -> Option<Event> {
        self.input.need(LOOK_AHEAD_BYTES);
        let rest = self.input.rest();
        if rest.starts_with("<!--") {
            self.input.advance(4);
            self.input.skip_past("-->");
        } else if rest.starts_with("<![CDATA[") {
            self.input.advance(9);
            self.in_cdata = true;
        } else if rest.starts_with("<?") {
            self.input.advance(2);
            self.input.skip_past("?>");
        } else if rest.get(..9).is_some_and(|word| word.eq_ignore_ascii_case("<!DOCTYPE")) {
            self.input.advance(9);
            self.doctype();
        } else if rest.starts_with("</") {
            self.input.advance(2);
            self.end_tag();
            if self.ends > 0 {
                self.ends -= 1;
                self.has_ended = true;
                return Some(Event::End);
            }
        } else if rest[1..].starts_with(|c: char| c.is_alphabetic() || c == '_' || c == ':') {
            self.input.advance(1);
            return self.start_tag();
        } else {
            self.notes.add(self.place, Problem::BareLessThan);
            self.text.push('<');
            self.input.advance(1);
            return Some(Event::Text);
        }
        None
    }

    /// Steps over a document type declaration with its internal subset, in which quotes and comments may hold anything.
    fn doctype(&mut self) {
        let mut in_subset = false;
        let mut ignored = String::new();
        loop {
            self.input.take_until(|byte| b"[]>\"'<".contains(&byte), &mut ignored, 0);
            let Some(byte) = self.input.peek() else { return };
            self.input.need(4);
            if self.input.rest().starts_with("<!--") {
                self.input.advance(4);
                self.input.skip_past("-->");
                continue;
            }
            if self.input.rest().starts_with("<?") {
                self.input.skip_past("?>");
                continue;
            }
            self.input.advance(1);
            match byte {
                b'[' => in_subset = true,
                b']' => in_subset = false,
                b'>' if !in_subset => return,
                b'"' => _ = self.input.skip_past("\""),
                b'\'' => _ = self.input.skip_past("'"),
                _ => {}
            }
        }
    }

    fn end_tag(&mut self) {
        let mut name = String::new();
        self.input.take_until(|byte| byte == b'>' || byte == b'<', &mut name, NAME_BYTES_MAX);
        if self.input.peek() == Some(b'>') {
            self.input.advance(1);
        }
        let name = name.trim_ascii_end();
        match self.open.iter().rposition(|open| open.name == name) {
            Some(found) => {
                let inner = self.open.len() - 1;
                if found < inner {
                    let name = shown(&self.open[inner].name);
                    self.notes.add(self.place, Problem::Unclosed { name });
                }
                self.ends = self.open.len() - found;
            }
            None => self.notes.add(self.place, Problem::StrayEnd { name: shown(name) }),
        }
    }

    /// Reads the tag and opens its element; nothing where the text ends in it.
    fn start_tag(&mut self) -> Option<Event> {
        if self.open.len() >= self.limits.depth {
            self.notes.add(self.place, Problem::TooDeep { limit: self.limits.depth });
            self.is_done = true;
            return None;
        }
        self.tag.name.clear();
        self.tag.attributes.clear();
        self.tag.is_empty = false;
        let ends_name = |byte: u8| byte.is_ascii_whitespace() || b"/><".contains(&byte);
        self.input.take_until(ends_name, &mut self.tag.name, NAME_BYTES_MAX);
        if !self.attributes() {
            return None;
        }
        let depth = self.open.len() + 1;
        self.declare(depth);
        self.tag.namespace = self.namespace_of_tag();
        self.open.push(Open { name: self.tag.name.clone(), namespace: self.tag.namespace });
        if let Some(base) = self.tag.attribute("xml:base")
            && let Ok(base) = self.base().join(base)
        {
            self.bases.push((depth, base));
        }
        self.ends = usize::from(self.tag.is_empty);
        Some(Event::Start)
    }

    /// Reads the attributes and the end of the tag; false where the text ends first.
    fn attributes(&mut self) -> bool {
        let mut ignored = String::new();
        loop {
            self.input.take_until(|byte| !byte.is_ascii_whitespace(), &mut ignored, 0);
            match self.input.peek() {
                None => {
                    let name = shown(&self.tag.name);
                    self.notes.add(self.place, Problem::BrokenTag { name: name.clone() });
                    self.notes.add(self.input.place(), Problem::EndsInside { name });
                    return false;
                }
                Some(b'>') => {
                    self.input.advance(1);
                    return true;
                }
                // The tag was left open, and the next one begins.
                Some(b'<') => {
                    self.notes.add(self.place, Problem::BrokenTag { name: shown(&self.tag.name) });
                    return true;
                }
                Some(b'/') => {
                    self.input.advance(1);
                    self.tag.is_empty = self.input.peek() == Some(b'>');
                }
                Some(_) => self.attribute(),
            }
        }
    }

    fn attribute(&mut self) {
        let mut found = Attribute::default();
        let mut ignored = String::new();
        let ends_name = |byte: u8| byte.is_ascii_whitespace() || b"=/><".contains(&byte);
        self.input.take_until(ends_name, &mut found.name, NAME_BYTES_MAX);
        self.input.take_until(|byte| !byte.is_ascii_whitespace(), &mut ignored, 0);
        if self.input.peek() == Some(b'=') {
            self.input.advance(1);
            self.input.take_until(|byte| !byte.is_ascii_whitespace(), &mut ignored, 0);
            let bytes_max = self.limits.text_bytes;
            match self.input.peek() {
                Some(quote @ (b'"' | b'\'')) => {
                    self.input.advance(1);
                    self.input.take_until(|byte| byte == quote, &mut found.value, bytes_max);
                    if self.input.peek().is_some() {
                        self.input.advance(1);
                    }
                }
                _ => {
                    let ends = |byte: u8| byte.is_ascii_whitespace() || byte == b'>';
                    self.input.take_until(ends, &mut found.value, bytes_max);
                }
            }
        } else if found.name.is_empty() {
            return;
        }
        if self.tag.attributes.len() >= self.limits.attributes {
            self.notes.add(self.place, Problem::Crowded);
            return;
        }
        if found.value.contains('&') {
            found.value = resolved(&found.value);
        }
        self.tag.attributes.push(found);
    }

    /// Takes the tag's `xmlns` in force.
    fn declare(&mut self, depth: usize) {
        for attribute in &self.tag.attributes {
            let prefix = match attribute.name.split_once(':') {
                None if attribute.name == "xmlns" => "",
                Some(("xmlns", prefix)) => prefix,
                _ => continue,
            };
            if self.bindings.len() >= BINDINGS_MAX {
                self.notes.add(self.place, Problem::Crowded);
                return;
            }
            let (prefix, namespace) = (prefix.to_owned(), Namespace::of(&attribute.value));
            self.bindings.push(Binding { depth, prefix, namespace });
        }
    }

    fn namespace_of_tag(&mut self) -> Namespace {
        let prefix = self.tag.name.split_once(':').map_or("", |(prefix, _)| prefix);
        let bound = self.bindings.iter().rev().find(|binding| binding.prefix == prefix);
        if let Some(binding) = bound {
            return binding.namespace;
        }
        if prefix.is_empty() {
            return Namespace::None;
        }
        self.notes.add(self.place, Problem::UndeclaredPrefix { prefix: shown(prefix) });
        Namespace::of_usual_prefix(prefix).unwrap_or(Namespace::Extension)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Of the window, the tag and the open elements, whatever comes.
    const MEMORY_MAX: usize = 256 * 1024;

    impl Reader<'_> {
        fn memory(&self) -> usize {
            let of_tag = |found: &Attribute| found.name.capacity() + found.value.capacity();
            let of_open: usize = self.open.iter().map(|open| open.name.capacity()).sum();
            let of_bindings: usize = self.bindings.iter().map(|binding| binding.prefix.capacity()).sum();
            let of_tag: usize =
                self.tag.attributes.iter().map(of_tag).sum::<usize>() + self.tag.name.capacity();
            self.input.memory() + self.text.capacity() + of_open + of_bindings + of_tag
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_document() {
        let document = WebUrl::parse("https://a.example/").unwrap();
        for (begin, piece) in [
            ("<a>", "text "),
            ("<a>", "&amp;"),
            ("<a b='", "value "),
            ("<a ", "b='c' "),
            ("<a ", "xmlns:b='c' "),
            ("<", "name"),
            ("<a></", "name"),
            ("<a><!--", "comment"),
            ("<a><![CDATA[", "]]text"),
            ("<a><?", "x"),
            ("<!DOCTYPE a [", "<!ENTITY b 'c'>"),
            ("<a>", "<b xmlns:c='d' xml:base='/e/'>"),
            ("<a>", "<b/>"),
            ("<a>", "</b>"),
            ("<a>", "<"),
            ("\u{FEFF}<a>", "\u{0}"),
        ] {
            for is_wide in [false, true] {
                let text = begin.to_owned() + &piece.repeat(600_000 / piece.len());
                let wide: Vec<u8> =
                    format!("\u{FEFF}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
                let bytes: &[u8] = if is_wide { &wide } else { text.as_bytes() };
                let input = Input::open(Box::new(bytes.take(u64::MAX)), None, u64::MAX - 1);
                let limits = Limits::default();
                let mut reader = Reader::new(input, &document, &limits, Notes::default());
                let mut most = 0;
                while reader.next() != Event::Done {
                    most = most.max(reader.memory());
                }
                most = most.max(reader.memory());
                assert!(most < MEMORY_MAX, "{begin}{piece}: {most} bytes");
            }
        }
    }

    #[test]
    fn every_start_has_its_end() {
        let text = "<a><b><c/>x</b><d><e></a></nothing><f></f>";
        let document = WebUrl::parse("https://a.example/").unwrap();
        let input = Input::open(Box::new(text.as_bytes()), None, 1000);
        let mut reader = Reader::new(input, &document, &Limits::default(), Notes::default());
        let mut seen = String::new();
        loop {
            match reader.next() {
                Event::Start => seen.push_str(&format!("<{} {}>", reader.tag().name(), reader.depth())),
                Event::Text => seen.push_str(reader.text()),
                Event::End => seen.push_str(&format!("</{}>", reader.depth())),
                Event::Done => break,
            }
        }
        assert_eq!(seen, "<a 1><b 2><c 3></3>x</2><d 2><e 3></3></2></1><f 1></1>");
    }
}
