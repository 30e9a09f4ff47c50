//! The typed columns of the console's page-type tables, and how they grow.
//!
//! Each organization has its own list of columns for each table, kept in the transaction that stores a result. The rule:
//! the first attribute that asks for a name gets it, with its kind; an attribute of the same name but another kind (a
//! `price` that is a text elsewhere) gets a column of its own, named after the kind. A column never changes its kind and is
//! never taken away, so a snapshot's older segments stay readable, and a state of a table is told by its number of columns.

use super::rows::{COLUMNS, ColumnKindV1, ColumnsV1, TypedColumnV1};
use crate::base::Result;
use crate::base::terms::PageType;
use crate::store::OrgWrite;

/// Typed columns of one table. What comes later is found in `reading_values` and in the JSON of `readings`.
pub const COLUMNS_MAX: usize = 500;

/// The console's tables with typed columns.
pub const TYPED_TABLES: [&str; 5] = ["products", "product_lists", "serps", "articles", "job_postings"];

/// The columns that every page-type table begins with; no attribute may take their names.
pub const COMMON_COLUMNS: [&str; 9] = [
    "result_id",
    "job_id",
    "url_id",
    "url",
    "domain",
    "page_type",
    "schema_version",
    "quality_composite",
    "scraped_at",
];

/// An attribute as the console sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedAttribute {
    pub name: String,
    pub kind: ColumnKindV1,
}

/// The table in which results of a page type stand. A bestseller list is a list of products.
pub fn table_of(page_type: PageType) -> &'static str {
    match page_type {
        PageType::Product => "products",
        PageType::ProductList | PageType::Bestseller => "product_lists",
        PageType::Serp => "serps",
        PageType::Article => "articles",
        PageType::JobPosting => "job_postings",
    }
}

/// Gives every attribute a column in the table of `page_type`, adding those that are new.
pub fn grow(tx: &OrgWrite<'_>, page_type: PageType, attributes: &[TypedAttribute]) -> Result<()> {
    let table = table_of(page_type).to_owned();
    let mut columns = tx.get(&COLUMNS, &table)?.unwrap_or_default();
    let before = columns.columns.len();
    for attribute in attributes {
        columns.add(attribute);
    }
    if columns.columns.len() > before {
        tx.put(&COLUMNS, &table, &columns)?;
    }
    Ok(())
}

impl ColumnsV1 {
    fn add(&mut self, attribute: &TypedAttribute) {
        let known = self
            .columns
            .iter()
            .any(|column| column.attribute == attribute.name && column.kind == attribute.kind);
        if known || self.columns.len() >= COLUMNS_MAX {
            return;
        }
        let column = self.free_name(attribute);
        self.columns.push(TypedColumnV1 { attribute: attribute.name.clone(), kind: attribute.kind, column });
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
        !COMMON_COLUMNS.contains(&name) && self.columns.iter().all(|column| column.column != name)
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
    use super::*;

    fn attribute(name: &str, kind: ColumnKindV1) -> TypedAttribute {
        TypedAttribute { name: name.into(), kind }
    }

    #[test]
    fn a_name_belongs_to_the_first_kind() {
        let mut columns = ColumnsV1::default();
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
            columns.add(&attribute(name, kind));
        }
        let names: Vec<_> = columns.columns.iter().map(|column| column.column.as_str()).collect();
        let expected: Vec<_> =
            wanted.iter().map(|(_, _, column)| *column).filter(|column| !column.is_empty()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_table_does_not_grow_without_end() {
        let mut columns = ColumnsV1::default();
        for n in 0..COLUMNS_MAX + 10 {
            columns.add(&attribute(&format!("a{n}"), ColumnKindV1::Text));
        }
        assert_eq!(columns.columns.len(), COLUMNS_MAX);
    }
}
