//! Sending what is due, and sweeping what is old.

use super::Mailer;
use super::rows::{MAIL, MAIL_BY_STATE, MailState, MailV3};
use base::clock::Moment;
use base::ids::MailId;
use base::{Error, Result};
use secrets::random_bytes;
use server::task::TaskContext;
use smtp::{Fault, Outgoing, Session, Smtp};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{Order, SysRead, SysWrite, System};

/// Messages of one connection.
const BATCH_ROWS_MAX: usize = 50;
/// The pause after the first failed try; it doubles with each more.
const PAUSE_MIN: Duration = Duration::from_secs(60);
/// The longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(4 * 3600);
/// Each pause is up to this share longer, in percent, so that messages that failed together do not come back together.
const JITTER_PERCENT: u64 = 25;
/// What a send that is under way gets to end when the box drains. One that is cut off is sent again: a duplicate.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long a message is kept.
pub const MAIL_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
const SWEEP_ROWS_MAX: usize = 256;

/// Sends every message that is due.
pub(super) async fn send_due(context: TaskContext) -> Result<()> {
    let mailer = context.service::<Mailer>();
    let Some(smtp) = &mailer.smtp else { return Ok(()) };
    while !context.stopping() {
        let due = context.system().read(due)?;
        if due.is_empty() {
            break;
        }
        send_batch(&context, &mailer, smtp, &due).await?;
    }
    Ok(())
}

/// The messages that are due, the one that has waited longest in front.
fn due(tx: &SysRead<'_>) -> Result<Vec<MailId>> {
    let queued = tx.scan_index(
        &MAIL,
        &MAIL_BY_STATE,
        |key| key.u8(MailState::Queued as u8),
        Order::Ascending,
        BATCH_ROWS_MAX,
    )?;
    Ok(queued.iter().take_while(|mail| mail.next_try_at <= tx.moment()).map(|mail| mail.id).collect())
}

/// Sends messages over one connection, as long as the server keeps it. When the server cannot be used, all that are
/// left wait.
async fn send_batch(context: &TaskContext, mailer: &Mailer, smtp: &Smtp, due: &[MailId]) -> Result<()> {
    let mut session: Option<Session<'_>> = None;
    for (at, &id) in due.iter().enumerate() {
        if context.stopping() {
            break;
        }
        let random = random_bytes().map_err(|e| Error::internal("spread the tries", e))?;
        let claimed = context.system().write(move |tx| claim(tx, id, u64::from_le_bytes(random))).await?;
        let Some(mail) = claimed else { continue };
        let mail = match mailer.opened(mail) {
            Ok(mail) => mail,
            Err(error) => {
                tracing::error!(target: "gleaner::mail", %id, %error, "a message's token cannot be opened");
                let reason = "the token of its link cannot be opened: the box's key was replaced".to_owned();
                context.system().write(move |tx| note(tx, id, Err(Fault::Permanent(reason)))).await?;
                continue;
            }
        };
        let Some(sent) = unless_stopped(context, send_one(smtp, &mut session, &mail)).await else {
            return Ok(());
        };
        let server_fault = match &sent {
            Err(Fault::Server(reason)) => Some(reason.clone()),
            _ => None,
        };
        context.system().write(move |tx| note(tx, id, sent)).await?;
        if let Some(reason) = server_fault {
            let left = due[at + 1..].to_vec();
            return context.system().write(move |tx| put_off(tx, &left, &reason)).await;
        }
    }
    if let Some(session) = session {
        unless_stopped(context, session.quit()).await;
    }
    Ok(())
}

/// Sends one message over `session`, which is opened when there is none, and given up when it is broken.
async fn send_one<'s>(smtp: &'s Smtp, session: &mut Option<Session<'s>>, mail: &MailV3) -> Result<(), Fault> {
    let mut open = match session.take() {
        Some(open) => open,
        None => smtp.connect().await?,
    };
    let sent = open.send(&outgoing(mail)).await;
    if !matches!(sent, Err(Fault::Server(_))) {
        *session = Some(open);
    }
    sent
}

fn outgoing(mail: &MailV3) -> Outgoing {
    let since_epoch = Duration::from_millis(u64::try_from(mail.created_at.millis()).unwrap_or(0));
    Outgoing {
        id: mail.id.0,
        to: mail.to.clone(),
        subject: mail.subject.clone(),
        text: mail.text.clone(),
        html: mail.html.clone(),
        written_at: UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH),
    }
}

/// What `work` gives; none when the box drains and it does not end soon.
async fn unless_stopped<T>(context: &TaskContext, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        context.stopped().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        done = work => Some(done),
        () = stopped => None,
    }
}

/// Begins a try: the message as it is now, with its next try written. None when it is gone, was sent, or has waited too
/// long, which is its end.
pub(super) fn claim(tx: &SysWrite<'_>, id: MailId, random: u64) -> Result<Option<MailV3>> {
    let Some(mut mail) = tx.get(&MAIL, &id)? else { return Ok(None) };
    if mail.state != MailState::Queued || mail.next_try_at > tx.moment() {
        return Ok(None);
    }
    if mail.give_up_at <= tx.moment() {
        let why = mail.last_error.take().unwrap_or_else(|| "no mail server was there to take it".to_owned());
        fail(tx, mail, format!("given up, it has waited too long: {why}"))?;
        return Ok(None);
    }
    mail.attempts += 1;
    mail.next_try_at = next_try(&mail, tx.moment(), random);
    tx.put(&MAIL, &id, &mail)?;
    Ok(Some(mail))
}

