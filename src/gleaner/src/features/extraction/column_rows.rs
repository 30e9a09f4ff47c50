//! The typed columns that the console's page-type tables have grown, as they are stored.

use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use serde::{Deserialize, Serialize};
use store::{Key, LastText, Name, OrgTable};

/// What a column of the console holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnKindV1 {
    Text,
    Number,
    Bool,
    /// A list, as JSON.
    List,
}

/// A typed column of a console table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedColumnV1 {
    pub attribute: String,
    pub kind: ColumnKindV1,
    /// The column's name: the attribute's, unless that was taken.
    pub column: String,
}

/// The typed columns of one console table as the first release stored them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnsV1 {
    pub columns: Vec<TypedColumnV1>,
}

/// A typed column of a console table, and what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedColumnV2 {
    pub attribute: String,
    pub kind: ColumnKindV1,
    /// The column's name: the attribute's, unless that was taken.
    pub column: String,
    /// What a schema says of the attribute, and when that schema was saved: of several the one saved last counts.
    pub description: Option<(String, Timestamp)>,
}

/// The typed columns of one console table, in the order in which they appeared. Columns are never taken away, so their
/// number, with that of the changes of descriptions, tells one state of the table from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnsV2 {
    pub columns: Vec<TypedColumnV2>,
    /// How often a column that was there got another description.
    pub redescribed: u64,
}

impl From<ColumnsV1> for ColumnsV2 {
    fn from(old: ColumnsV1) -> ColumnsV2 {
        let column = |old: TypedColumnV1| TypedColumnV2 {
            attribute: old.attribute,
            kind: old.kind,
            column: old.column,
            description: None,
        };
        ColumnsV2 { columns: old.columns.into_iter().map(column).collect(), redescribed: 0 }
    }
}

impl Record for ColumnsV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> std::result::Result<Self, CodecError> {
        match version {
            1 => decode_body::<ColumnsV1>(body).map(ColumnsV2::from),
            _ => Err(CodecError(format!("a column list of version {version} is unknown to this release"))),
        }
    }
}

/// The typed columns of an organization's console tables, by table name.
pub static COLUMNS: OrgTable<String, ColumnsV2> = OrgTable::new("extraction_columns", "Column list").fed();

/// Readings of one domain in a console table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainTable {
    pub table: String,
    pub domain: String,
}

impl Key for DomainTable {
    fn encode(&self, out: &mut Vec<u8>) {
        (Name(self.table.clone()), LastText(self.domain.clone())).encode(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (Name(table), LastText(domain)) = Key::decode(bytes)?;
        Some(DomainTable { table, domain })
    }
}

/// The typed columns of a domain's readings as they were stored before it was kept which of them had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainColumnsV1 {
    pub columns: Vec<u16>,
}

/// The typed columns that a domain's readings have had, by their places in [`ColumnsV2`], which never change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainColumnsV2 {
    pub columns: Vec<u16>,
    /// Those that an own attribute has filled and no longer does, the oldest first.
    pub ended: Vec<EndedColumnV1>,
}

/// A column that an own attribute has filled and no longer does: should it come back, the readings in between lack it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedColumnV1 {
    pub column: u16,
    /// Whose attribute it was: the domain, or one host of it.
    pub host: String,
}

impl Record for DomainColumnsV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> std::result::Result<Self, CodecError> {
        match version {
            1 => decode_body::<DomainColumnsV1>(body)
                .map(|old| DomainColumnsV2 { columns: old.columns, ended: Vec::new() }),
            _ => Err(CodecError(format!("a column list of version {version} is unknown to this release"))),
        }
    }
}

pub static DOMAIN_COLUMNS: OrgTable<DomainTable, DomainColumnsV2> =
    OrgTable::new("extraction_domain_columns", "Column list");

/// A typed column that readings of a domain have from some time on, and older ones lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateColumnV1 {
    pub column: String,
    /// None for all domains.
    pub domain: Option<String>,
    /// When the attribute was saved.
    pub since: Timestamp,
}

/// The late columns of one console table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateColumnsV1 {
    pub columns: Vec<LateColumnV1>,
}

impl Record for LateColumnsV1 {}

/// By the table's name.
pub static LATE_COLUMNS: OrgTable<String, LateColumnsV1> =
    OrgTable::new("extraction_late_columns", "Column list");
