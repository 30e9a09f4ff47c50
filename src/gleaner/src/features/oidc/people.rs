//! Who comes: which account an account of the provider's lets in, and what its groups make of it.
//!
//! An account is joined with one of the provider's by the address once, and from then on known by the provider's own name of the
//! person (`sub`), so that an address that is given to somebody else lets nobody into what was the first one's. Joining asks for an
//! address that the provider vouches for and, where the account was there before, for the operator's word. The account of a member
//! of an organization that no group leads to is never touched: who governs the provider governs those organizations only that
//! the configuration names.

use super::config::{OidcConfig, Place};
use super::rows::organization;
use crate::features::auth::{
    self, Email, LoginStored, NewLogin, ProviderLoginV1, USERS, USERS_BY_EMAIL, UserV1, join_provider,
    joined_issuer, known_by_provider, learn_network, note_sign_in, session_of_provider,
};
use crate::features::orgs::{Provided, provide, withdraw};
use base::Result;
use base::audit::Action;
use base::ids::{OrgId, UserId};
use base::name::Name;
use base::permission::Role;
use oidc::Claims;
use std::net::IpAddr;
use store::{Event, SysWrite};

/// Why somebody whom the provider sent is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The provider tells no address, or one that cannot be.
    NoAddress,
    /// The provider does not vouch for the address.
    Unverified,
    /// The address is of a domain that is not let in.
    Domain,
    /// No group leads anywhere.
    NoGroup,
    /// Groups are not in what the provider said, because there are too many.
    GroupsElsewhere,
    /// Groups lead to several organizations.
    SeveralOrganizations,
    /// The address has an account that the operator does not let join.
    NotJoined,
    /// The address has an account that another one of the provider's lets in.
    AddressTaken,
    /// The person is a member of an organization that the provider does not govern.
    MemberElsewhere,
    /// The organization is full.
    Full,
    /// The person is the last owner of the organization that they would leave.
    LastOwner,
    /// There is no organization as configured, or several of its name.
    NoOrganization,
}

impl Refusal {
    /// In audit rows, and what the page is found by.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::NoAddress => "no_address",
            Refusal::Unverified => "address_unverified",
            Refusal::Domain => "domain",
            Refusal::NoGroup => "no_group",
            Refusal::GroupsElsewhere => "groups_elsewhere",
            Refusal::SeveralOrganizations => "several_organizations",
            Refusal::NotJoined => "not_joined",
            Refusal::AddressTaken => "address_taken",
            Refusal::MemberElsewhere => "member_elsewhere",
            Refusal::Full => "full",
            Refusal::LastOwner => "last_owner",
            Refusal::NoOrganization => "no_organization",
        }
    }
}

/// A person as the provider tells of them.
pub struct Arrival {
    issuer: String,
    subject: String,
    session: Option<String>,
    email: Email,
    name: Name,
    /// Where the groups lead, as configured.
    leads: Vec<(String, Role)>,
    /// A hash that no password has, for an account that is made or taken over.
    nobodys_password: String,
    ip: IpAddr,
}

impl Arrival {
    /// Reads claims. A refusal here says nothing about who is known to the box.
    pub fn read(
        config: &OidcConfig,
        claims: &Claims,
        nobodys_password: String,
        ip: IpAddr,
    ) -> std::result::Result<Arrival, Refusal> {
        let email =
            claims.text("email").and_then(|text| Email::parse(text).ok()).ok_or(Refusal::NoAddress)?;
        if !claims.flag("email_verified").unwrap_or(config.trust_email) {
            return Err(Refusal::Unverified);
        }
        let is_open = |domain: &String| domain.eq_ignore_ascii_case(email.domain());
        if !config.email_domains.is_empty() && !config.email_domains.iter().any(is_open) {
            return Err(Refusal::Domain);
        }
        let told = claims.text("name").and_then(|name| Name::parse("name", name).ok());
        let name = told.or_else(|| Name::parse("name", email.local()).ok()).ok_or(Refusal::NoAddress)?;
        let lacks_groups = claims.get(&config.groups_claim).is_none();
        if !config.groups.is_empty() && lacks_groups && claims.is_elsewhere(&config.groups_claim) {
            return Err(Refusal::GroupsElsewhere);
        }
        Ok(Arrival {
            issuer: config.issuer.clone(),
            subject: claims.subject.clone(),
            session: claims.session.clone(),
            leads: leads(config, &claims.list(&config.groups_claim).unwrap_or_default()),
            email,
            name,
            nobodys_password,
            ip,
        })
    }
}

