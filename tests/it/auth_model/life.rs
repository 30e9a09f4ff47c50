//! One life: an owner and the people around them, who log in, refresh, forget, come and go as the dice fall.
//!
//! A step does one thing over HTTP, holds the answer against the model, and tells the model what happened.

mod keys;

use super::ROLES;
use super::model::{Model, Verdict};
use crate::harness::random::Random;
use crate::harness::{Appliance, text, token_in};
use argon2::{Algorithm, Argon2, Params, PasswordHasher, Version};
use base::Code;
use base::clock::{Clock, Moment, Timestamp};
use base::ids::UserId;
use base::permission::{Permission, Permissions};
use gleaner::features::api_keys::{Callers, KeyUsage};
use gleaner::features::auth::{Auth, USERS, UserV1};
use gleaner::features::mail::{Mailer, outbox};
use http::Method;
use serde_json::{Value, json};
use server::Authenticator;
use server::client::{Client, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{AuthMethod, Principal};

const ME: &str = "/api/v1/auth/me";
const CURRENT: &str = "/api/v1/orgs/current";
const MEMBERS: &str = "/api/v1/orgs/current/members";
const KEYS: &str = "/api/v1/api-keys";

/// People that a life begins with.
const PEOPLE: usize = 3;
/// The owner: never removed, and never another.
const OWNER: usize = 0;
/// The owner's key, which is kept throughout.
const ROOT: usize = 0;
/// Of how many lives one may have a password hashed at its real cost.
const LIVES_PER_HASH: u64 = 2;

/// The way to one appliance.
pub struct Way {
    anybody: Client,
    auth: Arc<Auth>,
    mailer: Arc<Mailer>,
    callers: Callers,
    clock: Clock,
}

impl Way {
    pub fn of(at: &Appliance, network: &str) -> Way {
        let services = at.app().services();
        let auth = services.service::<Auth>();
        Way {
            anybody: at.client().header("x-forwarded-for", network),
            callers: Callers::new(auth.clone(), services.service::<KeyUsage>()),
            auth,
            mailer: services.service::<Mailer>(),
            clock: at.clock.clone(),
        }
    }
}

pub struct Life {
    pub way: Way,
    /// How many credentials were shown.
    pub shown: usize,
    /// How often what matters has happened.
    pub events: BTreeMap<&'static str, usize>,
    name: String,
    seed: u64,
    random: Random,
    model: Model,
    org: String,
    hashes_left: usize,
    story: Vec<String>,
}

/// A hash that takes no time; its parameters are in it.
fn cheap_hash(password: &str) -> String {
    let params = Params::new(8, 1, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: argon2::password_hash::phc::PasswordHash = argon2.hash_password(password.as_bytes()).unwrap();
    hash.to_string()
}

fn password(n: usize) -> String {
    format!("violet-anvil-reads-{n}")
}

impl Life {
    pub fn new(name: String, seed: u64, way: Way) -> Life {
        let (random, model) = (Random(seed), Model::default());
        Life {
            way,
            shown: 0,
            events: BTreeMap::new(),
            name,
            seed,
            random,
            model,
            org: String::new(),
            hashes_left: usize::from(seed.is_multiple_of(LIVES_PER_HASH)),
            story: Vec::new(),
        }
    }

    /// The rows of the people that the life begins with.
    pub fn people(&mut self) -> Vec<UserV1> {
        let row = |n: usize| {
            let id = UserId::new();
            let email = format!("{id}@example.com");
            self.model.person(id.to_string(), email.clone(), password(n));
            UserV1 {
                id,
                email,
                name: format!("Person {n}"),
                password_hash: cheap_hash(&password(n)),
                email_verified_at: None,
                membership: None,
                created_at: Timestamp(0),
                sessions_valid_from: Moment(0),
            }
        };
        (0..PEOPLE).map(row).collect()
    }

    /// The owner makes the organization, and the key that does what only they may.
    pub async fn begin(&mut self) {
        self.log_in(OWNER).await;
        let owner = self.bearer(&self.model.accesses[0].text);
        let made = self.post(&owner, "/api/v1/orgs", json!({ "name": "Acme" })).await;
        let made = self.expect(made, 201, "the owner makes an organization");
        self.org = text(&made["organization"], "id").to_owned();
        self.model.people[OWNER].role = Some(base::permission::Role::Owner);
        self.logged_in(OWNER, &made);
        self.make_key(&owner, OWNER, None, self.model.permissions(OWNER)).await;
        self.join(1).await;
    }

    /// One step.
    pub async fn step(&mut self) {
        let person = self.random.below(self.model.people.len());
        match self.random.below(100) {
            0..14 => self.log_in(person).await,
            14..17 => self.fail_to_log_in(person).await,
            17..31 => self.refresh(false).await,
            31..36 => self.refresh(true).await,
            36..41 => self.log_out().await,
            41..45 => self.forget(person).await,
            45..49 => self.reset(person).await,
            49..51 => self.reset_again(person).await,
            51..59 => self.use_access().await,
            59..66 => self.use_key().await,
            66..74 => self.make_key_in_browser().await,
            74..77 => self.make_key_by_key().await,
            77..81 => self.delete_key().await,
            81..84 => self.remove(person).await,
            84..85 => self.leave().await,
            85..92 => self.join(person).await,
            92..96 => self.change_role(person).await,
            96..98 => self.device_flow().await,
            98..99 => self.nonsense().await,
            _ => self.register().await,
        }
    }

    /// Shows every refresh token of every login, the oldest first, every reset token, and once more all the rest.
    pub async fn end(&mut self) {
        for person in 0..self.model.people.len() {
            self.reset_again(person).await;
        }
        for login in 0..self.model.logins.len() {
            for nth in 0..self.model.logins[login].tokens.len() {
                self.show_refresh(login, nth).await;
            }
        }
        self.look();
    }

    /// Shows every access token and every key.
    pub fn look(&mut self) {
        let now = self.way.clock.now();
        for (at, access) in self.model.accesses.iter().enumerate() {
            let (seen, verdict) = (self.way.callers.authenticate(&access.text), self.model.access(at, now));
            let what = || format!("access token {at} of person {}", access.person);
            self.compare(verdict, seen, access.person, self.model.permissions(access.person), what);
        }
        for (at, key) in self.model.keys.iter().enumerate() {
            let (seen, verdict) = (self.way.callers.authenticate(&key.text), self.model.key(at, now));
            if let Ok(caller) = &seen
                && !matches!(caller.method(), AuthMethod::ApiKey(id) if id.to_string() == key.id)
            {
                self.wrong(&format!("key {at} is taken for another"));
            }
            let what = || format!("key {at} of person {}", key.maker);
            self.compare(verdict, seen, key.maker, self.model.key_permissions(at), what);
        }
        self.shown += self.model.accesses.len() + self.model.keys.len();
    }

    fn compare(
        &self,
        verdict: Verdict,
        seen: base::Result<Principal>,
        person: usize,
        permissions: Permissions,
        what: impl Fn() -> String,
    ) {
        let row = &self.model.people[person];
        match (verdict, seen) {
            (Verdict::Unclear, _) => {}
            (Verdict::Dead, Err(error)) if error.code() == Code::AuthInvalid => {}
            (Verdict::Alive, Ok(caller)) => {
                let org = caller.org().map(|org| org.to_string());
                let same = caller.user().to_string() == row.id
                    && caller.role() == row.role
                    && org.as_ref() == row.role.map(|_| &self.org)
                    && caller.permissions() == permissions;
                if !same {
                    self.wrong(&format!("{}: {caller:?} instead of {:?}", what(), permissions.names()));
                }
            }
            (_, seen) => {
                let seen = seen.map(|_| "accepted").map_err(|error| error.to_string());
                self.wrong(&format!("{} is {verdict:?} and was {seen:?}", what()));
            }
        }
    }

    async fn log_in(&mut self, person: usize) {
        let row = &self.model.people[person];
        let body = json!({ "email": row.email, "password": row.password });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/login", body).await;
        let login = self.expect(reply, 200, &format!("person {person} logs in"));
        let role = self.model.people[person].role;
        if login["user"]["orgId"].as_str() != role.map(|_| self.org.as_str())
            || login["permissions"] != json!(self.model.permissions(person).names())
        {
            self.wrong(&format!("the login does not say what person {person} is: {login}"));
        }
        self.logged_in(person, &login);
    }

    async fn fail_to_log_in(&mut self, person: usize) {
        let now = self.way.clock.now();
        if !self.model.may_fail(now) {
            return;
        }
        let row = &self.model.people[person];
        let wrong = row.old_passwords.last().cloned().unwrap_or_else(|| "never was the password".to_owned());
        let body = json!({ "email": row.email, "password": wrong });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/login", body).await;
        self.expect(reply, 401, &format!("person {person} tries {wrong}"));
        self.model.failed(now);
    }

    /// Shows a refresh token: the newest of a login, or any.
    async fn refresh(&mut self, any: bool) {
        let login = self.random.below(self.model.logins.len());
        let count = self.model.logins[login].tokens.len();
        let nth = if any { self.random.below(count) } else { count - 1 };
        self.show_refresh(login, nth).await;
    }

    async fn show_refresh(&mut self, login: usize, nth: usize) {
        let verdict = self.model.refresh(login, nth, self.way.clock.now());
        if verdict == Verdict::Unclear {
            return;
        }
        let body = json!({ "refreshToken": self.model.logins[login].tokens[nth] });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/refresh", body).await;
        let what = format!("refresh token {nth} of login {login}");
        self.shown += 1;
        if verdict == Verdict::Alive {
            let pair = self.expect(reply, 200, &what);
            let (access, refresh) = (text(&pair, "accessToken"), text(&pair, "refreshToken"));
            self.model.refreshed(login, access, refresh, self.way.clock.now());
        } else {
            self.expect(reply, 401, &what);
            if nth + 1 < self.model.logins[login].tokens.len() && !self.model.has_ended(login) {
                self.note("logins that a second use ended", 1);
            }
            self.model.end_login(login);
        }
    }

    async fn log_out(&mut self) {
        let login = self.random.below(self.model.logins.len());
        let nth = self.random.below(self.model.logins[login].tokens.len());
        let body = json!({ "refreshToken": self.model.logins[login].tokens[nth] });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/logout", body).await;
        self.expect(reply, 200, &format!("logging out with token {nth} of login {login}"));
        self.note("logins that were logged out", usize::from(!self.model.has_ended(login)));
        self.model.end_login(login);
    }

    async fn forget(&mut self, person: usize) {
        let now = self.way.clock.now();
        if !self.model.may_ask(person, now) {
            return;
        }
        let email = self.model.people[person].email.clone();
        let reply =
            self.post(&self.way.anybody, "/api/v1/auth/forgot-password", json!({ "email": email })).await;
        self.expect(reply, 200, &format!("person {person} asks for a reset"));
        let token = self.mailed(&email, "glp_");
        self.model.reset_sent(person, token, now);
    }

    async fn reset(&mut self, person: usize) {
        if self.hashes_left > 0 {
            // With a session that it ends, and a token that is fresh.
            self.log_in(person).await;
            self.forget(person).await;
        }
        let verdict = self.model.reset_token(person, self.way.clock.now());
        let Some((token, _)) = self.model.people[person].reset.clone() else { return };
        if verdict == Verdict::Unclear || (verdict == Verdict::Alive && self.hashes_left == 0) {
            return;
        }
        let new = password(1_000 + self.story.len());
        let body = json!({ "token": token, "password": new });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/reset-password", body).await;
        let what = format!("person {person} resets the password");
        if verdict == Verdict::Dead {
            self.expect(reply, 400, &what);
            return;
        }
        self.expect(reply, 200, &what);
        self.hashes_left -= 1;
        let ended = self.living_accesses(person);
        self.model.reset(person, new);
        self.look();
        self.note("sessions that a reset ended", ended);
        // One in a few keeps the hash as the box made it; with the others, logging in stays cheap.
        if self.random.below(8) == 0 {
            self.log_in(person).await;
        }
        self.cheapen(person).await;
    }

    async fn cheapen(&self, person: usize) {
        let row = &self.model.people[person];
        let (id, hash): (UserId, _) = (row.id.parse().unwrap(), cheap_hash(&row.password));
        let write = move |tx: &store::SysWrite<'_>| {
            let user = tx.require(&USERS, &id)?;
            tx.put(&USERS, &id, &UserV1 { password_hash: hash, ..user })
        };
        self.way.auth.system().write(write).await.unwrap();
    }

    /// The reset tokens that were used, or ended with one that was.
    async fn reset_again(&mut self, person: usize) {
        for used in self.model.people[person].used_resets.clone() {
            let body = json!({ "token": used, "password": password(9_999) });
            let reply = self.post(&self.way.anybody, "/api/v1/auth/reset-password", body).await;
            self.expect(reply, 400, &format!("person {person} uses an old reset token"));
            self.note("reset tokens used again", 1);
        }
    }

    async fn use_access(&mut self) {
        let at = self.some_access();
        let Some((client, person, what)) = self.access(at) else { return };
        let alive = self.model.access(at, self.way.clock.now()) == Verdict::Alive;
        let me = client.get(ME).await.unwrap();
        self.expect(me, if alive { 200 } else { 401 }, &format!("{what} at {ME}"));
        let current = client.get(CURRENT).await.unwrap();
        self.expect(current, self.status(alive, person, None, 200), &format!("{what} at {CURRENT}"));
        let members = client.get(MEMBERS).await.unwrap();
        let status = self.status(alive, person, Some(Permission::OrgRead), 200);
        self.expect(members, status, &format!("{what} at {MEMBERS}"));
    }

    /// A login of a person, and a key of theirs if they may make one: what a change of their membership concerns.
    async fn equip(&mut self, person: usize) {
        self.log_in(person).await;
        let held = self.model.permissions(person);
        if held.contains(Permission::OrgWrite) {
            let client = self.bearer(&self.model.accesses.last().unwrap().text);
            self.make_key(&client, person, None, held).await;
        }
    }

    async fn remove(&mut self, person: usize) {
        if person == OWNER {
            return;
        }
        self.equip(person).await;
        let path = format!("{MEMBERS}/{}", self.model.people[person].id);
        let reply = self.root().delete(&path).await.unwrap();
        let is_member = self.model.people[person].role.is_some();
        self.expect(reply, if is_member { 204 } else { 404 }, &format!("person {person} is removed"));
        self.note("keys that ended with their maker's membership", self.living_keys(person));
        self.model.removed(person);
        self.look();
    }

    async fn leave(&mut self) {
        let at = self.some_access();
        let Some((client, person, what)) = self.access(at) else { return };
        if person == OWNER {
            return;
        }
        let alive = self.model.access(at, self.way.clock.now()) == Verdict::Alive;
        let status = self.status(alive, person, None, 204);
        let reply = client.delete(&format!("{MEMBERS}/{}", self.model.people[person].id)).await.unwrap();
        self.expect(reply, status, &format!("{what} leaves"));
        if status == 204 {
            self.model.removed(person);
            self.look();
        }
    }

    async fn change_role(&mut self, person: usize) {
        if person == OWNER {
            return;
        }
        self.equip(person).await;
        let role = ROLES[self.random.below(ROLES.len())];
        let path = format!("{MEMBERS}/{}", self.model.people[person].id);
        let reply = self.root().send(Method::PATCH, &path, Some(&json!({ "role": role }))).await.unwrap();
        let is_member = self.model.people[person].role.is_some();
        self.expect(reply, if is_member { 200 } else { 404 }, &format!("person {person} becomes {role}"));
        if is_member {
            self.model.people[person].role = Some(role);
            self.look();
            self.note("keys whose maker became another", self.living_keys(person));
        }
    }

    /// An invitation, and its acceptance with the newest login.
    async fn join(&mut self, person: usize) {
        let role = ROLES[self.random.below(ROLES.len())];
        let email = self.model.people[person].email.clone();
        let invite = json!({ "email": email, "role": role });
        let reply = self.post(&self.root(), "/api/v1/orgs/current/invites", invite).await;
        if self.model.people[person].role.is_some() {
            self.expect(reply, 409, &format!("member {person} is invited"));
            return;
        }
        self.expect(reply, 201, &format!("person {person} is invited as {role}"));
        let token = self.mailed(&email, "gli_");
        self.log_in(person).await;
        let newest = self.model.accesses.last().map(|access| self.bearer(&access.text)).unwrap();
        let reply = self.post(&newest, "/api/v1/invites/accept", json!({ "token": token })).await;
        let joined = self.expect(reply, 200, &format!("person {person} accepts"));
        self.model.people[person].role = Some(role);
        self.logged_in(person, &joined);
        self.look();
    }

    /// A command line asks for a key, and somebody approves it with a token of theirs.
    async fn device_flow(&mut self) {
        let at = self.some_access();
        let Some((client, person, what)) = self.access(at) else { return };
        let started =
            self.post(&self.way.anybody, "/api/v1/cli-auth/start", json!({ "hostname": "laptop" })).await;
        let started = self.expect(started, 200, "a command line starts");
        let code = json!({ "user_code": started["user_code"] });
        let alive = self.model.access(at, self.way.clock.now()) == Verdict::Alive;
        let status = self.status(alive, person, None, 200);
        let reply = self.post(&client, "/api/v1/cli-auth/approve", code).await;
        self.expect(reply, status, &format!("{what} approves"));
        let device = json!({ "device_code": started["device_code"] });
        let polled = self.post(&self.way.anybody, "/api/v1/cli-auth/poll", device).await;
        if status != 200 {
            self.expect(polled, 202, "nobody has approved");
            return;
        }
        let polled = self.expect(polled, 200, "the key is delivered");
        let list = self.root().get(KEYS).await.unwrap();
        let list = self.expect(list, 200, "the list of keys");
        let (id, secret) = (text(&list["items"][0], "id").to_owned(), text(&polled, "api_key").to_owned());
        self.add_key(person, id, secret, self.model.permissions(person), None);
        self.note("keys of the device flow", 1);
    }

    /// Credentials that never were any.
    async fn nonsense(&mut self) {
        for junk in ["", "glr_", "x", &"glr_".repeat(17)] {
            let body = json!({ "refreshToken": junk });
            let reply = self.post(&self.way.anybody, "/api/v1/auth/refresh", body.clone()).await;
            self.expect(reply, 401, "nonsense refreshes");
            let reply = self.post(&self.way.anybody, "/api/v1/auth/logout", body).await;
            self.expect(reply, 200, "nonsense logs out");
        }
        // A credential of one kind in the place of another.
        let refresh = self.model.logins[0].tokens[0].clone();
        let reply = self.bearer(&refresh).get(ME).await.unwrap();
        self.expect(reply, 401, "a refresh token as an access token");
        let body = json!({ "refreshToken": self.model.accesses[0].text });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/refresh", body).await;
        self.expect(reply, 401, "an access token as a refresh token");
    }

    async fn register(&mut self) {
        let taken =
            json!({ "email": self.model.people[OWNER].email, "password": password(7), "name": "Twice" });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/register", taken).await;
        self.expect(reply, 409, "a taken address registers");
        if self.hashes_left == 0 {
            return;
        }
        self.hashes_left -= 1;
        let email = format!("{}@example.com", UserId::new());
        let new = json!({ "email": email, "password": password(8), "name": "New" });
        let reply = self.post(&self.way.anybody, "/api/v1/auth/register", new).await;
        let made = self.expect(reply, 201, "somebody registers");
        let person = self.model.person(text(&made["user"], "id").to_owned(), email, password(8));
        self.logged_in(person, &made);
        self.cheapen(person).await;
    }

    /// One of all access tokens, or one of the newest, which most often live.
    fn some_access(&mut self) -> usize {
        let count = self.model.accesses.len();
        let among = if self.random.below(3) == 0 { count } else { count.min(5) };
        count - 1 - self.random.below(among)
    }

    /// Somebody's access token, unless the model does not know what becomes of it.
    fn access(&self, at: usize) -> Option<(Client, usize, String)> {
        let access = &self.model.accesses[at];
        let known = self.model.access(at, self.way.clock.now()) != Verdict::Unclear;
        known.then(|| {
            (
                self.bearer(&access.text),
                access.person,
                format!("access token {at} of person {}", access.person),
            )
        })
    }

    /// What a route of the organization answers to a session of `person`.
    fn status(&self, alive: bool, person: usize, permission: Option<Permission>, success: u16) -> u16 {
        let may = |permission| self.model.permissions(person).contains(permission);
        match (alive, self.model.people[person].role) {
            (false, _) => 401,
            (true, Some(_)) if permission.is_none_or(may) => success,
            (true, _) => 403,
        }
    }

    fn living_accesses(&self, person: usize) -> usize {
        let now = self.way.clock.now();
        let of = |at: &usize| self.model.accesses[*at].person == person;
        (0..self.model.accesses.len())
            .filter(of)
            .filter(|at| self.model.access(*at, now) == Verdict::Alive)
            .count()
    }

    /// Counts what the dice brought about.
    fn note(&mut self, what: &'static str, count: usize) {
        *self.events.entry(what).or_insert(0) += count;
    }

    fn bearer(&self, credential: &str) -> Client {
        self.way.anybody.bearer(credential)
    }

    fn root(&self) -> Client {
        self.bearer(&self.model.keys[ROOT].text)
    }

    async fn post(&self, client: &Client, path: &str, body: Value) -> Reply {
        client.post(path, &body).await.expect("an answer")
    }

    /// The token with this prefix in the newest message to an address.
    fn mailed(&self, email: &str, prefix: &str) -> String {
        let mails = self.way.auth.system().read(|tx| outbox(tx, &self.way.mailer, 10_000)).unwrap();
        let texts = mails.into_iter().filter(|mail| mail.to == email).filter_map(|mail| mail.text);
        let token = texts.filter_map(|text| token_in(&text, prefix)).next();
        token.unwrap_or_else(|| self.wrong(&format!("no message with {prefix}")))
    }

    fn logged_in(&mut self, person: usize, pair: &Value) {
        let now = self.way.clock.now();
        self.model.logged_in(person, text(pair, "accessToken"), text(pair, "refreshToken"), now);
    }

    /// Writes the story on, and holds an answer against what was expected of it.
    fn expect(&mut self, reply: Reply, status: u16, what: &str) -> Value {
        self.story.push(format!("{} {what}: {}", self.way.clock.now(), reply.status.as_u16()));
        if reply.status != status {
            self.wrong(&format!("{status} was expected: {}", reply.text()));
        }
        reply.json
    }

    fn wrong(&self, what: &str) -> ! {
        panic!("{} (seed {})\n  {}\n{what}", self.name, self.seed, self.story.join("\n  "))
    }
}
