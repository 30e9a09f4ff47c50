//! CSS selectors as XPath, so that a region written either way runs on one engine with one budget.
//!
//! What is taken (Selectors Level 3, with `:is` and their like left out): lists, `E F`, `E > F`, `E + F`, `E ~ F`, `*`, types,
//! `#id`, `.class`, `[a]`, `[a=v]`, `[a~=v]`, `[a|=v]`, `[a^=v]`, `[a$=v]`, `[a*=v]`, `:first-child`, `:last-child`,
//! `:only-child`, `:nth-child()`, `:nth-last-child()`, `:first-of-type`, `:last-of-type`, `:nth-of-type()`, `:root`, `:empty`
//! and `:not()` with a list of compound selectors. What is not is refused by its name, never passed over.

use std::fmt::Write as _;

/// Bytes of a selector.
pub const SELECTOR_BYTES_MAX: usize = 2_000;
/// How deep `:not` may stand within itself.
const NESTING_MAX: usize = 4;

/// The XPath of a selector, seen from the document; or what is wrong with it.
pub fn to_xpath(selector: &str) -> Result<String, String> {
    if selector.len() > SELECTOR_BYTES_MAX {
        return Err(format!("is longer than {SELECTOR_BYTES_MAX} bytes"));
    }
    let chars: Vec<char> = selector.trim().chars().collect();
    let mut reader = Reader { chars: &chars, at: 0 };
    let mut paths = Vec::new();
    loop {
        reader.skip_space();
        paths.push(path(&mut reader)?);
        match reader.peek() {
            None => return Ok(paths.join(" | ")),
            Some(',') => reader.at += 1,
            Some(other) => return Err(reader.unexpected(other)),
        }
    }
}