/// Each organization that the groups lead to, with the highest of the roles there.
fn leads(config: &OidcConfig, groups: &[&str]) -> Vec<(String, Role)> {
    let mut found: Vec<(String, Role)> = Vec::new();
    let everybody = config.everybody().map(|role| (config.organization.as_str(), role));
    let of_groups = groups.iter().filter_map(|group| match config.groups.get(*group)? {
        Place::Role(role) => Some((config.organization.as_str(), *role)),
        Place::Elsewhere(place) => Some((place.organization.as_str(), place.role)),
    });
    for (organization, role) in everybody.into_iter().chain(of_groups) {
        match found.iter_mut().find(|(known, _)| known == organization) {
            Some((_, known)) => *known = higher(*known, role),
            None => found.push((organization.to_owned(), role)),
        }
    }
    found
}

fn higher(one: Role, other: Role) -> Role {
    let rank = |role| match role {
        Role::Owner => 4,
        Role::Admin => 3,
        Role::Editor => 2,
        Role::Analyst => 1,
        Role::Viewer => 0,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// Every organization that the provider governs, as the configuration names them.
pub fn governed(config: &OidcConfig) -> Vec<&str> {
    let mut all = vec![config.organization.as_str()];
    for place in config.groups.values() {
        if let Place::Elsewhere(place) = place {
            all.push(&place.organization);
        }
    }
    all.retain(|name| !name.trim().is_empty());
    all.sort_unstable();
    all.dedup();
    all
}

/// What came of somebody.
pub enum Decision {
    In(LoginStored),
    Refused(Refusal),
}

/// Lets somebody in, or not, as the rows are at this moment. What a refusal ends (a membership) ends with it.
pub fn let_in(
    tx: &SysWrite<'_>,
    config: &OidcConfig,
    arrival: Arrival,
    login: &NewLogin,
) -> Result<Decision> {
    let before = known_by_provider(tx, &arrival.issuer, &arrival.subject)?;
    let known = match before {
        Some(user) => Some(user),
        None => tx.lookup(&USERS, &USERS_BY_EMAIL, arrival.email.as_str())?,
    };
    let id = known.as_ref().map(|user| user.id);
    match admit(tx, config, &arrival, known)? {
        Ok(user) => {
            let ends_at = tx.moment().after(config.session_time());
            let session = arrival.session.as_deref().map(|name| session_of_provider(&arrival.issuer, name));
            let stored = login.store_of_provider(tx, &user, ProviderLoginV1 { ends_at, session })?;
            learn_network(tx, user.id, arrival.ip)?;
            let event = Event::new(Action::AuthLogin).of(user.id).by(user.id).with("by", "provider");
            tx.audit_in(user.membership.map(|(org, _)| org), event)?;
            Ok(Decision::In(stored))
        }
        Err(refusal) => {
            note_refusal(tx, id, refusal)?;
            Ok(Decision::Refused(refusal))
        }
    }
}

/// Writes down that somebody was refused: with their organization, if they have an account in one that the provider governs.
fn note_refusal(tx: &SysWrite<'_>, id: Option<UserId>, refusal: Refusal) -> Result<()> {
    let event = Event::new(Action::AuthLoginRefused).with("by", "provider").with("reason", refusal.name());
    let user = id.map(|id| tx.get(&USERS, &id)).transpose()?.flatten();
    match user {
        // Another organization's chain is not written to by who governs the provider.
        Some(user) if refusal != Refusal::MemberElsewhere => {
            let org = user.membership.map(|(org, _)| org);
            tx.audit_refusal(org, event.of(user.id).about(user.id))
        }
        _ => tx.audit_refusal(None, event),
    }
}

type Admitted = std::result::Result<UserV1, Refusal>;

fn admit(
    tx: &SysWrite<'_>,
    config: &OidcConfig,
    arrival: &Arrival,
    known: Option<UserV1>,
) -> Result<Admitted> {
    let is_joined = match &known {
        Some(user) => {
            known_by_provider(tx, &arrival.issuer, &arrival.subject)?.is_some_and(|own| own.id == user.id)
        }
        None => false,
    };
    if let Some(user) = &known {
        if !is_joined {
            if joined_issuer(tx, user.id)?.is_some_and(|issuer| issuer == arrival.issuer) {
                return Ok(Err(Refusal::AddressTaken));
            }
            if !config.join_accounts {
                return Ok(Err(Refusal::NotJoined));
            }
        }
        if let Some((org, _)) = user.membership
            && !governs(tx, config, org)?
        {
            return Ok(Err(Refusal::MemberElsewhere));
        }
    }
    let present = known.as_ref().and_then(|user| user.membership).map(|(org, _)| org);
    let (org, role) = match place(tx, config, &arrival.leads, present)? {
        Ok(place) => place,
        Err(refusal) => {
            if let (Some(user), true, Refusal::NoGroup) = (known, is_joined, refusal) {
                lose(tx, user)?;
            }
            return Ok(Err(refusal));
        }
    };
    let mut user = match known {
        Some(user) => user,
        None => make(tx, arrival)?,
    };
    if !is_joined {
        join_provider(tx, &mut user, &arrival.issuer, &arrival.subject, arrival.nobodys_password.clone())?;
    } else {
        note_sign_in(tx, &arrival.issuer, &arrival.subject)?;
    }
    if present.is_some_and(|present| present != org) && withdraw(tx, &mut user)? == Provided::LastOwner {
        return Ok(Err(Refusal::LastOwner));
    }
    match provide(tx, &mut user, org, role)? {
        Provided::Full => Ok(Err(Refusal::Full)),
        // They stay an owner, since somebody must be one.
        Provided::Done | Provided::LastOwner => Ok(Ok(user)),
    }
}

/// Ends what somebody without any group had here.
fn lose(tx: &SysWrite<'_>, mut user: UserV1) -> Result<()> {
    withdraw(tx, &mut user)?;
    auth::end_sessions(tx, &mut user)
}

fn make(tx: &SysWrite<'_>, arrival: &Arrival) -> Result<UserV1> {
    let user = UserV1 {
        id: UserId::new(),
        email: arrival.email.as_str().to_owned(),
        name: arrival.name.as_str().to_owned(),
        password_hash: arrival.nobodys_password.clone(),
        email_verified_at: Some(tx.now()),
        membership: None,
        created_at: tx.now(),
        sessions_valid_from: tx.moment(),
    };
    tx.insert(&USERS, &user.id, &user)?;
    tx.audit(Event::new(Action::UserRegistered).of(user.id).by(user.id).with("by", "provider"))?;
    Ok(user)
}

/// Whether the configuration names this organization.
fn governs(tx: &SysWrite<'_>, config: &OidcConfig, org: OrgId) -> Result<bool> {
    for name in governed(config) {
        if organization(tx, name)? == Some(org) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where somebody belongs: of several organizations the one they are in, or else that of the section.
fn place(
    tx: &SysWrite<'_>,
    config: &OidcConfig,
    leads: &[(String, Role)],
    present: Option<OrgId>,
) -> Result<std::result::Result<(OrgId, Role), Refusal>> {
    let mut places: Vec<(OrgId, Role, bool)> = Vec::new();
    for (name, role) in leads {
        let Some(org) = organization(tx, name)? else { return Ok(Err(Refusal::NoOrganization)) };
        let is_home = *name == config.organization;
        match places.iter_mut().find(|(known, ..)| *known == org) {
            Some((_, known, home)) => (*known, *home) = (higher(*known, *role), *home || is_home),
            None => places.push((org, *role, is_home)),
        }
    }
    let own = places.iter().find(|(org, ..)| Some(*org) == present);
    let home = || places.iter().find(|(.., is_home)| *is_home);
    Ok(match (own.or_else(home), &places[..]) {
        (Some((org, role, _)), _) => Ok((*org, *role)),
        (None, []) => Err(Refusal::NoGroup),
        (None, [(org, role, _)]) => Ok((*org, *role)),
        (None, _) => Err(Refusal::SeveralOrganizations),
    })
}
