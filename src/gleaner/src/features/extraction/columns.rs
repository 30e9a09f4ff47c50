//! The typed columns of the console's page-type tables, and how they grow.
//!
//! Each organization has its own list of columns for each table, kept in the transaction that stores a result. The rule:
//! the first attribute that asks for a name gets it, with its kind; an attribute of the same name but another kind (a
//! `price` that is a text elsewhere) gets a column of its own, named after the kind. A column never changes its kind and is
//! never taken away, so a snapshot's older segments stay readable, and a state of a table is told by its number of columns.
//!
//! A column begins to be filled when its attribute is saved. Where a domain had readings before that, these lack it until
//! they are extracted again, and an aggregate must say so: such places are kept as [`LateColumnV1`].

use super::rows::{
    COLUMNS, ColumnKindV1, ColumnsV2, DOMAIN_COLUMNS, DomainTable, EndedColumnV1, LATE_COLUMNS, LateColumnV1,
    LateColumnsV1, ResultV4, TypedColumnV2,
};
use crate::console::{Column, optional_int, optional_text, text, time};
use crate::features::urls::own_page_types;
use base::Result;
use base::clock::Timestamp;
use base::terms::PageType;
use page::extract::{Attribute, AttributeType};
use sql::{Cell, ColumnKind, Horizon};
use std::borrow::Cow;
use std::sync::LazyLock;
use store::{OrgRead, OrgWrite};

/// Typed columns of one table. What comes later is found in `reading_values` and in the JSON of `readings`.
pub const COLUMNS_MAX: usize = 500;

/// Bytes of a description that a column has.
const DESCRIPTION_BYTES_MAX: usize = 500;

/// Late columns of one table; beyond, the oldest are said of every domain.
const LATE_MAX: usize = 1_000;

/// Ended columns of a domain's readings that are remembered; of those before, what comes back is not told to have been away.
const ENDED_MAX: usize = 1_000;

/// The columns that every page-type table begins with; no attribute may take their names.
pub static COMMON: LazyLock<[Column<ResultV4>; 10]> = LazyLock::new(|| {
    use ColumnKind::{Float64, Int64, Text, Timestamp};
    let (required, nullable) = (Column::<ResultV4>::required, Column::<ResultV4>::nullable);
    [
        required("result_id", Text, "The result.", |row| text(row.id)),
        required("job_id", Text, "The job that made it.", |row| text(row.job)),
        nullable("url_id", Text, "The registered URL, if it was one.", |row| optional_text(row.url_id)),
        required("url", Text, "The URL that was asked for.", |row| Cell::from(row.url.as_str())),
        required("domain", Text, "The URL's registrable domain.", |row| Cell::from(row.domain.as_str())),
        required("page_type", Text, "The kind of page.", |row| optional_text(row.page_type)),
        nullable(
            "schema_version",
            Int64,
            "The version of the platform's schema that read the page; none where own attributes alone did.",
            |row| optional_int(row.schema.map(|schema| schema.version)),
        ),
        required("quality_composite", Float64, "0.6 completeness + 0.4 validation.", |row| {
            row.quality.map_or(Cell::Null, |quality| Cell::Float(quality.composite))
        }),
        required("scraped_at", Timestamp, "When the page was fetched.", |row| time(row.scraped_at)),
        required("extracted_at", Timestamp, "When it was read, the last time.", |row| time(row.extracted_at)),
    ]
});

/// An attribute as the console sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedAttribute {
    pub name: String,
    pub kind: ColumnKindV1,
    /// When it was saved.
    pub since: Timestamp,
    /// What its schema says that it means; none where it says nothing, or is not known.
    pub description: Option<String>,
}

/// An attribute as the console sees it.
pub fn typed(attribute: Attribute, since: Timestamp) -> TypedAttribute {
    let description = attribute.description.filter(|text| !text.trim().is_empty());
    TypedAttribute {
        name: attribute.name,
        kind: column_kind(attribute.kind),
        since,
        description: description
            .map(|text| text[..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)].to_owned()),
    }
}

