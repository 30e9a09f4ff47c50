//! Tag soup: a seeded generator, its words, mutation, and where the oracle is known to err. The fuzzer
//! (`tests/fuzz`) uses it as well.

use std::fmt::Write as _;

/// A small seeded generator (SplitMix64), so that a failure can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

pub const TAGS: &[&str] = &[
    "a",
    "b",
    "i",
    "nobr",
    "font",
    "p",
    "div",
    "span",
    "table",
    "tbody",
    "tr",
    "td",
    "th",
    "caption",
    "colgroup",
    "col",
    "thead",
    "ul",
    "li",
    "dl",
    "dd",
    "dt",
    "h1",
    "h2",
    "form",
    "button",
    "select",
    "option",
    "optgroup",
    "hr",
    "input",
    "svg",
    "math",
    "mi",
    "mtext",
    "annotation-xml",
    "foreignObject",
    "desc",
    "title",
    "template",
    "script",
    "style",
    "textarea",
    "pre",
    "listing",
    "noscript",
    "iframe",
    "html",
    "head",
    "body",
    "frameset",
    "frame",
    "br",
    "img",
    "image",
    "ruby",
    "rb",
    "rt",
    "rtc",
    "rp",
    "object",
    "marquee",
    "applet",
    "address",
    "main",
    "meta",
    "link",
    "base",
    "center",
    "code",
    "em",
    "strong",
    "u",
    "s",
    "small",
    "big",
    "tt",
    "strike",
    "xmp",
    "noembed",
    "noframes",
    "x-own",
    "mglyph",
    "malignmark",
    "path",
    "circle",
    "param",
    "source",
    "area",
    "wbr",
    "embed",
    "details",
    "summary",
    "fieldset",
    "article",
    "bgsound",
    "basefont",
];
pub const TEXTS: &[&str] = &[
    "x",
    " ",
    "\n",
    "a b",
    "&amp;",
    "&lt;",
    "&notit;",
    "&#65;",
    "&#x80;",
    "&copy",
    "&",
    "<",
    "\u{0}",
    "\r\n",
    "é",
    "<!--c-->",
    "<!-->",
    "<!doctype html>",
    "<![CDATA[d]]>",
    "</>",
    "</ ",
    "--",
    "<!-- <!-- -->",
    "&NotEqualTilde;",
    "\u{c}",
];
pub const ATTRIBUTES: &[&str] = &[
    "",
    "",
    "",
    " a=1",
    " A='2'",
    " id=x class=\"p q\"",
    " href=?a&copy=1&lt;b",
    " color=red",
    " type=hidden",
    " encoding=text/html",
    " a=1 a=2",
    " /",
    "/",
    " =b",
    " x=\"a&amp;b\"",
    " viewbox=0 xlink:href=y",
    " definitionurl=z",
    " \u{0}=\u{0}",
    " a='b",
    " shadowrootmode=none",
];

pub fn generated(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(3) == 0 {
        text.push_str("<!DOCTYPE html>");
    }
    for _ in 0..1 + random.below(40) {
        match random.below(8) {
            0 | 1 => text.push_str(random.pick(TEXTS)),
            2 | 3 => {
                let _ = write!(text, "</{}>", random.pick(TAGS));
            }
            _ => {
                let _ = write!(text, "<{}{}>", random.pick(TAGS), random.pick(ATTRIBUTES));
            }
        }
    }
    text
}

/// Cuts, doubles and swaps pieces of a real page.
pub fn mutated(random: &mut Random, page: &str) -> String {
    let slice = |random: &mut Random, length: usize| {
        let from = page.floor_char_boundary(random.below(page.len().max(1)));
        let to = page.floor_char_boundary((from + random.below(length)).min(page.len()));
        &page[from..to]
    };
    let mut text = String::new();
    for _ in 0..1 + random.below(6) {
        text.push_str(slice(random, 600));
        if random.below(2) == 0 {
            let tag = random.pick(TAGS);
            let _ = if random.below(2) == 0 { write!(text, "<{tag}>") } else { write!(text, "</{tag}>") };
        }
    }
    text
}

/// The classes of inputs where html5ever 0.40 is known to differ from the standard (which html5lib's cases follow).
pub fn is_known_difference(text: &str, context: Option<&str>) -> bool {
    let lower = text.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    let has_any = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let without_table = context.is_some() || has("<template");
    // Processing instructions since June 2026.
    has("<?")
        // It notes the parse error of an `<input>` in a select fragment, but does not drop the tag.
        || (context == Some("select") && has("<input"))
        // Leaving a table body asks for "tbody, tfoot or table" in scope, where the standard has thead for table.
        || (without_table && has("<thead"))
        // Text in a template with table content waits for the next token, as in a table.
        || (has("<template") && has_any(&["<col", "<caption", "<t"]))
        // A doctype in a table is a token, so text before it does not wait for what follows.
        || (lower.rfind("<!doctype").is_some_and(|at| at > 0) && has("<t"))
        // `</>` is no token, so a newline after it is still the one that `<pre>` swallows.
        || (has("</>") && has_any(&["<pre", "<listing", "<textarea"]))
        // SVG's and MathML's integration points are special elements.
        || has_any(&["<desc", "<title", "<foreignobject", "<mi", "<mtext", "<annotation-xml"])
            && has_any(&["<svg", "<math"])
        // So are search and keygen.
        || has_any(&["<search", "<keygen"])
        // A byte order mark in front of a fragment, which was never bytes, is dropped.
        || (context.is_some() && text.starts_with('\u{feff}'))
}
