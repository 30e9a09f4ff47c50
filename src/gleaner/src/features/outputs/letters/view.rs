//! What is shown of an output's letters.

use super::super::rows::{EmailWhen, OutputV2, TargetV1};
use super::gather::waiting;
use super::recipients::{self, RecipientView};
use super::{due_at, limit};
use base::Result;
use base::clock::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use store::OrgRead;

/// Of the kind `email`: to whom letters go, and when.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmailView {
    when: EmailWhen,
    /// Of `daily`: the hour.
    hour: Option<u8>,
    /// Of `daily`: the zone of the hour.
    timezone: Option<String>,
    recipients: Vec<RecipientView>,
    /// Events that wait to become a letter.
    waiting: u64,
    /// When they are looked at next; of a digest that is far off this is sooner.
    next_look_at: Option<Timestamp>,
    /// Until when nothing is sent, because the organization has sent as many letters this hour as it may.
    full_until: Option<Timestamp>,
}

/// None of another kind.
pub fn view(tx: &OrgRead<'_>, row: &OutputV2, per_hour: u32) -> Result<Option<EmailView>> {
    let TargetV1::Email(target) = &row.target else { return Ok(None) };
    let is_daily = target.when == EmailWhen::Daily;
    let digest = waiting(tx, row.id)?;
    Ok(Some(EmailView {
        when: target.when,
        hour: is_daily.then_some(target.hour),
        timezone: is_daily.then(|| target.timezone.clone()),
        recipients: recipients::shown(tx, row.id)?,
        waiting: digest.open.map_or(0, |open| open.events),
        next_look_at: due_at(tx, row)?.map(|at| tx.date_of(at)),
        full_until: limit::full_until(tx, per_hour)?.map(|end| tx.date_of(end)),
    }))
}