fn column_kind(kind: AttributeType) -> ColumnKindV1 {
    match kind {
        AttributeType::Text | AttributeType::Url => ColumnKindV1::Text,
        AttributeType::Number => ColumnKindV1::Number,
        AttributeType::Boolean => ColumnKindV1::Bool,
        AttributeType::TextList | AttributeType::UrlList => ColumnKindV1::List,
    }
}

/// The table in which results of a page type stand. A bestseller list is a list of products; an organization's own page type
/// has the table of its name.
pub fn table_of(page_type: PageType) -> Cow<'static, str> {
    Cow::Borrowed(match page_type {
        PageType::Product => "products",
        PageType::ProductList | PageType::Bestseller => "product_lists",
        PageType::Serp => "serps",
        PageType::Article => "articles",
        PageType::JobPosting => "job_postings",
        PageType::Own(own) => return Cow::Owned(own.name().to_owned()),
    })
}

/// The console's tables with typed columns that every organization has: those of all page types, each once.
pub fn typed_tables() -> Vec<Cow<'static, str>> {
    let mut tables = Vec::new();
    for table in PageType::ALL.iter().map(|page_type| table_of(*page_type)) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    tables
}

/// The same, and those of the organization's own page types that there are or were.
pub fn all_typed_tables(tx: &OrgRead<'_>) -> Result<Vec<Cow<'static, str>>> {
    let own = own_page_types(tx)?.into_iter().map(Cow::Owned);
    Ok(typed_tables().into_iter().chain(own).collect())
}

/// Gives every attribute a column in the table of `page_type`, adding those that are new, for a reading of `domain`.
pub fn grow(
    tx: &OrgWrite<'_>,
    page_type: PageType,
    domain: &str,
    attributes: &[TypedAttribute],
) -> Result<()> {
    let table = table_of(page_type).into_owned();
    let (columns, places) = place_all(tx, &table, attributes)?;
    let place = DomainTable { table, domain: domain.to_owned() };
    note_late(tx, &columns, place, &places)
}

/// What own attributes of a site (a domain, or one host of it) fill in a table, before a change of them and after it.
pub struct Filled {
    pub before: Vec<TypedAttribute>,
    pub after: Vec<TypedAttribute>,
}

impl Filled {
    /// Those of `some` that fill a column which `others` do not.
    fn alone<'a>(some: &'a [TypedAttribute], others: &[TypedAttribute]) -> Vec<&'a TypedAttribute> {
        let fills =
            |one: &TypedAttribute, other: &TypedAttribute| one.name == other.name && one.kind == other.kind;
        some.iter().filter(|one| !others.iter().any(|other| fills(one, other))).collect()
    }
}

/// Gives own attributes that were saved their columns before any reading has them. Readings that the domain has already lack
/// them, as do those that were made while an attribute was away; the columns of one that goes away stay, with their values.
pub fn change(tx: &OrgWrite<'_>, table: &str, domain: &str, host: &str, filled: &Filled) -> Result<()> {
    let now = tx.now();
    let begun = Filled::alone(&filled.after, &filled.before);
    let ended: Vec<_> = Filled::alone(&filled.before, &filled.after).into_iter().cloned().collect();
    let anew = |attribute: &TypedAttribute| match begun.contains(&attribute) {
        true => TypedAttribute { since: now, ..attribute.clone() },
        false => attribute.clone(),
    };
    let after: Vec<_> = filled.after.iter().map(anew).collect();
    let (columns, places) = place_all(tx, table, &after)?;
    let place = DomainTable { table: table.to_owned(), domain: domain.to_owned() };
    let Some(mut known) = tx.get(&DOMAIN_COLUMNS, &place)? else { return Ok(()) };
    let before = known.clone();
    let (_, gone) = place_all(tx, table, &ended)?;
    let is_back =
        |ended: &EndedColumnV1| ended.host == host && places.iter().any(|(at, _)| *at == ended.column);
    let back: Vec<u16> =
        known.ended.iter().filter(|ended| is_back(ended)).map(|ended| ended.column).collect();
    known.columns.retain(|column| !back.contains(column));
    known.ended.retain(|ended| !is_back(ended));
    let gone = gone.iter().filter(|(column, _)| known.columns.contains(column));
    let gone: Vec<_> =
        gone.map(|(column, _)| EndedColumnV1 { column: *column, host: host.to_owned() }).collect();
    known.ended.extend(gone);
    let too_many = known.ended.len().saturating_sub(ENDED_MAX);
    known.ended.drain(..too_many);
    if known != before {
        tx.put(&DOMAIN_COLUMNS, &place, &known)?;
    }
    note_late(tx, &columns, place, &places)
}

