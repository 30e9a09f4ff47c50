//! `<!DOCTYPE …>` and the quirks mode that follows from it.

use memchr::memchr;

use crate::html::dom::names::NameId;
use crate::html::dom::{DoctypeIds, QuirksMode};
use crate::html::tree::Parser;

impl Parser<'_> {
    /// What follows `<!doctype`. A doctype ends at the first `>`, even inside a quoted identifier.
    pub(super) fn doctype_at(&mut self, start: usize) {
        let source = self.source;
        let found = memchr(b'>', &source.as_bytes()[start..]);
        let end = found.map_or(source.len(), |offset| start + offset);
        self.position = (end + 1).min(source.len());
        let doctype = read(&source[start..end], found.is_none());
        let quirks = doctype.quirks_mode();
        let Doctype { name, ids, .. } = doctype;
        let name = match name {
            Some(name) => self.builder.names.intern(&name),
            None => NameId::NONE,
        };
        self.doctype(name, ids, quirks);
    }
}

#[derive(Default)]
struct Doctype {
    name: Option<String>,
    ids: DoctypeIds,
    force_quirks: bool,
}

fn trim(text: &str) -> &str {
    text.trim_start_matches([' ', '\n', '\t', '\x0C', '\r'])
}

fn read(content: &str, at_end_of_file: bool) -> Doctype {
    let mut doctype = Doctype { force_quirks: at_end_of_file, ..Doctype::default() };
    let rest = trim(content);
    if rest.is_empty() {
        doctype.force_quirks = true;
        return doctype;
    }
    let end = rest.find([' ', '\n', '\t', '\x0C', '\r']).unwrap_or(rest.len());
    doctype.name = Some(rest[..end].to_ascii_lowercase().replace('\0', "\u{FFFD}"));
    let rest = trim(&rest[end..]);
    if rest.is_empty() {
        return doctype;
    }
    let keyword = rest.get(..6).unwrap_or("");
    let after_public = if keyword.eq_ignore_ascii_case("public") {
        let (public, rest, closed) = quoted(trim(&rest[6..]));
        doctype.force_quirks |= !closed;
        doctype.ids.public = public;
        if !closed {
            return doctype;
        }
        let rest = trim(rest);
        if rest.is_empty() {
            return doctype;
        }
        rest
    } else if keyword.eq_ignore_ascii_case("system") {
        trim(&rest[6..])
    } else {
        doctype.force_quirks = true;
        return doctype;
    };
    let (system, rest, closed) = quoted(after_public);
    doctype.force_quirks |= !closed;
    doctype.ids.system = system;
    if closed && !trim(rest).is_empty() {
        // What stands after a whole system identifier is skipped, up to the end of the page if need be.
        doctype.force_quirks = false;
    }
    doctype
}

/// A quoted identifier at the start of `text`: its value, what follows, and whether it was there and closed.
fn quoted(text: &str) -> (Option<String>, &str, bool) {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return (None, text, false);
    };
    let value = |text: &str| Some(text.replace('\0', "\u{FFFD}"));
    match text[1..].find(quote) {
        Some(end) => (value(&text[1..=end]), &text[end + 2..], true),
        None => (value(&text[1..]), "", false),
    }
}

impl Doctype {
    fn quirks_mode(&self) -> QuirksMode {
        let public = self.ids.public.as_deref().map(str::to_ascii_lowercase);
        let system = self.ids.system.as_deref().map(str::to_ascii_lowercase);
        let public = public.as_deref();
        let starts =
            |prefixes: &[&str]| public.is_some_and(|id| prefixes.iter().any(|prefix| id.starts_with(prefix)));
        let whole = public.is_some_and(|id| QUIRKY_PUBLIC.contains(&id));
        let transitional =
            starts(&["-//w3c//dtd html 4.01 frameset//", "-//w3c//dtd html 4.01 transitional//"]);
        if self.force_quirks
            || self.name.as_deref() != Some("html")
            || whole
            || system.as_deref() == Some("http://www.ibm.com/data/dtd/v11/ibmxhtml1-transitional.dtd")
            || starts(QUIRKY_PREFIXES)
            || (transitional && system.is_none())
        {
            return QuirksMode::Quirks;
        }
        if transitional
            || starts(&["-//w3c//dtd xhtml 1.0 frameset//", "-//w3c//dtd xhtml 1.0 transitional//"])
        {
            return QuirksMode::LimitedQuirks;
        }
        QuirksMode::NoQuirks
    }
}

const QUIRKY_PUBLIC: &[&str] =
    &["-//w3o//dtd w3 html strict 3.0//en//", "-/w3c/dtd html 4.0 transitional/en", "html"];

