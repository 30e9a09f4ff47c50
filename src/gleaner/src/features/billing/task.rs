//! Beginning periods: an organization that does nothing has its month too, and its ledger says so.

use super::plans::Plans;
use super::rows::ACCOUNTS;
use super::{ledger, past};
use base::Result;
use server::task::TaskContext;

/// Accounts of one look.
const ACCOUNTS_PER_LOOK: usize = 1_000;

/// Renews every account whose period has ended.
pub(super) async fn renew_all(context: TaskContext) -> Result<()> {
    if let Err(error) = past::sweep(context.system()).await {
        tracing::error!(target: "gleaner::billing", %error, "what people used before was not looked through");
    }
    let plans = context.service::<Plans>();
    let mut after = None;
    while !context.stopping() {
        let step =
            context.system().read(|tx| tx.readable_all(&ACCOUNTS, after.as_deref(), ACCOUNTS_PER_LOOK))?;
        let Some(next) = step.next else { break };
        after = Some(next);
        let now = context.moment();
        for (org, (), account) in step.rows.iter().filter(|(.., account)| now >= account.period_ends_at) {
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
