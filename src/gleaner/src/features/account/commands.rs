//! What the operator reads of erasures (`gleaner admin erasures`).

use super::erase::list_erasures;
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed, told};
use base::Result;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::Services;
use std::sync::Arc;

pub(super) const COMMANDS: Commands = Commands::of::<AccountCommand>(&[OperationSpec::of::<Erasures>()]);

#[derive(Subcommand)]
enum AccountCommand {
    /// Show erasures of people and organizations, newest first: where they stand, and what was removed.
    #[command(display_order = 11)]
    Erasures {
        /// How many are shown at most.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
}

impl Typed for AccountCommand {
    fn request(self) -> Result<Request> {
        let AccountCommand::Erasures { limit } = self;
        Request::of(&Erasures { limit })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Erasures {
    limit: usize,
}

impl Operation for Erasures {
    const NAME: &'static str = "erasures";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        told(services.system().read(|tx| list_erasures(tx, self.limit))?)
    }
}
