//! The rules of the device flow (data/docs/api.md, "People, organizations and keys"; RFC 8628).
//!
//! A code is pending, then approved, then consumed, and expired when its time is over before it was consumed. An approval
//! is checked before a key is minted, and again in the transaction that mints it: when expiry or another approval has won
//! meanwhile, the code stays as it is, the answer is a 410, and the key is kept, as the table of states has it.

use super::code::{DeviceCode, UserCode};
use super::rows::{ApprovalV1, BY_END, BY_NETWORK, BY_USER_CODE, DEVICE_CODES, DeviceCodeV1};
use crate::features::api_keys::{API_KEYS, KeySecret, NewKey, mint};
use crate::features::auth::ORG;
use base::audit::Action;
use base::clock::Moment;
use base::ids::{OrgId, UserId};
use base::permission::Permissions;
use base::{Code, Error, Result};
use schemars::JsonSchema;
use secrets::Digest;
use secrets::keyring::{Keyring, SealContext};
use serde::Serialize;
use server::task::TaskContext;
use std::time::Duration;
use store::{Event, Order, SysRead, SysWrite, System};

/// How long a code lives (data/docs/api.md, "People, organizations and keys").
pub const CODE_TIME: Duration = Duration::from_secs(600);
/// The least time between two polls (data/docs/api.md, "People, organizations and keys").
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long an ended code still answers 410; then it is unknown.
const KEPT_AFTER_END: Duration = Duration::from_secs(3600);
/// Living codes of one network. Anybody may start, so something must bound what that leaves behind.
const CODES_PER_NETWORK_MAX: usize = 100;
/// Tries to draw a user code that nobody has; one is enough until there are billions.
const DRAWS_MAX: usize = 8;

/// Where a code stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "State")]
pub enum CodeState {
    Pending,
    Approved,
    Expired,
    Consumed,
}

impl CodeState {
    pub fn of(row: &DeviceCodeV1, now: Moment) -> CodeState {
        match (&row.approval, row.delivered_at) {
            (_, Some(_)) => CodeState::Consumed,
            _ if row.expires_at <= now => CodeState::Expired,
            (Some(_), None) => CodeState::Approved,
            (None, None) => CodeState::Pending,
        }
    }

    /// The 410 of a code that is not what it would have to be.
    fn gone(self) -> Error {
        let code = if self == CodeState::Expired { Code::AuthCodeExpired } else { Code::AuthCodeConsumed };
        Error::new(code).message("Start again with POST /api/v1/cli-auth/start.")
    }
}

/// Begins a try; gives what the person types.
pub fn start(tx: &SysWrite<'_>, device: &DeviceCode, hostname: String, network: Digest) -> Result<UserCode> {
    let newest =
        tx.scan_index(&DEVICE_CODES, &BY_NETWORK, network, Order::Descending, CODES_PER_NETWORK_MAX)?;
    if newest.len() == CODES_PER_NETWORK_MAX
        && let Some(first) = newest.last().filter(|row| row.expires_at > tx.moment())
    {
        let wait = first.expires_at.since(tx.moment());
        return Err(too_fast("Too many codes", "Use or await the codes that you have.", wait));
    }
    let mut code = UserCode::generate()?;
    for _ in 1..DRAWS_MAX {
        if !tx.exists(&BY_USER_CODE, code.letters())? {
            break;
        }
        code = UserCode::generate()?;
    }
    let row = DeviceCodeV1 {
        device: DeviceCode::digest_of(device.as_str()),
        user_code: code.letters().to_owned(),
        hostname,
        network,
        created_at: tx.now(),
        expires_at: tx.moment().after(CODE_TIME),
        polled_at: None,
        approval: None,
        delivered_at: None,
    };
    tx.insert(&DEVICE_CODES, &row.device, &row)?;
    tx.unaudited("a code changes nothing before a person approves it, and anybody may ask for one");
    Ok(code)
}

/// The try behind what a person typed; the same 404 for what cannot be a code.
pub fn find(tx: &SysRead<'_>, typed: &str) -> Result<DeviceCodeV1> {
    let unknown = || Error::not_found(DEVICE_CODES.noun());
    let code = UserCode::parse(typed).ok_or_else(unknown)?;
    tx.lookup(&DEVICE_CODES, &BY_USER_CODE, code.letters())?.ok_or_else(unknown)
}

/// Refuses a try that cannot be approved (any more); the pre-check.
pub fn refuse_ended(row: &DeviceCodeV1, now: Moment) -> Result<()> {
    match CodeState::of(row, now) {
        CodeState::Pending => Ok(()),
        other => Err(other.gone()),
    }
}

/// An approval of a code that was pending.
pub struct Approval {
    device: Digest,
    org: OrgId,
    key: NewKey,
    sealed: Vec<u8>,
}

