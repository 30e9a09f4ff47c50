//! What links in letters lead to: agreeing to letters, and getting no more of them.
//!
//! A page that is opened changes nothing: programs look into mails and open what they find. What counts is the POST, which a
//! person's button sends, or their mail program (RFC 8058). Neither needs a login, and neither says anything of the organization.

use super::recipients::{CONFIRM, UNSUBSCRIBE};
use super::rows::{BY_ID, RECIPIENTS, RecipientState};
use base::Result;
use base::audit::Action;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use secrets::link::Links;
use server::{Anonymous, Html, Path, RawBody, WithHeaders};
use store::{Event, SysWrite};
use uuid::Uuid;

const PAGE: &str = include_str!("../../../../../../data/pages/letters.html");
/// What such a page may do: send its own form.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

type Page = WithHeaders<Html>;

/// A page; with a button where there is something to do.
fn page(title: &str, said: &str, button: Option<&str>) -> Page {
    let form = button.map(|label| format!("<form method=\"post\"><button>{label}</button></form>"));
    let text = PAGE
        .replace("{{title}}", title)
        .replace("{{said}}", said)
        .replace("{{form}}", form.as_deref().unwrap_or_default());
    WithHeaders::new(Html(Bytes::from(text)))
        .header(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))
        .header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
        // The address is the credential.
        .header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
}

fn nowhere() -> Page {
    let said = "It is damaged, was used already, or its time is over. If you still get letters, use the link of the newest one.";
    page("This link leads nowhere", said, None)
}

/// The recipient that a link of a kind is of, and what else stands in it.
fn target(caller: &Anonymous, kind: &str, token: &str) -> Option<(Uuid, Vec<u8>)> {
    let target =
        caller.service::<Links>().open(token, caller.moment()).filter(|target| target.kind == kind)?;
    let (id, rest) = target.subject.split_at_checked(16)?;
    Some((Uuid::from_slice(id).ok()?, rest.to_vec()))
}

pub async fn unsubscribe_page(caller: Anonymous, Path(token): Path<String>) -> Result<Page> {
    if target(&caller, UNSUBSCRIBE, &token).is_none() {
        return Ok(nowhere());
    }
    Ok(page(
        "Get no more of these letters",
        "Press the button, and no more of these letters come to your address.",
        Some("Unsubscribe"),
    ))
}

/// The same from a mail program, with `List-Unsubscribe=One-Click` as its body, and from the page.
pub async fn unsubscribe(caller: Anonymous, Path(token): Path<String>, _body: RawBody) -> Result<Page> {
    let Some((id, _)) = target(&caller, UNSUBSCRIBE, &token) else { return Ok(nowhere()) };
    caller.system().write(move |tx| unsubscribed(tx, id)).await?;
    // The same for an output that is gone, from which nothing comes any more.
    Ok(page("You get no more of these letters", "You can close this page.", None))
}

fn unsubscribed(tx: &SysWrite<'_>, id: Uuid) -> Result<()> {
    let Some((org, mut row)) = tx.lookup_global(&RECIPIENTS, &BY_ID, id)? else {
        tx.unaudited("there is nobody who gets letters");
        return Ok(());
    };
    let own = tx.org(org);
    own.needs_no_room();
    if row.state == RecipientState::Unsubscribed {
        own.unaudited("they had unsubscribed already");
        return Ok(());
    }
    (row.state, row.since, row.nonce) = (RecipientState::Unsubscribed, own.now(), None);
    own.put(&RECIPIENTS, &id, &row)?;
    own.audit(Event::new(Action::OutputUpdated).of(row.output).with("recipient", "unsubscribed"))
}

pub async fn confirm_page(caller: Anonymous, Path(token): Path<String>) -> Result<Page> {
    if target(&caller, CONFIRM, &token).is_none() {
        return Ok(nowhere());
    }
    let said = "Press the button to get the letters that the message spoke of. If you do not want them, close this page.";
    Ok(page("Do you want these letters?", said, Some("Yes, write to me")))
}

pub async fn confirm(caller: Anonymous, Path(token): Path<String>, _body: RawBody) -> Result<Page> {
    let Some((id, nonce)) = target(&caller, CONFIRM, &token) else { return Ok(nowhere()) };
    let Ok(nonce) = Uuid::from_slice(&nonce) else { return Ok(nowhere()) };
    if !caller.system().write(move |tx| confirmed(tx, id, nonce)).await? {
        return Ok(nowhere());
    }
    Ok(page("You get these letters from now on", "Each has a link by which you get no more.", None))
}

/// Takes an agreement in; whether the link was still good for it.
fn confirmed(tx: &SysWrite<'_>, id: Uuid, nonce: Uuid) -> Result<bool> {
    let found = tx.lookup_global(&RECIPIENTS, &BY_ID, id)?;
    let good = found
        .filter(|(_, row)| row.nonce == Some(nonce) && row.state == RecipientState::Pending && row.is_listed);
    let Some((org, mut row)) = good else {
        tx.unaudited("the link is not good any more");
        return Ok(false);
    };
    let own = tx.org(org);
    own.needs_no_room();
    (row.state, row.since, row.nonce) = (RecipientState::Active, own.now(), None);
    (row.is_member, row.refused, row.last_error) = (false, 0, None);
    own.put(&RECIPIENTS, &id, &row)?;
    own.audit(Event::new(Action::OutputUpdated).of(row.output).with("recipient", "confirmed"))?;
    Ok(true)
}
