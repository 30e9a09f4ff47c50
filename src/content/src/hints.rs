//! What the names that authors give to elements (class, id, role, itemprop) say of their purpose.
//!
//! A name is cut into words (at anything but letters and digits, and where lower case turns to upper case), and the words
//! are looked up. Names are hints and never proof: what a hint takes off is decided where it is known how much of the
//! page's prose would go with it ([`crate::select`]).

use page::html::names::{self, NameId};
use page::html::{AttrId, Document, NodeId};

/// What an element's names say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// Readers' comments and the form for them.
    pub is_comments: bool,
    /// Beside the content: navigation, related pages, sharing, advertisements, notices.
    pub is_chrome: bool,
    /// About the content and not of it: who wrote it, when, under which tags.
    pub is_about: bool,
    /// The words that content management systems give to the body of an article.
    pub is_body: bool,
    /// The words under a picture, or who took it.
    pub is_caption: bool,
    /// Not shown, or not shown now.
    pub is_hidden: bool,
}

/// Bytes of a class or id that are looked at: names beyond are generated.
const NAME_BYTES_MAX: usize = 400;
/// Bytes of the longest word that is looked up.
const WORD_BYTES_MAX: usize = 24;

/// Sorted, as [`slice::binary_search`] wants them.
const COMMENTS: [&str; 18] = [
    "comentario",
    "comentarios",
    "comment",
    "commentaires",
    "commentarea",
    "commentform",
    "commentlist",
    "comments",
    "commentsection",
    "commenttext",
    "discussion",
    "disqus",
    "kommentar",
    "kommentare",
    "livefyre",
    "replies",
    "reply",
    "respond",
];

const CHROME: [&str; 109] = [
    "ad",
    "adbox",
    "ads",
    "adsbygoogle",
    "adslot",
    "advert",
    "advertisement",
    "adverts",
    "aff",
    "affiliate",
    "alsolike",
    "banner",
    "banners",
    "blogroll",
    "bookmark",
    "bookmarks",
    "breadcrumb",
    "breadcrumbs",
    "carousel",
    "colophon",
    "consent",
    "cookie",
    "cookies",
    "copyright",
    "crumbs",
    "donate",
    "donation",
    "dropdown",
    "flyout",
    "follow",
    "footer",
    "footnav",
    "gdpr",
    "infobar",
    "inlinead",
    "jetpack",
    "leaderboard",
    "login",
    "mailinglist",
    "masthead",
    "menu",
    "menus",
    "modal",
    "mostpopular",
    "mostread",
    "nav",
    "navbar",
    "navbox",
    "navi",
    "navigation",
    "newsletter",
    "newsletters",
    "noprint",
    "outbrain",
    "pager",
    "pagination",
    "paging",
    "partner",
    "partners",
    "pinit",
    "pinterest",
    "popular",
    "popup",
    "promo",
    "promobox",
    "promos",
    "promoted",
    "promotion",
    "rail",
    "readmore",
    "readnext",
    "recirc",
    "recirculation",
    "recommend",
    "recommendation",
    "recommendations",
    "recommended",
    "related",
    "relatedarticles",
    "relatedlinks",
    "relatedposts",
    "relatedstories",
    "rss",
    "search",
    "share",
    "shareaholic",
    "sharebar",
    "sharedaddy",
    "sharethis",
    "sharing",
    "shoutbox",
    "sidebar",
    "sidenav",
    "signin",
    "signup",
    "sitemap",
    "skip",
    "skiplink",
    "sociable",
    "social",
    "sponsor",
    "sponsored",
    "subnav",
    "subscribe",
    "subscription",
    "taboola",
    "toolbar",
    "trending",
    "upsell",
];

const ABOUT: [&str; 22] = [
    "author",
    "authorbio",
    "authorbox",
    "authors",
    "avatar",
    "bio",
    "byline",
    "bylines",
    "categories",
    "category",
    "contributor",
    "dateline",
    "metadata",
    "postmeta",
    "postmetadata",
    "profile",
    "published",
    "tag",
    "taglist",
    "tags",
    "timestamp",
    "topics",
];

