//! What an element can be told by, with the robustness prior of each: its attributes for machines, its id, its classes, where it leads.

use page::html::{AttrId, Document, NodeId};

/// Attributes of one element that are looked at.
const ATTRIBUTES_MAX: usize = 32;
/// Bytes of an id, class or other value in an expression.
const NAME_BYTES_MAX: usize = 64;

const COST_MARKUP: u32 = 6;
const COST_TEST_NAME: u32 = 10;
const COST_ID: u32 = 10;
const COST_CLASS: u32 = 14;
const COST_ATTRIBUTE: u32 = 16;
const COST_MADE_NAME: u32 = 34;

/// A test of an element by something that it has.
#[derive(Clone, Debug)]
pub struct Test {
    pub text: String,
    pub cost: u32,
    pub anchor: String,
    pub is_markup: bool,
}

/// An XPath literal; none for a text that has both quotes or a control character.
pub fn literal(text: &str) -> Option<String> {
    if text.contains(char::is_control) {
        return None;
    }
    match (text.contains('\''), text.contains('"')) {
        (false, _) => Some(format!("'{text}'")),
        (true, false) => Some(format!("\"{text}\"")),
        (true, true) => None,
    }
}

/// An element's name in an expression.
pub fn tag(document: &Document, element: NodeId) -> &str {
    let name = document.name(element);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.bytes().all(plain) && name.starts_with(|c: char| c.is_ascii_lowercase()) { name } else { "*" }
}

/// Whether a name looks as if it was made for one page or one build: it has digits that count something.
fn is_made(name: &str) -> bool {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    // "css-p59dyl", "eno1xhi2", "sc-bdVaJa": digits among letters, or what tools for styles put in front.
    let within =
        name.as_bytes().windows(2).any(|two| two[0].is_ascii_digit() && two[1].is_ascii_alphabetic());
    let by_tool = ["css-", "sc-", "jss", "jsx-", "emotion-"].iter().any(|front| name.starts_with(front));
    digits > 2 || digits > 1 && within || digits > 0 && name.len() <= 4 || by_tool
}

/// Whether it is five to eight letters and digits that are no word: with digits or capitals in them.
fn is_hash(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (5..=8).contains(&text.len())
        && text.bytes().all(is_part)
        && text.bytes().skip(1).any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

/// Class tokens that say how an element stands at the moment.
const STATES: [&str; 12] = [
    "active",
    "selected",
    "first",
    "last",
    "odd",
    "even",
    "open",
    "hidden",
    "show",
    "current",
    "loaded",
    "lazyloaded",
];

/// Whether a class says how an element stands at the moment, or which of several it is, and not what it is.
pub fn is_passing(token: &str) -> bool {
    STATES.contains(&token)
        || token.contains(|c: char| c.is_ascii_digit())
        || ["-first", "-last", "-odd", "-even"].iter().any(|end| token.ends_with(end))
}

/// What an element can be told by, the best first.
pub fn tests(document: &Document, element: NodeId) -> Vec<Test> {
    let mut found = Vec::new();
    for attribute in document.attributes(element).take(ATTRIBUTES_MAX).map(AttrId) {
        let (name, value) = (document.attr_name(attribute), document.attr_value(attribute));
        if value.len() > 4 * NAME_BYTES_MAX || value.trim().is_empty() {
            continue;
        }
        match name {
            "class" => found.extend(value.split_ascii_whitespace().take(8).filter_map(class_test)),
            "href" => found.extend(href_test(value)),
            _ => found.extend(attribute_test(name, value)),
        }
    }
    found.sort_by_key(|test: &Test| test.cost);
    found
}

fn class_test(token: &str) -> Option<Test> {
    if token.len() < 2 || token.len() > NAME_BYTES_MAX || token.contains(['\'', '"']) {
        return None;
    }
    // CSS modules add a hash to the name that somebody gave ("Card_title__x7Kq2").
    if let Some((given, hash)) = token.rsplit_once("__")
        && given.len() > 3
        && is_hash(hash)
        && !is_made(given)
    {
        let text = format!("[contains(@class, '{given}__')]");
        return Some(Test { text, cost: COST_CLASS + 2, anchor: format!(".{given}"), is_markup: false });
    }
    let cost = match token {
        made if is_made(made) || STATES.contains(&made) => COST_MADE_NAME,
        // A word of three letters says little ("row", "col").
        short if short.len() <= 3 => COST_CLASS + 6,
        _ => COST_CLASS,
    };
    let text = format!("[contains(concat(' ', normalize-space(@class), ' '), ' {token} ')]");
    Some(Test { text, cost, anchor: format!(".{token}"), is_markup: false })
}

/// Where a link leads: the first part of its path, for links to authors, brands and tags.
fn href_test(value: &str) -> Option<Test> {
    let path = value.split(['?', '#']).next()?;
    let path = path.split_once("//").map_or(path, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let (part, rest) = path.strip_prefix('/')?.split_once('/')?;
    let plain =
        (3..=24).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let text = format!("[contains(@href, '/{part}/')]");
    (plain && !rest.is_empty()).then(|| Test {
        text,
        cost: COST_ATTRIBUTE + 2,
        anchor: format!("/{part}/"),
        is_markup: false,
    })
}

fn attribute_test(name: &str, value: &str) -> Option<Test> {
    let is_plain_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if value.len() > NAME_BYTES_MAX || !is_plain_name {
        return None;
    }
    let is_word =
        !value.contains(|c: char| c.is_ascii_digit()) && value.split_ascii_whitespace().count() == 1;
    let cost = match name {
        "itemprop" | "property" => COST_MARKUP,
        "name" | "http-equiv" => COST_MARKUP + 2,
        "id" => match is_made(value) {
            true => COST_MADE_NAME,
            false => COST_ID,
        },
        _ if name.starts_with("data-") && name.contains("test")
            || matches!(name, "data-qa" | "data-hook") =>
        {
            COST_TEST_NAME
        }
        "rel" | "role" | "aria-label" | "for" | "type" => COST_ATTRIBUTE,
        _ if name.starts_with("data-") && is_word && value.len() > 2 => COST_ATTRIBUTE + 4,
        _ => return None,
    };
    let is_markup = matches!(name, "itemprop" | "property" | "name");
    let text = format!("[@{name}={}]", literal(value)?);
    Some(Test { text, cost, anchor: format!("{name}={value}"), is_markup })
}
