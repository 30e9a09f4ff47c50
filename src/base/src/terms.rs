//! Words of the interface that several slices share.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// What kind of page it is, and so which extraction schema of its domain is for it: one of the platform's, or one of an
/// organization's own.
// A row holds the place in this list, so it only grows behind `Own`. Which own ones there are the organization's rows say; what
// comes from outside is asked about there before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageType {
    Product,
    ProductList,
    Serp,
    Article,
    JobPosting,
    Bestseller,
    Own(OwnPageType),
}

/// The same as rows have it.
#[derive(Serialize, Deserialize)]
enum StoredPageType {
    Product,
    ProductList,
    Serp,
    Article,
    JobPosting,
    Bestseller,
    Own(OwnPageType),
}

impl PageType {
    /// The platform's, in their order.
    pub const ALL: &'static [PageType] = &[
        PageType::Product,
        PageType::ProductList,
        PageType::Serp,
        PageType::Article,
        PageType::JobPosting,
        PageType::Bestseller,
    ];

    /// Its name on the wire.
    pub fn name(&self) -> &str {
        match self {
            PageType::Product => "product",
            PageType::ProductList => "product_list",
            PageType::Serp => "serp",
            PageType::Article => "article",
            PageType::JobPosting => "job_posting",
            PageType::Bestseller => "bestseller",
            PageType::Own(own) => own.name(),
        }
    }

    /// The platform's page type of this name.
    pub fn named(name: &str) -> Option<PageType> {
        PageType::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The page type of this name: the platform's, or what an organization may call one of its own.
    pub fn parse(name: &str) -> Result<PageType, String> {
        PageType::named(name).map_or_else(|| OwnPageType::parse(name).map(PageType::Own), Ok)
    }

    /// Its place among the platform's; none for an organization's own.
    pub fn place(self) -> Option<u8> {
        PageType::ALL.iter().position(|kind| *kind == self).and_then(|place| u8::try_from(place).ok())
    }

    /// Whether it is an organization's own.
    pub fn is_own(self) -> bool {
        matches!(self, PageType::Own(_))
    }
}

impl fmt::Display for PageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for PageType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.serialize_str(self.name());
        }
        let stored = match *self {
            PageType::Product => StoredPageType::Product,
            PageType::ProductList => StoredPageType::ProductList,
            PageType::Serp => StoredPageType::Serp,
            PageType::Article => StoredPageType::Article,
            PageType::JobPosting => StoredPageType::JobPosting,
            PageType::Bestseller => StoredPageType::Bestseller,
            PageType::Own(own) => StoredPageType::Own(own),
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PageType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PageType, D::Error> {
        if deserializer.is_human_readable() {
            let name = Cow::<'de, str>::deserialize(deserializer)?;
            return PageType::parse(&name).map_err(de::Error::custom);
        }
        Ok(match StoredPageType::deserialize(deserializer)? {
            StoredPageType::Product => PageType::Product,
            StoredPageType::ProductList => PageType::ProductList,
            StoredPageType::Serp => PageType::Serp,
            StoredPageType::Article => PageType::Article,
            StoredPageType::JobPosting => PageType::JobPosting,
            StoredPageType::Bestseller => PageType::Bestseller,
            StoredPageType::Own(own) => PageType::Own(own),
        })
    }
}

impl JsonSchema for PageType {
    fn schema_name() -> Cow<'static, str> {
        "PageType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let platforms: Vec<_> = PageType::ALL.iter().map(PageType::name).collect();
        let about = format!(
            "What kind of page it is, and so which extraction schema of its domain is for it: {}, or one of the \
             organization's own, which begins with an attribute of its own for pages of that type.",
            platforms.join(", ")
        );
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[a-z][a-z0-9_]*$",
            "maxLength": OWN_PAGE_TYPE_BYTES_MAX,
            "description": about,
        })
    }
}

/// Letters of a page type of an organization's own.
pub const OWN_PAGE_TYPE_BYTES_MAX: usize = 40;

