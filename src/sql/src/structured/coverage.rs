//! What an aggregate over typed columns cannot see yet.
//!
//! A typed column begins to be filled when its attribute is saved; a reading that was extracted before has NULL there
//! until it is extracted again. An aggregate leaves such readings out, so beside the query itself goes a second one that
//! counts them (data/docs/api.md, "The SQL console", historyCoverage).
//!
//! A reading is left out when one of the columns that the measures and filters name is not filled in it, and every
//! filter that can be decided accepts it.

use std::collections::BTreeSet;

use super::literal::{identifier, text, time};
use super::{FilterOp, Structured};
use base::clock::Timestamp;

/// Conditions of one counting statement; beyond, a column's horizons become one that knows no domain.
const CONDITIONS_MAX: usize = 200;
/// The columns of a page-type table that say when and where a reading was extracted.
const EXTRACTED_AT: &str = "extracted_at";
const DOMAIN: &str = "domain";

/// Readings of a table that were extracted before `since` lack a column that others have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// The column.
    pub column: String,
    /// Whose readings lack it; none for those of every domain.
    pub domain: Option<String>,
    /// When its attribute was saved.
    pub since: Timestamp,
}

impl Horizon {
    /// The condition under which a reading is not filled.
    fn unfilled(&self) -> String {
        let domain = self.domain.as_deref();
        let domain =
            domain.map_or_else(String::new, |name| format!("{} = {} AND ", identifier(DOMAIN), text(name)));
        let (column, extracted) = (identifier(&self.column), identifier(EXTRACTED_AT));
        format!("({column} IS NULL AND {domain}{extracted} < {})", time(self.since))
    }
}

/// The statement that counts what `query` leaves out: its columns are `left_out` and `horizon`. None when no column that
/// it names has a horizon. `conditions` are the query's filters as SQL, in their order.
pub(super) fn statement(query: &Structured, conditions: &[String], horizons: &[Horizon]) -> Option<String> {
    let mut concerned: BTreeSet<&str> = query.measures.iter().filter_map(|m| m.column.as_deref()).collect();
    let decided_by_null = |op| matches!(op, FilterOp::IsNull);
    concerned.extend(query.filters.iter().filter(|f| !decided_by_null(f.op)).map(|f| f.column.as_str()));
    let mut concerning: Vec<Horizon> =
        horizons.iter().filter(|horizon| concerned.contains(horizon.column.as_str())).cloned().collect();
    if concerning.is_empty() {
        return None;
    }
    if concerning.len() > CONDITIONS_MAX {
        concerning = without_domains(&concerning);
    }
    // The newest first, so that the first one that holds says how far back a reading misses something.
    concerning.sort_by(|a, b| b.since.cmp(&a.since).then_with(|| a.column.cmp(&b.column)));
    let unfilled: Vec<String> = concerning.iter().map(Horizon::unfilled).collect();
    let cases: Vec<String> = concerning
        .iter()
        .zip(&unfilled)
        .map(|(horizon, condition)| format!("WHEN {condition} THEN {}", time(horizon.since)))
        .collect();
    let mut wheres = vec![format!("({})", unfilled.join(" OR "))];
    for (filter, condition) in query.filters.iter().zip(conditions) {
        let own = concerning.iter().zip(&unfilled).filter(|(horizon, _)| horizon.column == filter.column);
        let own: Vec<&str> = own.map(|(_, condition)| condition.as_str()).collect();
        wheres.push(match own.as_slice() {
            _ if decided_by_null(filter.op) => condition.clone(),
            [] => condition.clone(),
            own => format!("({condition} OR {})", own.join(" OR ")),
        });
    }
    Some(format!(
        "SELECT count(*) AS \"left_out\", max(CASE {} END) AS \"horizon\"\nFROM {}\nWHERE {}",
        cases.join(" "),
        identifier(&query.table),
        wheres.join("\n  AND ")
    ))
}

/// One horizon a column, which says of every domain what holds of the one that came last.
fn without_domains(horizons: &[Horizon]) -> Vec<Horizon> {
    let columns: BTreeSet<&str> = horizons.iter().map(|horizon| horizon.column.as_str()).collect();
    let latest = |column: &str| {
        let own = horizons.iter().filter(|horizon| horizon.column == column);
        let since = own.map(|horizon| horizon.since).max().unwrap_or_default();
        Horizon { column: column.to_owned(), domain: None, since }
    };
    columns.into_iter().map(latest).collect()
}
