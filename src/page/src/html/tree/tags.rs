//! What the tree construction rules ask of an element's name, as bits.
//!
//! The sets ("special", "scope" and so on) are those of the WHATWG's section 13.2.4.2; a name beyond the static ones is in
//! none of them.

use crate::html::dom::Namespace;
use crate::html::dom::names::{self, NameId, STATIC_COUNT};

pub(in crate::html) type Flags = u32;

pub(in crate::html) const SPECIAL: Flags = 1;
/// Ends every "has an element in scope" search but the table ones.
pub(in crate::html) const SCOPE: Flags = 1 << 1;
pub(in crate::html) const LIST_SCOPE: Flags = 1 << 2;
pub(in crate::html) const BUTTON_SCOPE: Flags = 1 << 3;
pub(in crate::html) const TABLE_SCOPE: Flags = 1 << 4;
/// Popped by "generate implied end tags".
pub(in crate::html) const IMPLIED: Flags = 1 << 5;
/// Popped by "generate all implied end tags thoroughly".
pub(in crate::html) const THOROUGH: Flags = 1 << 6;
pub(in crate::html) const FORMATTING: Flags = 1 << 7;
/// How many are open is counted, so that the common "none" needs no search.
pub(in crate::html) const COUNTED: Flags = 1 << 8;
/// table, tbody, tfoot, thead, tr: content that does not belong there is fostered.
pub(in crate::html) const TABLE_OUTER: Flags = 1 << 9;
pub(in crate::html) const HTML_INTEGRATION: Flags = 1 << 10;
pub(in crate::html) const TEXT_INTEGRATION: Flags = 1 << 11;
pub(in crate::html) const FOREIGN: Flags = 1 << 12;
pub(in crate::html) const HEADING: Flags = 1 << 13;
pub(in crate::html) const CELL: Flags = 1 << 14;
pub(in crate::html) const ROW_CONTEXT: Flags = 1 << 15;
pub(in crate::html) const BODY_CONTEXT: Flags = 1 << 16;

/// A start tag that closes a paragraph and opens a block, without more.
pub(in crate::html) const BLOCK_START: Flags = 1 << 18;
/// An end tag that closes its block, whatever is open in it, without more.
pub(in crate::html) const BLOCK_END: Flags = 1 << 19;
/// What belongs in the head and is dealt with there wherever it stands.
pub(in crate::html) const HEAD_PART: Flags = 1 << 20;
/// caption, col, colgroup, tbody, td, tfoot, th, thead, tr: in a body these tags are ignored, in a table they move it on.
pub(in crate::html) const TABLE_PART: Flags = 1 << 21;
/// Of an entry on the stack, not of a name: a `<p>` is in button scope when this entry is the current node.
pub(in crate::html) const P_IN_SCOPE: Flags = 1 << 17;

const fn set(table: &mut [Flags; STATIC_COUNT], flags: Flags, members: &[NameId]) {
    let mut at = 0;
    while at < members.len() {
        table[members[at].0 as usize] |= flags;
        at += 1;
    }
}

