//! Files on a server that is spoken to over SFTP.

use super::super::super::places::SftpPlaceV1;
use super::super::Within;
use super::{open, seal, wrong};
use base::ids::{OrgId, OutputId};
use base::{Code, Error, Result};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};
use sinks::sftp::{
    FOLDER_BYTES_MAX, HOST_KEY_CHARS_MAX, Login, PRIVATE_KEY_CHARS_MAX, Pin, Settings, check_folder,
    check_private_key,
};

const PORT: u16 = 22;
const USER_CHARS_MAX: usize = 200;
const PASSWORD_CHARS_MAX: usize = 1_000;
const PASSWORD: &str = "sftp_password";
const KEY: &str = "sftp_key";

/// A server. It has no `Debug`: its secrets are for nobody's eyes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "SftpOfFiles")]
pub(in super::super::super) struct SftpTerms {
    /// The server's name or address. Private addresses are refused unless `network.allow` opens them.
    #[schemars(length(min = 1, max = 253))]
    host: Option<String>,
    /// 22 unless said otherwise.
    port: Option<u16>,
    #[schemars(length(min = 1, max = USER_CHARS_MAX))]
    user: Option<String>,
    /// This or `privateKey`. It is sealed, and not shown again; one of the two is given again where `host`, `port`, `user` or
    /// `hostKey` change.
    #[schemars(length(min = 1, max = PASSWORD_CHARS_MAX))]
    password: Option<String>,
    /// A private key of OpenSSH or in PEM, Ed25519 or ECDSA, without a passphrase. It is sealed, and not shown again.
    #[schemars(length(min = 1, max = PRIVATE_KEY_CHARS_MAX))]
    private_key: Option<String>,
    /// By what the server is known, which must be said: its public key (`ssh-ed25519 AAAA…`, what `ssh-keyscan -t ed25519 HOST` prints)
    /// or the fingerprint of it (`SHA256:…`). Nothing is sent to a server with another one.
    #[schemars(length(min = 1, max = HOST_KEY_CHARS_MAX))]
    host_key: Option<String>,
    /// Where `path` begins: absolute, or below the folder of the login, which it is unless something is said.
    #[schemars(length(max = FOLDER_BYTES_MAX))]
    folder: Option<String>,
}

/// A server as it is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SftpOfFilesView")]
pub(in super::super::super) struct SftpView {
    host: String,
    port: u16,
    user: String,
    has_password: bool,
    has_private_key: bool,
    host_key: String,
    folder: String,
}

impl From<SftpPlaceV1> for SftpView {
    fn from(row: SftpPlaceV1) -> SftpView {
        SftpView {
            host: row.host,
            port: row.port,
            user: row.user,
            has_password: row.sealed_password.is_some(),
            has_private_key: row.sealed_key.is_some(),
            host_key: row.host_key,
            folder: row.folder,
        }
    }
}

fn refused(field: &str, why: impl Into<String>) -> Error {
    wrong(&format!("sftp.{field}"), why)
}

pub(super) fn made(id: OutputId, terms: SftpTerms, within: &Within<'_>) -> Result<SftpPlaceV1> {
    let given =
        |field: &str, value: &Option<String>| value.clone().ok_or_else(|| refused(field, "is missing"));
    if terms.password.is_none() && terms.private_key.is_none() {
        return Err(refused("password", "is missing, and so is privateKey: one of the two is needed"));
    }
    let missing =
        "is missing: the server's public key, as ssh-keyscan prints it, or its fingerprint (SHA256:…)";
    let blank = SftpPlaceV1 {
        host: given("host", &terms.host)?,
        port: PORT,
        user: given("user", &terms.user)?,
        sealed_password: None,
        sealed_key: None,
        host_key: terms.host_key.clone().ok_or_else(|| refused("hostKey", missing))?,
        folder: String::new(),
    };
    with(id, blank, terms, within)
}

pub(super) fn changed(
    id: OutputId,
    before: SftpPlaceV1,
    terms: SftpTerms,
    within: &Within<'_>,
) -> Result<SftpPlaceV1> {
    let is_given = terms.password.is_some() || terms.private_key.is_some();
    let after = with(id, before.clone(), terms, within)?;
    let place = |row: &SftpPlaceV1| (row.host.clone(), row.port, row.user.clone(), row.host_key.clone());
    // Who may change an output need not know its password, and must not have it sent to a server of their own.
    if place(&before) != place(&after) && !is_given {
        let told = "or privateKey is to be given again when host, port, user or hostKey change";
        return Err(refused("password", told));
    }
    Ok(after)
}

/// A place with these terms in the place of its own.
fn with(id: OutputId, mut row: SftpPlaceV1, terms: SftpTerms, within: &Within<'_>) -> Result<SftpPlaceV1> {
    row.host = terms.host.unwrap_or(row.host);
    row.port = terms.port.unwrap_or(row.port);
    let at = sinks::postgres::place(&row.host, row.port).map_err(|why| refused("host", why))?;
    within
        .guard
        .check_literal(&at)
        .map_err(|shut| Error::new(Code::InvalidUrl).message(format!("files.sftp.host: {shut}")))?;
    row.user = terms.user.unwrap_or(row.user);
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    if row.user.is_empty() || row.user.chars().count() > USER_CHARS_MAX || !is_plain(&row.user) {
        return Err(refused("user", format!("has 1 to {USER_CHARS_MAX} characters, none of them a control")));
    }
    row.host_key = terms.host_key.map_or(row.host_key, |text| text.trim().to_owned());
    Pin::parse(&row.host_key).map_err(|why| refused("hostKey", why))?;
    row.folder = terms.folder.unwrap_or(row.folder);
    check_folder(&row.folder).map_err(|why| refused("folder", why))?;
    match (terms.password, terms.private_key) {
        (Some(_), Some(_)) => {
            return Err(refused("privateKey", "is given as well as password: one of the two counts"));
        }
        (Some(password), None) => {
            let count = password.chars().count();
            if count == 0 || count > PASSWORD_CHARS_MAX || password.contains('\0') {
                return Err(refused(
                    "password",
                    format!("has 1 to {PASSWORD_CHARS_MAX} characters, and no NUL"),
                ));
            }
            (row.sealed_password, row.sealed_key) = (Some(seal(id, PASSWORD, &password, within)?), None);
        }
        (None, Some(key)) => {
            check_private_key(&key).map_err(|why| refused("privateKey", why))?;
            (row.sealed_password, row.sealed_key) = (None, Some(seal(id, KEY, &key, within)?));
        }
        (None, None) => {}
    }
    Ok(row)
}

pub(super) fn settings(
    keyring: &Keyring,
    of: (OrgId, OutputId),
    row: &SftpPlaceV1,
    path: &str,
) -> Result<Settings> {
    let login = match (&row.sealed_key, &row.sealed_password) {
        (Some(sealed), _) => Login::Key(open(keyring, of, KEY, sealed)?),
        (None, Some(sealed)) => Login::Password(open(keyring, of, PASSWORD, sealed)?),
        (None, None) => Login::Password(String::new()),
    };
    let folder = match row.folder.as_str() {
        "" => path.to_owned(),
        "/" => format!("/{path}"),
        folder => format!("{folder}/{path}"),
    };
    Ok(Settings {
        host: row.host.clone(),
        port: row.port,
        user: row.user.clone(),
        login,
        host_key: row.host_key.clone(),
        folder,
    })
}