struct Reader<'c> {
    chars: &'c [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    /// Whether there was any.
    fn skip_space(&mut self) -> bool {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at > from
    }

    fn unexpected(&self, found: char) -> String {
        format!("has a {found:?} at character {} that does not belong there", self.at + 1)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.takes(wanted) {
            true => Ok(()),
            false => Err(format!("misses {wanted:?} at character {}", self.at + 1)),
        }
    }

    fn begins_name(&self) -> bool {
        self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '\\') || !c.is_ascii())
    }

    /// An identifier, with its escapes resolved.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    self.at += 1;
                    name.push(self.escaped()?);
                }
                c if c.is_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii() => {
                    self.at += 1;
                    name.push(c);
                }
                _ => break,
            }
        }
        match name.is_empty() {
            true => Err(format!("misses a name at character {}", self.at + 1)),
            false => Ok(name),
        }
    }

    /// What stands behind a backslash: up to six hexadecimal digits and a space, or the character itself.
    fn escaped(&mut self) -> Result<char, String> {
        let digits: String =
            self.chars[self.at..].iter().take(6).take_while(|c| c.is_ascii_hexdigit()).collect();
        if digits.is_empty() {
            let c = self.peek().ok_or("ends with a backslash")?;
            self.at += 1;
            return Ok(c);
        }
        self.at += digits.len();
        if self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
        let code = u32::from_str_radix(&digits, 16).ok().filter(|code| *code != 0);
        Ok(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// A name of an element or attribute, as XPath can write it.
    fn plain_name(&mut self) -> Result<String, String> {
        let name = self.name()?.to_ascii_lowercase();
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        match is_plain && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            true => Ok(name),
            false => Err(format!("names {name:?}, which is no name of an element or attribute here")),
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let Some(quote) = self.peek().filter(|c| matches!(c, '"' | '\'')) else { return self.name() };
        self.at += 1;
        let mut text = String::new();
        loop {
            let c = self.peek().ok_or("has a quote that is not closed")?;
            self.at += 1;
            match c {
                c if c == quote => return Ok(text),
                '\\' => text.push(self.escaped()?),
                c => text.push(c),
            }
        }
    }
}

/// One selector of a list: compounds and what is between them.
fn path(reader: &mut Reader<'_>) -> Result<String, String> {
    let mut path = "//".to_owned();
    path.push_str(&compound(reader, 0)?.as_step());
    loop {
        let spaced = reader.skip_space();
        let between = match reader.peek() {
            None | Some(',') => return Ok(path),
            Some('>') => "/",
            Some('+') => "/following-sibling::*[1]/self::",
            Some('~') => "/following-sibling::",
            Some(_) if spaced => "//",
            Some(other) => return Err(reader.unexpected(other)),
        };
        if between != "//" {
            reader.at += 1;
            reader.skip_space();
        }
        path.push_str(between);
        path.push_str(&compound(reader, 0)?.as_step());
    }
}

/// A compound selector: what an element must be.
#[derive(Default)]
struct Compound {
    name: Option<String>,
    conditions: Vec<String>,
}

impl Compound {
    fn as_step(&self) -> String {
        let mut step = self.name.clone().unwrap_or_else(|| "*".to_owned());
        for condition in &self.conditions {
            let _ = write!(step, "[{condition}]");
        }
        step
    }

    fn as_condition(&self) -> String {
        let name = self.name.iter().map(|name| format!("self::{name}"));
        let all: Vec<_> = name.chain(self.conditions.iter().map(|one| format!("({one})"))).collect();
        if all.is_empty() { "true()".to_owned() } else { all.join(" and ") }
    }
}

fn compound(reader: &mut Reader<'_>, depth: usize) -> Result<Compound, String> {
    let mut compound = Compound::default();
    let from = reader.at;
    if reader.begins_name() {
        compound.name = Some(reader.plain_name()?);
    } else {
        reader.takes('*');
    }
    if reader.peek() == Some('|') {
        return Err("names a namespace; pages have none here".to_owned());
    }
    loop {
        let condition = match reader.peek() {
            Some('#') => {
                reader.at += 1;
                format!("@id={}", literal(&reader.name()?))
            }
            Some('.') => {
                reader.at += 1;
                format!("has-class({})", literal(&reader.name()?))
            }
            Some('[') => attribute(reader)?,
            Some(':') => pseudo_class(reader, &compound, depth)?,
            _ => break,
        };
        compound.conditions.push(condition);
    }
    match reader.at > from {
        true => Ok(compound),
        false => match reader.peek() {
            None => Err("ends where an element is expected".to_owned()),
            Some(found) => Err(reader.unexpected(found)),
        },
    }
}

fn attribute(reader: &mut Reader<'_>) -> Result<String, String> {
    reader.expect('[')?;
    reader.skip_space();
    let name = reader.plain_name()?;
    reader.skip_space();
    if reader.takes(']') {
        return Ok(format!("@{name}"));
    }
    let operator = reader.peek().filter(|c| matches!(c, '~' | '|' | '^' | '$' | '*'));
    reader.at += usize::from(operator.is_some());
    reader.expect('=')?;
    reader.skip_space();
    let value = reader.text()?;
    reader.skip_space();
    if reader.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
        return Err("asks for letters of any case in an attribute, which is not taken".to_owned());
    }
    reader.expect(']')?;
    let text = literal(&value);
    let is_void = value.is_empty();
    Ok(match operator {
        None => format!("@{name}={text}"),
        Some('|') => format!("@{name}={text} or starts-with(@{name}, {})", literal(&format!("{value}-"))),
        // Of these an empty value is never one, says the standard.
        _ if is_void => "false()".to_owned(),
        Some('~') if value.contains(char::is_whitespace) => "false()".to_owned(),
        Some('~') => {
            let token = literal(&format!(" {value} "));
            format!("contains(concat(' ', normalize-space(@{name}), ' '), {token})")
        }
        Some('^') => format!("starts-with(@{name}, {text})"),
        Some('$') => {
            let length = value.chars().count();
            let from = format!("string-length(@{name}) - {}", length - 1);
            format!("string-length(@{name}) >= {length} and substring(@{name}, {from}) = {text}")
        }
        Some(_) => format!("contains(@{name}, {text})"),
    })
}

