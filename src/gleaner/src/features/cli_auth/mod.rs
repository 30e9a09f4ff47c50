//! How a command line gets an API key without ever seeing a password: the device flow (RFC 8628).
//!
//! The command line starts and shows a code; a person who is logged in approves it; the next poll delivers a key of that
//! person's, once. Its secret waits sealed in the code's row, since the key itself is stored as a hash only. Field names
//! are in snake case, as in the RFC.

mod code;
mod flow;
mod personal;
mod rows;

use crate::features::Feature;
use crate::features::auth::{Auth, CodeGuesses, network};
use base::clock::Timestamp;
use base::ids::OrgId;
use base::name::Name;
use base::{Code, Error, Result};
use code::DeviceCode;
use flow::{Approval, CODE_TIME, CodeState, POLL_INTERVAL, Polled};
use rows::{DEVICE_CODES, DeviceCodeV1};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};
use server::task::TaskSpec;
use server::{Accepted, Anonymous, Body, Browser, ClientIp, Either, Handler, Need, Query, Route, WebPage};
use std::net::IpAddr;
use std::time::Duration;

/// Expired rows do no harm; they only take room.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);

/// Where a command line sends the person who approves it.
static APPROVE_PAGE: WebPage =
    WebPage::guide("Approve a command line", include_str!("../../../../../data/cli-auth.md"));

pub static FEATURE: Feature = Feature {
    name: "cli-auth",
    uses: &["api_keys", "auth"],
    tables: &[&DEVICE_CODES],
    routes: &[
        Route::post("/api/v1/cli-auth/start", "startCliAuth", &Handler::new(start))
            .secret()
            .about("Begins to ask for an API key for a command line.")
            .fails(&[Code::RateLimited]),
        Route::get("/api/v1/cli-auth/info", "getCliAuthInfo", &Handler::new(info))
            .about("What a person is asked to approve.")
            .fails(&[Code::NotFound, Code::RateLimited]),
        Route::post("/api/v1/cli-auth/approve", "approveCliAuth", &Handler::new(approve))
            .about("Makes an API key of the caller's organization for the command line that shows this code.")
            .fails(&[
                Code::OrgNotFound,
                Code::NotFound,
                Code::Conflict,
                Code::AuthCodeExpired,
                Code::AuthCodeConsumed,
                Code::RateLimited,
            ]),
        Route::post("/api/v1/cli-auth/poll", "pollCliAuth", &Handler::new(poll))
            .secret()
            .about("Asks whether the code was approved; the first answer after that carries the key.")
            .fails(&[Code::NotFound, Code::AuthCodeExpired, Code::AuthCodeConsumed, Code::RateLimited]),
    ],
    pages: &[Route::get("/docs/cli-auth", "cliAuthPage", &APPROVE_PAGE)],
    needs: &[Need::of::<Auth>(), Need::of::<Keyring>()],
    personal: personal::KINDS,
    holdings: personal::HOLDINGS,
    tasks: &[TaskSpec::new("cli-auth.sweep", SWEEP_EVERY, |context| Box::pin(flow::sweep(context)))],
    ..Feature::NONE
};

#[derive(Deserialize, JsonSchema)]
struct StartCliAuthRequest {
    /// The machine that the command line runs on; the key is named after it.
    hostname: String,
}

#[derive(Serialize, JsonSchema)]
struct StartedCliAuthView {
    /// The command line's secret, to poll with.
    device_code: String,
    /// What the person types: `BCDF-GHJK`.
    user_code: String,
    verification_uri: String,
    verification_uri_complete: String,
    /// Seconds until both codes end.
    expires_in: u64,
    /// Seconds between two polls, at least.
    interval: u64,
}

#[derive(Deserialize, JsonSchema)]
struct CliAuthQuery {
    /// Case, spaces and hyphens do not count.
    user_code: String,
}

#[derive(Serialize, JsonSchema)]
struct CliAuthView {
    hostname: String,
    status: CodeState,
    expires_at: Timestamp,
}

#[derive(Deserialize, JsonSchema)]
struct ApproveCliAuthRequest {
    /// Case, spaces and hyphens do not count.
    user_code: String,
}

#[derive(Serialize, JsonSchema)]
struct ApprovedCliAuthView {
    ok: bool,
    hostname: String,
}

#[derive(Deserialize, JsonSchema)]
struct PollCliAuthRequest {
    device_code: String,
}

