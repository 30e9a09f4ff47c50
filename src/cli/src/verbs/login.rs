//! Signing in and out, and who one is.

use crate::commands::{Login, ProfilesCommand};
use crate::failure::{Exit, Failure, Outcome};
use crate::http::{Remote, escaped};
use crate::output::{Column, Sink, Table, cell, say, visible, width};
use crate::profile::{Profile, Profiles, USUAL_NAME, check_name};
use crate::session::{Common, Session, items, read_text};
use http::StatusCode;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const KEY_BYTES_MAX: u64 = 4 << 10;
/// Characters at the front of a key that the box shows of it.
const PREFIX_CHARS_MIN: usize = 6;
/// However short an interval the box names.
const POLL_MIN: Duration = Duration::from_secs(1);

const ME: [Column; 6] = [
    ("USER", "/user/email"),
    ("NAME", "/user/name"),
    ("ORGANIZATION", "/organization/name"),
    ("PLAN", "/organization/plan"),
    ("ROLE", "/role"),
    ("BOX", "/box"),
];

pub async fn login(given: Login) -> Outcome<()> {
    let name = given.common.profile.as_deref().unwrap_or(USUAL_NAME);
    check_name(name)?;
    let mut profiles = Profiles::load()?;
    let ca = given.common.ca.as_deref().map(std::path::absolute).transpose();
    let ca = ca.map_err(|e| Failure::usage("--ca", e))?;
    let (key, organization) = match &given.key_file {
        Some(file) => with_key(&given.url, file, ca.as_deref()).await?,
        None => with_code(&given.url, ca.as_deref()).await?,
    };
    let url = Remote::new(&given.url, None, None)?.place().to_owned();
    profiles.put(name, Profile { url: url.clone(), key, organization: organization.clone(), ca });
    profiles.save()?;
    match given.common.json {
        true => {
            let told = json!({ "profile": name, "url": url, "organization": organization });
            let mut sink = Sink::open(None)?;
            sink.line(&told.to_string())?;
            sink.end()
        }
        false => {
            say(&format!("Signed in to {url} for {} as profile {name}.", visible(&organization)));
            Ok(())
        }
    }
}

/// A key that there is already, if it is good.
async fn with_key(url: &str, file: &Path, ca: Option<&Path>) -> Outcome<(String, String)> {
    let key = read_text("--key-file", file, KEY_BYTES_MAX).await?.trim().to_owned();
    if key.is_empty() {
        return Err(Failure::usage("--key-file", "is empty"));
    }
    let me = Remote::new(url, Some(&key), ca)?.get("/api/v1/auth/me").await?;
    Ok((key, me["organization"]["name"].as_str().unwrap_or_default().to_owned()))
}

/// The device flow (RFC 8628): shows a code, and asks until somebody has approved it.
async fn with_code(url: &str, ca: Option<&Path>) -> Outcome<(String, String)> {
    let remote = Remote::new(url, None, ca)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = if host.trim().is_empty() { "a command line".to_owned() } else { host };
    let started = remote.post("/api/v1/cli-auth/start", &json!({ "hostname": host })).await?;
    let text = |name: &str| started[name].as_str().map(str::to_owned);
    let (Some(code), Some(device)) = (text("user_code"), text("device_code")) else {
        return Err(Failure::failed(format!("{} answers as no box does", remote.place())));
    };
    let page = text("verification_uri_complete").unwrap_or_default();
    say(&format!("Approve the code {} at\n  {}", visible(&code), visible(&page)));
    say("Waiting …");
    let wait = Duration::from_secs(started["interval"].as_u64().unwrap_or(5)).max(POLL_MIN);
    let ends =
        tokio::time::Instant::now() + Duration::from_secs(started["expires_in"].as_u64().unwrap_or(600));
    while tokio::time::Instant::now() < ends {
        tokio::time::sleep(wait).await;
        let body = crate::http::Payload::json(&json!({ "device_code": device }));
        let answer = remote.send(http::Method::POST, "/api/v1/cli-auth/poll", &[], body).await;
        let answer = match answer {
            // A box that is started anew in between is asked again.
            Err(failure) if failure.exit() == Exit::Away => continue,
            answer => answer?,
        };
        if answer.status == StatusCode::ACCEPTED || answer.status == StatusCode::TOO_MANY_REQUESTS {
            continue;
        }
        let told = answer.good().await?.json().await?;
        let Some(key) = told["api_key"].as_str() else {
            return Err(Failure::failed("the box has approved the code and gives no key"));
        };
        return Ok((key.to_owned(), told["org_name"].as_str().unwrap_or_default().to_owned()));
    }
    Err(Failure::new(Exit::InVain, "nobody approved the code in time"))
}

