//! The operator's commands on people and organizations, as they are typed.

use super::Request;
use crate::features::bi::{KillSwitchOrder, KillTarget};
use base::ids::RechargeId;
use base::permission::Role;
use clap::{Args, Subcommand};

/// Manage people.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// List people, newest first.
    List {
        /// Only the members of this organization, by its id or name.
        #[arg(long)]
        org: Option<String>,
        /// How many are listed at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Make an account, whoever else may register, and print a link with which its owner chooses a password, once and within
    /// a week. The address counts as verified. Pass the link on only to whom the account is meant for.
    Create {
        /// The person's address.
        email: String,
        /// What they are called; without it what stands before the @.
        #[arg(long)]
        name: Option<String>,
        /// Make them a member of this organization, by its id or name; one that does not exist is founded.
        #[arg(long)]
        org: Option<String>,
        /// Their role there: owner, admin, editor, analyst or viewer. Without it who founds an organization is its owner,
        /// and anybody else a viewer.
        #[arg(long, value_parser = role)]
        role: Option<Role>,
    },
    /// Mark a user's e-mail address as verified.
    Verify {
        /// The address of the account.
        email: String,
    },
    /// Print a link with which a user chooses a new password, once and within an hour; earlier links end. Pass it on
    /// only to whom the account belongs.
    ResetLink {
        /// The address of the account.
        email: String,
    },
}

fn role(text: &str) -> Result<Role, String> {
    let all = [Role::Owner, Role::Admin, Role::Editor, Role::Analyst, Role::Viewer];
    let found = all.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("must be one of {}", all.map(Role::name).join(", ")))
}

impl From<UserCommand> for Request {
    fn from(command: UserCommand) -> Request {
        match command {
            UserCommand::List { org, limit } => Request::UserList { org, limit },
            UserCommand::Create { email, name, org, role } => Request::UserCreate { email, name, org, role },
            UserCommand::Verify { email } => Request::UserVerify { email },
            UserCommand::ResetLink { email } => Request::UserResetLink { email },
        }
    }
}

/// Manage organizations.
#[derive(Debug, Subcommand)]
pub enum OrgCommand {
    /// List organizations with their plans and credits, oldest first.
    List,
    /// Put an organization on another plan, from now on: what is left of its period lapses, a new one begins.
    Plan {
        /// Its id or name.
        org: String,
        /// A plan of this release; an unknown one is answered with the list.
        plan: String,
    },
}

impl From<OrgCommand> for Request {
    fn from(command: OrgCommand) -> Request {
        match command {
            OrgCommand::List => Request::OrgList,
            OrgCommand::Plan { org, plan } => Request::OrgPlan { org, plan },
        }
    }
}

/// Manage credits.
#[derive(Debug, Subcommand)]
pub enum CreditsCommand {
    /// Add credits that do not lapse to an organization's account.
    Grant {
        /// Its id or name.
        org: String,
        /// How many credits.
        #[arg(allow_negative_numbers = true)]
        amount: i64,
        /// What the ledger says of it.
        #[arg(long)]
        note: Option<String>,
    },
}

impl From<CreditsCommand> for Request {
    fn from(command: CreditsCommand) -> Request {
        match command {
            CreditsCommand::Grant { org, amount, note } => Request::CreditsGrant { org, amount, note },
        }
    }
}

/// Look after mail.
#[derive(Debug, Subcommand)]
pub enum MailCommand {
    /// Send a message to an address, to see whether mail arrives; an error says why it does not.
    Test {
        /// Where it is sent to.
        address: String,
    },
}

impl From<MailCommand> for Request {
    fn from(command: MailCommand) -> Request {
        match command {
            MailCommand::Test { address } => Request::MailTest { to: address },
        }
    }
}

/// Decide on requests for more credits.
#[derive(Debug, Subcommand)]
pub enum RechargeCommand {
    /// List the requests that wait, oldest first.
    List,
    /// Add the credits of a request, and tell the organization's owners.
    Approve {
        /// As listed.
        id: RechargeId,
        /// What the owners are told beside it.
        #[arg(long)]
        note: Option<String>,
    },
    /// Turn a request down, and tell the organization's owners.
    Deny {
        /// As listed.
        id: RechargeId,
        /// What the owners are told beside it.
        #[arg(long)]
        note: Option<String>,
    },
}

impl From<RechargeCommand> for Request {
    fn from(command: RechargeCommand) -> Request {
        match command {
            RechargeCommand::List => Request::RechargeList,
            RechargeCommand::Approve { id, note } => Request::RechargeDecide { id, approve: true, note },
            RechargeCommand::Deny { id, note } => Request::RechargeDecide { id, approve: false, note },
        }
    }
}

/// Manage the SQL console.
#[derive(Debug, Subcommand)]
pub enum BiCommand {
    /// Switch SQL statements off: all of them, an organization's, or those of one form.
    #[command(subcommand)]
    KillSwitch(KillSwitchCommand),
}

#[derive(Debug, Subcommand)]
pub enum KillSwitchCommand {
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
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct KillTargetArguments {
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

impl From<BiCommand> for Request {
    fn from(command: BiCommand) -> Request {
        let BiCommand::KillSwitch(command) = command;
        let order = match command {
            KillSwitchCommand::List => KillSwitchOrder::List,
            KillSwitchCommand::Set { target, reason } => {
                KillSwitchOrder::Set { target: target.into(), reason }
            }
            KillSwitchCommand::Clear { target } => KillSwitchOrder::Clear { target: target.into() },
        };
        Request::BiKillSwitch { order }
    }
}
