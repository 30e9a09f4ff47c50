//! Interned local names of elements and attributes.
//!
//! One table serves both, because a name test on an attribute and one on an element are then the same integer comparison.
//! The names that the tree construction rules speak of, and the commonest attributes, have fixed numbers known at compile
//! time; whatever else a page contains is numbered in order of first appearance. The hash is seeded once a process, so a
//! page cannot be written to make its names collide. Ids never depend on the seed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

/// An interned local name. Numbers below [`STATIC_COUNT`] mean the same name in every document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NameId(pub u32);

impl NameId {
    /// The name of nodes that have none (document, text, comment).
    pub const NONE: NameId = NameId(u32::MAX);
}

macro_rules! static_names {
    ($($constant:ident $text:literal)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u32)]
        enum Index { $($constant,)* COUNT }
        $(pub const $constant: NameId = NameId(Index::$constant as u32);)*
        /// How many names have fixed numbers.
        pub const STATIC_COUNT: usize = Index::COUNT as usize;
        const STATIC: [&str; STATIC_COUNT] = [$($text),*];
    };
}

static_names! {
    HTML "html" HEAD "head" TITLE "title" BASE "base" LINK "link" META "meta" STYLE "style" SCRIPT "script"
    NOSCRIPT "noscript" TEMPLATE "template" BODY "body" ARTICLE "article" SECTION "section" NAV "nav" ASIDE "aside"
    H1 "h1" H2 "h2" H3 "h3" H4 "h4" H5 "h5" H6 "h6" HGROUP "hgroup" HEADER "header" FOOTER "footer" ADDRESS "address"
    MAIN "main" P "p" HR "hr" PRE "pre" LISTING "listing" BLOCKQUOTE "blockquote" OL "ol" UL "ul" MENU "menu" DIR "dir"
    LI "li" DL "dl" DT "dt" DD "dd" FIGURE "figure" FIGCAPTION "figcaption" DIV "div" CENTER "center" A "a" EM "em"
    STRONG "strong" SMALL "small" S "s" CITE "cite" Q "q" DFN "dfn" ABBR "abbr" RUBY "ruby" RB "rb" RT "rt" RTC "rtc"
    RP "rp" DATA "data" TIME "time" CODE "code" VAR "var" SAMP "samp" KBD "kbd" SUB "sub" SUP "sup" I "i" B "b" U "u"
    MARK "mark" BDI "bdi" BDO "bdo" SPAN "span" BR "br" WBR "wbr" NOBR "nobr" INS "ins" DEL "del" PICTURE "picture"
    SOURCE "source" IMG "img" IMAGE "image" IFRAME "iframe" EMBED "embed" OBJECT "object" PARAM "param" VIDEO "video"
    AUDIO "audio" TRACK "track" MAP "map" AREA "area" TABLE "table" CAPTION "caption" COLGROUP "colgroup" COL "col"
    TBODY "tbody" THEAD "thead" TFOOT "tfoot" TR "tr" TD "td" TH "th" FORM "form" LABEL "label" INPUT "input"
    BUTTON "button" SELECT "select" DATALIST "datalist" OPTGROUP "optgroup" OPTION "option" TEXTAREA "textarea"
    OUTPUT "output" PROGRESS "progress" METER "meter" FIELDSET "fieldset" LEGEND "legend" DETAILS "details"
    SUMMARY "summary" DIALOG "dialog" SLOT "slot" CANVAS "canvas" APPLET "applet" MARQUEE "marquee" FONT "font" BIG "big"
    STRIKE "strike" TT "tt" FRAMESET "frameset" FRAME "frame" NOFRAMES "noframes" NOEMBED "noembed"
    PLAINTEXT "plaintext" XMP "xmp" BGSOUND "bgsound" BASEFONT "basefont" ACRONYM "acronym" KEYGEN "keygen"
    SEARCH "search" SELECTEDCONTENT "selectedcontent" SVG "svg" MATH "math" G "g" PATH "path" RECT "rect"
    CIRCLE "circle" LINE "line" POLYGON "polygon" TEXT "text" TSPAN "tspan" DEFS "defs" USE "use" SYMBOL "symbol"
    STOP "stop" MASK "mask" DESC "desc" FOREIGN_OBJECT "foreignObject" MI "mi" MO "mo" MN "mn" MS "ms" MTEXT "mtext"
    MGLYPH "mglyph" MALIGNMARK "malignmark" ANNOTATION_XML "annotation-xml"
    ID "id" CLASS "class" HREF "href" SRC "src" ALT "alt" NAME "name" VALUE "value" TYPE "type" CONTENT "content"
    REL "rel" CHARSET "charset" HTTP_EQUIV "http-equiv" WIDTH "width" HEIGHT "height" ROLE "role" TARGET "target"
    ONCLICK "onclick" ARIA_LABEL "aria-label" ARIA_HIDDEN "aria-hidden" ITEMPROP "itemprop" ITEMTYPE "itemtype"
    ITEMSCOPE "itemscope" PROPERTY "property" DATETIME "datetime" LANG "lang" XML_LANG "xml:lang" MEDIA "media"
    SIZES "sizes" SRCSET "srcset" LOADING "loading" ASYNC "async" DEFER "defer" ACTION "action" METHOD "method"
    PLACEHOLDER "placeholder" CHECKED "checked" SELECTED "selected" DISABLED "disabled" TABINDEX "tabindex" FOR "for"
    COLSPAN "colspan" ROWSPAN "rowspan" ALIGN "align" VALIGN "valign" BORDER "border" CELLPADDING "cellpadding"
    CELLSPACING "cellspacing" BGCOLOR "bgcolor" COLOR "color" FACE "face" SIZE "size" D "d" FILL "fill"
    VIEW_BOX "viewBox" VIEW_BOX_LOWER "viewbox" XMLNS "xmlns" XLINK_HREF "xlink:href" XMLNS_XLINK "xmlns:xlink"
    TRANSFORM "transform" STROKE "stroke" ENCODING "encoding" CROSSORIGIN "crossorigin" INTEGRITY "integrity"
    AUTOCOMPLETE "autocomplete" MAXLENGTH "maxlength" HIDDEN "hidden" DATA_ID "data-id" DATA_SRC "data-src"
    DATA_TOGGLE "data-toggle" DATA_TARGET "data-target" VOCAB "vocab" TYPEOF "typeof" PREFIX "prefix" X "x" Y "y"
    DEFINITION_URL_LOWER "definitionurl" DEFINITION_URL "definitionURL"
}

