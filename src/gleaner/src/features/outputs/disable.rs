//! Switching an output off, and saying so: in the log of events, in the audit log, and by mail.

use super::rows::{DisabledReason, OUTPUTS};
use super::turns::Turn;
use crate::features::auth::{ORGS, USERS, USERS_BY_ORG};
use crate::features::events::{EventKind, NewEvent};
use crate::features::mail::{Letter, NewMail};
use base::Result;
use base::audit::Action;
use base::ids::OrgId;
use base::permission::{Permission, Role};
use serde_json::json;
use store::{Event, Order, OrgWrite, SysWrite};
use uuid::Uuid;

/// Members that are looked at for owners and administrators.
const MEMBERS_MAX: usize = 1_000;
/// People who are written to.
const TOLD_MAX: usize = 20;

pub(super) static DISABLED: EventKind = EventKind::new(
    "output.disabled",
    Permission::IntegrationsRead,
    "The box switched an output off (`name`, `reason`: `gone`, `failing`, `no_recipients` or `restored`).",
);

/// Switches an output off. What waits to be sent stays, and goes on when it is switched on again.
pub(super) fn disable(tx: &SysWrite<'_>, turn: Turn, reason: DisabledReason, url: &str) -> Result<()> {
    let own = tx.org(turn.org);
    let Some(mut row) = own.get(&OUTPUTS, &turn.output)?.filter(|row| row.is_enabled) else { return Ok(()) };
    (row.is_enabled, row.disabled_reason, row.disabled_at) = (false, Some(reason), Some(tx.now()));
    (row.updated_at, row.revision) = (tx.now(), row.revision + 1);
    own.put(&OUTPUTS, &row.id, &row)?;
    let data = json!({ "name": row.name, "reason": reason.name() });
    NewEvent::of(&DISABLED, row.id).data(data).write(&own)?;
    own.audit(Event::new(Action::OutputDisabled).of(row.id).with("reason", reason.name()))?;
    tell(tx, turn.org, (&row.name, row.id.into()), reason, url)
}

/// Outputs of one look.
const OUTPUTS_PER_LOOK: usize = 500;

/// Switches off every output of an organization that a backup has brought back: what it would send now was sent since. Whoever
/// looks after them switches them on again. Gives how many.
pub(super) fn after_comeback(own: &OrgWrite<'_>) -> Result<u64> {
    let (mut off, mut after) = (0, None);
    loop {
        let rows = own.scan(&OUTPUTS, after.as_ref(), Order::Ascending, OUTPUTS_PER_LOOK)?;
        let Some((last, _)) = rows.last() else { return Ok(off) };
        after = Some(*last);
        for (id, mut row) in rows.into_iter().filter(|(_, row)| row.is_enabled) {
            let reason = DisabledReason::Restored;
            (row.is_enabled, row.disabled_reason, row.disabled_at) = (false, Some(reason), Some(own.now()));
            (row.updated_at, row.revision) = (own.now(), row.revision + 1);
            own.put(&OUTPUTS, &id, &row)?;
            let data = json!({ "name": row.name, "reason": reason.name() });
            NewEvent::of(&DISABLED, id).data(data).write(own)?;
            own.audit(Event::new(Action::OutputDisabled).of(id).with("reason", reason.name()))?;
            off += 1;
        }
    }
}

/// Writes to who answers for the organization.
fn tell(
    tx: &SysWrite<'_>,
    org: OrgId,
    (output, id): (&str, Uuid),
    reason: DisabledReason,
    url: &str,
) -> Result<()> {
    let org_name = tx.get(&ORGS, &org)?.map(|entry| entry.name).unwrap_or_default();
    let members = tx.scan_index(&USERS, &USERS_BY_ORG, org, Order::Ascending, MEMBERS_MAX)?;
    let answers = |role: &Role| role.permissions().contains(Permission::IntegrationsWrite);
    let told = members.iter().filter(|user| {
        user.email_verified_at.is_some() && user.membership.is_some_and(|(_, role)| answers(&role))
    });
    for user in told.take(TOLD_MAX) {
        let letter = Letter::OutputDisabled {
            name: &user.name,
            org: &org_name,
            output,
            reason: match reason {
                DisabledReason::Gone => "its endpoint answered 410: it wants nothing any more",
                DisabledReason::NoRecipients => {
                    "everybody that it wrote to has unsubscribed, or their addresses bounce"
                }
                DisabledReason::Restored => "the organization came back from a backup",
                DisabledReason::Failing => "nothing could be delivered to its endpoint for five days",
            },
            url,
        };
        NewMail { about: id, org: Some(org), to: &user.email, letter, token: None, good_until: None }
            .send(tx)?;
    }
    Ok(())
}