/// Whether a domain has readings in a console table.
pub fn has_rows(tx: &OrgWrite<'_>, table: &str, domain: &str) -> Result<bool> {
    let place = DomainTable { table: table.to_owned(), domain: domain.to_owned() };
    Ok(tx.get(&DOMAIN_COLUMNS, &place)?.is_some())
}

/// The columns of a table with those of `attributes`, and the places of these.
fn place_all(
    tx: &OrgWrite<'_>,
    table: &str,
    attributes: &[TypedAttribute],
) -> Result<(ColumnsV2, Vec<(u16, Timestamp)>)> {
    let table = table.to_owned();
    let mut columns = tx.get(&COLUMNS, &table)?.unwrap_or_default();
    let before = columns.clone();
    let places = attributes
        .iter()
        .filter_map(|attribute| Some((columns.place(attribute)?, attribute.since)))
        .collect();
    if columns != before {
        tx.put(&COLUMNS, &table, &columns)?;
    }
    Ok((columns, places))
}

/// Notes that the columns of `attributes` are filled in the readings of a domain that were extracted at `until` or later, or in
/// all of them; whether that is news.
pub fn move_horizon(
    tx: &OrgWrite<'_>,
    table: &str,
    domain: &str,
    attributes: &[TypedAttribute],
    until: Option<Timestamp>,
) -> Result<bool> {
    let table = table.to_owned();
    let Some(before) = tx.get(&LATE_COLUMNS, &table)? else { return Ok(false) };
    let columns = tx.get(&COLUMNS, &table)?.unwrap_or_default();
    let is_filled = |name: &str| {
        let column = columns.columns.iter().find(|column| column.column == name);
        let same = |column: &TypedColumnV2| {
            attributes.iter().any(|one| one.name == column.attribute && one.kind == column.kind)
        };
        column.is_some_and(same)
    };
    let mut after = before.clone();
    after.columns.retain_mut(|late| {
        if late.domain.as_deref() != Some(domain) || !is_filled(&late.column) {
            return true;
        }
        late.since = until.map_or(late.since, |until| late.since.min(until));
        until.is_some()
    });
    if after == before {
        return Ok(false);
    }
    tx.put(&LATE_COLUMNS, &table, &after)?;
    Ok(true)
}

/// Remembers which columns the domain's readings have from now on, and which of them its older ones lack.
fn note_late(
    tx: &OrgWrite<'_>,
    columns: &ColumnsV2,
    place: DomainTable,
    filled: &[(u16, Timestamp)],
) -> Result<()> {
    let known = tx.get(&DOMAIN_COLUMNS, &place)?;
    let is_first = known.is_none();
    let mut known = known.unwrap_or_default();
    let new: Vec<_> = filled.iter().filter(|(column, _)| !known.columns.contains(column)).collect();
    if new.is_empty() && !is_first {
        return Ok(());
    }
    known.columns.extend(new.iter().map(|(column, _)| column));
    tx.put(&DOMAIN_COLUMNS, &place, &known)?;
    if is_first {
        return Ok(());
    }
    let mut late = tx.get(&LATE_COLUMNS, &place.table)?.unwrap_or_default();
    for (column, since) in new {
        let Some(column) = columns.columns.get(usize::from(*column)) else { continue };
        late.add(&column.column, &place.domain, *since);
    }
    tx.put(&LATE_COLUMNS, &place.table, &late)
}

/// Where readings of a console table lack columns that others have.
pub fn horizons(tx: &OrgRead<'_>, table: &str) -> Result<Vec<Horizon>> {
    let late = tx.get(&LATE_COLUMNS, &table.to_owned())?.unwrap_or_default();
    let horizon =
        |late: LateColumnV1| Horizon { column: late.column, domain: late.domain, since: late.since };
    Ok(late.columns.into_iter().map(horizon).collect())
}