fn pseudo_class(reader: &mut Reader<'_>, of: &Compound, depth: usize) -> Result<String, String> {
    reader.expect(':')?;
    if reader.peek() == Some(':') {
        return Err("names a pseudo-element, and no element of the page".to_owned());
    }
    let name = reader.name()?.to_ascii_lowercase();
    let same_type = || of.name.clone().ok_or_else(|| format!("has :{name} without the type of the element"));
    let before = |kind: &str| format!("preceding-sibling::{kind}");
    let behind = |kind: &str| format!("following-sibling::{kind}");
    Ok(match name.as_str() {
        "root" => "not(parent::*)".to_owned(),
        "empty" => "not(*) and not(text())".to_owned(),
        "first-child" => format!("not({})", before("*")),
        "last-child" => format!("not({})", behind("*")),
        "only-child" => format!("not({}) and not({})", before("*"), behind("*")),
        "first-of-type" => format!("not({})", before(&same_type()?)),
        "last-of-type" => format!("not({})", behind(&same_type()?)),
        "nth-child" => nth(reader, &before("*"))?,
        "nth-last-child" => nth(reader, &behind("*"))?,
        "nth-of-type" => nth(reader, &before(&same_type()?))?,
        "not" if depth < NESTING_MAX => {
            reader.expect('(')?;
            let mut any = Vec::new();
            loop {
                reader.skip_space();
                any.push(format!("({})", compound(reader, depth + 1)?.as_condition()));
                reader.skip_space();
                if !reader.takes(',') {
                    break;
                }
            }
            reader.expect(')')?;
            format!("not({})", any.join(" or "))
        }
        _ => return Err(format!("has :{name}, which is not taken here")),
    })
}

/// `an+b` as a condition on the number of siblings on one side, which is the place less one.
fn nth(reader: &mut Reader<'_>, siblings: &str) -> Result<String, String> {
    reader.expect('(')?;
    let mut text = String::new();
    while let Some(c) = reader.peek().filter(|c| *c != ')') {
        reader.at += 1;
        text.extend(c.to_lowercase().filter(|c| !c.is_ascii_whitespace()));
    }
    reader.expect(')')?;
    let wrong = || format!("has {text:?} for a place; 2, odd, even or 3n+1 are ones");
    let number = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_one = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i32>().ok().filter(|_| is_one).ok_or_else(wrong)
    };
    let (a, b) = match text.as_str() {
        "odd" => (2, 1),
        "even" => (2, 0),
        _ => match text.split_once('n') {
            None => (0, number(&text)?),
            Some((a, b)) => {
                let a = match a {
                    "" | "+" => 1,
                    "-" => -1,
                    a => number(a)?,
                };
                (a, if b.is_empty() { 0 } else { number(b)? })
            }
        },
    };
    let place = format!("(count({siblings}) + 1)");
    Ok(match a {
        0 => format!("{place} = {b}"),
        a if a > 0 => format!("{place} >= {b} and ({place} - {b}) mod {a} = 0"),
        a => format!("{place} <= {b} and ({b} - {place}) mod {} = 0", -a),
    })
}

