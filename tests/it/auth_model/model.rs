//! What a person would expect of credentials: the rules of data/docs/api.md, "People, organizations and keys",
//! without hashes, families, rows or indexes.
//!
//! Everything that was ever handed out is kept here with what became of it, and asking is one look at that. Times near
//! an end are unclear, because the box and the model do not look at the clock in the same millisecond.

use base::clock::Timestamp;
use base::permission::{Permissions, Role};
use std::time::Duration;

/// See data/docs/api.md, "People, organizations and keys".
const ACCESS_TIME: Duration = Duration::from_secs(15 * 60);
/// See data/docs/api.md, "People, organizations and keys".
const REFRESH_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// See data/docs/api.md, "People, organizations and keys".
const RESET_TIME: Duration = Duration::from_secs(3600);
/// So close to an end the model does not say what holds. A loaded machine takes seconds for a step.
const MARGIN: Duration = Duration::from_secs(45);
/// Longer than the window of the login limit.
const WINDOW: Duration = Duration::from_secs(17 * 60);

/// What the model says of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Alive,
    Dead,
    Unclear,
}

impl Verdict {
    fn until(end: Timestamp, now: Timestamp) -> Verdict {
        if now.after(MARGIN) < end {
            Verdict::Alive
        } else if end.after(MARGIN) <= now {
            Verdict::Dead
        } else {
            Verdict::Unclear
        }
    }
}

pub struct Person {
    pub id: String,
    pub email: String,
    pub password: String,
    /// Passwords that were good once.
    pub old_passwords: Vec<String>,
    /// What they are in the organization; none outside.
    pub role: Option<Role>,
    /// How often all their sessions have ended.
    resets: usize,
    /// The token in the newest message, until one is used.
    pub reset: Option<(String, Timestamp)>,
    /// Those in the messages before it: good until their time, or until one is used.
    earlier_resets: Vec<String>,
    /// Those that were used, or were there when another was.
    pub used_resets: Vec<String>,
    asked: Vec<Timestamp>,
}

/// An access token.
pub struct Access {
    pub person: usize,
    pub text: String,
    /// The login that it was given for.
    login: usize,
    resets: usize,
    end: Timestamp,
}

/// A login: its refresh tokens, the newest last.
pub struct Login {
    pub person: usize,
    pub tokens: Vec<String>,
    end: Timestamp,
    ended: bool,
}

pub struct ApiKey {
    pub maker: usize,
    pub id: String,
    pub text: String,
    pub allowed: Permissions,
    pub end: Option<Timestamp>,
    /// Whether it still stands in the list, expired or not.
    pub kept: bool,
}

/// One organization and the people around it; the first of them owns it throughout.
#[derive(Default)]
pub struct Model {
    pub people: Vec<Person>,
    pub accesses: Vec<Access>,
    pub logins: Vec<Login>,
    pub keys: Vec<ApiKey>,
    failures: Vec<Timestamp>,
}

impl Model {
    pub fn person(&mut self, id: String, email: String, password: String) -> usize {
        self.people.push(Person {
            id,
            email,
            password,
            old_passwords: Vec::new(),
            role: None,
            resets: 0,
            reset: None,
            earlier_resets: Vec::new(),
            used_resets: Vec::new(),
            asked: Vec::new(),
        });
        self.people.len() - 1
    }

    /// Somebody was let in and got these two tokens.
    pub fn logged_in(&mut self, person: usize, access: &str, refresh: &str, now: Timestamp) {
        let (tokens, end) = (vec![refresh.to_owned()], now.after(REFRESH_TIME));
        self.logins.push(Login { person, tokens, end, ended: false });
        self.accesses(person, self.logins.len() - 1, access, now);
    }

    fn accesses(&mut self, person: usize, login: usize, text: &str, now: Timestamp) {
        let (resets, end) = (self.people[person].resets, now.after(ACCESS_TIME));
        self.accesses.push(Access { person, text: text.to_owned(), login, resets, end });
    }