/// When a message that was tried `mail.attempts` times is tried next; at the latest when it is given up.
pub(super) fn next_try(mail: &MailV3, now: Moment, random: u64) -> Moment {
    let doublings = mail.attempts.saturating_sub(1).min(16);
    let pause = PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX);
    let jitter = u64::try_from(pause.as_millis()).unwrap_or(0) / 100 * (random % (JITTER_PERCENT + 1));
    now.after(pause + Duration::from_millis(jitter)).min(mail.give_up_at)
}

/// Ends a try. A message that was forgotten meanwhile stays so.
fn note(tx: &SysWrite<'_>, id: MailId, sent: Result<(), Fault>) -> Result<()> {
    let Some(mut mail) = tx.get(&MAIL, &id)? else { return Ok(()) };
    if mail.state != MailState::Queued {
        return Ok(());
    }
    match sent {
        Ok(()) => {
            mail.state = MailState::Sent;
            mail.ended_at = Some(tx.now());
            mail.last_error = None;
            for part in [&mut mail.subject, &mut mail.text, &mut mail.html] {
                part.clear();
            }
            mail.token = None;
            tx.put(&MAIL, &id, &mail)
        }
        Err(Fault::Permanent(reason)) => fail(tx, mail, reason),
        Err(Fault::Temporary(reason) | Fault::Server(reason)) => {
            tracing::warn!(target: "gleaner::mail", %id, attempts = mail.attempts, reason, "a message waits");
            mail.last_error = Some(reason);
            tx.put(&MAIL, &id, &mail)
        }
    }
}

fn fail(tx: &SysWrite<'_>, mut mail: MailV3, reason: String) -> Result<()> {
    tracing::warn!(target: "gleaner::mail", id = %mail.id, attempts = mail.attempts, reason, "a message has failed");
    mail.state = MailState::Failed;
    mail.ended_at = Some(tx.now());
    mail.last_error = Some(reason);
    tx.put(&MAIL, &mail.id, &mail)
}

/// Makes messages wait that could not be tried.
fn put_off(tx: &SysWrite<'_>, ids: &[MailId], reason: &str) -> Result<()> {
    for (at, id) in (0u64..).zip(ids) {
        // Their place in the queue spreads them as well as chance would.
        if let Some(mut mail) = claim(tx, *id, at)? {
            mail.last_error = Some(reason.to_owned());
            tx.put(&MAIL, id, &mail)?;
        }
    }
    Ok(())
}

/// Removes messages that are old, sent or not; and where nobody can send them, those whose link has ended: the operator
/// could pass it on to nobody any more.
pub(super) async fn sweep(context: TaskContext) -> Result<()> {
    while context.system().write(sweep_some).await? == SWEEP_ROWS_MAX && !context.stopping() {}
    if context.service::<Mailer>().smtp.is_none() {
        sweep_over(context.system(), || context.stopping()).await?;
    }
    Ok(())
}

/// Removes the messages that were never sent and are of no use any more.
pub(super) async fn sweep_over(system: &System, is_stopping: impl Fn() -> bool) -> Result<()> {
    let mut after = None;
    while !is_stopping() {
        let rows = system.read(|tx| tx.scan(&MAIL, after.as_ref(), Order::Ascending, SWEEP_ROWS_MAX))?;
        let Some((last, _)) = rows.last() else { break };
        after = Some(*last);
        let now = system.clock().moment();
        let over: Vec<_> =
            rows.into_iter().filter(|(_, mail)| is_over(mail, now)).map(|(id, _)| id).collect();
        if !over.is_empty() {
            system.write(move |tx| drop_over(tx, &over)).await?;
        }
    }
    Ok(())
}

fn is_over(mail: &MailV3, now: Moment) -> bool {
    mail.state != MailState::Sent && mail.good_until.is_some_and(|end| end <= now)
}

/// Removes those that are over still: one may have been sent meanwhile.
fn drop_over(tx: &SysWrite<'_>, ids: &[MailId]) -> Result<()> {
    for id in ids {
        if tx.get(&MAIL, id)?.is_some_and(|mail| is_over(&mail, tx.moment())) {
            tx.delete(&MAIL, id)?;
        }
    }
    Ok(())
}

/// Removes a bounded number of rows; returns how many.
pub(super) fn sweep_some(tx: &SysWrite<'_>) -> Result<usize> {
    let mut swept = 0;
    for (id, mail) in tx.scan(&MAIL, None, Order::Ascending, SWEEP_ROWS_MAX)? {
        if tx.age(mail.created_at) < MAIL_KEPT {
            break;
        }
        swept += usize::from(tx.delete(&MAIL, &id)?);
    }
    Ok(swept)
}
