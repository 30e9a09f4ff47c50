//! Plans and credits: the ledger, and requests for more. The operator's commands on them are the orgs slice's, which
//! knows organizations by name.

mod ledger;
mod open;
mod past;
mod plans;
mod recharges;
mod retention;
mod room;
mod rows;
mod task;
mod terms;
#[cfg(test)]
mod tests;

pub use ledger::{account, change_plan, effective_balance, open_account, recharge, reserve, settle};
pub use past::{PersonMark, leave_account, open_account_of};
pub use plans::{Plan, Plans};
pub use recharges::{
    RECHARGE_CREDITS_MAX, credits as recharge_credits, decide_recharge, note as recharge_note,
    pending_recharges,
};
pub use retention::{Removed, Retention, cutoff};
pub use room::room;
pub use rows::{
    ACCOUNTS, AccountV2, RechargeStatus, RechargeV1, TRANSACTIONS, TransactionKind, TransactionV1,
};
pub use terms::Terms;

use super::Feature;
use crate::config::SectionSpec;
use crate::console::{Column, ConsoleTable, View, ViewRows, int, optional_text, text, time};
use base::clock::Timestamp;
use base::ids::{JobId, TransactionId};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use room::{LimitsView, StoredView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::BillingRead;
use server::task::TaskSpec;
use server::{Body, Entitlement, Gatekeeper, Handler, Need, Org, OrgContext, Query, Route};
use sql::{Cell, ColumnKind};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use store::{Key, OrgRead, OrgStore};
use terms::TermsView;

/// How soon a period begins after the last one. Who reserves credits begins it at once.
const RENEW_EVERY: Duration = Duration::from_secs(60);

pub static FEATURE: Feature = Feature {
    name: "billing",
    sections: &[SectionSpec::of::<Terms>()],
    uses: &["events"],
    events: &[&ledger::LOW],
    tables: &[&ACCOUNTS, &TRANSACTIONS, &rows::TOLD_LOW, &rows::RECHARGES, &past::PAST_USES],
    routes: &[
        Route::get("/api/v1/plans", "listPlans", &Handler::new(list_plans))
            .about("The plans this box knows."),
        Route::get("/api/v1/plans/current", "getCurrentPlan", &Handler::new(current))
            .about("The organization's plan and what is left of its credits."),
        Route::get("/api/v1/plans/transactions", "listTransactions", &Handler::new(transactions))
            .about("The credit ledger, newest first."),
        Route::get("/api/v1/plans/recharge-requests", "listRechargeRequests", &Handler::new(recharges::list))
            .about("The organization's requests for more credits, newest first."),
        Route::post(
            "/api/v1/plans/recharge-requests",
            "createRechargeRequest",
            &Handler::new(recharges::create),
        )
        .about("Asks the operator of the box for more credits.")
        .fails(&[Code::Conflict]),
    ],
    open: Some(open::open),
    seed: Some(open::seed),
    status: Some(open::status),
    gauges: Some(open::gauges),
    needs: &[Need::of::<Plans>(), Need::of::<Retention>()],
    tasks: &[TaskSpec::new("billing.renew", RENEW_EVERY, |context| Box::pin(task::renew_all(context)))],
    views: &[View { source: "transactions", tables: || vec![TRANSACTION_TABLE.spec()], rows: view_rows }],
    ..Feature::NONE
};

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PlanView {
    id: String,
    name: String,
    monthly_credits: u64,
    trial_days: Option<u32>,
    features: FeaturesView,
    limits: LimitsView,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FeaturesView {
    sql_console: bool,
    agents: bool,
    benchmarks: bool,
}

impl From<&Plan> for PlanView {
    fn from(plan: &Plan) -> PlanView {
        PlanView {
            id: plan.id.clone(),
            name: plan.name.clone(),
            monthly_credits: plan.monthly_credits,
            trial_days: plan.trial_days,
            features: FeaturesView {
                sql_console: plan.features.sql_console,
                agents: plan.features.agents,
                benchmarks: plan.features.benchmarks,
            },
            limits: plan.into(),
        }
    }
}

async fn list_plans(org: Org<BillingRead>, page: PageRequest) -> Result<Body<Page<PlanView>>> {
    let plans: Vec<PlanView> = org.service::<Plans>().iter().map(PlanView::from).collect();
    Ok(Body(page.of_whole("plans", plans, |plan| &plan.id)?))
}

/// Begins the period that now is in, if nobody has yet: who looks at their credits sees the ledger as it is. Where nothing
/// can be written at the moment, what is read says what will be written.
async fn renew(org: &OrgContext) -> Result<()> {
    if org.moment() < org.read(account)?.period_ends_at {
        return Ok(());
    }
    let plans = org.service::<Plans>();
    let renewed = org.write(move |tx| {
        tx.unaudited("a period begins by itself, whoever looks first; the ledger has its rows");
        ledger::renew(tx, &plans)
    });
    match renewed.await {
        Err(error) if error.code() != Code::ServiceUnavailable => Err(error),
        _ => Ok(()),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CurrentPlanView {
    plan: PlanView,
    /// What can be reserved now; credits that running jobs hold are not in it.
    remaining_credits: u64,
    /// Of those, credits that were recharged: they are spent last and do not lapse with the period.
    recharged_credits: u64,
    monthly_credits: u64,
    /// Credits charged since the period began; jobs that were submitted before it are not counted.
    used_this_period: u64,
    period_ends_at: Timestamp,
    trial_ends_at: Option<Timestamp>,
    is_trial_expired: bool,
    /// What the organization stores, to be held against the plan's limits.
    stored: StoredView,
    /// How long things are kept: the box's terms, as the plan shortens them.
    retention: TermsView,
}

async fn current(org: Org<BillingRead>) -> Result<Body<CurrentPlanView>> {
    renew(&org).await?;
    let terms = org.service::<Retention>();
    let (account, stored, retention) = org.read(|tx| Ok((account(tx)?, room::stored(tx)?, terms.of(tx)?)))?;
    let plans = org.service::<Plans>();
    let plan = plan_of(&plans, &account)?;
    let now = org.look();
    Ok(Body(CurrentPlanView {
        plan: plan.into(),
        remaining_credits: ledger::effective_balance(&account, plan, now.moment),
        recharged_credits: account.recharged,
        monthly_credits: plan.monthly_credits,
        used_this_period: if now.moment < account.period_ends_at { account.used } else { 0 },
        period_ends_at: now.date_of(ledger::period_at(&account, now.moment).1),
        trial_ends_at: account.trial_ends_at.map(|ends| now.date_of(ends)),
        is_trial_expired: account.trial_ends_at.is_some_and(|ends| now.moment >= ends),
        stored,
        retention: retention.into(),
    }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct TransactionFilter {
    kind: Option<TransactionKind>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TransactionView {
    id: TransactionId,
    at: Timestamp,
    kind: TransactionKind,
    /// Positive into the balance, negative out of it.
    amount: i64,
    balance_after: u64,
    job_id: Option<JobId>,
    note: Option<String>,
}

impl From<TransactionV1> for TransactionView {
    fn from(row: TransactionV1) -> TransactionView {
        TransactionView {
            id: row.id,
            at: row.at,
            kind: row.kind,
            amount: row.amount,
            balance_after: row.balance_after,
            job_id: row.job_id,
            note: row.note,
        }
    }
}

async fn transactions(
    org: Org<BillingRead>,
    Query(filter): Query<TransactionFilter>,
    page: PageRequest,
) -> Result<Body<Page<TransactionView>>> {
    renew(&org).await?;
    let wanted = |row: &TransactionV1| {
        filter.kind.is_none_or(|kind| row.kind == kind)
            && filter.from.is_none_or(|from| row.at >= from)
            && filter.to.is_none_or(|to| row.at < to)
    };
    Ok(Body(org.read(|tx| tx.page(&TRANSACTIONS, &page, wanted))?.map(TransactionView::from)))
}

/// The plan an account is on. One that was taken out of the file is the operator's mistake, not the caller's.
pub fn plan_of<'p>(plans: &'p Plans, account: &AccountV2) -> Result<&'p Plan> {
    plans
        .get(&account.plan)
        .ok_or_else(|| Error::internal("look up the plan", format!("no plan {}", account.plan)))
}

/// The gates that ask about plan and credits.
pub struct PlanGate(pub Arc<Plans>);

impl Gatekeeper for PlanGate {
    fn entitled(&self, org: &OrgStore, feature: Entitlement) -> Result<()> {
        let account = org.read(account)?;
        let plan = plan_of(&self.0, &account)?;
        if plan.has(feature) {
            return Ok(());
        }
        Err(Error::new(Code::PlanRequired).message(format!(
            "The plan \"{}\" does not include {}.",
            plan.name,
            feature.name()
        )))
    }

    fn trial(&self, org: &OrgStore) -> Result<()> {
        let account = org.read(account)?;
        ledger::check_trial(&account, plan_of(&self.0, &account)?, &org.clock().look())
    }

    fn quota(&self, org: &OrgStore) -> Result<()> {
        let account = org.read(account)?;
        let (plan, now) = (plan_of(&self.0, &account)?, org.clock().look());
        ledger::check_trial(&account, plan, &now)?;
        ledger::check(&account, plan, &now, None)
    }
}

static TRANSACTION_TABLE: LazyLock<ConsoleTable<TransactionV1>> = LazyLock::new(|| {
    ConsoleTable::<TransactionV1>::new(
        "credit_transactions",
        "The credit ledger: one row a change of the balance.",
        [
            Column::required("id", ColumnKind::Text, "The transaction", |row| text(row.id)),
            Column::required("at", ColumnKind::Timestamp, "When", |row| time(row.at)),
            Column::required(
                "kind",
                ColumnKind::Text,
                "grant, reserve, settle, refund, recharge or adjust",
                |row| Cell::from(row.kind.name()),
            ),
            Column::required("amount", ColumnKind::Int64, "Credits, negative out of the balance", |row| {
                Cell::Int(row.amount)
            }),
            Column::required("balance_after", ColumnKind::Int64, "The balance after it", |row| {
                int(row.balance_after)
            }),
            Column::nullable("job_id", ColumnKind::Text, "The job it belongs to", |row| {
                optional_text(row.job_id)
            }),
            Column::nullable("note", ColumnKind::Text, "What the operator or the box noted", |row| {
                optional_text(row.note.as_ref())
            }),
        ],
    )
});

fn view_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = TransactionId::decode(key) else { return Ok(Vec::new()) };
    Ok(vec![TRANSACTION_TABLE.rows(&tx.get(&TRANSACTIONS, &id)?)])
}
