//! `postgres`: rows of results go into a table of the customer's own PostgreSQL.

use super::super::rows::{OUTPUTS, OutputV2, PostgresV1, TargetV1};
use super::{Made, Within};
use base::ids::{OrgId, OutputId};
use base::limits::NAME_CHARS_MAX;
use base::{Code, Error, Result};
use schemars::JsonSchema;
use secrets::keyring::{Keyring, SealContext};
use serde::{Deserialize, Serialize};
use sinks::postgres::{NAME_BYTES_MAX, Settings, SslMode, WriteMode, check_certificates, place};
use std::ops::RangeInclusive;

const PORT: u16 = 5432;
/// Characters of a password, and bytes of the authorities' certificates.
const PASSWORD_CHARS_MAX: usize = 1_000;
const AUTHORITIES_CHARS_MAX: usize = 64_000;
/// How long a row waits for others, in seconds.
const EVERY: RangeInclusive<u32> = 1..=3_600;
const EVERY_DEFAULT: u32 = 5;

/// A table of a PostgreSQL server. It has no `Debug`: its password is for nobody's eyes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "PostgresOfOutput")]
pub(in super::super) struct PostgresTerms {
    /// The server's name or address.
    #[schemars(length(min = 1, max = 253))]
    host: Option<String>,
    /// 5432 unless said otherwise.
    port: Option<u16>,
    #[schemars(length(min = 1, max = NAME_BYTES_MAX))]
    database: Option<String>,
    #[schemars(length(min = 1, max = NAME_BYTES_MAX))]
    user: Option<String>,
    /// It is sealed, and not shown again. Given again where `host`, `port`, `sslmode` or `ca` change.
    #[schemars(length(max = PASSWORD_CHARS_MAX))]
    password: Option<String>,
    /// The words of libpq; `verify-full` unless said otherwise.
    sslmode: Option<SslMode>,
    /// The certificates in PEM of the authorities that are trusted; those that the box trusts unless said otherwise. An empty
    /// text takes them away.
    #[schemars(length(max = AUTHORITIES_CHARS_MAX))]
    ca: Option<String>,
    /// `public` unless said otherwise. It must be there.
    #[schemars(length(min = 1, max = NAME_BYTES_MAX))]
    schema: Option<String>,
    /// It is made where it is not there.
    #[schemars(length(min = 1, max = NAME_BYTES_MAX))]
    table: Option<String>,
    /// `append` (a row a result) unless said otherwise; `upsert` is a row a URL.
    mode: Option<WriteMode>,
    /// Whether columns are added that the table lacks; true unless said otherwise.
    add_columns: Option<bool>,
    /// How long a row waits for others that are written with it, in seconds; 5 unless said otherwise.
    #[schemars(range(min = 1, max = 3600))]
    every_seconds: Option<u32>,
}

/// A table of a PostgreSQL server as it is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct PostgresView {
    host: String,
    port: u16,
    database: String,
    user: String,
    has_password: bool,
    sslmode: SslMode,
    ca: Option<String>,
    schema: String,
    table: String,
    mode: WriteMode,
    add_columns: bool,
    every_seconds: u32,
}

impl From<PostgresV1> for PostgresView {
    fn from(row: PostgresV1) -> PostgresView {
        PostgresView {
            host: row.host,
            port: row.port,
            database: row.database,
            user: row.user,
            has_password: row.sealed_password.is_some(),
            sslmode: row.ssl,
            ca: row.authorities,
            schema: row.schema,
            table: row.table,
            mode: row.mode,
            add_columns: row.adds_columns,
            every_seconds: row.every_seconds,
        }
    }
}

fn sealed_at<'a>(org: &'a OrgId, id: &'a OutputId) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: OUTPUTS.name(), id: id.0.as_bytes(), field: "password" }
}

fn wrong(field: &str, why: impl Into<String>) -> Error {
    Error::invalid(&format!("postgres.{field}"), why.into())
}

/// A text that is not empty, has no more than so many bytes, and no character that the server cannot take.
fn name(field: &str, given: String) -> Result<String> {
    match given.is_empty() || given.len() > NAME_BYTES_MAX || given.contains('\0') {
        true => Err(wrong(field, format!("has 1 to {NAME_BYTES_MAX} bytes and no NUL"))),
        false => Ok(given),
    }
}

