//! Organizations: making one, naming it, its members and its invitations.
//!
//! Whoever makes an organization owns it. What other slices give a new organization (credits, the built-in provider) is
//! written by their seeds in the same transaction, so there is never an organization without.

mod commands;
mod ending;
mod invites;
mod members;
mod operator;
mod provided;
mod roles;

use crate::features::Feature;
use crate::features::auth::{
    Auth, AuthConfig, LINK_SCRIPT, NewLogin, ORG, ORGS, OrgEntryV1, OrgV1, OrgView, TokensView, USERS,
    permissions_of,
};
use crate::features::wiring::{Wiring, in_order};
use base::audit::Action;
use base::ids::OrgId;
use base::limits::NAME_CHARS_MAX;
use base::name::Name;
use base::permission::Role;
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{self, Member};
use server::task::TaskSpec;
use server::{Body, Browser, Created, Handler, Need, Org, Route, WebPage};
use std::sync::Arc;
use std::time::Duration;
use store::{Event, SysWrite};

pub use crate::features::auth::list_orgs;
pub use crate::features::wiring::{NewOrg, OrgSeed};
pub use ending::{dissolve, end_membership};
pub use provided::{Provided, provide, withdraw};

/// Members of one organization.
const MEMBERS_PER_ORG_MAX: usize = 1_000;
/// Expired rows do no harm; they only take room.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);

static INVITE_PAGE: WebPage = WebPage::linked(
    "Accept an invitation",
    include_str!("../../../../../data/pages/invite.html"),
    LINK_SCRIPT,
);

pub static FEATURE: Feature = Feature {
    name: "orgs",
    uses: &["api_keys", "auth", "billing", "mail"],
    tables: &[&invites::INVITES_SENT],
    routes: &[
        Route::post("/api/v1/orgs", "createOrg", &Handler::new(create))
            .secret()
            .about("Makes an organization that the caller owns, and logs them in to it.")
            .fails(&[Code::Conflict]),
        Route::get("/api/v1/orgs/current", "getOrg", &Handler::new(current))
            .about("The caller's organization."),
        Route::patch("/api/v1/orgs/current", "updateOrg", &Handler::new(rename))
            .about("Gives the organization another name."),
        Route::get("/api/v1/orgs/current/members", "listMembers", &Handler::new(members::list))
            .about("The organization's members, newest account first."),
        Route::patch("/api/v1/orgs/current/members/{userId}", "updateMember", &Handler::new(members::update))
            .about("Gives a member another role. Only an owner makes or unmakes owners; the last one stays.")
            .fails(&[Code::AuthForbidden, Code::NotFound, Code::Conflict]),
        Route::delete(
            "/api/v1/orgs/current/members/{userId}",
            "removeMember",
            &Handler::new(members::remove),
        )
        .about("Ends a membership at once, with every API key that the member made. Anybody may leave.")
        .fails(&[Code::AuthForbidden, Code::NotFound, Code::Conflict]),
        Route::get("/api/v1/orgs/current/invites", "listInvites", &Handler::new(invites::list))
            .about("Invitations that wait to be accepted, newest first."),
        Route::post("/api/v1/orgs/current/invites", "createInvite", &Handler::new(invites::create))
            .about("Sends an invitation to an address; an earlier one to it ends.")
            .fails(&[Code::AuthForbidden, Code::AlreadyExists, Code::Conflict, Code::RateLimited]),
        Route::delete("/api/v1/orgs/current/invites/{id}", "deleteInvite", &Handler::new(invites::delete))
            .about("Takes an invitation back.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/invites/accept", "acceptInvite", &Handler::new(invites::accept))
            .secret()
            .about("Makes the caller, who is in no organization, a member of the one that invited them.")
            .fails(&[Code::InvalidInput, Code::AuthForbidden, Code::Conflict]),
    ],
    pages: &[Route::get("/invite", "invitePage", &INVITE_PAGE)],
    finish: Some(finish),
    commands: Some(commands::COMMANDS),
    needs: &[Need::of::<Orgs>(), Need::of::<Auth>()],
    personal: ending::KINDS,
    tasks: &[TaskSpec::new("orgs.sweep", SWEEP_EVERY, |context| Box::pin(invites::sweep(context)))],
    ..Feature::NONE
};

/// What new organizations get.
pub struct Orgs {
    seeds: Arc<[OrgSeed]>,
    /// Invitations that one organization sends in a UTC day.
    invites_per_day: u32,
}

impl Orgs {
    /// `seeds` is what the slices write into a new organization, in this order. Billing's is due: it opens the account.
    pub fn new(seeds: Vec<OrgSeed>, invites_per_day: u32) -> Orgs {
        Orgs { seeds: seeds.into(), invites_per_day }
    }
}

/// Hangs up what new organizations get, when every slice can say what that is.
fn finish(wiring: &mut Wiring<'_>) -> Result<()> {
    let seeds = in_order().into_iter().filter_map(|feature| feature.seed);
    let seeds = seeds.map(|seed| seed(wiring.services())).collect();
    let invites_per_day = wiring.config.section::<AuthConfig>().invites_per_day;
    wiring.hang::<Orgs>(Orgs::new(seeds, invites_per_day));
    Ok(())
}

