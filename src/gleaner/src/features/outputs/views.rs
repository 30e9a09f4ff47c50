//! What the SQL console sees of outputs and deliveries: one row each, without keys, paths of URLs, or what was sent.

use super::rows::{DELIVERIES, DeliveryV1, OUTPUTS, OutputV2};
use crate::console::{
    Column, ConsoleTable, View, ViewRows, int, optional_int, optional_text, optional_time, text, time,
};
use base::Result;
use base::ids::{DeliveryId, OutputId};
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const OUTPUT_VIEW: View =
    View { source: "outputs", tables: || vec![OUTPUT_TABLE.spec()], rows: output_rows };

pub(super) const DELIVERY_VIEW: View =
    View { source: "deliveries", tables: || vec![DELIVERY_TABLE.spec()], rows: delivery_rows };

static OUTPUT_TABLE: LazyLock<ConsoleTable<OutputV2>> = LazyLock::new(|| {
    ConsoleTable::<OutputV2>::new(
        "outputs",
        "Where events leave by themselves.",
        [
            Column::required("id", Kind::Text, "The output's id", |row| text(row.id)),
            Column::required("kind", Kind::Text, "webhook, chat, feed, email, postgres, or files", |row| {
                text(row.target.kind().name())
            }),
            Column::required("name", Kind::Text, "What people call it", |row| text(&row.name)),
            Column::required("host", Kind::Text, "The host of its endpoint; empty without one", |row| {
                text(row.target.host().unwrap_or_default())
            }),
            Column::required("events", Kind::Text, "Kinds of events, with commas", |row| {
                text(row.events.join(","))
            }),
            Column::nullable("domain", Kind::Text, "The domain that it is about", |row| {
                optional_text(row.domain.as_ref())
            }),
            Column::nullable("condition", Kind::Text, "What must hold", |row| {
                optional_text(row.condition.as_ref())
            }),
            Column::required("is_enabled", Kind::Bool, "Whether it delivers", |row| {
                Cell::Bool(row.is_enabled)
            }),
            Column::nullable(
                "disabled_reason",
                Kind::Text,
                "gone, failing, no_recipients or restored",
                |row| optional_text(row.disabled_reason.map(|reason| reason.name())),
            ),
            Column::required("created_at", Kind::Timestamp, "When it was made", |row| time(row.created_at)),
        ],
    )
});

static DELIVERY_TABLE: LazyLock<ConsoleTable<DeliveryV1>> = LazyLock::new(|| {
    ConsoleTable::<DeliveryV1>::new(
        "deliveries",
        "One row an event on its way to an output.",
        [
            Column::required("id", Kind::Text, "The delivery's id", |row| text(row.id)),
            Column::required("output_id", Kind::Text, "The output", |row| text(row.output)),
            Column::required("sequence", Kind::Int64, "Its number among the output's", |row| {
                int(row.sequence)
            }),
            Column::required("event_id", Kind::Text, "The event", |row| text(row.event)),
            Column::required("event_kind", Kind::Text, "The event's kind", |row| text(&row.event_kind)),
            Column::required("event_at", Kind::Timestamp, "When it happened", |row| time(row.event_at)),
            Column::required("state", Kind::Text, "pending, delivered or failed", |row| {
                text(row.state.name())
            }),
            Column::required("tries", Kind::Int64, "Tries so far", |row| int(row.tries.into())),
            Column::nullable("last_status", Kind::Int64, "What the endpoint answered last", |row| {
                optional_int(row.attempts.last().and_then(|attempt| attempt.status))
            }),
            Column::required("created_at", Kind::Timestamp, "When it was made", |row| time(row.created_at)),
            Column::nullable("ended_at", Kind::Timestamp, "When it was delivered, or given up", |row| {
                optional_time(row.ended_at)
            }),
        ],
    )
});

fn output_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = OutputId::decode(key) else { return Ok(Vec::new()) };
    Ok(vec![OUTPUT_TABLE.rows(&tx.get(&OUTPUTS, &id)?)])
}

fn delivery_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = DeliveryId::decode(key) else { return Ok(Vec::new()) };
    Ok(vec![DELIVERY_TABLE.rows(&tx.get(&DELIVERIES, &id)?)])
}
