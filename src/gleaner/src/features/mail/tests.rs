//! The rows on a real store with a clock that moves. Sending is tested in `tests/it/mail.rs`.

use super::rows::{MAIL_BY_ABOUT, MAIL_BY_STATE, MailV1, MailV2};
use super::task::{MAIL_KEPT, claim, due, next_try, sweep_old, sweep_over};
use super::*;
use base::clock::{Clock, Moment, Timestamp};
use base::codec;
use base::ids::UserId;
use store::fault::{FaultyDisk, damage_row, stray_entry};
use store::{MIGRATIONS, Order, Store, System};

fn open() -> (System, Clock) {
    let (disk, clock) = (FaultyDisk::new(), Clock::system());
    let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
    (store.system(), clock)
}

fn mail<'a>(about: UserId, to: &'a str, good_for: Option<Moment>) -> NewMail<'a> {
    let letter = Letter::VerifyEmail { name: "Ada", url: "http://box.test" };
    NewMail { about: about.into(), org: None, to, letter, token: None, good_until: good_for }
}

/// A way out that nobody uses, with keys of its own.
fn mailer() -> Mailer {
    let folder = tempfile::tempdir().unwrap();
    Mailer::new(
        None,
        Arc::new(Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap()),
        "http://box.test",
    )
}

