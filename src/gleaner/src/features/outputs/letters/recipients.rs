//! Who is written to: members of the organization without a question, others once they have agreed.
//!
//! A member gets letters for as long as they are one, with an address that they have verified; this is looked up anew for each
//! letter. Who wants no more, or whose address the mail server refuses, gets nothing until they have agreed (again), also where
//! the output names them anew.

use super::super::rows::OutputV2;
use super::limit;
use super::rows::{BY_OUTPUT, RECIPIENTS, RecipientState, RecipientV1};
use crate::features::auth::{Email, ORGS, USERS, USERS_BY_EMAIL};
use crate::features::mail::{self, Letter, MailKind, NewMail, SealedTokenV1};
use base::clock::{Moment, Timestamp};
use base::ids::{OrgId, OutputId};
use base::limits::{RECIPIENTS_ASKED_PER_DAY_MAX, RECIPIENTS_PER_OUTPUT_MAX};
use base::{Code, Error, Result};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use secrets::link::Links;
use serde::Serialize;
use std::time::Duration;
use store::{Order, OrgRead, OrgWrite, SysRead, SysWrite};
use uuid::Uuid;

/// With those that it names no more, and which are remembered.
pub const PER_OUTPUT_MAX: usize = 500;
/// Letters in a row that are refused before an address counts as one that bounces.
pub const REFUSED_MAX: u32 = 3;
/// How long a link that confirms is good.
const CONFIRM_TIME: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Who has not agreed is asked again at the earliest after this time.
const ASKED_AGAIN: Duration = Duration::from_secs(24 * 3_600);
/// How often an organization asks one address in that time, whichever output names it.
const ASKED_PER_ADDRESS: usize = 3;

/// What links of this slice lead to; they stand in links, so they are never changed.
pub const CONFIRM: &str = "output_confirm";
pub const UNSUBSCRIBE: &str = "output_unsubscribe";

/// A recipient as people see it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipientView {
    address: String,
    state: RecipientState,
    /// Since when it stands so.
    since: Timestamp,
    last_sent_at: Option<Timestamp>,
    /// Letters in a row that the mail server refused; after 3 the address counts as one that bounces.
    refused: u32,
    last_error: Option<String>,
}

/// The recipients that an output names, in the order of their addresses.
pub fn shown(tx: &OrgRead<'_>, output: OutputId) -> Result<Vec<RecipientView>> {
    let named = known(tx, output)?.into_iter().filter(|row| row.is_listed);
    let view = |row: RecipientV1| RecipientView {
        address: row.address,
        state: row.state,
        since: row.since,
        last_sent_at: row.last_sent_at,
        refused: row.refused,
        last_error: row.last_error,
    };
    Ok(named.map(view).collect())
}

/// All that are remembered of an output.
pub fn known(tx: &OrgRead<'_>, output: OutputId) -> Result<Vec<RecipientV1>> {
    let rows = tx.readable_by(&RECIPIENTS, &BY_OUTPUT, output, None, None, PER_OUTPUT_MAX)?.rows;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The addresses of a request, each once and in its one spelling.
pub fn addresses(field: &str, given: &[String]) -> Result<Vec<String>> {
    if given.is_empty() || given.len() > RECIPIENTS_PER_OUTPUT_MAX {
        return Err(Error::invalid(field, format!("has 1 to {RECIPIENTS_PER_OUTPUT_MAX} addresses")));
    }
    let mut all = Vec::new();
    for (at, text) in given.iter().enumerate() {
        let email = Email::parse(text).map_err(|error| {
            let reason = error.detail().unwrap_or_default().trim_start_matches("email: ").to_owned();
            Error::invalid(&format!("{field}[{at}]"), reason)
        })?;
        if !all.iter().any(|known| known == email.as_str()) {
            all.push(email.as_str().to_owned());
        }
    }
    Ok(all)
}

/// With what links are made.
pub struct Asking<'a> {
    pub links: &'a Links,
    pub keyring: &'a Keyring,
    /// How people reach the box, without a slash at the end.
    pub url: &'a str,
}

/// Whether somebody is a member of the organization with an address that they have verified.
pub fn is_member(tx: &SysRead<'_>, org: OrgId, address: &str) -> Result<bool> {
    let user = tx.lookup(&USERS, &USERS_BY_EMAIL, address)?;
    Ok(user.is_some_and(|user| {
        user.email_verified_at.is_some() && user.membership.is_some_and(|(of, _)| of == org)
    }))
}