/// Makes `owner` the owner of a new organization; `conflict` when they are in one.
fn found(tx: &SysWrite<'_>, new: &NewOrg, seeds: &[OrgSeed]) -> Result<()> {
    let mut user = tx.require(&USERS, &new.owner)?;
    if user.membership.is_some() {
        return Err(Error::conflict("You are in an organization already; a user belongs to one."));
    }
    user.membership = Some((new.id, Role::Owner));
    tx.put(&USERS, &user.id, &user)?;
    let entry = OrgEntryV1 { id: new.id, name: new.name.clone(), created_at: new.created_at };
    tx.insert(&ORGS, &new.id, &entry)?;
    let row = OrgV1 { id: new.id, name: new.name.clone(), created_at: new.created_at };
    let org = tx.org(new.id);
    org.insert(&ORG, &(), &row)?;
    org.audit(Event::new(Action::OrgCreated).of(new.id))?;
    for seed in seeds {
        seed(tx, new, &user.email)?;
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewOrgRequest {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UpdateOrgRequest {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
}

/// What a person gets who has come into an organization: it, and a login in it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OrgLoginView {
    organization: OrgView,
    #[serde(flatten)]
    tokens: TokensView,
    permissions: Vec<String>,
}

async fn create(caller: Browser, Body(request): Body<NewOrgRequest>) -> Result<Created<OrgLoginView>> {
    let name = Name::parse("name", &request.name)?.into_string();
    let (auth, orgs) = (caller.service::<Auth>(), caller.service::<Orgs>());
    let owner = caller.principal().user();
    let login = NewLogin::prepare()?;
    let seeds = Arc::clone(&orgs.seeds);
    let (organization, user, stored, login) = caller
        .system()
        .write(move |tx| {
            let new = NewOrg { id: OrgId::new(), name, owner, created_at: tx.now() };
            found(tx, &new, &seeds)?;
            let organization = OrgView::read(&tx.org(new.id))?;
            let user = tx.require(&USERS, &owner)?;
            let stored = login.store(tx, &user)?;
            Ok((organization, user, stored, login))
        })
        .await?;
    Ok(Created(OrgLoginView {
        organization,
        tokens: auth.tokens(stored, &login).into(),
        permissions: permissions_of(&user).names(),
    }))
}

async fn current(org: Org<Member>) -> Result<Body<OrgView>> {
    org.read(OrgView::read).map(Body)
}

async fn rename(org: Org<permit::OrgWrite>, Body(request): Body<UpdateOrgRequest>) -> Result<Body<OrgView>> {
    let name = Name::parse("name", &request.name)?.into_string();
    let id = org.id();
    let auth = org.service::<Auth>();
    let renamed = auth.system().write(move |tx| {
        let own = tx.org(id);
        let mut row = own.require(&ORG, &())?;
        let mut entry = tx.require(&ORGS, &id)?;
        row.name.clone_from(&name);
        entry.name = name;
        own.put(&ORG, &(), &row)?;
        tx.put(&ORGS, &id, &entry)?;
        own.audit(Event::new(Action::OrgUpdated).of(id))?;
        OrgView::read(&own)
    });
    renamed.await.map(Body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::auth::UserV1;
    use base::clock::Clock;
    use base::ids::UserId;
    use store::fault::FaultyDisk;
    use store::{MIGRATIONS, Store, System};

    fn system() -> System {
        let disk = FaultyDisk::new();
        Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap().system()
    }

    async fn person(system: &System) -> UserId {
        system
            .write(|tx| {
                let id = UserId::new();
                let user = UserV1 {
                    id,
                    email: format!("{id}@example.com"),
                    name: "Ada".to_owned(),
                    password_hash: String::new(),
                    email_verified_at: None,
                    membership: None,
                    created_at: tx.now(),
                    sessions_valid_from: tx.moment(),
                };
                tx.insert(&USERS, &id, &user)?;
                Ok(id)
            })
            .await
            .unwrap()
    }

    async fn make(system: &System, owner: UserId, seeds: Vec<OrgSeed>) -> Result<NewOrg> {
        system
            .write(move |tx| {
                let new = NewOrg { id: OrgId::new(), name: "Acme".to_owned(), owner, created_at: tx.now() };
                found(tx, &new, &seeds)?;
                Ok(new)
            })
            .await
    }

    #[tokio::test]
    async fn the_maker_owns_it_and_it_stands_in_the_registry() {
        let system = system();
        let owner = person(&system).await;
        let made = make(&system, owner, Vec::new()).await.unwrap();
        let user = system.read(|tx| tx.require(&USERS, &owner)).unwrap();
        assert_eq!(user.membership, Some((made.id, Role::Owner)));
        let listed = system.read(list_orgs).unwrap();
        assert_eq!(
            listed.iter().map(|entry| (entry.id, entry.name.as_str())).collect::<Vec<_>>(),
            [(made.id, "Acme")]
        );
        let row = system.org(made.id).read(|tx| tx.require(&ORG, &())).unwrap();
        assert_eq!((row.id, row.name.as_str()), (made.id, "Acme"));
        let again = make(&system, owner, Vec::new()).await.unwrap_err();
        assert_eq!(again.code(), Code::Conflict);
        assert_eq!(system.read(list_orgs).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_seed_writes_with_it_and_its_error_makes_nothing() {
        let system = system();
        let owner = person(&system).await;
        let failing: OrgSeed = Box::new(|_, _, _| Err(Error::conflict("no")));
        make(&system, owner, vec![failing]).await.unwrap_err();
        assert!(system.read(list_orgs).unwrap().is_empty());
        assert_eq!(system.read(|tx| tx.require(&USERS, &owner)).unwrap().membership, None);

        let renaming: OrgSeed = Box::new(|tx, new, email| {
            let own = tx.org(new.id);
            let mut org = own.require(&ORG, &())?;
            assert_eq!((org.id, email), (new.id, format!("{}@example.com", new.owner).as_str()));
            org.name = format!("{} of {}", org.name, new.owner);
            own.put(&ORG, &(), &org)
        });
        let made = make(&system, owner, vec![renaming]).await.unwrap();
        let row = system.org(made.id).read(|tx| tx.require(&ORG, &())).unwrap();
        assert_eq!(row.name, format!("Acme of {owner}"));
    }
}
