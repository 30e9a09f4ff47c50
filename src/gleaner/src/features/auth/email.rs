//! E-mail addresses: one spelling for each, so that one person is one row.
//!
//! Trimmed and lower-cased (data/docs/api.md, "People, organizations and keys"), the domain in its ASCII form. What is
//! accepted is the dot-atom of RFC 5321, 4.1.2, without its exotic forms (quoted local parts, address literals) that people
//! never mean and mail servers rarely take.

use base::{Error, Result};
use std::fmt;

/// RFC 5321, 4.5.3.1: a path of 256 octets with its angle brackets.
const EMAIL_BYTES_MAX: usize = 254;
/// RFC 5321, 4.5.3.1.1.
const LOCAL_BYTES_MAX: usize = 64;

/// An address in its one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// Reads an address; a refusal names the field `email`.
    pub fn parse(text: &str) -> Result<Email> {
        parse(text.trim()).map(Email).map_err(|reason| Error::invalid("email", reason))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the `@`.
    pub fn local(&self) -> &str {
        self.0.split('@').next().unwrap_or_default()
    }

    /// The part behind the `@`, in its ASCII form.
    pub fn domain(&self) -> &str {
        self.0.rsplit('@').next().unwrap_or_default()
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn parse(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.len() > EMAIL_BYTES_MAX {
        return Err("is longer than 254 bytes");
    }
    let (local, domain) = text.rsplit_once('@').ok_or("must be an address such as ada@example.com")?;
    if local.is_empty() || local.len() > LOCAL_BYTES_MAX {
        return Err("needs 1 to 64 characters before the @");
    }
    if local.split('.').any(str::is_empty) {
        return Err("must not have a dot at either end of the part before the @, nor two in a row");
    }
    if !local.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&b)) {
        return Err("has a character before the @ that an address cannot have");
    }
    let domain = idna::domain_to_ascii_strict(domain).map_err(|_| "has an invalid domain after the @")?;
    let (_, top) = domain.rsplit_once('.').ok_or("needs a domain with a dot after the @")?;
    if domain.split('.').any(str::is_empty) || top.bytes().all(|b| b.is_ascii_digit()) {
        return Err("has an invalid domain after the @");
    }
    let address = format!("{}@{domain}", local.to_ascii_lowercase());
    if address.len() > EMAIL_BYTES_MAX { Err("is longer than 254 bytes") } else { Ok(address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_for_each_address() {
        for (given, kept) in [
            (" Ada@Example.COM\n", "ada@example.com"),
            ("a.b+tag@mail.example.org", "a.b+tag@mail.example.org"),
            ("o'neil@bücher.example", "o'neil@xn--bcher-kva.example"),
        ] {
            assert_eq!(Email::parse(given).unwrap().as_str(), kept);
        }
        assert_eq!(Email::parse("ada@example.com").unwrap().local(), "ada");
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        let long = format!("{}@example.com", "a".repeat(65));
        let longer = format!("a@{}.com", "b.".repeat(130));
        for bad in [
            "",
            "  ",
            "ada",
            "@example.com",
            "ada@",
            "ada@example",
            "a b@example.com",
            "a..b@example.com",
            ".a@example.com",
            "a.@example.com",
            "a@b@example.com",
            "a@exa mple.com",
            "a@.com",
            "a@example..com",
            "a@-bad-.com",
            "\"a\"@example.com",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "a\n@example.com",
            "a@example.com\r\nBcc: b@example.com",
            "ä@example.com",
            &long,
            &longer,
        ] {
            let refused = Email::parse(bad).expect_err(bad);
            assert!(refused.detail().unwrap().starts_with("email: "), "{bad}");
        }
    }
}
