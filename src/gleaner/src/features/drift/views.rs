//! Drift as a table of the SQL console: a row for each attribute, and one for each domain of which no pages come.
//!
//! Both stand in one table, under keys of their own: what is known of an attribute changes with its results, and what is known of a
//! domain's fetches with those, so neither has to be written again for the other.

use super::rows::{AttributeDriftV1, AttributeRepairV1, DRIFT, DriftState, DriftV1, FETCHES, RepairV1};
use crate::console::{
    Column, ConsoleTable, View, ViewRows, int, optional_int, optional_text, optional_time, text,
};
use crate::features::extraction::{SchemaPair, SchemaRefV1};
use base::clock::Timestamp;
use base::{Error, Result};
use sql::{Cell, ColumnKind as Kind};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

pub(super) const DRIFT_VIEW: View =
    View { source: DRIFT.name(), tables: || vec![TABLE.spec()], rows: attribute_rows };

pub(super) const FETCHES_VIEW: View =
    View { source: FETCHES.name(), tables: || vec![TABLE.spec()], rows: domain_rows };

/// What the table has a row for.
enum Shown {
    /// An attribute, by its place in the row.
    Attribute(Arc<DriftV1>, usize),
    /// A domain most of whose newest fetches failed or were turned away.
    Domain(String, DriftState, Option<Timestamp>),
}

impl Shown {
    fn row(&self) -> Option<&DriftV1> {
        match self {
            Shown::Attribute(row, _) => Some(row),
            Shown::Domain(..) => None,
        }
    }

    fn attribute(&self) -> Option<&AttributeDriftV1> {
        match self {
            Shown::Attribute(row, place) => row.attributes.get(*place),
            Shown::Domain(..) => None,
        }
    }

    /// When somebody last looked at the attribute, and what came of it.
    fn looked(&self) -> Option<(Timestamp, &AttributeRepairV1)> {
        let last = self.row()?.last.as_ref()?;
        let name = &self.attribute()?.name;
        last.attributes.iter().find(|one| one.name == *name).map(|one| (last.at, one))
    }

    /// The row, where somebody has looked at this attribute.
    fn repair(&self) -> Option<&RepairV1> {
        self.looked()?;
        self.row()?.last.as_ref()
    }
}

fn share(found: Option<f64>) -> Cell {
    found.map_or(Cell::Null, |found| Cell::Float((found * 1_000.0).round() / 1_000.0))
}

fn version(schema: Option<SchemaRefV1>) -> Cell {
    optional_int(schema.map(|schema| schema.version))
}

static TABLE: LazyLock<ConsoleTable<Shown>> = LazyLock::new(|| {
    let (required, nullable) = (Column::<Shown>::required, Column::<Shown>::nullable);
    ConsoleTable::<Shown>::new(
        "drift",
        "How well attributes are found beside their past: one row for each attribute, and one for each domain of which no pages come.",
        [
            required("domain", Kind::Text, "A registrable domain, or one host of it.", |shown| match shown {
                Shown::Attribute(row, _) => text(&row.domain),
                Shown::Domain(domain, ..) => text(domain),
            }),
            nullable("page_type", Kind::Text, "The kind of page; none in a domain's row.", |shown| {
                optional_text(shown.row().map(|row| row.page_type))
            }),
            nullable("attribute", Kind::Text, "The attribute; none in a domain's row.", |shown| {
                optional_text(shown.attribute().map(|attribute| &attribute.name))
            }),
            required(
                "state",
                Kind::Text,
                "ok, drifting, broken, absent, blocked, repairing or repaired; of a domain outage or blocked.",
                |shown| match shown {
                    Shown::Attribute(..) => optional_text(shown.attribute().map(|one| one.state.name())),
                    Shown::Domain(_, state, _) => text(state.name()),
                },
            ),
            nullable("since", Kind::Timestamp, "Since when; none where it never was otherwise.", |shown| {
                optional_time(match shown {
                    Shown::Attribute(..) => shown.attribute().and_then(|one| one.since),
                    Shown::Domain(_, _, since) => *since,
                })
            }),
            nullable("recent_pages", Kind::Int64, "The newest results, ten at most.", |shown| {
                optional_int(shown.attribute().map(|attribute| attribute.recent_count))
            }),
            nullable("recent_found", Kind::Float64, "The share of them that has it.", |shown| {
                share(shown.attribute().and_then(AttributeDriftV1::recent_share))
            }),
            nullable(
                "baseline_pages",
                Kind::Int64,
                "Results before those, in a sum that forgets.",
                |shown| {
                    shown.attribute().map_or(Cell::Null, |attribute| int(attribute.past_count.round() as u64))
                },
            ),
            nullable("baseline_found", Kind::Float64, "The share of them that had it.", |shown| {
                share(shown.attribute().and_then(AttributeDriftV1::past_share))
            }),
            nullable(
                "schema_version",
                Kind::Int64,
                "The version of the platform's schema that read the newest result.",
                |shown| version(shown.row().and_then(|row| row.schema)),
            ),
            nullable("attributes_version", Kind::Int64, "The version of the own attributes.", |shown| {
                optional_int(shown.row().and_then(|row| row.own_version))
            }),
            nullable("looked_at", Kind::Timestamp, "When it was last looked why it is not found.", |shown| {
                optional_time(shown.looked().map(|(at, _)| at))
            }),
            nullable(
                "result",
                Kind::Text,
                "What came of that: repaired, refused, right, absent or other_page.",
                |shown| optional_text(shown.looked().map(|(_, one)| one.result.name())),
            ),
            nullable("reason", Kind::Text, "Why it was refused.", |shown| {
                optional_text(shown.looked().and_then(|(_, one)| one.reason.as_ref()))
            }),
            nullable("from_version", Kind::Int64, "The platform's schema before that look.", |shown| {
                version(shown.repair().and_then(|last| last.from))
            }),
            nullable("to_version", Kind::Int64, "The same behind it.", |shown| {
                version(shown.repair().and_then(|last| last.to))
            }),
            nullable("backfilled", Kind::Int64, "Results that were read again since.", |shown| {
                optional_int(shown.repair().map(|last| last.reread))
            }),
        ],
    )
});

fn attribute_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let pair = SchemaPair::decode(key)
        .ok_or_else(|| Error::internal("read a change of drift", "its key is damaged"))?;
    let row = tx.get(&DRIFT, &pair)?.map(Arc::new);
    let shown: Vec<Shown> = row
        .iter()
        .flat_map(|row| (0..row.attributes.len()).map(|place| Shown::Attribute(Arc::clone(row), place)))
        .collect();
    Ok(vec![TABLE.rows(&shown)])
}

fn domain_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let domain = String::decode(key)
        .ok_or_else(|| Error::internal("read a change of fetches", "its key is damaged"))?;
    let fetches = tx.get(&FETCHES, &domain)?.unwrap_or_default();
    let shown = fetches.trouble().map(|state| Shown::Domain(domain, state, fetches.since));
    Ok(vec![TABLE.rows(&shown)])
}
