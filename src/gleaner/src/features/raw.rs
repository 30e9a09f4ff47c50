//! Signed links: a file for whoever holds its link, for a short while.
//!
//! A slice that gives such links out names them in its `links`; this one checks the signature and the time and hands over.
//! A link that is damaged, over, or leads to something that is gone is one and the same 404.
//!
//! A link may do what whoever asked for it may do now: it says who that was, with which key and when, and is worth nothing
//! once they are out of the organization, lack the permission, have lost the key, or have ended their sessions (a new
//! password does).

use crate::features::Feature;
use crate::features::api_keys::API_KEYS;
use crate::features::auth::USERS;
use base::clock::Moment;
use base::ids::{ApiKeyId, OrgId, UserId};
use base::permission::Permission;
use base::{Code, Error, Result};
use secrets::link::Links;
use server::{Anonymous, Call, Download, Handler, Need, Operation, Output, Path, Response, Route};
use store::{AuthMethod, Principal, SysRead};
use uuid::Uuid;

pub static FEATURE: Feature = Feature {
    name: "raw",
    uses: &["api_keys", "auth"],
    routes: &[Route::get("/api/v1/raw/{token}", "downloadRaw", &Handler::new(download))
        .about("The file behind a signed link; the link is the credential.")
        .fails(&[Code::NotFound])],
    needs: &[Need::of::<Links>()],
    ..Feature::NONE
};

/// What every link that leads nowhere is answered with.
pub fn gone() -> Error {
    Error::not_found("File")
        .message("The link is not valid, or its time is over: ask for a new one where you got it.")
}

/// Who asked for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    user: UserId,
    /// Nil where the thing is the person's own, wherever they are a member.
    org: OrgId,
    /// Nil for a person's own session.
    key: ApiKeyId,
    at: Moment,
    /// What they need in the organization.
    needs: Option<Permission>,
}

/// The asker in front of a link's subject.
const ASKER_BYTES: usize = 16 * 3 + 8 + 1;
const NOTHING_NEEDED: u8 = u8::MAX;

/// A link's token: the thing `subject` of a kind, for `caller`, who must go on to hold `needs` in their organization; where
/// nothing is needed the thing is the person's own.
pub fn sign(
    links: &Links,
    kind: &str,
    subject: &[u8],
    caller: &Principal,
    needs: Option<Permission>,
    at: Moment,
    ends_at: Moment,
) -> String {
    let org = caller.org().filter(|_| needs.is_some()).unwrap_or(OrgId(Uuid::nil()));
    let key = match caller.method() {
        AuthMethod::Jwt => ApiKeyId(Uuid::nil()),
        AuthMethod::ApiKey(key) => key,
    };
    let asker = Asker { user: caller.user(), org, key, at, needs };
    links.sign(kind, &[asker.bytes().as_slice(), subject].concat(), ends_at)
}

impl Asker {
    fn bytes(self) -> Vec<u8> {
        let needs = self.needs.map_or(NOTHING_NEEDED, |permission| permission as u8);
        let ids = [self.user.0, self.org.0, self.key.0];
        let mut bytes: Vec<u8> = ids.iter().flat_map(|id| *id.as_bytes()).collect();
        bytes.extend_from_slice(&self.at.0.to_be_bytes());
        bytes.push(needs);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Asker> {
        let id = |at: usize| Uuid::from_slice(bytes.get(at * 16..at * 16 + 16)?).ok();
        let needs = match *bytes.get(ASKER_BYTES - 1)? {
            NOTHING_NEEDED => None,
            number => Some(*Permission::ALL.get(usize::from(number))?),
        };
        let at = Moment(i64::from_be_bytes(bytes.get(48..56)?.try_into().ok()?));
        Some(Asker { user: UserId(id(0)?), org: OrgId(id(1)?), key: ApiKeyId(id(2)?), at, needs })
    }

    /// Whether they could ask for the link now.
    fn stands(self, tx: &SysRead<'_>) -> Result<bool> {
        let Some(user) = tx.get(&USERS, &self.user)? else { return Ok(false) };
        if self.at < user.sessions_valid_from {
            return Ok(false);
        }
        let Some(needs) = self.needs else { return Ok(true) };
        let Some((_, role)) = user.membership.filter(|(org, _)| *org == self.org) else { return Ok(false) };
        let mut held = role.permissions();
        if !self.key.0.is_nil() {
            let key = tx.org(self.org).get(&API_KEYS, &self.key)?;
            let Some(key) = key.filter(|key| key.expires_at.is_none_or(|end| end > tx.now())) else {
                return Ok(false);
            };
            held = held.and(key.permissions);
        }
        Ok(held.contains(needs))
    }
}

/// What a link leads to; a file on the disk can be gone on with where a download broke off.
struct Linked(Download);

impl Output for Linked {
    fn respond(self, call: &Call) -> Result<Response> {
        self.0.respond(call)
    }

    fn describe(operation: &mut Operation<'_>) {
        let mut media_types: Vec<_> = super::ALL
            .iter()
            .flat_map(|feature| feature.links)
            .flat_map(|link| (link.media_types)())
            .collect();
        media_types.sort_unstable();
        media_types.dedup();
        operation.file_response(&media_types);
    }
}

async fn download(caller: Anonymous, Path(token): Path<String>) -> Result<Linked> {
    let target = caller.service::<Links>().open(&token, caller.moment()).ok_or_else(gone)?;
    let mut links = super::ALL.iter().flat_map(|feature| feature.links);
    let link = links.find(|link| link.kind == target.kind).ok_or_else(gone)?;
    let (asker, subject) = target.subject.split_at_checked(ASKER_BYTES).ok_or_else(gone)?;
    let asker = Asker::read(asker).ok_or_else(gone)?;
    if !caller.system().read(|tx| asker.stands(tx))? {
        return Err(gone());
    }
    let subject = subject.to_vec();
    (link.open)(caller, subject).await.map(Linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asker_is_read_back() {
        for needs in [None, Some(Permission::ALL[0]), Some(Permission::BiRead)] {
            let (user, org, key) = (UserId::new(), OrgId::new(), ApiKeyId::new());
            let asker = Asker { user, org, key, at: Moment(1_234_567), needs };
            let bytes = asker.bytes();
            assert_eq!(bytes.len(), ASKER_BYTES);
            assert_eq!(Asker::read(&bytes), Some(asker));
            assert_eq!(Asker::read(&bytes[1..]), None);
        }
    }
}