/// Makes these the recipients that an output names. Who is no member is asked; who was asked a day ago or more, and is named
/// again, is asked again.
pub fn list(
    tx: &SysWrite<'_>,
    org: OrgId,
    output: &OutputV2,
    addresses: &[String],
    asking: &Asking<'_>,
) -> Result<()> {
    let own = tx.org(org);
    let mut known = known(&own, output.id)?;
    for row in known.iter_mut().filter(|row| row.is_listed && !addresses.contains(&row.address)) {
        mail::forget(tx, row.id, MailKind::ConfirmRecipient)?;
        match row.state {
            RecipientState::Unsubscribed | RecipientState::Bounced => {
                row.is_listed = false;
                own.put(&RECIPIENTS, &row.id, row)?;
            }
            RecipientState::Pending | RecipientState::Active => drop(own.delete(&RECIPIENTS, &row.id)?),
        }
    }
    for address in addresses {
        let found = known.iter().find(|row| row.address == *address).cloned();
        let row = match found {
            None => {
                if known.len() >= PER_OUTPUT_MAX {
                    let message = "The output remembers too many who want no more letters; make another one.";
                    return Err(Error::conflict(message));
                }
                let is_member = is_member(tx, org, address)?;
                let state = if is_member { RecipientState::Active } else { RecipientState::Pending };
                let row = new(&own, output.id, address, state, is_member);
                known.push(row.clone());
                row
            }
            // It was named before, wants no more or bounces, and is named anew: they are asked.
            Some(row) if !row.is_listed => RecipientV1 {
                is_listed: true,
                is_member: false,
                state: RecipientState::Pending,
                since: own.now(),
                refused: 0,
                nonce: None,
                ..row
            },
            Some(row) => row,
        };
        let row = match row.state {
            RecipientState::Pending => ask(tx, org, output, row, asking)?,
            _ => row,
        };
        own.put(&RECIPIENTS, &row.id, &row)?;
    }
    Ok(())
}

fn new(
    tx: &OrgWrite<'_>,
    output: OutputId,
    address: &str,
    state: RecipientState,
    is_member: bool,
) -> RecipientV1 {
    RecipientV1 {
        id: base::ids::next(),
        output,
        address: address.to_owned(),
        state,
        since: tx.now(),
        is_listed: true,
        is_member,
        nonce: None,
        asked: None,
        refused: 0,
        last_error: None,
        last_sent_at: None,
        created_at: tx.now(),
    }
}

/// Asks somebody, unless they were asked within the last day.
fn ask(
    tx: &SysWrite<'_>,
    org: OrgId,
    output: &OutputV2,
    mut row: RecipientV1,
    asking: &Asking<'_>,
) -> Result<RecipientV1> {
    if row.asked.is_some_and(|asked| tx.moment().since(asked) < ASKED_AGAIN) {
        return Ok(row);
    }
    // Nobody gets letters from outputs that are made and removed again.
    if mail::written_to(tx, org, &row.address, MailKind::ConfirmRecipient, ASKED_AGAIN)? >= ASKED_PER_ADDRESS
    {
        row.last_error =
            Some(format!("was asked {ASKED_PER_ADDRESS} times within a day; name it again tomorrow"));
        return Ok(row);
    }
    if !limit::count_asked(&tx.org(org))? {
        let message = format!(
            "Your organization has asked {RECIPIENTS_ASKED_PER_DAY_MAX} people today, as many as it may."
        );
        return Err(Error::new(Code::RateLimited).message(message).header("retry-after", "3600"));
    }
    let (nonce, ends_at) = (base::ids::next(), tx.moment().after(CONFIRM_TIME));
    (row.nonce, row.asked, row.last_error) = (Some(nonce), Some(tx.moment()), None);
    let subject = [row.id.as_bytes().as_slice(), nonce.as_bytes()].concat();
    let token: SealedTokenV1 = mail::seal(asking.keyring, &asking.links.sign(CONFIRM, &subject, ends_at))?;
    let org_name = tx.get(&ORGS, &org)?.map(|entry| entry.name).unwrap_or_default();
    mail::forget(tx, row.id, MailKind::ConfirmRecipient)?;
    NewMail {
        about: row.id,
        org: Some(org),
        to: &row.address,
        letter: Letter::ConfirmRecipient { org: &org_name, output: &output.name, url: asking.url },
        token: Some(&token),
        good_until: Some(ends_at),
    }
    .send(tx)?;
    Ok(row)
}

/// The address at which a recipient unsubscribes: good for as long as the output is there.
pub fn unsubscribe_at(links: &Links, url: &str, recipient: Uuid) -> String {
    format!("{url}/mail/unsubscribe/{}", links.sign(UNSUBSCRIBE, recipient.as_bytes(), Moment(i64::MAX)))
}

/// Removes the recipients of an output that is removed, with what asks them.
pub fn remove(tx: &SysWrite<'_>, org: OrgId, output: OutputId) -> Result<()> {
    for row in known(&tx.org(org), output)? {
        mail::forget(tx, row.id, MailKind::ConfirmRecipient)?;
    }
    drop_all(&tx.org(org), output)
}

/// Removes the recipients of an output.
pub fn drop_all(tx: &OrgWrite<'_>, output: OutputId) -> Result<()> {
    for row in tx.scan_index(&RECIPIENTS, &BY_OUTPUT, output, Order::Ascending, PER_OUTPUT_MAX)? {
        tx.delete(&RECIPIENTS, &row.id)?;
    }
    Ok(())
}