/// What an organization calls a page type of its own: a small letter, then small letters, digits and `_`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnPageType {
    /// Zeros behind the name.
    bytes: [u8; OWN_PAGE_TYPE_BYTES_MAX],
}

impl OwnPageType {
    fn parse(name: &str) -> Result<OwnPageType, String> {
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.len() > OWN_PAGE_TYPE_BYTES_MAX || !begins || !name.bytes().all(is_plain) {
            let shown: String = name.chars().take(OWN_PAGE_TYPE_BYTES_MAX).collect();
            return Err(format!(
                "`{shown}` is no page type: one is a small letter and up to {} small letters, digits and _",
                OWN_PAGE_TYPE_BYTES_MAX - 1
            ));
        }
        let mut bytes = [0; OWN_PAGE_TYPE_BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(OwnPageType { bytes })
    }

    /// The name.
    pub fn name(&self) -> &str {
        let length = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(OWN_PAGE_TYPE_BYTES_MAX);
        std::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }
}

impl fmt::Debug for OwnPageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for OwnPageType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for OwnPageType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OwnPageType, D::Error> {
        let name = String::deserialize(deserializer)?;
        OwnPageType::parse(&name).map_err(de::Error::custom)
    }
}

crate::words! {
    /// Where a job stands: it waits, runs, or has ended in one of three ways for good.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum JobStatus {
        Queued "queued",
        Running "running",
        Succeeded "succeeded",
        Failed "failed",
        Canceled "canceled",
    }
}

impl JobStatus {
    /// Whether nothing will change any more.
    pub fn has_ended(self) -> bool {
        matches!(self, JobStatus::Succeeded | JobStatus::Failed | JobStatus::Canceled)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Record, decode, encode};

    /// As releases before own page types stored it.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    enum OldPageType {
        Product,
        ProductList,
        Serp,
        Article,
        JobPosting,
        Bestseller,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row<T> {
        before: u8,
        page_type: Option<T>,
        behind: String,
    }

    impl Record for Row<OldPageType> {}
    impl Record for Row<PageType> {}

    fn row<T>(page_type: Option<T>) -> Row<T> {
        Row { before: 7, page_type, behind: "behind".to_owned() }
    }

    #[test]
    fn rows_of_earlier_releases_are_read_and_written_alike() {
        use OldPageType as Old;
        let old = [Old::Product, Old::ProductList, Old::Serp, Old::Article, Old::JobPosting, Old::Bestseller];
        for (old, new) in old.into_iter().zip(PageType::ALL) {
            let bytes = encode(&row(Some(old))).unwrap();
            assert_eq!(encode(&row(Some(*new))).unwrap(), bytes);
            assert_eq!(decode::<Row<PageType>>(&bytes).unwrap(), row(Some(*new)));
        }
        let none = encode(&row(None::<OldPageType>)).unwrap();
        assert_eq!(decode::<Row<PageType>>(&none).unwrap(), row(None));
    }

    #[test]
    fn own_page_types_come_back_from_rows_and_from_json() {
        for name in ["a", "real_estate", "x9_", &"y".repeat(OWN_PAGE_TYPE_BYTES_MAX)] {
            let own = PageType::parse(name).unwrap();
            assert!(own.is_own() && own.place().is_none() && own.name() == name && own.to_string() == name);
            assert_eq!(decode::<Row<PageType>>(&encode(&row(Some(own))).unwrap()).unwrap(), row(Some(own)));
            let json = serde_json::to_value(own).unwrap();
            assert_eq!(
                (json.as_str(), serde_json::from_value::<PageType>(json.clone()).unwrap()),
                (Some(name), own)
            );
        }
        for (place, page_type) in PageType::ALL.iter().enumerate() {
            assert_eq!(PageType::parse(page_type.name()), Ok(*page_type));
            assert_eq!(page_type.place().map(usize::from), Some(place));
        }
        let long = "y".repeat(OWN_PAGE_TYPE_BYTES_MAX + 1);
        for wrong in ["", "Real", "9x", "_x", "a b", "a-b", "é", "a\0", &long] {
            assert!(PageType::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
