//! What the operator does with the SQL console (`gleaner admin bi`).

use super::service::Queries;
use super::switch::{KillSwitchOrder, KillTarget, kill_switch};
use crate::features::auth::find_org;
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed};
use base::Result;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::Services;
use std::sync::Arc;

pub(super) const COMMANDS: Commands = Commands::of::<BiCommands>(&[OperationSpec::of::<BiKillSwitch>()]);

#[derive(Subcommand)]
enum BiCommands {
    /// Manage the SQL console.
    #[command(subcommand, display_order = 2)]
    Bi(BiCommand),
}

#[derive(Subcommand)]
enum BiCommand {
    /// Switch SQL statements off: all of them, an organization's, or those of one form.
    #[command(subcommand)]
    KillSwitch(KillSwitchCommand),
}

#[derive(Subcommand)]
enum KillSwitchCommand {
    /// Show what is switched off, and the statements that run, with their fingerprints.
    List,
    /// Switch off; what runs is ended.
    Set {
        #[command(flatten)]
        target: KillTargetArguments,
        /// Why, for whoever looks later.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Switch on again.
    Clear {
        #[command(flatten)]
        target: KillTargetArguments,
    },
}

/// What a kill switch stops: exactly one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct KillTargetArguments {
    /// Every statement on the box.
    #[arg(long = "box")]
    whole_box: bool,
    /// Every statement of an organization, by its id or name.
    #[arg(long)]
    org: Option<String>,
    /// Statements of one form, whatever values they hold, by their fingerprint.
    #[arg(long, value_name = "FINGERPRINT")]
    statement: Option<String>,
}

impl From<KillTargetArguments> for KillTarget {
    fn from(arguments: KillTargetArguments) -> KillTarget {
        match (arguments.org, arguments.statement) {
            (Some(org), _) => KillTarget::Org(org),
            (_, Some(statement)) => KillTarget::Statement(statement),
            _ => KillTarget::Box,
        }
    }
}

impl Typed for BiCommands {
    fn request(self) -> Result<Request> {
        let BiCommands::Bi(BiCommand::KillSwitch(command)) = self;
        let order = match command {
            KillSwitchCommand::List => KillSwitchOrder::List,
            KillSwitchCommand::Set { target, reason } => {
                KillSwitchOrder::Set { target: target.into(), reason }
            }
            KillSwitchCommand::Clear { target } => KillSwitchOrder::Clear { target: target.into() },
        };
        Request::of(&BiKillSwitch { order })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct BiKillSwitch {
    order: KillSwitchOrder,
}

impl Operation for BiKillSwitch {
    const NAME: &'static str = "bi_kill_switch";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let system = services.system();
        let order = self.order.with_org(|org| Ok(system.read(|tx| find_org(tx, org))?.id))?;
        kill_switch(system, &services.service::<Queries>(), order).await
    }
}