impl LateColumnsV1 {
    fn add(&mut self, column: &str, domain: &str, since: Timestamp) {
        let is_same =
            |late: &&mut LateColumnV1| late.column == column && late.domain.as_deref() == Some(domain);
        if let Some(late) = self.columns.iter_mut().find(is_same) {
            late.since = late.since.max(since);
            return;
        }
        if self.columns.len() >= LATE_MAX {
            self.forget_domains();
        }
        let domain = Some(domain.to_owned());
        self.columns.push(LateColumnV1 { column: column.to_owned(), domain, since });
    }

    /// Keeps one entry a column, which says of every domain what holds of the one that came last.
    fn forget_domains(&mut self) {
        let mut merged: Vec<LateColumnV1> = Vec::new();
        for late in self.columns.drain(..) {
            match merged.iter_mut().find(|known| known.column == late.column) {
                Some(known) => known.since = known.since.max(late.since),
                None => merged.push(LateColumnV1 { domain: None, ..late }),
            }
        }
        self.columns = merged;
    }
}

impl ColumnsV2 {
    /// The place of the attribute's column, which is added if there is none; none when the table is full.
    fn place(&mut self, attribute: &TypedAttribute) -> Option<u16> {
        let same =
            |column: &TypedColumnV2| column.attribute == attribute.name && column.kind == attribute.kind;
        if let Some(place) = self.columns.iter().position(same) {
            self.describe(place, attribute);
            return u16::try_from(place).ok();
        }
        if self.columns.len() >= COLUMNS_MAX {
            return None;
        }
        let column = self.free_name(attribute);
        self.columns.push(TypedColumnV2 {
            attribute: attribute.name.clone(),
            kind: attribute.kind,
            column,
            description: attribute.description.clone().map(|text| (text, attribute.since)),
        });
        u16::try_from(self.columns.len() - 1).ok()
    }

    /// Takes over what a schema says of a column's attribute, unless one that was saved later has said something: results
    /// of two schemas in turn must not change it back and forth.
    fn describe(&mut self, place: usize, attribute: &TypedAttribute) {
        let (Some(column), Some(text)) = (self.columns.get_mut(place), &attribute.description) else {
            return;
        };
        let is_newer = column.description.as_ref().is_none_or(|(_, since)| *since < attribute.since);
        if is_newer && column.description.as_ref().is_none_or(|(known, _)| known != text) {
            column.description = Some((text.clone(), attribute.since));
            self.redescribed += 1;
        }
    }

    /// The attribute's name, or with its kind, or with a number behind that.
    fn free_name(&self, attribute: &TypedAttribute) -> String {
        let plain = column_name(&attribute.name);
        let with_kind = format!("{plain}_{}", kind_name(attribute.kind));
        let numbered = (2..).map(|n| format!("{with_kind}_{n}"));
        std::iter::once(plain)
            .chain(std::iter::once(with_kind.clone()))
            .chain(numbered)
            .find(|name| self.is_free(name))
            .expect("numbers do not end")
    }

    fn is_free(&self, name: &str) -> bool {
        COMMON.iter().all(|column| column.spec().name != name)
            && self.columns.iter().all(|column| column.column != name)
    }
}

fn kind_name(kind: ColumnKindV1) -> &'static str {
    match kind {
        ColumnKindV1::Text => "text",
        ColumnKindV1::Number => "number",
        ColumnKindV1::Bool => "bool",
        ColumnKindV1::List => "list",
    }
}

