//! Character references (`&amp;`, `&#x41;`), by the WHATWG's rules.
//!
//! The names are in `entities.txt`: `name=code points in hexadecimal`, a star where the name is also known without its
//! semicolon. They are hashed once a process. A named reference is the longest name that the input starts with; names are
//! letters and digits, so that is either the whole run of letters and digits with a semicolon after it, or a starred name of
//! at most six letters: a few look-ups, never a scan of the table.

use std::sync::LazyLock;

use super::dom::names::hash;

static TABLE_TEXT: &str = include_str!("entities.txt");

/// Longest name that may stand without a semicolon.
const BARE_BYTES_MAX: usize = 6;
/// Longest name at all.
const NAME_BYTES_MAX: usize = 31;
const SLOTS: usize = 8192;

struct Entity {
    name: &'static str,
    value: String,
    bare: bool,
}

struct Table {
    slots: Vec<u16>,
    entities: Vec<Entity>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let entities: Vec<Entity> = TABLE_TEXT.split_ascii_whitespace().filter_map(Entity::read).collect();
    let mut slots = vec![0; SLOTS];
    for (number, entity) in entities.iter().enumerate() {
        let mut at = hash(entity.name.as_bytes()) as usize % SLOTS;
        while slots[at] != 0 {
            at = (at + 1) % SLOTS;
        }
        slots[at] = number as u16 + 1;
    }
    Table { slots, entities }
});

impl Entity {
    fn read(entry: &'static str) -> Option<Entity> {
        let (name, points) = entry.split_once('=')?;
        let points =
            points.split(',').map(|point| u32::from_str_radix(point, 16).ok().and_then(char::from_u32));
        let value = points.collect::<Option<String>>()?;
        Some(Entity { name: name.trim_end_matches('*'), value, bare: name.ends_with('*') })
    }
}

impl Table {
    fn find(&self, name: &[u8]) -> Option<&Entity> {
        let mut at = hash(name) as usize % SLOTS;
        while self.slots[at] != 0 {
            let entity = &self.entities[self.slots[at] as usize - 1];
            if entity.name.as_bytes() == name {
                return Some(entity);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }
}

/// What `&name;` stands for in HTML, for XML that uses HTML's names without declaring them.
pub fn named_character(name: &str) -> Option<&'static str> {
    let table: &'static Table = &TABLE;
    table.find(name.as_bytes()).map(|entity| entity.value.as_str())
}

/// What a reference stands for, and how many bytes of input it took (the ampersand included).
pub(super) struct Reference {
    pub(super) value: Value,
    pub(super) bytes: usize,
}

pub(super) enum Value {
    Named(&'static str),
    Numeric(char),
}

impl Value {
    pub(super) fn push_to(&self, text: &mut String) {
        match self {
            Value::Named(value) => text.push_str(value),
            Value::Numeric(value) => text.push(*value),
        }
    }
}

/// Reads the reference at the start of `input`, which begins with an ampersand; `None` where it is an ordinary one.
///
/// In an attribute a name without semicolon is no reference before `=`, a letter or a digit, so that `?a=b&copy=1` stays.
pub(super) fn read(input: &[u8], in_attribute: bool) -> Option<Reference> {
    let rest = input.get(1..)?;
    match rest.first()? {
        b'#' => read_numeric(rest.get(1..)?).map(|(value, bytes)| Reference { value, bytes: bytes + 2 }),
        byte if byte.is_ascii_alphanumeric() => read_named(rest, in_attribute),
        _ => None,
    }
}

fn read_named(rest: &[u8], in_attribute: bool) -> Option<Reference> {
    let table: &'static Table = &TABLE;
    let window = &rest[..rest.len().min(NAME_BYTES_MAX + 1)];
    let run = window.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(window.len());
    if window.get(run) == Some(&b';')
        && let Some(entity) = table.find(&window[..run])
    {
        return Some(Reference { value: Value::Named(&entity.value), bytes: run + 2 });
    }
    for length in (2..=run.min(BARE_BYTES_MAX)).rev() {
        let Some(entity) = table.find(&window[..length]).filter(|entity| entity.bare) else { continue };
        let next = rest.get(length);
        if in_attribute && next.is_some_and(|byte| *byte == b'=' || byte.is_ascii_alphanumeric()) {
            return None;
        }
        return Some(Reference { value: Value::Named(&entity.value), bytes: length + 1 });
    }
    None
}

/// Reads what follows `&#`; gives the character and the bytes read after `&#`.
fn read_numeric(rest: &[u8]) -> Option<(Value, usize)> {
    let (radix, skip) = match rest.first()? {
        b'x' | b'X' => (16, 1),
        _ => (10, 0),
    };
    let mut point = 0_u32;
    let mut at = skip;
    while let Some(digit) = rest.get(at).and_then(|byte| char::from(*byte).to_digit(radix)) {
        // Beyond Unicode the number no longer matters, so it stops growing.
        point = if point > 0x10_FFFF { point } else { point * radix + digit };
        at += 1;
    }
    if at == skip {
        return None;
    }
    if rest.get(at) == Some(&b';') {
        at += 1;
    }
    Some((Value::Numeric(character(point)), at))
}

/// The numeric-character-reference-end rules: windows-1252 for the C1 range, U+FFFD for what is no character.
fn character(point: u32) -> char {
    const C1: [u32; 32] = [
        0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152,
        0x8D, 0x017D, 0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122,
        0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
    ];
    let point = match point {
        0 => 0xFFFD,
        0x80..=0x9F => C1[point as usize - 0x80],
        _ => point,
    };
    char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &str, in_attribute: bool) -> Option<(String, usize)> {
        let reference = read(input.as_bytes(), in_attribute)?;
        let mut text = String::new();
        reference.value.push_to(&mut text);
        Some((text, reference.bytes))
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(TABLE.entities.len(), 2125);
        assert_eq!(TABLE.entities.iter().filter(|entity| entity.bare).count(), 106);
        let longest = TABLE.entities.iter().map(|entity| entity.name.len()).max();
        assert_eq!(longest, Some(NAME_BYTES_MAX));
        let bare = TABLE.entities.iter().filter(|entity| entity.bare).map(|entity| entity.name.len());
        assert_eq!((bare.clone().min(), bare.max()), (Some(2), Some(BARE_BYTES_MAX)));
    }