    /// Whether an access token names its person. What they may do then depends on what they are at that moment.
    pub fn access(&self, at: usize, now: Timestamp) -> Verdict {
        let access = &self.accesses[at];
        if access.resets < self.people[access.person].resets || self.logins[access.login].ended {
            return Verdict::Dead;
        }
        Verdict::until(access.end, now)
    }

    /// Whether a refresh token is good: the newest of a login that has not ended.
    pub fn refresh(&self, login: usize, nth: usize, now: Timestamp) -> Verdict {
        let login = &self.logins[login];
        if login.ended {
            return Verdict::Dead;
        }
        match Verdict::until(login.end, now) {
            Verdict::Alive if nth + 1 < login.tokens.len() => Verdict::Dead,
            other => other,
        }
    }

    pub fn refreshed(&mut self, login: usize, access: &str, refresh: &str, now: Timestamp) {
        let row = &mut self.logins[login];
        row.tokens.push(refresh.to_owned());
        row.end = now.after(REFRESH_TIME);
        let person = row.person;
        self.accesses(person, login, access, now);
    }

    pub fn has_ended(&self, login: usize) -> bool {
        self.logins[login].ended
    }

    /// A login was ended by its owner, or by the second use of one of its tokens.
    pub fn end_login(&mut self, login: usize) {
        self.logins[login].ended = true;
    }

    /// A message with a reset token went out; those before it are good as they were.
    pub fn reset_sent(&mut self, person: usize, token: String, now: Timestamp) {
        let person = &mut self.people[person];
        person.asked.push(now);
        person.earlier_resets.extend(person.reset.take().map(|(old, _)| old));
        person.reset = Some((token, now.after(RESET_TIME)));
    }

    pub fn reset_token(&self, person: usize, now: Timestamp) -> Verdict {
        self.people[person].reset.as_ref().map_or(Verdict::Dead, |(_, end)| Verdict::until(*end, now))
    }

    /// A password was replaced: the token is used up and every session of the person has ended. Keys live on.
    pub fn reset(&mut self, person: usize, password: String) {
        let row = &mut self.people[person];
        row.resets += 1;
        row.used_resets.extend(row.reset.take().map(|(used, _)| used));
        row.used_resets.append(&mut row.earlier_resets);
        row.old_passwords.push(std::mem::replace(&mut row.password, password));
        self.logins.iter_mut().filter(|login| login.person == person).for_each(|login| login.ended = true);
    }

    /// A membership has ended, and with it every key that the person made.
    pub fn removed(&mut self, person: usize) {
        self.people[person].role = None;
        self.keys.iter_mut().filter(|key| key.maker == person).for_each(|key| key.kept = false);
    }

    pub fn key(&self, at: usize, now: Timestamp) -> Verdict {
        let key = &self.keys[at];
        if !key.kept || self.people[key.maker].role.is_none() {
            return Verdict::Dead;
        }
        key.end.map_or(Verdict::Alive, |end| Verdict::until(end, now))
    }

    /// What a person's own sessions allow.
    pub fn permissions(&self, person: usize) -> Permissions {
        self.people[person].role.map_or(Permissions::NONE, Role::permissions)
    }

    /// What a key allows: never more than its maker holds at the time.
    pub fn key_permissions(&self, at: usize) -> Permissions {
        self.permissions(self.keys[at].maker).and(self.keys[at].allowed)
    }

    pub fn failed(&mut self, now: Timestamp) {
        self.failures.push(now);
    }

    /// Whether one more failure stays within the limit of the network, and so of each account.
    pub fn may_fail(&self, now: Timestamp) -> bool {
        self.failures.iter().filter(|at| now.since(**at) < WINDOW).count() < 9
    }

    /// Whether one more message stays within the limit of the mailbox.
    pub fn may_ask(&self, person: usize, now: Timestamp) -> bool {
        self.people[person].asked.iter().filter(|at| now.since(**at) < WINDOW).count() < 3
    }
}
