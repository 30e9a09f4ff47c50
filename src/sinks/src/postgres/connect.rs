//! A connection: through the address guard, secured as the settings say, and logged in.

use super::fault::{Fault, FaultKind};
use super::settings::{Settings, SslMode, place};
use super::tls::{self, Tls};
use crate::bounded::Bounded;
use fetch::Connector;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, config};

/// How long a server has to let us in.
const LOGIN_TIME: Duration = Duration::from_secs(20);
/// Bytes that a server may say in a session.
const READ_BYTES_MAX: usize = 16 << 20;
/// What a session keeps to: a time zone in which times mean the same everywhere, and limits of its own, so that a statement
/// that waits for somebody's lock ends before we leave.
const SESSION: &str = "SET TIME ZONE 'UTC'; SET statement_timeout = '100s'; SET lock_timeout = '20s'; \
                       SET idle_in_transaction_session_timeout = '60s'; SET standard_conforming_strings = on";

/// A session; the connection ends with it.
pub(super) struct Session {
    pub client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The ways that `sslmode` asks for, in their order.
fn ways(mode: SslMode) -> &'static [config::SslMode] {
    match mode {
        SslMode::Disable => &[config::SslMode::Disable],
        SslMode::Allow => &[config::SslMode::Disable, config::SslMode::Require],
        SslMode::Prefer => &[config::SslMode::Prefer, config::SslMode::Disable],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[config::SslMode::Require],
    }
}

pub(super) async fn open(connector: &Connector, settings: &Settings) -> Result<Session, Fault> {
    let mut fault = None;
    for way in ways(settings.ssl) {
        let opened = timeout(LOGIN_TIME, open_so(connector, settings, *way)).await;
        let opened = opened.unwrap_or_else(|_elapsed| {
            Err(Fault::away(format!("the server did not let us in within {} s", LOGIN_TIME.as_secs())))
        });
        match opened {
            Ok(session) => return Ok(session),
            Err(first) => {
                let is_about_password = first.told.contains("28P01");
                fault.get_or_insert(first);
                if is_about_password {
                    break;
                }
            }
        }
    }
    Err(fault.unwrap_or_else(|| Fault::away("the server was not asked".to_owned())))
}

async fn open_so(connector: &Connector, settings: &Settings, way: config::SslMode) -> Result<Session, Fault> {
    let place = place(&settings.host, settings.port)
        .map_err(|told| Fault { kind: FaultKind::Refused, told: format!("host: {told}") })?;
    let config = tls::client_config(settings).map_err(|told| Fault { kind: FaultKind::Refused, told })?;
    let stream = connector.tcp(&place).await?;
    let mut login = Config::new();
    login.user(&settings.user).dbname(&settings.database).application_name("gleaner").ssl_mode(way);
    if let Some(password) = &settings.password {
        login.password(password);
    }
    let (client, connection) =
        login.connect_raw(Bounded::new(stream, READ_BYTES_MAX), Tls::new(config, &place)?).await?;
    let driver = tokio::spawn(async move {
        // The client's side sees the same error, with the statement that it ended.
        connection.await.ok();
    });
    let session = Session { client, driver };
    session.client.batch_execute(SESSION).await?;
    Ok(session)
}