/// An attribute's name as SQL reads it without quotes: lower case, words joined by `_` (`listPrice` is `list_price`).
fn column_name(attribute: &str) -> String {
    let mut name = String::with_capacity(attribute.len() + 4);
    let mut after_small = false;
    for character in attribute.chars() {
        if character.is_ascii_uppercase() && after_small {
            name.push('_');
        }
        name.push(if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' });
        after_small = character.is_ascii_lowercase() || character.is_ascii_digit();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::column_rows::{ColumnsV1, DomainColumnsV1, DomainColumnsV2, TypedColumnV1};
    use super::*;
    use base::codec::{Record, decode, encode};

    /// As the first release stored it.
    impl Record for ColumnsV1 {}

    fn attribute(name: &str, kind: ColumnKindV1) -> TypedAttribute {
        TypedAttribute { name: name.into(), kind, since: Timestamp(0), description: None }
    }

    #[test]
    fn a_column_is_described_by_the_schema_that_was_saved_last() {
        let mut columns = ColumnsV2::default();
        let mut see = |text: &str, since: i64| {
            let description = (!text.is_empty()).then(|| text.to_owned());
            let since = Timestamp(since);
            columns.place(&TypedAttribute { since, description, ..attribute("price", ColumnKindV1::Number) });
            (
                columns.columns[0].description.clone().map(|(text, _)| text).unwrap_or_default(),
                columns.redescribed,
            )
        };
        for (text, since, expected) in [
            ("", 1, ("", 0)),
            ("What it costs.", 2, ("What it costs.", 1)),
            ("", 9, ("What it costs.", 1)),
            ("Price in euros.", 5, ("Price in euros.", 2)),
            // A page of the older schema comes in between.
            ("What it costs.", 2, ("Price in euros.", 2)),
            ("Price in euros.", 5, ("Price in euros.", 2)),
        ] {
            assert_eq!(see(text, since), (expected.0.to_owned(), expected.1), "{text} of {since}");
        }
    }

    #[test]
    fn a_list_of_columns_of_the_first_release_is_read() {
        let old = TypedColumnV1 {
            attribute: "listPrice".into(),
            kind: ColumnKindV1::Number,
            column: "list_price".into(),
        };
        let bytes = encode(&ColumnsV1 { columns: vec![old] }).unwrap();
        let new: ColumnsV2 = decode(&bytes).unwrap();
        assert_eq!((new.columns[0].column.as_str(), &new.columns[0].description), ("list_price", &None));
    }

    /// As they were stored before it was kept what had ended.
    impl Record for DomainColumnsV1 {}

    #[test]
    fn columns_of_a_domain_of_the_first_release_are_read() {
        let bytes = encode(&DomainColumnsV1 { columns: vec![3, 1] }).unwrap();
        let new: DomainColumnsV2 = decode(&bytes).unwrap();
        assert_eq!(new, DomainColumnsV2 { columns: vec![3, 1], ended: Vec::new() });
    }

    #[test]
    fn a_name_belongs_to_the_first_kind() {
        let mut columns = ColumnsV2::default();
        let wanted = [
            ("price", ColumnKindV1::Number, "price"),
            ("price", ColumnKindV1::Text, "price_text"),
            ("price", ColumnKindV1::Number, ""),
            ("listPrice", ColumnKindV1::Number, "list_price"),
            ("list-price", ColumnKindV1::Number, "list_price_number"),
            ("list_price", ColumnKindV1::Number, "list_price_number_2"),
            ("url", ColumnKindV1::Text, "url_text"),
            ("UPC", ColumnKindV1::Text, "upc"),
        ];
        for (name, kind, _) in wanted {
            columns.place(&attribute(name, kind));
        }
        let names: Vec<_> = columns.columns.iter().map(|column| column.column.as_str()).collect();
        let expected: Vec<_> =
            wanted.iter().map(|(_, _, column)| *column).filter(|column| !column.is_empty()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_table_does_not_grow_without_end() {
        let mut columns = ColumnsV2::default();
        for n in 0..COLUMNS_MAX + 10 {
            columns.place(&attribute(&format!("a{n}"), ColumnKindV1::Text));
        }
        assert_eq!(columns.columns.len(), COLUMNS_MAX);
    }

    #[test]
    fn late_columns_do_not_grow_without_end() {
        let mut late = LateColumnsV1::default();
        for n in 0..LATE_MAX + 5 {
            late.add(["price", "title"][n % 2], &format!("{n}.example"), Timestamp(n as i64));
        }
        assert_eq!(late.columns.len(), 2 + 5);
        assert_eq!((late.columns[0].domain.as_deref(), late.columns[0].since), (None, Timestamp(998)));
        assert_eq!((late.columns[1].domain.as_deref(), late.columns[1].since), (None, Timestamp(999)));
    }
}