const CAPTION: [&str; 8] = [
    "caption",
    "captions",
    "credit",
    "credits",
    "imagecaption",
    "photocredit",
    "photographer",
    "wpcaptiontext",
];

/// Names of a whole, not words of it: lower case, without what stands between the words.
const BODY: [&str; 33] = [
    "articlebody",
    "articlebodycontent",
    "articlecontent",
    "articlecontents",
    "articlecopy",
    "articletext",
    "bodycopy",
    "bodytext",
    "contentbody",
    "entrybody",
    "entrycontent",
    "entrytext",
    "maincontent",
    "mwparseroutput",
    "newsbody",
    "newscontent",
    "newstext",
    "pagecontent",
    "postarticle",
    "postbody",
    "postbodycontent",
    "postcontent",
    "postentry",
    "posttext",
    "richtext",
    "storybody",
    "storybodytext",
    "storycontent",
    "storytext",
    "tdpostcontent",
    "textcontent",
    "thearticle",
    "thecontent",
];

/// Words that turn the next one around: `no-sidebar`, `has-comments`, `with-related`.
const ABOUT_THE_PAGE: [&str; 6] = ["no", "has", "with", "without", "hide", "is"];

impl Hints {
    /// Reads the names of an element.
    pub fn of(document: &Document, element: NodeId) -> Hints {
        let mut hints = Hints::default();
        for row in document.attributes(element) {
            let attribute = AttrId(row);
            let name = document.attr_name_id(attribute);
            let value = document.attr_value(attribute);
            match name {
                names::CLASS | names::ID => hints.add_names(value),
                names::ROLE => hints.add_role(value),
                names::ITEMPROP => hints.add_property(value),
                names::HIDDEN => hints.is_hidden |= !value.eq_ignore_ascii_case("until-found"),
                names::ARIA_HIDDEN => hints.is_hidden |= value.eq_ignore_ascii_case("true"),
                names::STYLE => hints.is_hidden |= hides(value),
                _ => {}
            }
        }
        hints
    }

    fn add_role(&mut self, role: &str) {
        match role.trim() {
            "navigation" | "complementary" | "banner" | "contentinfo" | "search" | "dialog"
            | "alertdialog" | "menu" | "menubar" | "toolbar" => self.is_chrome = true,
            _ => {}
        }
    }

    fn add_property(&mut self, properties: &str) {
        for property in properties.split_ascii_whitespace() {
            match property {
                "articleBody" => self.is_body = true,
                "comment" => self.is_comments = true,
                "author" | "datePublished" | "dateModified" | "keywords" => self.is_about = true,
                _ => {}
            }
        }
    }

    fn add_names(&mut self, value: &str) {
        let cut = &value[..value.floor_char_boundary(NAME_BYTES_MAX)];
        for token in cut.split_ascii_whitespace() {
            self.add_token(token);
        }
    }

    /// One class or id.
    fn add_token(&mut self, token: &str) {
        let mut word = Word::default();
        let mut whole = Word::default();
        let mut is_turned = false;
        let bytes = token.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let starts = byte.is_ascii_uppercase() && at > 0 && bytes[at - 1].is_ascii_lowercase();
            if !byte.is_ascii_alphanumeric() || starts {
                self.add_word(&mut word, &mut is_turned);
            }
            if byte.is_ascii_alphanumeric() {
                word.push(*byte);
                whole.push(*byte);
            }
        }
        self.add_word(&mut word, &mut is_turned);
        if BODY.binary_search(&whole.text()).is_ok() {
            self.is_body = true;
        }
    }

    fn add_word(&mut self, word: &mut Word, is_turned: &mut bool) {
        let text = word.text();
        if !text.is_empty() && !*is_turned {
            let is_in = |list: &[&str]| list.binary_search(&text).is_ok();
            self.is_comments |= is_in(&COMMENTS);
            self.is_chrome |= is_in(&CHROME);
            self.is_about |= is_in(&ABOUT);
            self.is_caption |= is_in(&CAPTION);
        }
        *is_turned = ABOUT_THE_PAGE.contains(&text);
        word.clear();
    }
}