    #[test]
    fn named_references() {
        assert_eq!(decoded("&amp;x", false), Some(("&".into(), 5)));
        assert_eq!(decoded("&ampx", false), Some(("&".into(), 4)));
        assert_eq!(decoded("&notit;", false), Some(("¬".into(), 4)), "longest bare prefix");
        assert_eq!(decoded("&notin;", false), Some(("∉".into(), 7)));
        assert_eq!(decoded("&NotEqualTilde;", false), Some(("≂̸".into(), 15)));
        assert_eq!(decoded("&CounterClockwiseContourIntegral;", false).map(|found| found.1), Some(33));
        assert_eq!(decoded("&nosuch;", false), None);
        assert_eq!(decoded("&", false), None);
        assert_eq!(decoded("&;", false), None);
        assert_eq!(decoded("&apos", false), None, "apos needs its semicolon");
    }

    #[test]
    fn attributes_keep_query_strings() {
        assert_eq!(decoded("&copy=1", true), None);
        assert_eq!(decoded("&copyx", true), None);
        assert_eq!(decoded("&copy;=1", true), Some(("©".into(), 6)));
        assert_eq!(decoded("&copy&", true), Some(("©".into(), 5)));
        assert_eq!(decoded("&copy=1", false), Some(("©".into(), 5)));
    }

    #[test]
    fn numeric_references() {
        assert_eq!(decoded("&#65;", false), Some(("A".into(), 5)));
        assert_eq!(decoded("&#x41 ", false), Some(("A".into(), 5)));
        assert_eq!(decoded("&#X1F600;", false), Some(("😀".into(), 9)));
        assert_eq!(decoded("&#150;", false), Some(("–".into(), 6)), "windows-1252");
        for wrong in ["&#0;", "&#xD800;", "&#x110000;", "&#99999999999999999999;"] {
            assert_eq!(decoded(wrong, false), Some(("\u{FFFD}".into(), wrong.len())));
        }
        assert_eq!(decoded("&#;", false), None);
        assert_eq!(decoded("&#x;", false), None);
    }
}