pub(super) fn made(id: OutputId, terms: Option<PostgresTerms>, within: &Within<'_>) -> Result<Made> {
    let terms = terms.ok_or_else(|| Error::invalid("postgres", "is missing: the server and the table"))?;
    let is_missing = |field: &str| wrong(field, "is missing");
    let blank = PostgresV1 {
        host: String::new(),
        port: PORT,
        database: terms.database.clone().ok_or_else(|| is_missing("database"))?,
        user: terms.user.clone().ok_or_else(|| is_missing("user"))?,
        sealed_password: None,
        ssl: SslMode::VerifyFull,
        authorities: None,
        schema: "public".to_owned(),
        table: terms.table.clone().ok_or_else(|| is_missing("table"))?,
        mode: WriteMode::Append,
        adds_columns: true,
        every_seconds: EVERY_DEFAULT,
    };
    if terms.host.is_none() {
        return Err(is_missing("host"));
    }
    let target = with(id, blank, terms, within)?;
    let name = format!("{} ({})", target.table, target.host).chars().take(NAME_CHARS_MAX).collect();
    Ok(Made { target: TargetV1::Postgres(target), name, secrets: Vec::new() })
}

pub(super) fn changed(
    row: &OutputV2,
    target: PostgresV1,
    terms: Option<PostgresTerms>,
    within: &Within<'_>,
) -> Result<TargetV1> {
    let Some(terms) = terms else { return Ok(TargetV1::Postgres(target)) };
    let (before, is_given) = (target.clone(), terms.password.is_some());
    let after = with(row.id, target, terms, within)?;
    let elsewhere = (&before.host, before.port, before.ssl, &before.authorities)
        != (&after.host, after.port, after.ssl, &after.authorities);
    // Who may change an output need not know its password, and must not have it sent to a place of their own.
    if elsewhere && before.sealed_password.is_some() && !is_given {
        return Err(wrong("password", "is to be given again when host, port, sslmode or ca change"));
    }
    Ok(TargetV1::Postgres(after))
}

/// A target with these terms in place of its own.
fn with(
    id: OutputId,
    mut target: PostgresV1,
    terms: PostgresTerms,
    within: &Within<'_>,
) -> Result<PostgresV1> {
    target.port = terms.port.unwrap_or(target.port);
    target.host = terms.host.unwrap_or(target.host);
    let at = place(&target.host, target.port).map_err(|why| wrong("host", why))?;
    within
        .guard
        .check_literal(&at)
        .map_err(|refused| Error::new(Code::InvalidUrl).message(format!("postgres.host: {refused}")))?;
    target.database = name("database", terms.database.unwrap_or(target.database))?;
    target.user = name("user", terms.user.unwrap_or(target.user))?;
    target.schema = name("schema", terms.schema.unwrap_or(target.schema))?;
    target.table = name("table", terms.table.unwrap_or(target.table))?;
    target.ssl = terms.sslmode.unwrap_or(target.ssl);
    target.mode = terms.mode.unwrap_or(target.mode);
    target.adds_columns = terms.add_columns.unwrap_or(target.adds_columns);
    target.every_seconds = terms.every_seconds.unwrap_or(target.every_seconds);
    if !EVERY.contains(&target.every_seconds) {
        return Err(wrong("everySeconds", format!("is {} to {}", EVERY.start(), EVERY.end())));
    }
    if let Some(pem) = terms.ca {
        if pem.len() > AUTHORITIES_CHARS_MAX {
            return Err(wrong("ca", format!("has {AUTHORITIES_CHARS_MAX} bytes at most")));
        }
        if !pem.is_empty() {
            check_certificates(&pem).map_err(|why| wrong("ca", why))?;
        }
        target.authorities = Some(pem).filter(|pem| !pem.is_empty());
    }
    if let Some(password) = terms.password {
        if password.chars().count() > PASSWORD_CHARS_MAX || password.contains('\0') {
            return Err(wrong(
                "password",
                format!("has {PASSWORD_CHARS_MAX} characters at most, and no NUL"),
            ));
        }
        let sealed = within.keyring.seal(&sealed_at(&within.org, &id), password.as_bytes());
        target.sealed_password = Some(sealed.map_err(|e| Error::internal("seal a password", e))?);
    }
    Ok(target)
}

/// What a connection is made with.
pub(in super::super) fn settings(
    keyring: &Keyring,
    (org, id): (OrgId, OutputId),
    target: &PostgresV1,
) -> Result<Settings> {
    let open = |sealed: &Vec<u8>| {
        let plain = keyring
            .open(&sealed_at(&org, &id), sealed)
            .map_err(|e| Error::internal("open the password of an output", e))?;
        String::from_utf8(plain.to_vec())
            .map_err(|e| Error::internal("open the password of an output", e.utf8_error()))
    };
    Ok(Settings {
        host: target.host.clone(),
        port: target.port,
        database: target.database.clone(),
        user: target.user.clone(),
        password: target.sealed_password.as_ref().map(open).transpose()?,
        ssl: target.ssl,
        authorities: target.authorities.clone(),
        schema: target.schema.clone(),
        table: target.table.clone(),
        mode: target.mode,
        adds_columns: target.adds_columns,
    })
}
