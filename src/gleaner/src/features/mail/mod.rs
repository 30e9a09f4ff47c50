//! Messages to people: each is a row, written in the transaction of what it tells of, and sent afterwards.
//!
//! A request never waits for a mail server: it writes the row, and the task of this slice sends what is due. Without a
//! mail server the rows wait, and the operator reads them with `gleaner admin outbox` and passes them on.
//!
//! Invariants:
//! - a message goes out when what it tells of is durable, and not otherwise;
//! - the next try is written before a try begins, so a crash costs one duplicate at most (with the same Message-ID), and
//!   never a loop;
//! - a message that was sent keeps neither its text nor its subject: what remains is to whom, which kind, and when.

mod commands;
mod config;
mod disk;
mod letters;
mod outbox;
mod personal;
mod rows;
mod task;
mod token;

pub use config::MailConfig;
pub use letters::{Letter, link};
pub use outbox::{KeptMail, outbox, waiting};
pub use rows::{MAIL, MailKind, MailState, MailV3, SealedTokenV1};
pub use token::{TOKEN_PLACE, seal, seal_old};

use crate::config::SectionSpec;
use crate::features::Feature;
use crate::features::wiring::Wiring;
use base::Result;
use base::clock::{Moment, Timestamp};
use base::ids::{MailId, OrgId};
use futures::future::BoxFuture;
use rows::{MAIL_BY_ABOUT, MAIL_BY_ADDRESS, MAIL_BY_ORG};
use secrets::keyring::Keyring;
use serde_json::{Value, json};
use server::task::TaskSpec;
use server::{Metrics, Need, Services};
use smtp::Smtp;
use std::sync::Arc;
use std::time::Duration;
use store::{SysRead, SysWrite};
use uuid::Uuid;

/// How soon a message is noticed.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Old rows do no harm; they only take room.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);
/// How often it is looked whether the disk is otherwise than the operator was told.
const DISK_EVERY: Duration = Duration::from_secs(2);
/// How long a message that nobody takes is tried (data/docs/operating.md, "Mail").
const TRIED_FOR: Duration = Duration::from_secs(24 * 3600);
/// Rows that one operation erases.
const ERASED_ROWS_MAX: usize = 256;
/// Messages to one address that are looked at to count them.
const WRITTEN_ROWS_MAX: usize = 100;
/// Messages that are read at once to be forgotten. Mostly there is one; whoever may ask for resets again and again makes more.
const FORGOTTEN_AT_ONCE: usize = 64;

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let keyring = wiring.part::<Keyring>();
        seal_old(&wiring.system(), &keyring).await?;
        let config = wiring.config.section::<MailConfig>();
        let smtp = config.smtp(wiring.url)?.map(Smtp::new);
        let mailer = Mailer::new(smtp, keyring, wiring.url).telling(&config.operator);
        wiring.hang::<Mailer>(mailer);
        Ok(())
    })
}

fn status(services: &Services) -> Vec<(&'static str, Value)> {
    let count = |state| services.system().read(|tx| waiting(tx, state)).unwrap_or(0);
    let mail = json!({
        "server": services.service::<Mailer>().server(),
        "waiting": count(MailState::Queued),
        "failed": count(MailState::Failed),
    });
    vec![("mail", mail)]
}

fn gauges(metrics: &Metrics, services: &Services) {
    let gauge = |name, help, state| {
        let system = services.system().clone();
        // A store that is closing answers nothing; the next look at the page is another box's.
        let read = move || system.read(|tx| waiting(tx, state)).unwrap_or(0) as f64;
        metrics.gauge_of(name, help, &[], read);
    };
    gauge("gleaner_mail_waiting", "Messages that wait to be sent.", MailState::Queued);
    gauge("gleaner_mail_failed", "Messages that failed in the last 30 days.", MailState::Failed);
}

pub static FEATURE: Feature = Feature {
    name: "mail",
    sections: &[SectionSpec::of::<MailConfig>()],
    open: Some(open),
    status: Some(status),
    commands: Some(commands::COMMANDS),
    gauges: Some(gauges),
    tables: &[&rows::MAIL],
    needs: &[Need::of::<Mailer>()],
    tasks: &[
        TaskSpec::new("mail.send", SEND_EVERY, |context| Box::pin(task::send_due(context))),
        TaskSpec::new("mail.disk", DISK_EVERY, |context| Box::pin(disk::watch(context))),
        TaskSpec::new("mail.sweep", SWEEP_EVERY, |context| Box::pin(task::sweep(context))),
    ],
    personal: personal::KINDS,
    holdings: personal::HOLDINGS,
    ..Feature::NONE
};

/// The way out, if there is one; hung up by app.
pub struct Mailer {
    smtp: Option<Smtp>,
    keyring: Arc<Keyring>,
    /// How people reach the box, without a slash at the end.
    public_url: String,
    /// Who is told of the box's disk.
    operator: Option<String>,
    disk: disk::DiskNews,
}

impl Mailer {
    /// None: no mail server is configured.
    pub fn new(smtp: Option<Smtp>, keyring: Arc<Keyring>, public_url: &str) -> Mailer {
        let disk = disk::DiskNews::default();
        Mailer { smtp, keyring, public_url: public_url.to_owned(), operator: None, disk }
    }

