//! What `gleaner backup` asks of a box that runs.

use super::config::read_passphrase;
use super::organization::{OrganizationRestoreStart, OrganizationRestoreState};
use super::place::Wanted;
use super::service::Backups;
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed};
use backup::Passphrase;
use base::audit::Action;
use base::{Error, Result};
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Services;
use std::path::PathBuf;
use std::sync::Arc;
use store::Event;

pub(super) const COMMANDS: Commands = Commands::of::<BackupsCommand>(&[
    OperationSpec::of::<BackupStart>(),
    OperationSpec::of::<BackupState>(),
    OperationSpec::of::<OrganizationRestoreStart>(),
    OperationSpec::of::<OrganizationRestoreState>(),
]);

#[derive(Subcommand)]
enum BackupsCommand {
    /// Show how the last backup went, and how far one is that is being made.
    #[command(display_order = 10)]
    Backup,
}

impl Typed for BackupsCommand {
    fn request(self) -> Result<Request> {
        Request::of(&BackupState { number: None })
    }
}

/// Begins a backup.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackupStart {
    /// A folder or `s3://BUCKET/PREFIX`; none: what the configuration says.
    pub target: Option<String>,
    /// A file with what the key file is sealed with; none: what the configuration says.
    pub passphrase_file: Option<PathBuf>,
    pub without_key: bool,
    pub full: bool,
}

impl BackupStart {
    /// What is wanted, by what was typed and by what the configuration says.
    pub fn wanted(&self, place: &super::Place) -> Result<Wanted> {
        let target = self.target.clone().or_else(|| Some(place.backup.target.clone()));
        let target = target.filter(|target| !target.is_empty()).ok_or_else(|| {
            Error::invalid("TO", "is missing: say where the backup goes, or set backup.target")
        })?;
        let passphrase: Option<Passphrase> = match (&self.passphrase_file, self.without_key) {
            (_, true) => None,
            (Some(file), false) => Some(read_passphrase(file)?),
            (None, false) => Some(place.backup.passphrase()?.ok_or_else(|| {
                let reason = "or --without-key must be given, or backup.passphrase_file set: the key file is sealed with a \
                              passphrase, or left out";
                Error::invalid("--passphrase-file", reason)
            })?),
        };
        Ok(Wanted { target, passphrase, full: self.full })
    }
}

impl Operation for BackupStart {
    const NAME: &'static str = "backup_start";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let backups = services.service::<Backups>();
        let wanted = self.wanted(backups.place())?;
        let event = Event::new(Action::BackupStarted)
            .with("target", wanted.target.as_str())
            .with("withKey", wanted.passphrase.is_some());
        let number = backups.start(&services, wanted)?;
        services.system().write_freeing(move |tx| tx.audit(event)).await?;
        Ok(json!({ "number": number }))
    }
}

/// Where backups stand.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackupState {
    /// What came of this one.
    pub number: Option<u64>,
}

impl Operation for BackupState {
    const NAME: &'static str = "backup_state";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        services.service::<Backups>().state(services.system(), self.number)
    }
}