/// A text as XPath writes it, which knows no escapes.
fn literal(text: &str) -> String {
    if !text.contains('\'') {
        return format!("'{text}'");
    }
    if !text.contains('"') {
        return format!("\"{text}\"");
    }
    let parts: Vec<_> = text.split('\'').map(|part| format!("'{part}'")).collect();
    format!("concat({})", parts.join(", \"'\", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use page::html::Document;
    use page::xpath::{Fuel, Value, XPath};

    const PAGE: &str = "<!doctype html><body id=top><ul class='list wide'><li id=a><a href=/1 rel='nofollow x'>1</a>\
        <li id=b class=it><a href=/2 lang=en-GB>2</a><li id=c class='it last'><b id=d></b><i id=e>x</i></ul>\
        <p id=f title=\"it's\">p</p><p id=g title='a\"b'>q</p><div id=h data-x=''><p id=j>r</p></div>";

    fn ids(selector: &str) -> String {
        let xpath = to_xpath(selector).unwrap_or_else(|e| panic!("{selector}: {e}"));
        let document = Document::parse(PAGE.to_owned());
        let compiled = XPath::compile(&xpath).unwrap_or_else(|e| panic!("{selector}: {xpath}: {e}"));
        let found = compiled.evaluate(&document, Document::ROOT, &mut Fuel::for_page()).unwrap();
        let Value::Nodes(nodes) = found else { panic!("{selector}") };
        let name = |node: page::xpath::NodeRef| {
            let id =
                document.attribute_named(node.node(), "id").or(document.attribute_named(node.node(), "href"));
            id.unwrap_or(document.name(node.node())).to_owned()
        };
        nodes.into_iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn selectors_find_what_browsers_find() {
        for (selector, found) in [
            ("li", "a b c"),
            ("LI.it", "b c"),
            (".it.last", "c"),
            ("#a, #c", "a c"),
            ("ul a", "/1 /2"),
            ("ul > a", ""),
            ("ul>li>a", "/1 /2"),
            ("#a + li", "b"),
            ("#a ~ li", "b c"),
            ("li + li.last", "c"),
            ("b + *", "e"),
            ("[href]", "/1 /2"),
            ("a[href='/2']", "/2"),
            ("a[rel~=nofollow]", "/1"),
            ("a[rel~='']", ""),
            ("a[lang|=en]", "/2"),
            ("[href^=\"/1\"]", "/1"),
            ("[id$=op]", "top"),
            ("[class*=id]", "ul"),
            ("[data-x='']", "h"),
            ("[data-x*='']", ""),
            ("p[title=\"it's\"]", "f"),
            ("p[title='a\"b']", "g"),
            ("li:first-child", "a"),
            ("li:last-child", "c"),
            ("p:only-child", "j"),
            ("li:nth-child(2)", "b"),
            ("li:nth-child(odd)", "a c"),
            ("li:nth-child( 2n )", "b"),
            ("li:nth-child(-n+2)", "a b"),
            ("li:nth-child(n+2)", "b c"),
            ("li:nth-last-child(1)", "c"),
            ("p:nth-of-type(2)", "g"),
            ("p:first-of-type", "f j"),
            ("p:last-of-type", "g j"),
            ("li:not(.it)", "a"),
            ("li:not(.last, #a)", "b"),
            ("li:not(:first-child):not(.last)", "b"),
            ("b:empty", "d"),
            ("ul.wide *:not(li):not(a)", "d e"),
            (":root", "html"),
            ("#\\64 ", "d"),
        ] {
            assert_eq!(ids(selector), found, "{selector}: {}", to_xpath(selector).unwrap());
        }
    }

    #[test]
    fn what_is_not_taken_is_said() {
        for (wrong, part) in [
            ("", "ends where"),
            ("a,", "ends where"),
            ("a >", "ends where"),
            ("> a", "does not belong"),
            ("a:hover", ":hover"),
            ("a::before", "pseudo-element"),
            ("svg|a", "namespace"),
            ("a[href", "misses"),
            ("a[href=x i]", "any case"),
            ("a[href='x]", "not closed"),
            (":first-of-type", "without the type"),
            ("li:nth-child(x)", "\"x\""),
            ("li:nth-child(99999999n)", "99999999n"),
            ("a)", "does not belong"),
            ("li:not(a b)", "misses"),
            ("a\\", "backslash"),
            ("ü", "no name"),
            (".", "misses a name"),
        ] {
            let said = to_xpath(wrong).unwrap_err();
            assert!(said.contains(part), "{wrong}: {said}");
        }
        assert!(to_xpath(&"a".repeat(SELECTOR_BYTES_MAX + 1)).is_err());
        let deep = ":not(".repeat(300) + "a" + &")".repeat(300);
        assert!(to_xpath(&deep).unwrap_err().contains(":not"));
    }

    #[test]
    fn every_text_of_a_selector_stays_a_text() {
        let quoted = to_xpath("[title=\"a'b\\\"c\"]").unwrap();
        assert_eq!(quoted, "//*[@title=concat('a', \"'\", 'b\"c')]");
        assert!(XPath::compile(&quoted).is_ok());
    }
}