async fn write(system: &System, good_for: Option<Duration>) -> MailV3 {
    system
        .write(move |tx| {
            let end = good_for.map(|time| tx.moment().after(time));
            mail(UserId::new(), "ada@example.com", end).send(tx)?;
            Ok(tx.scan(&MAIL, None, Order::Descending, 1)?.remove(0).1)
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn tries_are_spread_over_a_day_and_end_with_what_the_message_carries() {
    let (system, clock) = open();
    let row = write(&system, None).await;
    let mut pauses = Vec::new();
    let end = loop {
        let now = clock.moment();
        let Some(claimed) = system.write(move |tx| claim(tx, row.id, 0)).await.unwrap() else {
            break system.read(|tx| tx.require(&MAIL, &row.id)).unwrap();
        };
        assert!(system.write(move |tx| claim(tx, row.id, 0)).await.unwrap().is_none(), "not before its time");
        let pause = claimed.next_try_at.since(now).as_secs() / 60;
        pauses.push(pause);
        clock.advance(claimed.next_try_at.since(clock.moment()));
    };
    assert_eq!(pauses[..9], [1, 2, 4, 8, 16, 32, 64, 128, 240]);
    assert_eq!(end.state, MailState::Failed);
    assert!(end.last_error.unwrap().starts_with("given up"));
    let waited = end.ended_at.unwrap().since(row.created_at);
    assert!(waited >= TRIED_FOR && waited < TRIED_FOR + Duration::from_secs(60), "{waited:?}");

    let short = write(&system, Some(Duration::from_secs(3600))).await;
    let claimed = system.write(move |tx| claim(tx, short.id, u64::MAX)).await.unwrap().unwrap();
    assert!(claimed.next_try_at < claimed.give_up_at);
    clock.advance(Duration::from_secs(3600));
    assert!(system.write(move |tx| claim(tx, short.id, 0)).await.unwrap().is_none());
    assert_eq!(system.read(|tx| tx.require(&MAIL, &short.id)).unwrap().state, MailState::Failed);
}

#[test]
fn a_pause_grows_by_a_quarter_at_most() {
    let now = Moment(1_000_000_000);
    let mut row = MailV3::from(MailV2::from(MailV1 {
        id: MailId::new(),
        about: Uuid::nil(),
        kind: MailKind::Invite,
        to: String::new(),
        subject: String::new(),
        text: String::new(),
        created_at: Timestamp(now.millis()),
    }));
    row.attempts = 1;
    assert_eq!(next_try(&row, now, 0), now.after(Duration::from_secs(60)));
    assert_eq!(next_try(&row, now, 25), now.after(Duration::from_secs(75)));
    assert!((0..1_000).all(|random| next_try(&row, now, random) <= now.after(Duration::from_secs(75))));
    row.attempts = u32::MAX;
    assert_eq!(next_try(&row, now, 0), now.after(Duration::from_secs(4 * 3600)));
}

/// A row as the release before wrote it.
#[tokio::test]
async fn a_message_of_the_release_before_is_kept_and_not_sent() {
    let (system, clock) = open();
    let about = UserId::new();
    let old = MailV1 {
        id: MailId::new(),
        about: about.into(),
        kind: MailKind::ResetPassword,
        to: "ada@example.com".to_owned(),
        subject: "Choose a new password".to_owned(),
        text: "with glp_token".to_owned(),
        created_at: clock.now(),
    };
    let read: MailV3 = codec::decode(&codec::encode(&old).unwrap()).unwrap();
    assert_eq!(read, MailV3::from(MailV2::from(old.clone())));
    assert_eq!(read.state, MailState::Kept);
    system.write(move |tx| tx.put(&MAIL, &read.id, &read)).await.unwrap();
    assert!(system.write(move |tx| claim(tx, old.id, 0)).await.unwrap().is_none());
    let listed = system.read(|tx| outbox(tx, &mailer(), 10)).unwrap();
    assert_eq!((listed[0].state, listed[0].text.as_deref()), ("kept", Some("with glp_token")));
    system.write(move |tx| forget(tx, about, MailKind::ResetPassword)).await.unwrap();
    assert!(system.read(|tx| outbox(tx, &mailer(), 10)).unwrap().is_empty());
}

#[tokio::test]
async fn what_was_sent_is_not_forgotten_and_everything_is_erased() {
    let (system, clock) = open();
    let (ada, org) = (UserId::new(), OrgId::new());
    system
        .write(move |tx| {
            for _ in 0..3 {
                mail(ada, "ada@example.com", None).send(tx)?;
            }
            NewMail { org: Some(org), ..mail(UserId::new(), "eve@example.com", None) }.send(tx)?;
            let mut first = tx.scan(&MAIL, None, Order::Ascending, 1)?.remove(0).1;
            first.state = MailState::Sent;
            tx.put(&MAIL, &first.id, &first)
        })
        .await
        .unwrap();
    let count = || system.read(|tx| tx.count(&MAIL, 10)).unwrap();
    let queued = || system.read(|tx| waiting(tx, MailState::Queued)).unwrap();
    assert_eq!((count(), queued()), (4, 3));
    system.write(move |tx| forget(tx, ada, MailKind::VerifyEmail)).await.unwrap();
    assert_eq!((count(), queued()), (2, 1));
    assert!(!system.read(|tx| tx.exists(&MAIL_BY_ABOUT, ada.0)).unwrap());
    assert_eq!(system.write(|tx| erase_to(tx, "ada@example.com")).await.unwrap(), 1);
    assert_eq!(system.write(|tx| erase_to(tx, "ada@example.com")).await.unwrap(), 0);
    assert_eq!(system.write(move |tx| erase_of(tx, org)).await.unwrap(), 1);
    assert_eq!(count(), 0);

    write(&system, None).await;
    clock.advance(MAIL_KEPT - Duration::from_secs(60));
    write(&system, None).await;
    clock.advance(Duration::from_secs(60));
    assert_eq!((sweep_old(&system, || false).await.unwrap(), count()), (1, 1));
}

#[tokio::test]
async fn damaged_messages_keep_no_other_from_going_out() {
    let (system, clock) = open();
    let mut ids = Vec::new();
    for _ in 0..70 {
        ids.push(write(&system, None).await.id);
        clock.advance(Duration::from_secs(1));
    }
    // More than a batch, in front of all others.
    let damaged = ids[..60].to_vec();
    system.write(move |tx| damaged.iter().try_for_each(|id| damage_row(tx, &MAIL, id))).await.unwrap();
    // And an entry that stands too early for a message that waits.
    let waits = ids.pop().unwrap();
    system
        .write(move |tx| {
            let mut mail = tx.require(&MAIL, &waits)?;
            mail.next_try_at = tx.moment().after(Duration::from_secs(3_600));
            tx.put(&MAIL, &waits, &mail)?;
            let early = Moment(0);
            stray_entry(tx, &MAIL_BY_STATE, (MailState::Queued as u8, early), &waits);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(system.read(due).unwrap(), ids[60..]);
    clock.advance(MAIL_KEPT);
    assert_eq!(sweep_old(&system, || false).await.unwrap(), 10, "what is old goes from behind them");
}

/// Messages of the release that wrote tokens into the texts: sealed at the start, once, and read by the operator as before.
#[tokio::test]
async fn tokens_of_messages_of_the_release_before_are_sealed() {
    let (system, clock) = open();
    let mailer = mailer();
    let token = format!("glp_{}", "aB3-_".repeat(9).split_at(43).0);
    let text = format!("Choose a new one:\n\nhttp://box.test/reset-password#{token}\n\nIt ends soon.");
    let old = MailV2 {
        id: MailId::new(),
        about: Uuid::nil(),
        org: None,
        kind: MailKind::ResetPassword,
        to: "ada@example.com".to_owned(),
        subject: "Choose a new password".to_owned(),
        html: format!("<a href=\"http://box.test/reset-password#{token}\">Choose</a>"),
        text: text.clone(),
        created_at: clock.now(),
        state: MailState::Queued,
        attempts: 0,
        next_try_at: clock.moment(),
        good_until: None,
        give_up_at: clock.moment().after(TRIED_FOR),
        last_error: None,
        ended_at: None,
    };
    let (id, sent) = (old.id, MailV2 { id: MailId::new(), text: String::new(), ..old.clone() });
    let read = |row: &MailV2| codec::decode::<MailV3>(&codec::encode(row).unwrap()).unwrap();
    let (old, sent) = (read(&old), read(&sent));
    assert!(old.token.is_none() && old.text == text);
    system
        .write(move |tx| [old, sent].iter().try_for_each(|mail| tx.put(&MAIL, &mail.id, mail)))
        .await
        .unwrap();
    for _ in 0..2 {
        seal_old(&system, &mailer.keyring).await.unwrap();
        let kept = system.read(|tx| tx.require(&MAIL, &id)).unwrap();
        let stored = codec::encode(&kept).unwrap();
        let holds = |part: &str| stored.windows(part.len()).any(|bytes| bytes == part.as_bytes());
        assert!(!holds(&token) && !holds(&token[10..]), "a token in the clear");
        let opened = mailer.opened(kept).unwrap();
        assert_eq!(opened.text, text);
        assert!(opened.html.contains(&format!("#{token}\"")) && !opened.html.contains(TOKEN_PLACE));
    }
    let listed = system.read(|tx| outbox(tx, &mailer, 10)).unwrap();
    assert!(listed.iter().any(|mail| mail.text.as_deref() == Some(text.as_str())));
    let elsewhere = self::mailer();
    let listed = system.read(|tx| outbox(tx, &elsewhere, 10)).unwrap();
    assert!(!listed.iter().any(|mail| mail.text.as_ref().is_some_and(|text| text.contains(&token))));
}

/// Nobody sends what a box without a mail server keeps, and a stranger may register and ask for resets for ever.
#[tokio::test]
async fn what_nobody_can_send_goes_with_its_link() {
    let (system, clock) = open();
    let hour = Duration::from_secs(3600);
    for n in 0..600u32 {
        let time = if n % 2 == 0 { hour } else { 24 * hour };
        write(&system, Some(time)).await;
    }
    let (lasting, sent) = (write(&system, None).await, write(&system, Some(hour)).await);
    system
        .write(move |tx| {
            let mut mail = tx.require(&MAIL, &sent.id)?;
            mail.state = MailState::Sent;
            tx.put(&MAIL, &sent.id, &mail)
        })
        .await
        .unwrap();
    let count = || system.read(|tx| tx.count(&MAIL, 1_000)).unwrap();
    sweep_over(&system, || false).await.unwrap();
    assert_eq!(count(), 602, "all links are good");
    clock.advance(hour);
    sweep_over(&system, || false).await.unwrap();
    assert_eq!(count(), 302, "those of an hour are over");
    clock.advance(23 * hour);
    sweep_over(&system, || false).await.unwrap();
    assert_eq!(count(), 2, "what has no link, and what was sent, stays its time");
    assert!(system.read(|tx| tx.get(&MAIL, &lasting.id)).unwrap().is_some());
}
