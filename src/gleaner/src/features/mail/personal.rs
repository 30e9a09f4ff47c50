//! Messages to a person, and those in the name of an organization: shown in exports, gone with erasures.

use super::rows::{MAIL, MailV3};
use super::{ERASED_ROWS_MAX, erase_of};
use crate::features::{Erased, Holding, Person, Personal, Shown};
use base::Result;
use base::ids::MailId;
use serde_json::json;
use store::{Key, Order, SysRead};

/// Messages that one step of a walk looks at.
const MAILS_PER_STEP: usize = 500;

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "messages",
    about: "Messages to your address of which the box still knows, without their text: it may hold tokens.",
    show: |tx, person, place| {
        let (mails, next) = to_person(tx, person, place)?;
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
        let (mails, next) = to_person(tx, person, place)?;
        let mut removed = 0;
        for mail in mails {
            removed += u64::from(tx.delete(&MAIL, &mail.id)?);
        }
        Ok(Erased { removed, next })
    },
}];

/// Messages to the person's address among the next ones, and where the next step goes on. A walk and no look into the
/// index of addresses, in which rows of the first version do not stand.
fn to_person(tx: &SysRead<'_>, person: &Person, place: &[u8]) -> Result<(Vec<MailV3>, Option<Vec<u8>>)> {
    let after = MailId::decode(place);
    let rows = tx.scan(&MAIL, after.as_ref(), Order::Ascending, MAILS_PER_STEP)?;
    let next = rows.last().filter(|_| rows.len() == MAILS_PER_STEP).map(|(id, _)| id.0.as_bytes().to_vec());
    let is_theirs = |mail: &MailV3| mail.to == person.email && mail.created_at <= person.asked_at;
    Ok((rows.into_iter().map(|(_, mail)| mail).filter(is_theirs).collect(), next))
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
