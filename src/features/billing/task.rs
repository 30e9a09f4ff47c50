//! Beginning periods: an organization that does nothing has its month too, and its ledger says so.

use super::plans::Plans;
use super::rows::{ACCOUNTS, AccountV2};
use super::{ledger, past};
use crate::base::Result;
use crate::base::ids::OrgId;
use crate::task::TaskContext;

/// Accounts of one look.
const ACCOUNTS_PER_LOOK: usize = 1_000;

/// Renews every account whose period has ended.
pub(super) async fn renew_all(context: TaskContext) -> Result<()> {
    past::sweep(context.system()).await?;
    let plans = context.service::<Plans>();
    let mut after: Option<OrgId> = None;
    while !context.stopping() {
        let accounts: Vec<(OrgId, (), AccountV2)> = context
            .system()
            .read(|tx| tx.scan_all(&ACCOUNTS, after.map(|org| (org, &())), ACCOUNTS_PER_LOOK))?;
        let Some((last, ..)) = accounts.last() else { break };
        after = Some(*last);
        let now = context.moment();
        for (org, (), account) in accounts.iter().filter(|(.., account)| now >= account.period_ends_at) {
            let plans = plans.clone();
            let renewed = context.system().org(*org).write(move |tx| ledger::renew(tx, &plans)).await;
            // One that is being erased, or whose plan is gone from the file, keeps nobody else waiting.
            if let Err(error) = renewed {
                tracing::error!(target: "gleaner::billing", %org, plan = account.plan, %error, "a period was not begun");
            }
        }
    }
    Ok(())
}
