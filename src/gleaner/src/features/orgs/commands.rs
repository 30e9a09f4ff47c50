//! What the operator does with people, organizations and credits (`gleaner admin user`, `org`, `credits`, `recharge`).

use super::Orgs;
use super::operator::{self, NewPerson};
use crate::features::auth::{self, Auth};
use crate::features::billing::Plans;
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed, told};
use base::Result;
use base::ids::RechargeId;
use base::permission::Role;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Services;
use std::sync::Arc;

pub(super) const COMMANDS: Commands = Commands::of::<OrgsCommand>(&[
    OperationSpec::of::<UserList>(),
    OperationSpec::of::<UserCreate>(),
    OperationSpec::of::<UserVerify>(),
    OperationSpec::of::<UserResetLink>(),
    OperationSpec::of::<OrgList>(),
    OperationSpec::of::<OrgPlan>(),
    OperationSpec::of::<CreditsGrant>(),
    OperationSpec::of::<RechargeList>(),
    OperationSpec::of::<RechargeDecide>(),
]);

#[derive(Subcommand)]
enum OrgsCommand {
    /// Manage people.
    #[command(subcommand, display_order = 3)]
    User(UserCommand),
    /// Manage organizations.
    #[command(subcommand, display_order = 4)]
    Org(OrgCommand),
    /// Manage credits.
    #[command(subcommand, display_order = 5)]
    Credits(CreditsCommand),
    /// Decide on requests for more credits.
    #[command(subcommand, display_order = 6)]
    Recharge(RechargeCommand),
}

impl Typed for OrgsCommand {
    fn request(self) -> Result<Request> {
        match self {
            OrgsCommand::User(command) => command.request(),
            OrgsCommand::Org(OrgCommand::List) => Request::of(&OrgList {}),
            OrgsCommand::Org(OrgCommand::Plan { org, plan }) => Request::of(&OrgPlan { org, plan }),
            OrgsCommand::Credits(CreditsCommand::Grant { org, amount, note }) => {
                Request::of(&CreditsGrant { org, amount, note })
            }
            OrgsCommand::Recharge(command) => command.request(),
        }
    }
}

#[derive(Subcommand)]
enum UserCommand {
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

impl UserCommand {
    fn request(self) -> Result<Request> {
        match self {
            UserCommand::List { org, limit } => Request::of(&UserList { org, limit }),
            UserCommand::Create { email, name, org, role } => {
                Request::of(&UserCreate { email, name, org, role })
            }
            UserCommand::Verify { email } => Request::of(&UserVerify { email }),
            UserCommand::ResetLink { email } => Request::of(&UserResetLink { email }),
        }
    }
}

#[derive(Subcommand)]
enum OrgCommand {
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

#[derive(Subcommand)]
enum CreditsCommand {
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

#[derive(Subcommand)]
enum RechargeCommand {
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

impl RechargeCommand {
    fn request(self) -> Result<Request> {
        match self {
            RechargeCommand::List => Request::of(&RechargeList {}),
            RechargeCommand::Approve { id, note } => Request::of(&RechargeDecide { id, approve: true, note }),
            RechargeCommand::Deny { id, note } => Request::of(&RechargeDecide { id, approve: false, note }),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct UserList {
    org: Option<String>,
    limit: usize,
}

impl Operation for UserList {
    const NAME: &'static str = "user_list";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        told(services.system().read(|tx| {
            let org = self.org.map(|org| auth::find_org(tx, &org)).transpose()?;
            auth::list_users(tx, org.map(|org| org.id), self.limit)
        })?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct UserCreate {
    email: String,
    name: Option<String>,
    org: Option<String>,
    role: Option<Role>,
}

impl Operation for UserCreate {
    const NAME: &'static str = "user_create";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let (auth, orgs) = (services.service::<Auth>(), services.service::<Orgs>());
        let UserCreate { email, name, org, role } = self;
        told(operator::create_user(&auth, &orgs, NewPerson { email, name, org, role }).await?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct UserVerify {
    email: String,
}

impl Operation for UserVerify {
    const NAME: &'static str = "user_verify";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let user = auth::verify_by_operator(services.system(), &self.email).await?;
        Ok(json!({ "verified": user }))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct UserResetLink {
    email: String,
}

impl Operation for UserResetLink {
    const NAME: &'static str = "user_reset_link";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let auth = services.service::<Auth>();
        told(auth::reset_link_by_operator(&auth, auth.public_url(), &self.email).await?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OrgList {}

impl Operation for OrgList {
    const NAME: &'static str = "org_list";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let plans = services.service::<Plans>();
        told(services.system().read(|tx| operator::summaries(tx, &plans))?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OrgPlan {
    org: String,
    plan: String,
}

impl Operation for OrgPlan {
    const NAME: &'static str = "org_plan";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let plans = services.service::<Plans>();
        told(operator::set_plan(services.system(), plans, self.org, self.plan).await?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct CreditsGrant {
    org: String,
    amount: i64,
    note: Option<String>,
}

impl Operation for CreditsGrant {
    const NAME: &'static str = "credits_grant";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let plans = services.service::<Plans>();
        told(operator::grant_credits(services.system(), plans, self.org, self.amount, self.note).await?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RechargeList {}

impl Operation for RechargeList {
    const NAME: &'static str = "recharge_list";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        told(services.system().read(operator::recharges)?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RechargeDecide {
    id: RechargeId,
    approve: bool,
    note: Option<String>,
}

impl Operation for RechargeDecide {
    const NAME: &'static str = "recharge_decide";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let (plans, auth) = (services.service::<Plans>(), services.service::<Auth>());
        let (url, RechargeDecide { id, approve, note }) = (auth.public_url().to_owned(), self);
        told(operator::decide_recharge(services.system(), plans, url, id, approve, note).await?)
    }
}