/// True where a style hides its element. Looked for in the text: no value of another property reads so.
fn hides(style: &str) -> bool {
    let squeezed = |needle: &str| {
        let mut rest = needle.bytes().peekable();
        for byte in style.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            let byte = byte.to_ascii_lowercase();
            if rest.peek() == Some(&byte) {
                rest.next();
                if rest.peek().is_none() {
                    return true;
                }
            } else {
                rest = needle.bytes().peekable();
                if rest.peek() == Some(&byte) {
                    rest.next();
                }
            }
        }
        false
    };
    style.len() <= NAME_BYTES_MAX && (squeezed("display:none") || squeezed("visibility:hidden"))
}

/// A word in lower case, without allocation; longer ones are in no list.
#[derive(Default)]
struct Word {
    bytes: [u8; WORD_BYTES_MAX],
    length: usize,
}

impl Word {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte.to_ascii_lowercase();
        }
        self.length += 1;
    }

    fn text(&self) -> &str {
        self.bytes.get(..self.length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    fn clear(&mut self) {
        self.length = 0;
    }
}

/// Elements that never hold content of the page: their text is code, a control, or another document.
pub fn is_never_content(name: NameId) -> bool {
    matches!(
        name,
        names::SCRIPT
            | names::STYLE
            | names::TEMPLATE
            | names::NOSCRIPT
            | names::HEAD
            | names::TITLE
            | names::IFRAME
            | names::NOFRAMES
            | names::NOEMBED
            | names::EMBED
            | names::OBJECT
            | names::APPLET
            | names::CANVAS
            | names::AUDIO
            | names::VIDEO
            | names::MAP
            | names::SELECT
            | names::DATALIST
            | names::BUTTON
            | names::INPUT
            | names::TEXTAREA
            | names::PROGRESS
            | names::METER
            | names::RP
            | names::RT
    )
}

/// Elements whose very tag says that they stand beside the content.
pub fn is_chrome_element(name: NameId) -> bool {
    matches!(
        name,
        names::NAV | names::ASIDE | names::FOOTER | names::MENU | names::DIALOG | names::SEARCH | names::FORM
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are searched by halves.
    #[test]
    fn lists_of_words_are_sorted_and_lower_case() {
        for list in [&COMMENTS[..], &CHROME, &ABOUT, &CAPTION, &BODY] {
            assert!(list.is_sorted(), "{list:?}");
            let is_word = |word: &&str| {
                word.len() <= WORD_BYTES_MAX && word.bytes().all(|byte| byte.is_ascii_lowercase())
            };
            assert!(list.iter().all(is_word), "{list:?}");
        }
    }

    fn hints(attributes: &str) -> Hints {
        let document = Document::parse(format!("<div {attributes}>"));
        let element = document.elements_named(names::DIV).next().expect("a div");
        Hints::of(&document, element)
    }

    #[test]
    fn names_are_cut_into_words() {
        for chrome in [
            "class=sidebar",
            "id=left-sidebar",
            "class='x relatedPosts'",
            "class=siteNav_2",
            "role=navigation",
        ] {
            assert!(hints(chrome).is_chrome || hints(chrome).is_comments, "{chrome}");
        }
        for plain in [
            "class=no-sidebar",
            "class='has-comments'",
            "class=advance",
            "class=navy",
            "class=menubar2000x",
            "class",
        ] {
            assert_eq!(hints(plain), Hints::default(), "{plain}");
        }
        assert!(hints("class=comment-list").is_comments);
        assert!(hints("class=wp-caption-text").is_caption);
        assert!(hints("class=entry-content").is_body && hints("itemprop='x articleBody'").is_body);
    }

    #[test]
    fn what_is_hidden() {
        for hidden in
            ["hidden", "aria-hidden=true", "style='color:red; DISPLAY : none'", "style='visibility:hidden'"]
        {
            assert!(hints(hidden).is_hidden, "{hidden}");
        }
        for shown in ["hidden=until-found", "aria-hidden=false", "style='display:block;float:none'"] {
            assert!(!hints(shown).is_hidden, "{shown}");
        }
    }
}