    /// The same with the address of the operator; empty is none.
    #[must_use]
    fn telling(mut self, operator: &str) -> Mailer {
        self.operator = Some(operator).filter(|text| !text.is_empty()).map(str::to_owned);
        self
    }

    /// A message as it goes out, with its token.
    fn opened(&self, mail: MailV3) -> Result<MailV3> {
        token::open(&self.keyring, mail)
    }

    /// The mail server, for letters that a slice has a ledger of its own for.
    pub fn smtp(&self) -> Option<&Smtp> {
        self.smtp.as_ref()
    }

    /// The mail server as `host:port`, if there is one.
    pub fn server(&self) -> Option<String> {
        self.smtp.as_ref().map(Smtp::server)
    }
}

/// A message that is being written.
pub struct NewMail<'a> {
    /// The account or the invitation that it is about.
    pub about: Uuid,
    /// The organization in whose name it goes out, and with which it is erased.
    pub org: Option<OrgId>,
    /// In its one spelling.
    pub to: &'a str,
    pub letter: Letter<'a>,
    /// The token of the letter's link.
    pub token: Option<&'a SealedTokenV1>,
    /// When it is of no use any more, such as the end of its link.
    pub good_until: Option<Moment>,
}

impl NewMail<'_> {
    /// Keeps the message; it goes out once what it tells of is durable, and not otherwise.
    pub fn send(self, tx: &SysWrite<'_>) -> Result<()> {
        let made = self.letter.render()?;
        let tried_until = tx.moment().after(TRIED_FOR);
        let mail = MailV3 {
            id: MailId::new(),
            about: self.about,
            org: self.org,
            kind: self.letter.kind(),
            to: self.to.to_owned(),
            subject: made.subject,
            text: made.text,
            html: made.html,
            created_at: tx.now(),
            state: MailState::Queued,
            attempts: 0,
            next_try_at: tx.moment(),
            good_until: self.good_until,
            give_up_at: self.good_until.map_or(tried_until, |end| end.min(tried_until)),
            last_error: None,
            ended_at: None,
            token: self.token.cloned(),
        };
        tx.put(&MAIL, &mail.id, &mail)
    }
}

/// Tells the operator that a backup to `target` failed, past the queue; nothing where nobody is to be told of the box.
pub async fn tell_of_backup(mailer: &Mailer, now: Timestamp, target: &str, reason: &str) -> Result<()> {
    let Some(operator) = mailer.operator.as_deref().filter(|_| mailer.smtp.is_some()) else { return Ok(()) };
    let letter = letters::backup_letter(&mailer.public_url, target, reason)?;
    outbox::send_now(mailer, now, operator, letter).await
}

/// Removes the messages of a kind that are about an account or an invitation and were not sent: what they carry is used
/// up or replaced.
pub fn forget(tx: &SysWrite<'_>, about: impl Into<Uuid>, kind: MailKind) -> Result<()> {
    let about = about.into();
    // One that is damaged reaches nobody, and must not keep what it was about.
    let mut after = None::<Vec<u8>>;
    loop {
        let mails = tx.readable_by(
            &MAIL,
            &MAIL_BY_ABOUT,
            (about, kind as u8),
            None,
            after.as_deref(),
            FORGOTTEN_AT_ONCE,
        )?;
        for (id, _) in &mails.rows {
            tx.delete(&MAIL, id)?;
        }
        after = mails.more();
        if after.is_none() {
            return Ok(());
        }
    }
}

/// How many messages of a kind an organization has sent, or is about to send, to an address within a time; 100 at most.
pub fn written_to(
    tx: &SysRead<'_>,
    org: OrgId,
    address: &str,
    kind: MailKind,
    within: Duration,
) -> Result<usize> {
    let mails = tx.readable_by(&MAIL, &MAIL_BY_ADDRESS, address, None, None, WRITTEN_ROWS_MAX)?;
    let is_meant =
        |mail: &MailV3| mail.org == Some(org) && mail.kind == kind && tx.age(mail.created_at) < within;
    Ok(mails.rows.iter().filter(|(_, mail)| is_meant(mail)).count())
}

/// Removes messages to an address, sent or not; how many. To be repeated until there are none.
pub fn erase_to(tx: &SysWrite<'_>, address: &str) -> Result<usize> {
    let mails = tx.readable_by(&MAIL, &MAIL_BY_ADDRESS, address, None, None, ERASED_ROWS_MAX)?;
    mails.rows.iter().try_for_each(|(id, _)| tx.delete(&MAIL, id).map(drop))?;
    Ok(mails.rows.len())
}

/// Removes messages that went out in the name of an organization, or wait to; how many. To be repeated until there are
/// none.
pub fn erase_of(tx: &SysWrite<'_>, org: OrgId) -> Result<usize> {
    let mails = tx.readable_by(&MAIL, &MAIL_BY_ORG, org, None, None, ERASED_ROWS_MAX)?;
    mails.rows.iter().try_for_each(|(id, _)| tx.delete(&MAIL, id).map(drop))?;
    Ok(mails.rows.len())
}

#[cfg(test)]
mod tests;
