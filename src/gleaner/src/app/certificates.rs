//! The certificates of a running box: read at the start and at SIGHUP, and by itself when their files have changed, so that what
//! renews them (certbot) needs to tell nobody.

use super::tls_settings;
use crate::config::Config;
use base::{Error, Result};
use server::{Certificates, Look, ReadinessIssue};
use std::time::Duration;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What came of reading the certificates again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    Yes,
    /// The box speaks without TLS, then as now.
    NoneUsed,
    /// TLS is switched on or off by a start only; `is_on` says which it stays.
    NeedsRestart {
        is_on: bool,
    },
}

/// Reads those of the configuration; none where the box speaks without TLS.
pub(super) fn read(config: &Config) -> Result<Option<Certificates>> {
    let read = tls_settings(config).as_ref().map(Certificates::read).transpose();
    read.map_err(|e| Error::unavailable(format!("TLS: {e}")))
}

/// Reads those of `fresh` again, for connections to come; on an error those that were there stay.
pub(super) fn renew(used: Option<&Certificates>, fresh: &Config) -> Result<Renewed> {
    match (used, tls_settings(fresh)) {
        (Some(certificates), Some(tls)) => {
            certificates.renew(&tls).map_err(|e| Error::invalid("server.tls", e))?;
            Ok(Renewed::Yes)
        }
        (None, None) => Ok(Renewed::NoneUsed),
        (used, _) => Ok(Renewed::NeedsRestart { is_on: used.is_some() }),
    }
}

/// Reads them again whenever their files have changed, for ever.
pub(super) async fn follow(certificates: Certificates) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let looking = certificates.clone();
        // On a thread that may hang with the disk.
        match tokio::task::spawn_blocking(move || looking.look()).await {
            Ok(Look::Same) => {}
            Ok(Look::Renewed) => {
                tracing::info!(
                    "the certificates' files have changed: new connections are shown what is in them now"
                )
            }
            Ok(Look::Broken(reason)) => tracing::error!(
                reason,
                "the certificates' files have changed and cannot be used; new connections are shown those of before"
            ),
            Err(error) => tracing::warn!(%error, "the certificates' files could not be looked at"),
        }
    }
}

/// What `/readyz` says of them: a box that shows those of before serves.
pub(super) fn check(certificates: &Certificates) -> Result<(), ReadinessIssue> {
    match certificates.trouble() {
        None => Ok(()),
        Some(reason) => Err(ReadinessIssue::Partly(format!(
            "{reason}; those that were read before are shown until it is mended"
        ))),
    }
}
