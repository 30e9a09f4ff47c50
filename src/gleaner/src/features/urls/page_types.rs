//! Page types of organizations' own. One begins when the first attribute for pages of that type is saved and ends when the last one
//! is removed; only in between may jobs, URLs and inputs name it. Nobody else's names are known, or taken: two organizations
//! may call the same name theirs.
//!
//! Each is a table of the SQL console under its name, so a name must not be that of any other table, nor a word of SQL.

use base::clock::Timestamp;
use base::codec::Record;
use base::terms::PageType;
use base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{OrgRead, OrgTable, OrgWrite, readable};

/// Names that an organization may have used: results keep theirs when a page type ends, so it counts on.
pub const OWN_PAGE_TYPES_MAX: usize = 50;
/// What the names of the tables of newest rows begin with.
const NEWEST_PREFIX: &str = "latest_";

/// Tables of the console, of this release and as may come, which no own page type may be called.
const TABLES: &[&str] = &[
    "agents",
    "api_keys",
    "articles",
    "attributes",
    "audit",
    "batches",
    "benchmark_probes",
    "benchmarks",
    "bestsellers",
    "columns",
    "crawls",
    "credit_transactions",
    "credits",
    "deliveries",
    "domains",
    "drift",
    "events",
    "exports",
    "host_stats",
    "input_runs",
    "inputs",
    "job_attempts",
    "job_postings",
    "jobs",
    "links",
    "members",
    "monitors",
    "organizations",
    "outputs",
    "page_types",
    "pages",
    "platform",
    "product_lists",
    "products",
    "providers",
    "queries",
    "reading_values",
    "readings",
    "results",
    "robots",
    "runs",
    "schedule_runs",
    "schedules",
    "schemas",
    "serps",
    "sessions",
    "site_sessions",
    "suggestions",
    "tables",
    "tags",
    "texts",
    "uploads",
    "url_tags",
    "urls",
    "usage",
    "users",
    "webhooks",
    "workflow_versions",
    "workflows",
];

/// Words that PostgreSQL keeps for itself: a table of that name could be asked for in quotes only.
const WORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// A page type of an organization's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPageTypeV1 {
    /// When it began, the last time.
    pub since: Timestamp,
    /// Attributes for pages of this type, over all domains; 0 once it has ended.
    pub attributes: u64,
}

impl Record for OwnPageTypeV1 {}

/// By name; a row stays when the page type ends.
pub static OWN_PAGE_TYPES: OrgTable<String, OwnPageTypeV1> = OrgTable::new("own_page_types", "Page type");

/// Whether the organization has this page type now.
pub fn has_page_type(tx: &OrgRead<'_>, name: &str) -> Result<bool> {
    let name = name.to_owned();
    let row = readable("a page type", &name, tx.get(&OWN_PAGE_TYPES, &name))?;
    // One whose row cannot be read is there.
    Ok(row.is_none_or(|row| row.is_some_and(|row| row.attributes > 0)))
}

/// Refuses a page type in a field of a request that is neither the platform's nor one of the organization's own.
pub fn check_page_type(tx: &OrgRead<'_>, field: &str, page_type: Option<PageType>) -> Result<()> {
    match page_type {
        Some(own @ PageType::Own(_)) if !has_page_type(tx, own.name())? => {
            Err(Error::invalid(field, unknown(own)))
        }
        _ => Ok(()),
    }
}

fn unknown(own: PageType) -> String {
    let platforms: Vec<_> = PageType::ALL.iter().map(PageType::name).collect();
    format!(
        "`{own}` is neither a page type of the platform ({}) nor one of your own, which begins with an attribute for it",
        platforms.join(", ")
    )
}

/// Why a page type of this name cannot begin; none where it can.
pub fn reserved(page_type: PageType) -> Option<String> {
    let name = page_type.name();
    if !page_type.is_own() {
        return None;
    }
    if TABLES.contains(&name) || name.starts_with(NEWEST_PREFIX) {
        return Some(format!("`{name}` is the name of another table of the SQL console, or may become one"));
    }
    WORDS.contains(&name).then(|| format!("`{name}` is a word of SQL"))
}

/// The names of all own page types that there are or were, in order.
pub fn own_page_types(tx: &OrgRead<'_>) -> Result<Vec<String>> {
    let keys = tx.keys(OWN_PAGE_TYPES.name(), None, OWN_PAGE_TYPES_MAX)?;
    Ok(keys.iter().filter_map(|key| store::Key::decode(key)).collect())
}

/// Notes which page types attributes are for in the place of those that were there: begins what is new, ends what has none
/// left. Errors name `field`.
pub fn count_attributes(
    tx: &OrgWrite<'_>,
    field: &str,
    before: &[PageType],
    after: &[PageType],
) -> Result<()> {
    let mut changes: BTreeMap<&str, i64> = BTreeMap::new();
    for (types, change) in [(before, -1), (after, 1)] {
        for own in types.iter().filter(|page_type| page_type.is_own()) {
            *changes.entry(own.name()).or_default() += change;
        }
    }
    for (name, change) in changes.into_iter().filter(|(_, change)| *change != 0) {
        let name = name.to_owned();
        let known = readable("a page type", &name, tx.get(&OWN_PAGE_TYPES, &name))?.flatten();
        let is_new = known.is_none();
        if is_new && tx.count(&OWN_PAGE_TYPES, OWN_PAGE_TYPES_MAX)? >= OWN_PAGE_TYPES_MAX {
            let reason = format!(
                "`{name}` would be one more than the {OWN_PAGE_TYPES_MAX} page types of your own, counting those that have ended"
            );
            return Err(Error::invalid(field, reason));
        }
        let had = known.as_ref().map_or(0, |row| row.attributes);
        let since = known.filter(|row| row.attributes > 0).map_or_else(|| tx.now(), |row| row.since);
        let attributes = had.saturating_add_signed(change);
        tx.put(&OWN_PAGE_TYPES, &name, &OwnPageTypeV1 { since, attributes })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::ALL;

    #[test]
    fn no_own_page_type_is_called_as_a_table_of_the_console_or_a_word_of_sql() {
        let of_views = ALL.iter().flat_map(|feature| feature.views).flat_map(|view| (view.tables)());
        let of_all = ALL.iter().flat_map(|feature| feature.shared_views).map(|view| (view.table)());
        for table in of_views.chain(of_all) {
            for name in [table.name.as_str(), &format!("latest_{}", table.name)] {
                let own = PageType::parse(name).unwrap();
                assert!(reserved(own).is_some(), "{name}");
            }
        }
        for name in ["select", "order", "user"] {
            assert!(reserved(PageType::parse(name).unwrap()).is_some(), "{name}");
        }
        for name in ["real_estate", "recipe", "latest"] {
            assert_eq!(reserved(PageType::parse(name).unwrap()), None, "{name}");
        }
        assert!(PageType::ALL.iter().all(|platforms| reserved(*platforms).is_none()));
    }
}
