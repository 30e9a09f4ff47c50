//! What an operator's program writes on the socket: the commands of all slices, in the form that they have there.

use base::ids::{MailId, RechargeId};
use base::permission::Role;
use gleaner::features::bi::KillSwitchOrder;
use serde::Serialize;

/// What an operator asks for.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// Where the box stands.
    Status,
    /// Switches SQL statements off or on, or shows what is off and what runs.
    BiKillSwitch { order: KillSwitchOrder },
    /// People, newest first: of an organization, or all.
    UserList { org: Option<String>, limit: usize },
    /// Makes an account, and a member of an organization, and gives a link to it.
    UserCreate { email: String, name: Option<String>, org: Option<String>, role: Option<Role> },
    /// Marks a user's e-mail address as verified.
    UserVerify { email: String },
    /// A link with which a user chooses a new password.
    UserResetLink { email: String },
    /// Organizations with their plans and credits, oldest first.
    OrgList,
    /// Puts an organization on another plan.
    OrgPlan { org: String, plan: String },
    /// Adds credits to an organization's account.
    CreditsGrant { org: String, amount: i64, note: Option<String> },
    /// Requests for more credits that wait, oldest first.
    RechargeList,
    /// Approves or denies a request for more credits.
    RechargeDecide { id: RechargeId, approve: bool, note: Option<String> },
    /// Messages, newest first: what waits, what was sent, what failed and why.
    Outbox { limit: usize },
    /// Sends a message to an address, to see whether mail arrives.
    MailTest { to: String },
    /// Tries to send again what failed or waits: the message of this id, or all.
    OutboxRetry { id: Option<MailId> },
    /// Adds the schemas of a JSON document; `domain` for those that name none.
    SchemaImport { json: String, domain: Option<String> },
    /// All platform schemas as such a document.
    SchemaExport,
    /// Newest rows of an organization's audit log, or of the box's own.
    Audit { org: Option<String>, limit: usize },
    /// Believes at once that the machine was off for as long as its clock says.
    ClockAccept,
    /// Erasures, newest first: those that go on, and the receipts of those that are done.
    Erasures { limit: usize },
}
