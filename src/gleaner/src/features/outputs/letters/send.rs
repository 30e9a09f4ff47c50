//! A try of a letter: to each recipient that has not got it, one after the other over one connection.
//!
//! Each is written down before the next one begins. So a box that is killed sends one of them again at most, under the same
//! `Message-ID`; and a recipient whose address is refused, or is to be tried later, costs the others nothing.

use super::super::attempt::{Tried, shown};
use super::super::rows::{DELIVERIES, DeliveryV1, OutputV2};
use super::super::service::Deliverer;
use super::gather::{content, taken};
use super::limit;
use super::recipients::{self, REFUSED_MAX, unsubscribe_at};
use super::rows::{RECIPIENTS, RecipientState, RecipientV1, TAKEN, TakenV1};
use crate::features::auth::ORGS;
use base::audit::Action;
use base::clock::{Moment, Now, Timestamp};
use base::digest::sha256_of;
use base::ids::{DeliveryId, OrgId};
use base::{Error, Result};
use outputs::Told;
use outputs::letter::{Around, letter};
use outputs::retry::Verdict;
use smtp::{Fault, Outgoing, Session, Smtp};
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{Event, SysRead, SysWrite, System};
use uuid::Uuid;

/// How long it is waited for a connection that others have.
const PLACE_PAUSE: Duration = Duration::from_millis(200);
/// How often a test waits so.
const PLACE_TRIES: usize = 20;
/// How long one letter's recipients are gone through without a break: what is left goes on in another turn.
const TURN_TIME: Duration = Duration::from_secs(120);

/// What came of it.
pub enum Sent {
    Tried(Tried),
    /// Nothing can be said yet; it goes on then.
    Rest(Moment),
}

fn tried(verdict: Verdict, told: &str, begun: Instant) -> Tried {
    Tried { verdict, status: None, told: shown(told), retry_after: None, duration: begun.elapsed() }
}

/// Who is to get a letter.
struct Plan {
    org: String,
    to: Vec<RecipientV1>,
    /// Recipients that have it, by whether the mail server took it.
    had: HashMap<Uuid, bool>,
    /// Recipients that have not agreed, or not before it was written.
    waiting: usize,
}

fn plan(tx: &SysRead<'_>, org: OrgId, output: &OutputV2, letter: Option<&DeliveryV1>) -> Result<Plan> {
    let own = tx.org(org);
    let had: HashMap<_, _> = match letter {
        Some(letter) => taken(&own, letter.id)?.into_iter().collect(),
        None => HashMap::new(),
    };
    let name = tx.get(&ORGS, &org)?.map(|entry| entry.name).unwrap_or_default();
    let mut plan = Plan { org: name, to: Vec::new(), had, waiting: 0 };
    for row in recipients::known(&own, output.id)?.into_iter().filter(|row| row.is_listed) {
        let is_allowed = match row.state {
            RecipientState::Active => !row.is_member || recipients::is_member(tx, org, &row.address)?,
            RecipientState::Pending => false,
            RecipientState::Unsubscribed | RecipientState::Bounced => continue,
        };
        let is_late = letter.is_some_and(|letter| row.since > letter.created_at);
        match (plan.had.contains_key(&row.id), is_allowed && !is_late) {
            (true, _) => {}
            (false, true) => plan.to.push(row),
            (false, false) => plan.waiting += 1,
        }
    }
    Ok(plan)
}

/// A try of a letter.
pub async fn send(
    deliverer: &Deliverer,
    system: &System,
    (org, output): (OrgId, &OutputV2),
    row: &DeliveryV1,
) -> Result<Sent> {
    let begun = Instant::now();
    let Some(smtp) = deliverer.mailer.smtp() else {
        return Ok(Sent::Tried(tried(Verdict::Away, "no mail server is configured", begun)));
    };
    let Some(_place) = deliverer.letters.take(org) else {
        return Ok(Sent::Rest(system.clock().moment().after(PLACE_PAUSE)));
    };
    let (plan, (events, count), full_until) = system.read(|tx| {
        let own = tx.org(org);
        let full_until = limit::full_until(&own, deliverer.letters_per_hour)?;
        Ok((plan(tx, org, output, Some(row))?, content(&own, row)?, full_until))
    })?;
    let earlier = plan.had.values().filter(|is_taken| **is_taken).count();
    if plan.to.is_empty() && plan.had.is_empty() {
        let (verdict, told) = match plan.waiting {
            0 => (Verdict::Gone, "every recipient has unsubscribed or bounced".to_owned()),
            waiting => (
                Verdict::Refused,
                format!("no recipient had agreed to letters: {waiting} wait to be confirmed"),
            ),
        };
        return Ok(Sent::Tried(tried(verdict, &told, begun)));
    }
    // The mail server is not asked in vain.
    if let Some(end) = full_until.filter(|_| !plan.to.is_empty()) {
        return Ok(Sent::Rest(end));
    }
    let around = (plan.org.as_str(), events.as_slice(), count);
    let post = Post { deliverer, system, smtp, org, output };
    let handed = post.hand_over((row.id, row.created_at), plan.to, around, true).await?;
    Ok(match handed.stop {
        Some(Stop::Full(end)) => Sent::Rest(end),
        Some(Stop::Time) => Sent::Rest(system.clock().moment()),
        Some(Stop::Server(reason)) => Sent::Tried(tried(Verdict::Away, &reason, begun)),
        Some(Stop::Message(reason)) => Sent::Tried(tried(Verdict::Failed, &reason, begun)),
        None => Sent::Tried(handed.told(earlier, begun)),
    })
}