const STATIC_SLOTS_COUNT: usize = 1024;
const OWN_SLOTS_INITIAL: usize = 64;
/// Names up to this length are compared as one integer.
const PACKED_BYTES_MAX: usize = 8;
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish() | 1);
static STATIC_SLOTS: LazyLock<Vec<Slot>> = LazyLock::new(|| {
    let mut slots = vec![Slot::default(); STATIC_SLOTS_COUNT];
    for (number, text) in STATIC.iter().enumerate() {
        place(&mut slots, *SEED, key(text.as_bytes()), text.len(), number as u32);
    }
    slots
});

/// A place of the hash table; free while `number` is zero.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The name itself where it is short (zero bytes fill it up; no name contains one), else its hash.
    key: u64,
    /// The name's number plus one.
    number: u32,
    length: u32,
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// A seeded hash by folded 128-bit multiplication, eight bytes at a step.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = *SEED ^ (bytes.len() as u64);
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        state = fold(state ^ u64::from_le_bytes(*head), ODD ^ *SEED);
        rest = tail;
    }
    fold(state ^ pack(rest), ODD)
}

/// Up to eight bytes as an integer, filled up with zeros.
#[inline]
fn pack(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*whole);
    }
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Where the two halves overlap they agree.
        let high = u64::from(u32::from_le_bytes(*tail)) << ((bytes.len() - 4) * 8);
        return u64::from(u32::from_le_bytes(*head)) | high;
    }
    bytes.iter().rev().fold(0, |packed, byte| packed << 8 | u64::from(*byte))
}

#[inline]
fn key(name: &[u8]) -> u64 {
    if name.len() <= PACKED_BYTES_MAX { pack(name) } else { hash(name) }
}

#[inline]
fn slot_of(seed: u64, key: u64, slot_count: usize) -> usize {
    fold(key ^ seed, ODD) as usize & (slot_count - 1)
}

fn place(slots: &mut [Slot], seed: u64, key: u64, length: usize, number: u32) {
    let mut at = slot_of(seed, key, slots.len());
    while slots[at].number != 0 {
        at = (at + 1) & (slots.len() - 1);
    }
    slots[at] = Slot { key, number: number + 1, length: length as u32 };
}

/// The names of one document: the static ones, whose table all documents share, and its own. (A table for both, copied for
/// each document, was sixteen kilobytes: as much as a small page.)
#[derive(Debug)]
pub struct NameTable {
    fixed: &'static [Slot],
    /// Of the document's own names; empty until there is one.
    slots: Vec<Slot>,
    seed: u64,
    /// The document's own names, one after another.
    text: String,
    /// End of each own name in `text`.
    ends: Vec<u32>,
}

impl Default for NameTable {
    fn default() -> Self {
        let (slots, ends) = (Vec::new(), Vec::new());
        NameTable { fixed: &STATIC_SLOTS, slots, seed: *SEED, text: String::new(), ends }
    }
}

