//! The console: the box's pages for people, and their sessions.
//!
//! A person's session in a browser is a login like any other, whose refresh token lies in a cookie that scripts cannot
//! read. The pages call the API like everybody else does; `server` says when the cookie counts there.

mod files;

use crate::features::Feature;
use crate::features::auth::{Auth, REFRESH_TOKEN_TIME};
use base::{Code, Error, Result};
use files::{ConsoleFile, Missing};
use http::header::SET_COOKIE;
use schemars::JsonSchema;
use serde::Deserialize;
use server::{
    Anonymous, Body, BrowserSession, ClientIp, Either, Handler, NoContent, Path, Route, WithHeaders,
};

/// Where the console is.
const PLACE: &str = "/console";

/// Where a browser is led from the box's address; none where the box was built without a console.
pub fn start_page() -> Option<&'static str> {
    webui::shell().map(|_| PLACE)
}

pub static FEATURE: Feature = Feature {
    name: "console",
    uses: &["auth"],
    pages: &[
        Route::get(PLACE, "consolePage", &Handler::new(shell)),
        Route::get("/console/assets/{name}", "consoleFile", &Handler::new(asset)),
        Route::post("/console/session", "beginConsoleSession", &Handler::new(begin)).secret(),
        Route::delete("/console/session", "endConsoleSession", &Handler::new(end)).secret(),
    ],
    ..Feature::NONE
};

/// How somebody shows who they are: with address and password, or with a refresh token, which is used up.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionRequest {
    email: Option<String>,
    password: Option<String>,
    refresh_token: Option<String>,
}

async fn shell(_: Anonymous) -> Result<Either<ConsoleFile, Missing>> {
    Ok(match webui::shell() {
        Some(file) => Either::Left(ConsoleFile::revalidated(file)),
        None => Either::Right(Missing),
    })
}

async fn asset(_: Anonymous, Path(name): Path<String>) -> Result<ConsoleFile> {
    let file = webui::asset(&name).ok_or_else(|| Error::not_found("File"))?;
    Ok(ConsoleFile::immutable(file))
}

async fn begin(
    caller: Anonymous,
    session: BrowserSession,
    ClientIp(ip): ClientIp,
    Body(request): Body<SessionRequest>,
) -> Result<WithHeaders<NoContent>> {
    let auth = caller.service::<Auth>();
    let secret = match request {
        SessionRequest { refresh_token: Some(token), email: None, password: None } => {
            auth.refresh(&token, ip).await?.refresh
        }
        SessionRequest { refresh_token: None, email: Some(email), password: Some(password) } => {
            auth.login(&email, &password, ip).await?.tokens.refresh
        }
        _ => {
            return Err(Error::new(Code::InvalidInput).message("Send email and password, or a refreshToken."));
        }
    };
    // Whose session it was before, in this browser.
    if let Some(before) = session.secret() {
        auth.logout(before).await?;
    }
    let cookie = session.set(Some(&secret), REFRESH_TOKEN_TIME)?;
    Ok(WithHeaders::new(NoContent).header(SET_COOKIE, cookie))
}

async fn end(caller: Anonymous, session: BrowserSession) -> Result<WithHeaders<NoContent>> {
    if let Some(secret) = session.secret() {
        caller.service::<Auth>().logout(secret).await?;
    }
    let cookie = session.set(None, REFRESH_TOKEN_TIME)?;
    Ok(WithHeaders::new(NoContent).header(SET_COOKIE, cookie))
}
