//! What the operator does with mail (`gleaner admin mail`, `outbox`).

use super::Mailer;
use super::outbox::{outbox, retry, send_test};
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed, told};
use base::Result;
use base::ids::MailId;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Services;
use std::sync::Arc;

pub(super) const COMMANDS: Commands = Commands::of::<MailCommands>(&[
    OperationSpec::of::<Outbox>(),
    OperationSpec::of::<OutboxRetry>(),
    OperationSpec::of::<MailTest>(),
]);

#[derive(Subcommand)]
enum MailCommands {
    /// Look after mail.
    #[command(subcommand, display_order = 7)]
    Mail(MailCommand),
    /// Show messages, newest first: what waits (with text and link, to pass on), what was sent, what failed and why.
    #[command(display_order = 8)]
    Outbox {
        /// How many are shown at most.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Try to send again what failed or waits: the message of this id, or all without one.
        #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with = "limit")]
        retry: Option<Option<MailId>>,
    },
}

#[derive(Subcommand)]
enum MailCommand {
    /// Send a message to an address, to see whether mail arrives; an error says why it does not.
    Test {
        /// Where it is sent to.
        address: String,
    },
}

impl Typed for MailCommands {
    fn request(self) -> Result<Request> {
        match self {
            MailCommands::Mail(MailCommand::Test { address }) => Request::of(&MailTest { to: address }),
            MailCommands::Outbox { retry: Some(id), .. } => Request::of(&OutboxRetry { id }),
            MailCommands::Outbox { limit, retry: None } => Request::of(&Outbox { limit }),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Outbox {
    limit: usize,
}

impl Operation for Outbox {
    const NAME: &'static str = "outbox";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let mailer = services.service::<Mailer>();
        told(services.system().read(|tx| outbox(tx, &mailer, self.limit))?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OutboxRetry {
    id: Option<MailId>,
}

impl Operation for OutboxRetry {
    const NAME: &'static str = "outbox_retry";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        told(retry(services.system(), &services.service::<Mailer>(), self.id).await?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct MailTest {
    to: String,
}

impl Operation for MailTest {
    const NAME: &'static str = "mail_test";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let (mailer, now) = (services.service::<Mailer>(), services.clock().now());
        send_test(&mailer, now, &self.to).await?;
        Ok(json!({ "sent": self.to, "server": mailer.server() }))
    }
}