impl NameTable {
    /// How many names there are; every `NameId` of the document is below it.
    pub fn count(&self) -> usize {
        STATIC_COUNT + self.ends.len()
    }

    /// The text of a name; empty for [`NameId::NONE`] and for numbers of another document.
    #[inline]
    pub fn text(&self, name: NameId) -> &str {
        let number = name.0 as usize;
        if let Some(text) = STATIC.get(number) {
            return text;
        }
        let own = number - STATIC_COUNT;
        let Some(end) = self.ends.get(own) else { return "" };
        let start = if own == 0 { 0 } else { self.ends[own - 1] };
        &self.text[start as usize..*end as usize]
    }

    /// Finds a name (compared exactly) without adding it.
    #[inline]
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.probe(key(text.as_bytes()), text)
    }

    /// Finds or adds a name.
    #[inline]
    pub fn intern(&mut self, text: &str) -> NameId {
        let key = key(text.as_bytes());
        match self.probe(key, text) {
            Some(name) => name,
            None => self.add(key, text),
        }
    }

    /// As [`NameTable::intern`] for the name at `source[start..end]`: with what follows it in sight, a short name is read
    /// as one integer.
    #[inline]
    pub fn intern_at(&mut self, source: &str, start: usize, end: usize) -> NameId {
        let length = end - start;
        let window = source.as_bytes().get(start..).and_then(|rest| rest.first_chunk::<8>());
        if let Some(window) = window
            && (1..=PACKED_BYTES_MAX).contains(&length)
        {
            let key = u64::from_le_bytes(*window) & (u64::MAX >> ((PACKED_BYTES_MAX - length) * 8));
            return match self.probe(key, &source[start..end]) {
                Some(name) => name,
                None => self.add(key, &source[start..end]),
            };
        }
        self.intern(&source[start..end])
    }

    #[inline]
    fn probe(&self, key: u64, text: &str) -> Option<NameId> {
        self.probe_in(self.fixed, key, text).or_else(|| self.probe_own(key, text))
    }

    fn probe_own(&self, key: u64, text: &str) -> Option<NameId> {
        if self.slots.is_empty() { None } else { self.probe_in(&self.slots, key, text) }
    }

    #[inline]
    fn probe_in(&self, slots: &[Slot], key: u64, text: &str) -> Option<NameId> {
        let mut at = slot_of(self.seed, key, slots.len());
        loop {
            let slot = slots[at];
            if slot.number == 0 {
                return None;
            }
            if slot.key == key && slot.length as usize == text.len() {
                let name = NameId(slot.number - 1);
                if text.len() <= PACKED_BYTES_MAX || self.text(name) == text {
                    return Some(name);
                }
            }
            at = (at + 1) & (slots.len() - 1);
        }
    }

    #[cold]
    fn add(&mut self, key: u64, text: &str) -> NameId {
        if (self.ends.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let number = self.count() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        place(&mut self.slots, self.seed, key, text.len(), number);
        NameId(number)
    }

    fn grow(&mut self) {
        let mut slots = vec![Slot::default(); (self.slots.len() * 2).max(OWN_SLOTS_INITIAL)];
        for slot in self.slots.iter().filter(|slot| slot.number != 0) {
            place(&mut slots, self.seed, slot.key, slot.length as usize, slot.number - 1);
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_names_are_found_and_unique() {
        let table = NameTable::default();
        for (number, text) in STATIC.iter().enumerate() {
            assert_eq!(table.find(text), Some(NameId(number as u32)), "{text}");
        }
        assert_eq!(table.text(FOREIGN_OBJECT), "foreignObject");
    }

    #[test]
    fn own_names_survive_growth() {
        let mut table = NameTable::default();
        let names: Vec<NameId> = (0..5000).map(|n| table.intern(&format!("x-own-{n}"))).collect();
        for (n, name) in names.iter().enumerate() {
            assert_eq!(table.text(*name), format!("x-own-{n}"));
            assert_eq!(table.intern(&format!("x-own-{n}")), *name);
        }
        assert_eq!(table.find("x-own-5000"), None);
        assert_eq!(table.find("div"), Some(DIV));
    }

    #[test]
    fn a_name_is_the_same_wherever_it_is_read() {
        let mut table = NameTable::default();
        let source = "a ab abc abcd abcde abcdef abcdefg abcdefgh abcdefghi abcdefghijklmnopq";
        let mut start = 0;
        for word in source.split(' ') {
            let here = table.intern_at(source, start, start + word.len());
            assert_eq!(table.intern(word), here);
            assert_eq!(table.find(word), Some(here));
            assert_eq!(table.text(here), word);
            start += word.len() + 1;
        }
    }
}