/// Sends a letter that tells nothing to everybody who gets letters.
pub async fn test(
    deliverer: &Deliverer,
    system: &System,
    (org, output): (OrgId, &OutputV2),
    (message, now): (&str, Now),
) -> Result<Tried> {
    let begun = Instant::now();
    let Some(smtp) = deliverer.mailer.smtp() else {
        return Ok(tried(Verdict::Away, "no mail server is configured", begun));
    };
    let mut place = deliverer.letters.take(org);
    for _ in 0..PLACE_TRIES {
        if place.is_some() {
            break;
        }
        tokio::time::sleep(PLACE_PAUSE).await;
        place = deliverer.letters.take(org);
    }
    let Some(_place) = place else {
        return Ok(tried(Verdict::Failed, "letters are being sent just now; try it again", begun));
    };
    let plan = system.read(|tx| plan(tx, org, output, None))?;
    if plan.to.is_empty() {
        let told = format!("no recipient gets letters: {} wait to be confirmed", plan.waiting);
        return Ok(tried(Verdict::Failed, &told, begun));
    }
    let message = serde_json::from_str(message).map_err(|e| Error::internal("read a message", e))?;
    let events = [Told::of(&message)];
    let post = Post { deliverer, system, smtp, org, output };
    let letter = (DeliveryId::new(), now.date);
    let handed = post.hand_over(letter, plan.to, (&plan.org, &events, 1), false).await?;
    Ok(match handed.stop {
        Some(Stop::Full(_)) => {
            tried(Verdict::Failed, "the organization has sent as many letters this hour as it may", begun)
        }
        Some(Stop::Time) => tried(Verdict::Failed, "the mail server took too long", begun),
        Some(Stop::Server(reason) | Stop::Message(reason)) => tried(Verdict::Failed, &reason, begun),
        None => handed.told(0, begun),
    })
}

/// Why the rest of the recipients is not tried.
enum Stop {
    /// The organization may send the next letter then.
    Full(Moment),
    Time,
    /// The mail server cannot be used.
    Server(String),
    /// The mail server does not take the letter from the box, whoever it is to.
    Message(String),
}

/// What came of handing a letter over.
#[derive(Default)]
struct Handed {
    taken: usize,
    refused: usize,
    /// To be tried again.
    left: usize,
    /// Why one was refused, or is left.
    reason: Option<String>,
    stop: Option<Stop>,
}

impl Handed {
    fn told(self, earlier: usize, begun: Instant) -> Tried {
        let taken = earlier + self.taken;
        let verdict = match (self.left, taken) {
            (1.., _) => Verdict::Failed,
            (0, 0) => Verdict::Refused,
            (0, _) => Verdict::Delivered,
        };
        let count =
            |count: usize, what: &str| if count > 0 { format!(", {what}: {count}") } else { String::new() };
        let (refused, left) = (count(self.refused, "refused"), count(self.left, "to be tried again"));
        let reason = self.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        tried(verdict, &format!("taken: {taken}{refused}{left}{reason}"), begun)
    }
}

/// The way of letters of one output.
struct Post<'p> {
    deliverer: &'p Deliverer,
    system: &'p System,
    smtp: &'p Smtp,
    org: OrgId,
    output: &'p OutputV2,
}

