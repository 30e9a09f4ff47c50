//! Messages to a person, and those in the name of an organization: shown in exports, gone with erasures.

use super::rows::{MAIL, MailV3};
use super::{ERASED_ROWS_MAX, erase_of};
use crate::features::{Erased, Holding, Person, Personal, Shown};
use base::Result;
use serde_json::json;
use store::SysRead;

/// Messages that one step of a walk looks at.
const MAILS_PER_STEP: usize = 500;

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "messages",
    about: "Messages to your address of which the box still knows, without their text: it may hold tokens.",
    show: |tx, person, place| {
        let (mails, next, _) = to_person(tx, person, place)?;
        let rows = mails.into_iter().map(|mail| {
            json!({
                "to": mail.to,
                "kind": mail.kind.name(),
                "state": mail.state.name(),
                "createdAt": mail.created_at,
                "endedAt": mail.ended_at,
            })
        });
        Ok(Shown { rows: rows.collect(), next })
    },
    erase: |tx, person, place| {
        let (mails, next, left) = to_person(tx, person, place)?;
        let mut removed = 0;
        for mail in mails {
            removed += u64::from(tx.delete(&MAIL, &mail.id)?);
        }
        Ok(Erased { removed, left, next })
    },
}];

/// Messages to the person's address among the next ones, where the next step goes on, and how many could not be read: they
/// may be theirs. A walk and no look into the index of addresses, in which rows of the first version do not stand.
type ToPerson = (Vec<MailV3>, Option<Vec<u8>>, u64);

fn to_person(tx: &SysRead<'_>, person: &Person, place: &[u8]) -> Result<ToPerson> {
    let step = tx.readable(&MAIL, Some(place).filter(|place| !place.is_empty()), MAILS_PER_STEP)?;
    let (next, left) = (step.more(), step.passed_over);
    let is_theirs = |mail: &MailV3| mail.to == person.email && mail.created_at <= person.asked_at;
    Ok((step.rows.into_iter().map(|(_, mail)| mail).filter(is_theirs).collect(), next, left))
}

pub(super) static HOLDINGS: &[Holding] = &[Holding {
    name: "messages",
    remove: |context, org| {
        Box::pin(async move {
            let mut total = 0;
            loop {
                let removed = context.system().write_freeing(move |tx| erase_of(tx, org)).await?;
                total += removed as u64;
                if removed < ERASED_ROWS_MAX {
                    return Ok(total);
                }
            }
        })
    },
}];
