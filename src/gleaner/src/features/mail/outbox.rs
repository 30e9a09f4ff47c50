//! What the operator sees of messages, and trying failed ones again.

use super::letters::test_letter;
use super::rows::{MAIL, MAIL_BY_STATE, MailState, MailV3};
use super::{Mailer, TRIED_FOR};
use base::audit::Action;
use base::clock::{Now, Timestamp};
use base::ids::MailId;
use base::{Error, Result};
use serde::Serialize;
use smtp::{Fault, Outgoing, Rendered};
use std::time::{Duration, UNIX_EPOCH};
use store::{Event, Order, SysRead, SysWrite, System};

/// Messages that are counted as waiting or failed; more are as many.
const COUNTED_ROWS_MAX: usize = 10_000;
/// How long a test message may take; the operator's connection lives longer.
const TEST_TIME_MAX: Duration = Duration::from_secs(50);
/// Messages that are tried again with one command.
const RETRIED_ROWS_MAX: usize = 1_000;

/// A message as the operator reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptMail {
    pub id: MailId,
    pub kind: &'static str,
    pub to: String,
    pub state: &'static str,
    /// Subject and text are gone when it was sent.
    pub subject: Option<String>,
    pub text: Option<String>,
    pub created_at: Timestamp,
    pub attempts: u32,
    pub next_try_at: Option<Timestamp>,
    /// Why the last try failed.
    pub last_error: Option<String>,
    pub ended_at: Option<Timestamp>,
}

impl KeptMail {
    fn new(mail: MailV3, now: &Now) -> KeptMail {
        let is_kept = mail.state != MailState::Sent;
        KeptMail {
            id: mail.id,
            kind: mail.kind.name(),
            to: mail.to,
            state: mail.state.name(),
            subject: is_kept.then_some(mail.subject),
            text: is_kept.then_some(mail.text),
            created_at: mail.created_at,
            attempts: mail.attempts,
            next_try_at: (mail.state == MailState::Queued).then_some(now.date_of(mail.next_try_at)),
            last_error: mail.last_error,
            ended_at: mail.ended_at,
        }
    }
}

/// The messages, newest first; what `gleaner admin outbox` prints.
pub fn outbox(tx: &SysRead<'_>, mailer: &Mailer, limit: usize) -> Result<Vec<KeptMail>> {
    let rows = tx.scan(&MAIL, None, Order::Descending, limit)?;
    // One whose key is gone is shown as it is kept, without what its link needs.
    let opened = |mail: MailV3| mailer.opened(mail.clone()).unwrap_or(mail);
    Ok(rows.into_iter().map(|(_, mail)| KeptMail::new(opened(mail), tx.clock())).collect())
}

/// How many messages are in a state that has an index: queued or failed.
pub fn waiting(tx: &SysRead<'_>, state: MailState) -> Result<usize> {
    tx.count_index(&MAIL_BY_STATE, state as u8, COUNTED_ROWS_MAX)
}

/// Sends a message to `to` now, past the queue, to see whether mail arrives; an error says why it does not. `public_url` is
/// the box's address without a slash at the end.
pub async fn send_test(mailer: &Mailer, now: Timestamp, to: &str) -> Result<()> {
    send_now(mailer, now, to, test_letter(&mailer.public_url)?).await
}

/// Sends what was written past the queue, which a full disk may not take.
pub(super) async fn send_now(mailer: &Mailer, now: Timestamp, to: &str, made: Rendered) -> Result<()> {
    let smtp = mailer.smtp.as_ref().ok_or_else(no_server)?;
    let since_epoch = Duration::from_millis(u64::try_from(now.millis()).unwrap_or(0));
    let message = Outgoing {
        id: MailId::new().0,
        to: to.to_owned(),
        subject: made.subject,
        text: made.text,
        html: made.html,
        written_at: UNIX_EPOCH + since_epoch,
        unsubscribe: None,
    };
    let send = async {
        let mut session = smtp.connect().await?;
        session.send(&message).await?;
        session.quit().await;
        Ok(())
    };
    match tokio::time::timeout(TEST_TIME_MAX, send).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(fault)) => Err(failed_test(&fault)),
        Err(_elapsed) => {
            let reason =
                format!("the mail server has not taken it within {} seconds", TEST_TIME_MAX.as_secs());
            Err(Error::conflict(reason))
        }
    }
}

fn failed_test(fault: &Fault) -> Error {
    Error::conflict(fault.reason())
}

fn no_server() -> Error {
    Error::conflict("no mail server is configured; set mail.host and start the box again")
}

/// What became of trying messages again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retried {
    /// They are due now.
    pub queued: usize,
    /// What they carry has ended; whoever wants it asks anew.
    pub expired: usize,
}

/// Makes failed, waiting and kept messages due now: the one of this id, or all of them. Refused without a mail server.
pub async fn retry(system: &System, mailer: &Mailer, id: Option<MailId>) -> Result<Retried> {
    if mailer.smtp.is_none() {
        return Err(no_server());
    }
    system.write(move |tx| retry_in(tx, id)).await
}

fn retry_in(tx: &SysWrite<'_>, id: Option<MailId>) -> Result<Retried> {
    let rows = match id {
        Some(id) => vec![tx.require(&MAIL, &id)?],
        None => {
            let all = tx.scan(&MAIL, None, Order::Descending, RETRIED_ROWS_MAX)?;
            all.into_iter().map(|(_, mail)| mail).filter(|mail| mail.state != MailState::Sent).collect()
        }
    };
    let mut retried = Retried::default();
    for mut mail in rows {
        if mail.state == MailState::Sent {
            return Err(Error::conflict("this message was sent already"));
        }
        if mail.good_until.is_some_and(|end| end <= tx.moment()) {
            retried.expired += 1;
            continue;
        }
        let tried_until = tx.moment().after(TRIED_FOR);
        mail.state = MailState::Queued;
        mail.next_try_at = tx.moment();
        mail.give_up_at = mail.good_until.map_or(tried_until, |end| end.min(tried_until));
        mail.ended_at = None;
        tx.put(&MAIL, &mail.id, &mail)?;
        retried.queued += 1;
    }
    if retried.queued > 0 {
        let event = Event::new(Action::MailRetried).with("count", retried.queued);
        tx.audit(match id {
            Some(id) => event.of(id),
            None => event,
        })?;
    }
    Ok(retried)
}
