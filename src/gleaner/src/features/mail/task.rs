//! Sending what is due, and sweeping what is old.

use super::Mailer;
use super::rows::{MAIL, MAIL_BY_STATE, MailState, MailV3};
use base::clock::Moment;
use base::ids::MailId;
use base::{Error, Result};
use secrets::random_bytes;
use server::task::TaskContext;
use smtp::{Fault, Outgoing, Session, Smtp};
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{SysRead, SysWrite, System, readable};

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
    // Those that cannot be begun, which would be found first for ever.
    let mut passed = HashSet::new();
    while !context.stopping() {
        let mut due = context.system().read(due)?;
        due.retain(|id| !passed.contains(id));
        if due.is_empty() {
            break;
        }
        send_batch(&context, &mailer, smtp, (&due, &mut passed)).await?;
    }
    Ok(())
}

/// The messages that are due, the one that has waited longest in front.
pub(super) fn due(tx: &SysRead<'_>) -> Result<Vec<MailId>> {
    let (now, mut due, mut after) = (tx.moment(), Vec::new(), None::<Vec<u8>>);
    loop {
        let (from, limit) = (after.as_deref(), BATCH_ROWS_MAX - due.len());
        let queued = MailState::Queued as u8;
        let step = tx.readable_by(&MAIL, &MAIL_BY_STATE, queued, Some(now), from, limit)?;
        after = step.more();
        let waits = |mail: &MailV3| mail.state == MailState::Queued && mail.next_try_at <= now;
        due.extend(step.rows.into_iter().filter(|(_, mail)| waits(mail)).map(|(id, _)| id));
        if due.len() == BATCH_ROWS_MAX || after.is_none() {
            return Ok(due);
        }
    }
}

/// Sends messages over one connection, as long as the server keeps it. When the server cannot be used, all that are
/// left wait. Those that cannot be begun are `passed`.
async fn send_batch(
    context: &TaskContext,
    mailer: &Mailer,
    smtp: &Smtp,
    (due, passed): (&[MailId], &mut HashSet<MailId>),
) -> Result<()> {
    let mut session: Option<Session<'_>> = None;
    for (at, &id) in due.iter().enumerate() {
        if context.stopping() {
            break;
        }
        let random = random_bytes().map_err(|e| Error::internal("spread the tries", e))?;
        let claimed = context.system().write(move |tx| claim(tx, id, u64::from_le_bytes(random))).await;
        let Some(claimed) = readable("a message", id, claimed)? else {
            passed.insert(id);
            continue;
        };
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
            return put_off(context.system(), left, reason).await;
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
    if !matches!(sent, Err(Fault::Server(_))) && !open.is_over() {
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
        unsubscribe: None,
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
        Err(Fault::Permanent(reason) | Fault::Recipient(reason)) => fail(tx, mail, reason),
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
async fn put_off(system: &System, ids: Vec<MailId>, reason: String) -> Result<()> {
    let placed = (0u64..).zip(ids).collect();
    let put_off = system.write_each("a message", placed, move |tx, (at, id)| {
        // Their place in the queue spreads them as well as chance would.
        if let Some(mut mail) = claim(tx, *id, *at)? {
            mail.last_error = Some(reason.clone());
            tx.put(&MAIL, id, &mail)?;
        }
        Ok(())
    });
    put_off.await.map(drop)
}

/// Removes messages that are old, sent or not; and where nobody can send them, those whose link has ended: the operator
/// could pass it on to nobody any more.
pub(super) async fn sweep(context: TaskContext) -> Result<()> {
    sweep_old(context.system(), || context.stopping()).await?;
    if context.service::<Mailer>().smtp.is_none() {
        sweep_over(context.system(), || context.stopping()).await?;
    }
    Ok(())
}

/// Removes the messages that were never sent and are of no use any more.
pub(super) async fn sweep_over(system: &System, is_stopping: impl Fn() -> bool) -> Result<()> {
    let mut after = None::<Vec<u8>>;
    while !is_stopping() {
        let step = system.read(|tx| tx.readable(&MAIL, after.as_deref(), SWEEP_ROWS_MAX))?;
        let now = system.clock().moment();
        let more = step.more();
        let over: Vec<_> =
            step.rows.into_iter().filter(|(_, mail)| is_over(mail, now)).map(|(id, _)| id).collect();
        if !over.is_empty() {
            system.write(move |tx| drop_over(tx, &over)).await?;
        }
        if more.is_none() {
            break;
        }
        after = more;
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

/// Removes what is old, a bounded number of rows a write; gives how many went. Ids grow with time, so the walk ends at the
/// first message that stays.
pub(super) async fn sweep_old(system: &System, stopping: impl Fn() -> bool) -> Result<usize> {
    let (mut after, mut swept) = (None::<Vec<u8>>, 0);
    loop {
        let (gone, more) = system
            .write_freeing(move |tx| {
                let step = tx.readable(&MAIL, after.as_deref(), SWEEP_ROWS_MAX)?;
                let is_old = |mail: &MailV3| tx.age(mail.created_at) >= MAIL_KEPT;
                let old: Vec<_> = step.rows.iter().take_while(|(_, mail)| is_old(mail)).collect();
                for (id, _) in &old {
                    tx.delete(&MAIL, id)?;
                }
                Ok((old.len(), step.more().filter(|_| old.len() == step.rows.len())))
            })
            .await?;
        swept += gone;
        if more.is_none() || stopping() {
            return Ok(swept);
        }
        after = more;
    }
}