impl Post<'_> {
    /// Hands a letter to the mail server for each of these. Who has it is written down where `is_noted`.
    async fn hand_over(
        &self,
        (id, written_at): (DeliveryId, Timestamp),
        to: Vec<RecipientV1>,
        (org_name, events, count): (&str, &[Told], u64),
        is_noted: bool,
    ) -> Result<Handed> {
        let (mut handed, begun) = (Handed::default(), Instant::now());
        let mut session: Option<Session<'_>> = None;
        for recipient in to {
            if begun.elapsed() >= TURN_TIME {
                handed.stop = Some(Stop::Time);
                break;
            }
            // The last ones come minutes behind the first: who has unsubscribed meanwhile, or is named no more, gets nothing.
            let now = self.system.read(|tx| tx.org(self.org).get(&RECIPIENTS, &recipient.id))?;
            if now.is_none_or(|row| !row.is_listed || row.state != RecipientState::Active) {
                continue;
            }
            let unsubscribe = unsubscribe_at(&self.deliverer.links, &self.deliverer.url, recipient.id);
            let link = format!("{}/console#/outputs", self.deliverer.url);
            let around =
                Around { output: &self.output.name, org: org_name, link: &link, unsubscribe: &unsubscribe };
            let made = letter(around, events, count);
            let outgoing = Outgoing {
                id: message_id(id, recipient.id),
                to: recipient.address.clone(),
                subject: made.subject,
                text: made.text,
                html: made.html,
                written_at: system_time(written_at),
                unsubscribe: Some(unsubscribe.clone()),
            };
            match self.hand_one(&mut session, &outgoing).await? {
                Ok(()) => {
                    handed.taken += 1;
                    self.note((id, recipient.id), None, is_noted).await?;
                }
                Err(Stopped::By(stop)) => {
                    handed.stop = Some(stop);
                    break;
                }
                Err(Stopped::Refused(reason)) => {
                    handed.refused += 1;
                    self.note((id, recipient.id), Some(reason.clone()), is_noted).await?;
                    handed.reason = Some(reason);
                }
                Err(Stopped::Later(reason)) => (handed.left, handed.reason) = (handed.left + 1, Some(reason)),
            }
        }
        if let Some(session) = session {
            session.quit().await;
        }
        Ok(handed)
    }

    /// Counts a letter and hands it over.
    async fn hand_one<'s>(
        &'s self,
        session: &mut Option<Session<'s>>,
        outgoing: &Outgoing,
    ) -> Result<std::result::Result<(), Stopped>> {
        let mut open = match session.take() {
            Some(open) => open,
            None => match self.smtp.connect().await {
                Ok(open) => open,
                Err(fault) => return Ok(Err(Stopped::By(Stop::Server(fault.reason().to_owned())))),
            },
        };
        let (org, per_hour) = (self.org, self.deliverer.letters_per_hour);
        let counted = self.system.write(move |tx| {
            let own = tx.org(org);
            own.unaudited("a letter is counted");
            limit::count(&own, per_hour)
        });
        if let Some(end) = counted.await? {
            *session = Some(open);
            return Ok(Err(Stopped::By(Stop::Full(end))));
        }
        let sent = open.send(outgoing).await;
        if !matches!(sent, Err(Fault::Server(_))) && !open.is_over() {
            *session = Some(open);
        }
        Ok(sent.map_err(|fault| match fault {
            Fault::Server(reason) => Stopped::By(Stop::Server(reason)),
            Fault::Permanent(reason) => Stopped::By(Stop::Message(reason)),
            Fault::Recipient(reason) => Stopped::Refused(reason),
            Fault::Temporary(reason) => Stopped::Later(reason),
        }))
    }

    async fn note(
        &self,
        (letter, recipient): (DeliveryId, Uuid),
        refused: Option<String>,
        is_noted: bool,
    ) -> Result<()> {
        let (org, output) = (self.org, self.output.id);
        let noted = self.system.write(move |tx| {
            if is_noted && tx.org(org).get(&DELIVERIES, &letter)?.is_some() {
                tx.org(org).put(&TAKEN, &(letter, recipient), &TakenV1 { is_taken: refused.is_none() })?;
            }
            note_recipient(tx, org, recipient, refused, output.into())
        });
        noted.await
    }
}

/// What became of one letter.
enum Stopped {
    By(Stop),
    Refused(String),
    Later(String),
}

/// Writes down that a letter was taken, or refused: so many times in a row, and nothing more is sent there.
fn note_recipient(
    tx: &SysWrite<'_>,
    org: OrgId,
    id: Uuid,
    refused: Option<String>,
    output: Uuid,
) -> Result<()> {
    let own = tx.org(org);
    own.unaudited("what became of a letter");
    let Some(mut row) = own.get(&RECIPIENTS, &id)? else { return Ok(()) };
    match refused {
        None => {
            (row.refused, row.last_error, row.last_sent_at) = (0, None, Some(own.now()));
        }
        Some(reason) => {
            (row.refused, row.last_error) = (row.refused + 1, Some(shown(&reason)));
            if row.refused >= REFUSED_MAX && row.state == RecipientState::Active {
                (row.state, row.since) = (RecipientState::Bounced, own.now());
                own.audit(Event::new(Action::OutputUpdated).of(output).with("recipient", "bounced"))?;
            }
        }
    }
    own.put(&RECIPIENTS, &id, &row)
}

/// The same whenever a letter is sent to a recipient.
fn message_id(letter: DeliveryId, recipient: Uuid) -> Uuid {
    let digest = sha256_of(&[letter.0.as_bytes(), recipient.as_bytes()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(bytes)
}

fn system_time(at: Timestamp) -> SystemTime {
    let since_epoch = Duration::from_millis(u64::try_from(at.millis()).unwrap_or(0));
    UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH)
}