/// Forgets a box. Its key is deleted there where the box can be asked and lets the key do that.
pub async fn logout(common: &Common) -> Outcome<()> {
    let mut profiles = Profiles::load()?;
    let (name, profile) = match profiles.named(common.profile.as_deref())? {
        Some((name, profile)) => (name.to_owned(), profile.clone()),
        None => return Err(Failure::new(Exit::Forbidden, "not signed in")),
    };
    let ended = delete_key(&profile, common.ca.as_deref()).await;
    profiles.remove(&name);
    profiles.save()?;
    let told = match &ended {
        Ok(true) => "its key is deleted".to_owned(),
        Ok(false) => "its key was not found there".to_owned(),
        Err(failure) => format!("its key is still good, since it could not be deleted: {failure}"),
    };
    match common.json {
        true => {
            let mut sink = Sink::open(None)?;
            sink.line(&json!({ "profile": name, "keyDeleted": matches!(ended, Ok(true)) }).to_string())?;
            sink.end()
        }
        false => {
            say(&format!("Signed out of {}; {told}.", profile.url));
            Ok(())
        }
    }
}

async fn delete_key(profile: &Profile, ca: Option<&Path>) -> Outcome<bool> {
    let remote = Remote::new(&profile.url, Some(&profile.key), ca.or(profile.ca.as_deref()))?;
    let mut cursor = None;
    loop {
        let query = [("limit", Some("200".to_owned())), ("cursor", cursor)];
        let page = remote.get(&crate::http::with_query("/api/v1/api-keys", &query)).await?;
        let is_own = |row: &&Value| {
            let prefix = row["prefix"].as_str().unwrap_or_default();
            prefix.len() >= PREFIX_CHARS_MIN && profile.key.starts_with(prefix)
        };
        if let Some(own) = items(&page)?.iter().find(is_own) {
            let id = own["id"].as_str().unwrap_or_default();
            let path = format!("/api/v1/api-keys/{}", escaped(id));
            remote.ask(http::Method::DELETE, &path, crate::http::Payload::None).await?;
            return Ok(true);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

pub async fn whoami(session: &Session) -> Outcome<()> {
    let mut me = session.remote.get("/api/v1/auth/me").await?;
    me["box"] = session.remote.place().into();
    session.show(&me, &ME)
}

/// Lists profiles, after another one was made the usual one if that was asked for.
pub fn profiles(given: &ProfilesCommand) -> Outcome<()> {
    let mut profiles = Profiles::load()?;
    if let Some(name) = &given.chosen {
        profiles.named(Some(name))?;
        profiles.default = Some(name.clone());
        profiles.save()?;
    }
    let mut sink = Sink::open(None)?;
    let headings = ["PROFILE", "BOX", "ORGANIZATION", "USUAL"].map(str::to_owned);
    let mut table = Table::new(headings, width());
    for (name, profile) in &profiles.profiles {
        let is_usual = profiles.default.as_ref() == Some(name);
        let row = json!({ "profile": name, "url": profile.url, "organization": profile.organization, "isUsual": is_usual });
        if given.json {
            sink.line(&row.to_string())?;
            continue;
        }
        let cells = ["profile", "url", "organization"].map(|key| cell(row.get(key)));
        let usual = if is_usual { "yes" } else { "" };
        table.row(cells.into_iter().chain([usual.to_owned()]).collect(), &mut sink)?;
    }
    if !given.json {
        table.end(&mut sink)?;
    }
    sink.end()
}
