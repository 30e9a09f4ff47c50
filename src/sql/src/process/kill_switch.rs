//! The operator's kill switch: nothing runs on the box, nothing of one organization, or nothing of one form.
//!
//! A form is a statement without its values: the fingerprint of `SELECT 1` is that of `select  2 -- x`. So one switch
//! stops a dashboard that sends the same bad statement with other dates.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use uuid::Uuid;

use crate::errors::{ErrorCode, QueryError};

/// Bytes of a fingerprint: short enough to be typed, long enough not to meet by chance.
const FINGERPRINT_BYTES: usize = 8;

/// What statements of one form have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a fingerprint is 16 hexadecimal digits";
        if text.len() != 2 * FINGERPRINT_BYTES || !text.is_ascii() {
            return Err(wrong);
        }
        let mut bytes = [0; FINGERPRINT_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong)?;
        }
        Ok(Self(bytes))
    }
}

impl Fingerprint {
    /// The fingerprint of a statement, whether or not it can be parsed.
    pub fn of(sql: &str) -> Self {
        let mut bytes = [0; FINGERPRINT_BYTES];
        bytes.copy_from_slice(&digest(&SHA256, form(sql).as_bytes()).as_ref()[..FINGERPRINT_BYTES]);
        Self(bytes)
    }
}

/// The statement in lower case, its words and signs with one blank between, `?` for each text and number.
fn form(sql: &str) -> String {
    let mut form = String::with_capacity(sql.len());
    let mut rest = sql.chars().peekable();
    let mut word = String::new();
    let push = |form: &mut String, token: &str| {
        if !form.is_empty() {
            form.push(' ');
        }
        form.push_str(token);
    };
    while let Some(first) = rest.next() {
        match first {
            _ if first.is_whitespace() => {}
            '-' if rest.peek() == Some(&'-') => while rest.next().is_some_and(|c| c != '\n') {},
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                let mut last = ' ';
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            '\'' => {
                skip_quoted(&mut rest, '\'', None);
                push(&mut form, "?");
            }
            '"' => {
                word.clear();
                skip_quoted(&mut rest, '"', Some(&mut word));
                push(&mut form, &format!("\"{word}\""));
            }
            _ if first.is_ascii_digit() => {
                while rest.next_if(|c| c.is_alphanumeric() || *c == '.' || *c == '_').is_some() {}
                push(&mut form, "?");
            }
            _ if first.is_alphabetic() || first == '_' => {
                word.clear();
                word.extend(first.to_lowercase());
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.extend(c.to_lowercase());
                }
                push(&mut form, &word);
            }
            ';' => {}
            sign => push(&mut form, sign.encode_utf8(&mut [0; 4])),
        }
    }
    form
}

/// Goes behind the closing quote; a doubled quote is one of the text.
fn skip_quoted(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
    mut text: Option<&mut String>,
) {
    while let Some(c) = rest.next() {
        if c == quote && rest.next_if_eq(&quote).is_none() {
            return;
        }
        if let Some(text) = &mut text {
            text.push(c);
        }
    }
}

/// What is switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillSwitches {
    /// Everything.
    pub whole_box: bool,
    /// Everything of these organizations.
    pub organizations: BTreeSet<Uuid>,
    /// Statements of these forms, whoever sends them.
    pub fingerprints: BTreeSet<Fingerprint>,
}

impl KillSwitches {
    /// Refuses a statement that is switched off.
    pub(super) fn check(&self, organization: Uuid, fingerprint: Fingerprint) -> Result<(), QueryError> {
        let what = if self.whole_box {
            "The operator has switched the SQL console off."
        } else if self.organizations.contains(&organization) {
            "The operator has switched the SQL console off for this organization."
        } else if self.fingerprints.contains(&fingerprint) {
            let what = "The operator has switched this statement off.";
            return Err(QueryError::new(ErrorCode::StatementSwitchedOff, what));
        } else {
            return Ok(());
        };
        Err(QueryError::new(ErrorCode::KillSwitched, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_differ_in_values_only_are_one_form() {
        let one = Fingerprint::of("SELECT a, 'x''y' FROM t WHERE b > 10 AND c = 1.5e3");
        for same in [
            "select a,'other' from T where B>7 and c=2",
            "SELECT a, '' FROM t -- a remark\nWHERE b > 1 /* and another */ AND c = 0x1f;",
        ] {
            assert_eq!(Fingerprint::of(same), one, "{same}: {}", form(same));
        }
        for other in
            ["SELECT b, '' FROM t WHERE b > 1 AND c = 1", "SELECT \"A\", '' FROM t WHERE b>1 AND c=1"]
        {
            assert_ne!(Fingerprint::of(other), one, "{other}");
        }
        assert_eq!(one.to_string().parse(), Ok(one));
        for bad in ["", "zz", "0123456789abcdeg", "0123456789abcdef00", "éééééééé"] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_switch_stops_what_it_names() {
        let (org, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let print = Fingerprint::of("SELECT 1");
        let mut switches = KillSwitches::default();
        assert!(switches.check(org, print).is_ok());
        switches.organizations.insert(org);
        assert_eq!(switches.check(org, print).expect_err("off").code, ErrorCode::KillSwitched);
        assert!(switches.check(other, print).is_ok());
        switches.fingerprints.insert(print);
        assert!(switches.check(other, print).is_err());
        assert!(switches.check(other, Fingerprint::of("SELECT a")).is_ok());
        switches.whole_box = true;
        assert!(switches.check(other, Fingerprint::of("SELECT a")).is_err());
    }
}
