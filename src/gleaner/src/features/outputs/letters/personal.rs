//! What letters hold on a person: their address, in outputs of whichever organization.

use super::rows::{RECIPIENTS, RecipientV1};
use crate::features::mail::{self, MailKind};
use crate::features::{Erased, Person, Personal, Shown};
use base::Result;
use base::ids::OrgId;
use serde_json::json;
use store::SysRead;

/// Rows that one step looks at.
const ROWS_PER_STEP: usize = 500;

pub static KINDS: &[Personal] = &[Personal {
    name: "letters",
    about: "That an output of an organization writes to your address, or asks whether it may.",
    show: |tx, person, place| {
        let (own, next, _) = of(tx, person, place)?;
        let rows = own.into_iter().map(|(_, row)| {
            json!({
                "address": row.address, "state": row.state.name(), "since": row.since,
                "lastSentAt": row.last_sent_at, "createdAt": row.created_at,
            })
        });
        Ok(Shown { rows: rows.collect(), next })
    },
    erase: |tx, person, place| {
        let (own, next, left) = of(tx, person, place)?;
        let mut removed = 0;
        for (org, row) in own {
            mail::forget(tx, row.id, MailKind::ConfirmRecipient)?;
            removed += u64::from(tx.org(org).delete(&RECIPIENTS, &row.id)?);
        }
        Ok(Erased { removed, left, next })
    },
}];

/// Rows with the person's address among the next ones, where the next step goes on, and how many could not be read.
type Own = (Vec<(OrgId, RecipientV1)>, Option<Vec<u8>>, u64);

fn of(tx: &SysRead<'_>, person: &Person, place: &[u8]) -> Result<Own> {
    let step = tx.readable_all(&RECIPIENTS, Some(place).filter(|place| !place.is_empty()), ROWS_PER_STEP)?;
    let (next, left) = (step.more(), step.passed_over);
    let is_theirs = |(org, _, row): &(OrgId, _, RecipientV1)| {
        row.address == person.email && row.created_at <= person.asked_at && !tx.is_fenced(*org)
    };
    let own = step.rows.into_iter().filter(is_theirs).map(|(org, _, row)| (org, row));
    Ok((own.collect(), next, left))
}