static HTML: [Flags; STATIC_COUNT] = {
    use names::*;
    let mut table = [0; STATIC_COUNT];
    set(
        &mut table,
        SPECIAL,
        &[
            ADDRESS, APPLET, AREA, ARTICLE, ASIDE, BASE, BASEFONT, BGSOUND, BLOCKQUOTE, BODY, BR, BUTTON,
            CAPTION, CENTER, COL, COLGROUP, DD, DETAILS, DIR, DIV, DL, DT, EMBED, FIELDSET, FIGCAPTION,
            FIGURE, FOOTER, FORM, FRAME, FRAMESET, H1, H2, H3, H4, H5, H6, HEAD, HEADER, HGROUP, HR, HTML,
            IFRAME, IMG, INPUT, KEYGEN, LI, LINK, LISTING, MAIN, MARQUEE, MENU, META, NAV, NOEMBED, NOFRAMES,
            NOSCRIPT, OBJECT, OL, P, PARAM, PLAINTEXT, PRE, SCRIPT, SEARCH, SECTION, SELECT, SOURCE, STYLE,
            SUMMARY, TABLE, TBODY, TD, TEMPLATE, TEXTAREA, TFOOT, TH, THEAD, TITLE, TR, TRACK, UL, WBR, XMP,
        ],
    );
    set(&mut table, SCOPE, &[APPLET, CAPTION, HTML, TABLE, TD, TH, MARQUEE, OBJECT, SELECT, TEMPLATE]);
    set(&mut table, LIST_SCOPE, &[OL, UL]);
    set(&mut table, BUTTON_SCOPE, &[BUTTON]);
    set(&mut table, TABLE_SCOPE, &[HTML, TABLE, TEMPLATE]);
    set(&mut table, IMPLIED | THOROUGH, &[DD, DT, LI, OPTGROUP, OPTION, P, RB, RP, RT, RTC]);
    set(&mut table, THOROUGH, &[CAPTION, COLGROUP, TBODY, TD, TFOOT, TH, THEAD, TR]);
    set(&mut table, FORMATTING, &[A, B, BIG, CODE, EM, FONT, I, NOBR, S, SMALL, STRIKE, STRONG, TT, U]);
    set(&mut table, COUNTED, &[SELECT, TEMPLATE, BUTTON, NOBR, OPTION, OPTGROUP, RUBY]);
    set(&mut table, TABLE_OUTER, &[TABLE, TBODY, TFOOT, THEAD, TR]);
    set(&mut table, HEADING, &[H1, H2, H3, H4, H5, H6]);
    set(&mut table, CELL, &[TD, TH]);
    set(&mut table, ROW_CONTEXT, &[TR, TEMPLATE, HTML]);
    set(&mut table, BODY_CONTEXT, &[TBODY, TFOOT, THEAD, TEMPLATE, HTML]);
    set(
        &mut table,
        BLOCK_START | BLOCK_END,
        &[
            ADDRESS, ARTICLE, ASIDE, BLOCKQUOTE, CENTER, DETAILS, DIALOG, DIR, DIV, DL, FIELDSET, FIGCAPTION,
            FIGURE, FOOTER, HEADER, HGROUP, MAIN, MENU, NAV, OL, SEARCH, SECTION, SUMMARY, UL,
        ],
    );
    set(&mut table, BLOCK_START, &[P]);
    set(&mut table, BLOCK_END, &[BUTTON, LISTING, PRE, SELECT]);
    set(
        &mut table,
        HEAD_PART,
        &[BASE, BASEFONT, BGSOUND, LINK, META, NOFRAMES, SCRIPT, STYLE, TEMPLATE, TITLE],
    );
    set(&mut table, TABLE_PART, &[CAPTION, COL, COLGROUP, TBODY, TD, TFOOT, TH, THEAD, TR]);
    table
};

/// The flags of an HTML name.
#[inline]
pub(in crate::html) fn html(name: NameId) -> Flags {
    HTML.get(name.0 as usize).copied().unwrap_or(0)
}

/// The flags of an element; `annotation-xml` becomes an integration point by its attribute, which the caller adds.
#[inline]
pub(in crate::html) fn flags(name: NameId, namespace: Namespace) -> Flags {
    match namespace {
        Namespace::Html => html(name),
        Namespace::Svg => match name {
            names::FOREIGN_OBJECT | names::DESC | names::TITLE => {
                FOREIGN | SPECIAL | SCOPE | HTML_INTEGRATION
            }
            _ => FOREIGN,
        },
        Namespace::MathMl => match name {
            names::MI | names::MO | names::MN | names::MS | names::MTEXT => {
                FOREIGN | SPECIAL | SCOPE | TEXT_INTEGRATION
            }
            names::ANNOTATION_XML => FOREIGN | SPECIAL | SCOPE,
            _ => FOREIGN,
        },
    }
}