/// Public identifiers that begin so, in lower case, mean quirks mode (WHATWG 13.2.6.4.1).
const QUIRKY_PREFIXES: &[&str] = &[
    "+//silmaril//dtd html pro v0r11 19970101//",
    "-//advasoft ltd//dtd html 3.0 aswedit + extensions//",
    "-//as//dtd html 3.0 aswedit + extensions//",
    "-//ietf//dtd html 2.0 level 1//",
    "-//ietf//dtd html 2.0 level 2//",
    "-//ietf//dtd html 2.0 strict level 1//",
    "-//ietf//dtd html 2.0 strict level 2//",
    "-//ietf//dtd html 2.0 strict//",
    "-//ietf//dtd html 2.0//",
    "-//ietf//dtd html 2.1e//",
    "-//ietf//dtd html 3.0//",
    "-//ietf//dtd html 3.2 final//",
    "-//ietf//dtd html 3.2//",
    "-//ietf//dtd html 3//",
    "-//ietf//dtd html level 0//",
    "-//ietf//dtd html level 1//",
    "-//ietf//dtd html level 2//",
    "-//ietf//dtd html level 3//",
    "-//ietf//dtd html strict level 0//",
    "-//ietf//dtd html strict level 1//",
    "-//ietf//dtd html strict level 2//",
    "-//ietf//dtd html strict level 3//",
    "-//ietf//dtd html strict//",
    "-//ietf//dtd html//",
    "-//metrius//dtd metrius presentational//",
    "-//microsoft//dtd internet explorer 2.0 html strict//",
    "-//microsoft//dtd internet explorer 2.0 html//",
    "-//microsoft//dtd internet explorer 2.0 tables//",
    "-//microsoft//dtd internet explorer 3.0 html strict//",
    "-//microsoft//dtd internet explorer 3.0 html//",
    "-//microsoft//dtd internet explorer 3.0 tables//",
    "-//netscape comm. corp.//dtd html//",
    "-//netscape comm. corp.//dtd strict html//",
    "-//o'reilly and associates//dtd html 2.0//",
    "-//o'reilly and associates//dtd html extended 1.0//",
    "-//o'reilly and associates//dtd html extended relaxed 1.0//",
    "-//sq//dtd html 2.0 hotmetal + extensions//",
    "-//softquad software//dtd hotmetal pro 6.0::19990601::extensions to html 4.0//",
    "-//softquad//dtd hotmetal pro 4.0::19971010::extensions to html 4.0//",
    "-//spyglass//dtd html 2.0 extended//",
    "-//sun microsystems corp.//dtd hotjava html//",
    "-//sun microsystems corp.//dtd hotjava strict html//",
    "-//w3c//dtd html 3 1995-03-24//",
    "-//w3c//dtd html 3.2 draft//",
    "-//w3c//dtd html 3.2 final//",
    "-//w3c//dtd html 3.2//",
    "-//w3c//dtd html 3.2s draft//",
    "-//w3c//dtd html 4.0 frameset//",
    "-//w3c//dtd html 4.0 transitional//",
    "-//w3c//dtd html experimental 19960712//",
    "-//w3c//dtd html experimental 970421//",
    "-//w3c//dtd w3 html//",
    "-//w3o//dtd w3 html 3.0//",
    "-//webtechs//dtd mozilla html 2.0//",
    "-//webtechs//dtd mozilla html//",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(content: &str) -> QuirksMode {
        read(content, false).quirks_mode()
    }

    #[test]
    fn quirks_follow_the_identifiers() {
        assert_eq!(mode(" html"), QuirksMode::NoQuirks);
        assert_eq!(mode(" HTML system 'about:legacy-compat'"), QuirksMode::NoQuirks);
        assert_eq!(mode(""), QuirksMode::Quirks);
        assert_eq!(mode(" htm"), QuirksMode::Quirks);
        assert_eq!(mode(" html nonsense"), QuirksMode::Quirks);
        assert_eq!(mode(" html public \"-//W3C//DTD HTML 3.2 Final//EN\""), QuirksMode::Quirks);
        assert_eq!(mode(" html public \"-//W3C//DTD HTML 4.01 Transitional//EN\""), QuirksMode::Quirks);
        let with_system =
            " html public '-//W3C//DTD HTML 4.01 Transitional//EN' 'http://www.w3.org/TR/html4/loose.dtd'";
        assert_eq!(mode(with_system), QuirksMode::LimitedQuirks);
        assert_eq!(
            mode(" html public '-//W3C//DTD XHTML 1.0 Transitional//EN' ''"),
            QuirksMode::LimitedQuirks
        );
        assert_eq!(mode(" html system 'x' garbage"), QuirksMode::NoQuirks);
        assert_eq!(mode(" html system 'x"), QuirksMode::Quirks, "an open quote");
    }

    #[test]
    fn identifiers_are_kept_as_written() {
        let doctype = read(" Html PUBLIC \"A b\"'C'", false);
        assert_eq!(doctype.name.as_deref(), Some("html"));
        assert_eq!(doctype.ids, DoctypeIds { public: Some("A b".into()), system: Some("C".into()) });
        assert_eq!(read(" html public", false).ids, DoctypeIds::default());
    }
}
