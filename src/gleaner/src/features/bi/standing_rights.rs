//! With whose permissions a statement runs that the box runs by itself: those that its author has when it does.

use crate::features::auth::{USERS, permissions_of};
use crate::features::billing::{PlanGate, Plans};
use base::ids::UserId;
use base::permission::Permission;
use base::{Code, Result};
use server::Gatekeeper;
use server::task::TaskContext;
use store::OrgStore;

/// What a person lacks with whose permissions a statement is to run, or their organization; none where it may.
pub fn lacks(context: &TaskContext, org: &OrgStore, author: UserId) -> Result<Option<String>> {
    let user = context.system().read(|tx| tx.get(&USERS, &author))?;
    let member = user.filter(|user| user.membership.is_some_and(|(of, _)| of == org.id()));
    let Some(member) = member else {
        return Ok(Some("who changed it last is no member of the organization any more".to_owned()));
    };
    if !permissions_of(&member).contains(Permission::BiRead) {
        return Ok(Some("who changed it last may not read the organization's tables any more".to_owned()));
    }
    let entitlement = super::MOUNT.plan;
    let gate = PlanGate(context.service::<Plans>());
    match entitlement.map_or(Ok(()), |entitlement| gate.entitled(org, entitlement)) {
        Ok(()) => Ok(None),
        Err(error) if error.code() == Code::PlanRequired => {
            Ok(Some(error.detail().unwrap_or_else(|| error.sentence()).to_owned()))
        }
        Err(error) => Err(error),
    }
}
