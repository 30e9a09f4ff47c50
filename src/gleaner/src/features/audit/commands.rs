//! What the operator reads of the audit log (`gleaner admin audit`).

use super::newest;
use crate::features::auth::find_org;
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed, told};
use base::Result;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::Services;
use std::sync::Arc;

pub(super) const COMMANDS: Commands = Commands::of::<AuditCommand>(&[OperationSpec::of::<Audit>()]);

#[derive(Subcommand)]
enum AuditCommand {
    /// Show the newest rows of the audit log.
    #[command(display_order = 9)]
    Audit {
        /// An organization's log, by its id or name, instead of the box's own.
        #[arg(long)]
        org: Option<String>,
        /// How many rows are shown at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
}

impl Typed for AuditCommand {
    fn request(self) -> Result<Request> {
        let AuditCommand::Audit { org, limit } = self;
        Request::of(&Audit { org, limit })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Audit {
    org: Option<String>,
    limit: usize,
}

impl Operation for Audit {
    const NAME: &'static str = "audit";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let system = services.system();
        let org = self.org.map(|text| system.read(|tx| find_org(tx, &text))).transpose()?;
        told(newest(system, org.map(|org| org.id), self.limit)?)
    }
}