impl Approval {
    /// Draws the key's secret and seals it for the code's row.
    pub fn prepare(
        row: &DeviceCodeV1,
        org: OrgId,
        maker: UserId,
        permissions: Permissions,
        keyring: &Keyring,
    ) -> Result<Approval> {
        let secret = KeySecret::generate()?;
        let sealed = keyring
            .seal(&place(&org, &row.device), secret.as_str().as_bytes())
            .map_err(|e| Error::internal("seal an API key", e))?;
        let name = format!("CLI on {}", row.hostname);
        let key = NewKey::new(name, &secret, maker, permissions);
        Ok(Approval { device: row.device, org, key, sealed })
    }

    /// Mints the key, and attaches it to the code if that is still pending. The 410 of one that is not comes as a value:
    /// as an error it would take the minted key back.
    pub fn carry_out(self, tx: &SysWrite<'_>) -> Result<Result<()>> {
        let key = mint(tx, self.org, self.key)?;
        tx.org(self.org).audit(Event::new(Action::CliAuthApproved).of(key.id))?;
        // A code that was swept meanwhile had ended.
        let Some(mut row) = tx.get(&DEVICE_CODES, &self.device)? else {
            return Ok(Err(CodeState::Expired.gone()));
        };
        match CodeState::of(&row, tx.moment()) {
            CodeState::Pending => {
                row.approval = Some(ApprovalV1 { org: self.org, key: key.id, sealed: self.sealed });
                tx.put(&DEVICE_CODES, &row.device, &row)?;
                Ok(Ok(()))
            }
            other => Ok(Err(other.gone())),
        }
    }
}

/// What a poll finds.
pub enum Polled {
    Pending,
    Delivered { secret: String, org: OrgId, org_name: String },
}

/// Looks at the code `device` for its command line; delivers the key once.
pub fn poll(tx: &SysWrite<'_>, device: &Digest, keyring: &Keyring) -> Result<Polled> {
    let mut row = tx.require(&DEVICE_CODES, device)?;
    let state = CodeState::of(&row, tx.moment());
    if matches!(state, CodeState::Expired | CodeState::Consumed) {
        return Err(state.gone());
    }
    if let Some(polled_at) = row.polled_at {
        let wait = polled_at.after(POLL_INTERVAL).since(tx.moment());
        if !wait.is_zero() {
            return Err(too_fast("Polled too fast", "Wait for the interval between two polls.", wait));
        }
    }
    row.polled_at = Some(tx.moment());
    let delivered =
        row.approval.as_mut().map(|approval| deliver(tx, approval, device, keyring)).transpose()?;
    row.delivered_at = delivered.as_ref().map(|_| tx.now());
    tx.put(&DEVICE_CODES, device, &row)?;
    match &row.approval {
        Some(approval) => {
            let event = Event::new(Action::CliAuthDelivered).of(approval.key);
            tx.org(approval.org).audit(event)?;
        }
        None => tx.unaudited("a command line that waits asks again and again"),
    }
    Ok(delivered.unwrap_or(Polled::Pending))
}

fn deliver(
    tx: &SysRead<'_>,
    approval: &mut ApprovalV1,
    device: &Digest,
    keyring: &Keyring,
) -> Result<Polled> {
    let org = tx.org(approval.org);
    if org.get(&API_KEYS, &approval.key)?.is_none() {
        return Err(Error::new(Code::AuthCodeExpired).message(
            "The key was deleted before it was delivered. Start again with POST /api/v1/cli-auth/start.",
        ));
    }
    let secret = keyring
        .open(&place(&approval.org, device), &approval.sealed)
        .map_err(|e| Error::internal("open a sealed API key", e))?;
    let secret = String::from_utf8(secret).map_err(|e| Error::internal("read a sealed API key", e))?;
    approval.sealed = Vec::new();
    Ok(Polled::Delivered { secret, org: approval.org, org_name: org.require(&ORG, &())?.name })
}

fn place<'a>(org: &'a OrgId, device: &'a Digest) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: DEVICE_CODES.name(), id: device, field: "secret" }
}

fn too_fast(title: &'static str, message: &str, wait: Duration) -> Error {
    Error::new(Code::RateLimited)
        .title(title)
        .message(message)
        .header("retry-after", wait.as_millis().div_ceil(1000).to_string())
}

/// Removes codes that ended a while ago.
pub async fn sweep(context: TaskContext) -> Result<()> {
    sweep_all(context.system(), || context.stopping()).await.map(drop)
}

/// The same; gives how many went.
pub(super) async fn sweep_all(system: &System, stopping: impl Fn() -> bool) -> Result<u64> {
    let before = system.clock().moment().before(KEPT_AFTER_END);
    system.sweep(&DEVICE_CODES, &BY_END, |row| row.expires_at, before, stopping).await
}