#[derive(Serialize, JsonSchema)]
struct PendingCliAuthView {
    /// `pending`.
    status: CodeState,
    /// Seconds until the next poll, at least.
    interval: u64,
}

#[derive(Serialize, JsonSchema)]
struct DeliveredCliAuthView {
    /// `approved`.
    status: CodeState,
    /// The key itself, in this answer and nowhere else.
    api_key: String,
    org_id: OrgId,
    org_name: String,
}

async fn start(
    caller: Anonymous,
    ClientIp(ip): ClientIp,
    Body(request): Body<StartCliAuthRequest>,
) -> Result<Body<StartedCliAuthView>> {
    let hostname = Name::parse("hostname", &request.hostname)?.into_string();
    let device = DeviceCode::generate()?;
    let network = network("cli-auth", ip);
    let (code, device) =
        caller.system().write(move |tx| Ok((flow::start(tx, &device, hostname, network)?, device))).await?;
    let verification_uri = format!("{}/docs/cli-auth", caller.service::<Auth>().public_url());
    Ok(Body(StartedCliAuthView {
        device_code: device.as_str().to_owned(),
        verification_uri_complete: format!("{verification_uri}?user_code={}", code.shown()),
        verification_uri,
        user_code: code.shown(),
        expires_in: CODE_TIME.as_secs(),
        interval: POLL_INTERVAL.as_secs(),
    }))
}

/// The try behind what a person typed. A code is short, for it is typed; so who types many that there are not has to wait. It
/// is looked up where it is counted: of guesses that are made at once, only as many as the limit allows are answered.
async fn typed(caller: &Browser, ip: IpAddr, code: String) -> Result<DeviceCodeV1> {
    let guesses = CodeGuesses::of(caller.principal().user(), ip);
    // Also where the disk is full: what is written is a count.
    let found = caller.system().write_freeing(move |tx| {
        guesses.check(tx)?;
        match flow::find(tx, &code) {
            // The guess must be kept, so to the store this is no error.
            Err(unknown) if unknown.code() == Code::NotFound => {
                guesses.record(tx)?;
                tx.unaudited("a code that there is not is counted, and nothing else comes of it");
                Ok(Err(unknown))
            }
            found => found.map(Ok),
        }
    });
    found.await?
}

async fn info(
    caller: Browser,
    ClientIp(ip): ClientIp,
    Query(query): Query<CliAuthQuery>,
) -> Result<Body<CliAuthView>> {
    let row = typed(&caller, ip, query.user_code).await?;
    let now = caller.look();
    let (status, expires_at) = (CodeState::of(&row, now.moment), now.date_of(row.expires_at));
    Ok(Body(CliAuthView { hostname: row.hostname, status, expires_at }))
}

async fn approve(
    caller: Browser,
    ClientIp(ip): ClientIp,
    Body(request): Body<ApproveCliAuthRequest>,
) -> Result<Body<ApprovedCliAuthView>> {
    let principal = caller.principal();
    let org = principal.org().ok_or_else(|| Error::new(Code::OrgNotFound))?;
    let row = typed(&caller, ip, request.user_code).await?;
    flow::refuse_ended(&row, caller.moment())?;
    let keyring = caller.service::<Keyring>();
    let approval = Approval::prepare(&row, org, principal.user(), principal.permissions(), &keyring)?;
    caller.system().write(move |tx| approval.carry_out(tx)).await??;
    Ok(Body(ApprovedCliAuthView { ok: true, hostname: row.hostname }))
}

async fn poll(
    caller: Anonymous,
    Body(request): Body<PollCliAuthRequest>,
) -> Result<Either<Accepted<PendingCliAuthView>, Body<DeliveredCliAuthView>>> {
    let device = DeviceCode::digest_of(&request.device_code);
    // Junk is refused without a commit.
    caller.system().read(|tx| tx.require(&DEVICE_CODES, &device))?;
    let keyring = caller.service::<Keyring>();
    let interval = POLL_INTERVAL.as_secs();
    Ok(match caller.system().write(move |tx| flow::poll(tx, &device, &keyring)).await? {
        Polled::Pending => Either::Left(
            Accepted::new(PendingCliAuthView { status: CodeState::Pending, interval })
                .retry_after(POLL_INTERVAL.as_secs() as u32),
        ),
        Polled::Delivered { secret, org, org_name } => Either::Right(Body(DeliveredCliAuthView {
            status: CodeState::Approved,
            api_key: secret,
            org_id: org,
            org_name,
        })),
    })
}

#[cfg(test)]
mod tests;
